# SPDX-License-Identifier: Apache-2.0
"""`epsilens risk`: what an attacker would get at each privacy budget."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilens.cli.ending import EXIT_LIMIT_NOT_MET
from epsilens.cli.option_groups import option_groups
from epsilens.cli.options import (
    Anonymous,
    Checkpoint,
    Data,
    Json,
    Label,
    Measured,
    Quiet,
    Test,
    comma_list,
    out_option,
    require_text,
    seed_option,
    shadow_models_option,
)
from epsilens.cli.risk_output import EXPOSED_SUFFIXES, OUT_SUFFIXES, print_risk, write_risk
from epsilens.cli.session import Cluster, on_cluster
from epsilens.cli.training import TableOptions, read_epsilon, with_notes
from epsilens.errors import InputError
from epsilens.notes import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from epsilens.document import RiskDocument
    from epsilens.risk.result import RiskCurve


DEFAULT_GRID = "0.1:10:10"
_NOISY = "Noisy training (--mechanism dpsgd)"
_MOST_LAYERS = 8


class MechanismChoice(StrEnum):
    """What protects."""

    rr = "rr"
    dpsgd = "dpsgd"


@dataclass(frozen=True, kw_only=True)
class NoisyTraining:
    """How models are trained with noise, as it was typed; None where nothing was."""

    delta: Annotated[
        float | None,
        typer.Option(
            "--delta",
            metavar="D",
            help="Its delta, well below one over the number of records.",
            rich_help_panel=_NOISY,
        ),
    ] = None
    clip: Annotated[
        float | None,
        typer.Option(
            "--clip",
            metavar="C",
            help="The largest length of one record's gradient; 1 unless given.",
            rich_help_panel=_NOISY,
        ),
    ] = None
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            metavar="N",
            min=1,
            help="How often a record is looked at; 20 unless given.",
            rich_help_panel=_NOISY,
        ),
    ] = None
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            metavar="N",
            min=1,
            help="How many records a step looks at; 64 unless given.",
            rich_help_panel=_NOISY,
        ),
    ] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate",
            metavar="X",
            help="Length of a step; 0.5 unless given.",
            rich_help_panel=_NOISY,
        ),
    ] = None
    hidden: Annotated[
        str | None,
        typer.Option(
            "--hidden",
            metavar="N[,N]",
            help="Widths of hidden layers; without it the model is a regression.",
            rich_help_panel=_NOISY,
        ),
    ] = None

    def settings(self) -> dict[str, object]:
        """Return what was typed."""
        typed = {**vars(self), "hidden": _widths(self.hidden)}
        return {name: value for name, value in typed.items() if value is not None}


@option_groups
def risk(
    data: Data,
    label: Label,
    mechanism: Annotated[
        MechanismChoice,
        typer.Option(
            "--mechanism",
            help="rr: the answers are randomised; dpsgd: the model is trained with noise. Their ε "
            "are of different things.",
        ),
    ] = MechanismChoice.rr,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            "--protect",
            metavar="COL",
            help="rr: what is randomised, the label, features, or both (repeat, or separate by "
            "commas). Default: the label.",
        ),
    ] = None,
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon",
            metavar="GRID",
            help="START:STOP:COUNT, lin:START:STOP:COUNT, a list 0.5,1,2, or COL=E (rr).",
        ),
    ] = DEFAULT_GRID,
    test: Test = None,
    shadow_models: Annotated[
        int, shadow_models_option("Models trained for every ε; more lower the noise floor.")
    ] = 256,
    online: Annotated[
        bool,
        typer.Option("--online", help="The membership attack also learns what members look like."),
    ] = False,
    max_attack_rate: Annotated[
        float | None,
        typer.Option(
            "--max-attack-rate",
            metavar="R",
            help="Pick the largest ε whose proven ceiling is within this; exit code 3 if there is none.",
        ),
    ] = None,
    measured: Measured = False,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Another table, such as one with fewer columns: which ε exposes as much there?",
        ),
    ] = None,
    checkpoint: Checkpoint = None,
    cluster: Cluster = None,
    *,
    training: NoisyTraining,
    table: TableOptions,
    json: Json = False,
    out: Annotated[
        str | None,
        out_option("Write the result: .json, .csv, .parquet, .png or .svg."),
    ] = None,
    exposed: Annotated[
        str | None,
        typer.Option(
            "--exposed",
            metavar="FILE",
            help="Write which records are most exposed at the largest ε (.csv, rows counted from 0). "
            "Keep it to yourself.",
            rich_help_panel="Output",
        ),
    ] = None,
    seed: Annotated[
        int, seed_option("Seed of the random split, the random halves, the answers and the noise.")
    ] = 0,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    """Attack models trained at each ε: what is guessed, what chance reaches, what nobody can exceed.

    Example: [bold]epsilens risk survey.csv --label smokes --protect smokes --mechanism rr
    --epsilon 0.1:10:10 --out risk.png[/bold]

    On a cluster: [bold]epsilens risk survey.csv --label smokes --shadow-models 10000
    --cluster ray://head:10001[/bold]
    """
    from epsilens.cli.session import check_target, print_json, show_progress, withhold_names
    from epsilens.decision.question import read_limits
    from epsilens.document import anonymise, to_json
    from epsilens.risk.result import choose_epsilon

    if anonymous:
        withhold_names()
    _check_exposed(exposed, anonymous=anonymous)
    sources: dict[str, str | None] = {
        "the data": data,
        "the test data": test,
        "the other table": compare,
        "the checkpoint": checkpoint,
    }
    check_target(exposed, sources=sources, suffixes=EXPOSED_SUFFIXES, option="--exposed")
    check_target(
        out, sources=sources | {"the list of exposed records": exposed}, suffixes=OUT_SUFFIXES
    )
    read_limits(max_attack_rate=max_attack_rate)
    require_text([*(protect or ()), *(table.categories or ())], option="--protect")
    _check_mechanism(mechanism, table, protect=protect, epsilon=epsilon)
    asked: dict[str, Any] = {
        "epsilon": read_epsilon(epsilon),
        "mechanism": mechanism.value,
        "shadow_models": shadow_models,
        "online": online,
        **training.settings(),
    }
    study = table.study(data, protect=comma_list(protect))
    with on_cluster(cluster), show_progress(quiet=quiet, json=json) as progress:
        curve = study.risk(**asked, checkpoint=checkpoint, progress=progress)
        document = curve.document
        if compare is not None:
            beside = None if checkpoint is None else f"{checkpoint.rstrip('/')}-compare"
            other = table.study(compare, protect=comma_list(protect))
            document = _compared(curve, other.risk(**asked, checkpoint=beside, progress=progress))
    document = with_notes(document)
    if anonymous:
        document = anonymise(document)
    choice = None
    if max_attack_rate is not None:
        choice = choose_epsilon(document, max_attack_rate=max_attack_rate, measured=measured)
    write_risk(out, document, exposed=exposed, curve=curve, rows=study.prepared.rows)
    if json:
        print_json(to_json(document))
    else:
        print_risk(document, choice, quiet=quiet, written=[name for name in (out, exposed) if name])
    if choice is not None and not choice.holds:
        raise typer.Exit(EXIT_LIMIT_NOT_MET)


def _compared(curve: RiskCurve, other: RiskCurve) -> RiskDocument:
    from epsilens.risk.equivalent import equivalent_epsilon

    document = curve.document
    found = equivalent_epsilon(curve, other)
    notes = list(document.notes)
    if other.document.n_targets != document.n_targets:
        notes.append(
            Note(
                "different-targets",
                f"the two tables have {document.n_targets} and {other.document.n_targets} attacked records: "
                "the maximum over more is larger by chance alone, so their budgets are not quite "
                "comparable. Compare tables of the same people.",
            )
        )
    return document.model_copy(update={"equivalent_epsilon": found, "notes": notes})


def _check_exposed(exposed: str | None, *, anonymous: bool) -> None:
    if exposed is not None and anonymous:
        raise InputError(
            "`--exposed` numbers single records, so `--anonymous` cannot be used with it. Leave one "
            "of them out."
        )


def _widths(text: str | None) -> list[int] | None:
    """Read the widths of hidden layers: `128` or `128,64`."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST_LAYERS or not all(
        part.isascii() and part.isdecimal() and 0 < int(part) <= 10_000 for part in parts
    ):
        raise InputError(
            f"`--hidden` must be up to {_MOST_LAYERS} whole numbers from 1 to 10000, separated by "
            "commas. Use for instance 128, or leave it out."
        )
    return [int(part) for part in parts]


def _check_mechanism(
    mechanism: MechanismChoice,
    table: TableOptions,
    *,
    protect: Sequence[str] | None,
    epsilon: str,
) -> None:
    """Refuse what belongs to randomised response, before any work."""
    if mechanism is MechanismChoice.rr:
        return
    for option, given in (("--protect", protect), ("--categories", table.categories)):
        if given:
            raise InputError(
                f"`{option}` belongs to `--mechanism rr`; dpsgd protects whole records. Leave it out."
            )
    if table.weight is not None:
        raise InputError(
            "`--weight` belongs to `--mechanism rr`; dpsgd counts every record once. Leave it out, and "
            "add `--drop` with its name."
        )
    if table.regularisation is not None:
        raise InputError(
            "`--regularisation` belongs to `--mechanism rr`; the training of dpsgd has no penalty. Leave "
            "it out."
        )
    if "=" in epsilon:
        raise InputError(
            "`--epsilon` of a column belongs to `--mechanism rr`; the ε of dpsgd is of a whole "
            "record. Use a number or a grid."
        )

# SPDX-License-Identifier: Apache-2.0
"""`epsilens risk`: what an attacker would get at each privacy budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epsilens.cli.ending import EXIT_LIMIT_NOT_MET
from epsilens.cli.option_groups import Help, choice, must_exist, option, option_groups, switch
from epsilens.cli.options import (
    Checkpoint,
    Cluster,
    Data,
    Label,
    Measured,
    TableOptions,
    Test,
    comma_list,
    on_cluster,
    read_epsilon,
    require_text,
    shadow_models_option,
)
from epsilens.cli.output import PANEL, Json, Output, check_target
from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.notes import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from epsilens.document import RiskDocument
    from epsilens.risk.result import RiskCurve


DEFAULT_GRID = "0.1:10:10"
_NOISY = "Noisy training (--mechanism dpsgd)"
_MOST_LAYERS = 8
N_EXPOSED = 100
"""How many records the list of the most exposed has at most."""


MechanismChoice = Literal["rr", "dpsgd"]
"""What protects."""
CorrectionChoice = Literal["none", "forward"]
"""Noise corrections."""


@dataclass(frozen=True, kw_only=True)
class NoisyTraining:
    """How models are trained with noise, as it was typed; None where nothing was."""

    delta: Annotated[
        float | None,
        option("Its delta, well below one over the number of records.", "D", panel=_NOISY),
    ] = None
    clip: Annotated[
        float | None,
        option("The largest length of one record's gradient; 1 unless given.", "C", panel=_NOISY),
    ] = None
    epochs: Annotated[
        int | None,
        option("How often a record is looked at; 20 unless given.", "N", panel=_NOISY, min=1),
    ] = None
    batch: Annotated[
        int | None,
        option("How many records a step looks at; 64 unless given.", "N", panel=_NOISY, min=1),
    ] = None
    learning_rate: Annotated[
        float | None, option("Length of a step; 0.5 unless given.", "X", panel=_NOISY)
    ] = None
    hidden: Annotated[
        str | None,
        option(
            "Widths of hidden layers; without it the model is a regression.", "N[,N]", panel=_NOISY
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
        choice(
            MechanismChoice,
            "rr: the answers are randomised; dpsgd: the model is trained with noise. Their ε "
            "are of different things.",
        ),
    ] = "rr",
    protect: Annotated[
        list[str] | None,
        option(
            "rr: what is randomised, the label, features, or both (repeat, or separate by "
            "commas). Default: the label.",
            "COL",
        ),
    ] = None,
    epsilon: Annotated[
        str,
        option("START:STOP:COUNT, lin:START:STOP:COUNT, a list 0.5,1,2, or COL=E (rr).", "GRID"),
    ] = DEFAULT_GRID,
    group: Annotated[
        list[str] | None,
        option(
            "Group of people that is counted by itself too, such as 'young=age < 30' (repeat).",
            "[NAME=]EXPR",
        ),
    ] = None,
    correction: Annotated[
        CorrectionChoice,
        choice(
            CorrectionChoice,
            "forward: attack models whose loss knows the noise of the labels (rr).",
        ),
    ] = "none",
    test: Test = None,
    shadow_models: Annotated[
        int | None,
        shadow_models_option(
            "Models trained for every ε; more lower the noise floor. 256 unless given."
        ),
    ] = None,
    detect: Annotated[
        float | None,
        option(
            "Choose the number of models: a mean success rate of one half plus this is found with probability "
            "80%. 0.02 for a rate of 52%.",
            "EFFECT",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        option(
            "Time for the trainings of a model that is not linear; 60 unless given. It decides how many of "
            "--shadow-models are trained, and at how many ε.",
            "S",
        ),
    ] = None,
    online: Annotated[
        bool, switch("--online", "The membership attack also learns what members look like.")
    ] = False,
    max_attack_rate: Annotated[
        float | None,
        option(
            "Pick the largest ε whose proven ceiling is within this; exit code 3 if there is none.",
            "R",
        ),
    ] = None,
    measured: Measured = False,
    compare: Annotated[
        str | None,
        option(
            "Another table, such as one with fewer columns: which ε exposes as much there?",
            "FILE",
            callback=must_exist,
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
        option("Write the result: .json, .csv, .parquet, .png or .svg.", "FILE", panel=PANEL),
    ] = None,
    exposed: Annotated[
        str | None,
        option(
            "Write which records are most exposed at the largest ε (.csv, rows counted from 0). "
            "Keep it to yourself.",
            "FILE",
            panel=PANEL,
        ),
    ] = None,
    output: Annotated[
        Output, Help(seed="Seed of the random split, the random halves, the answers and the noise.")
    ],
) -> None:
    """Attack models trained at each ε: what is guessed, what chance reaches, what nobody can exceed.

    Example: [bold]epsilens risk survey.csv --label smokes --protect smokes --mechanism rr
    --epsilon 0.1:10:10 --out risk.png[/bold]

    On a cluster: [bold]epsilens risk survey.csv --label smokes --shadow-models 10000
    --cluster ray://head:10001[/bold]
    """
    from epsilens.decision.question import read_limits
    from epsilens.document import view
    from epsilens.risk.power import USUAL_MODELS
    from epsilens.risk.result import choose_epsilon, risk_frame

    if exposed is not None and output.anonymous:
        raise InputError(
            "`--exposed` numbers single records, so `--anonymous` cannot be used with it. Leave one "
            "of them out."
        )
    sources: dict[str, str | None] = {
        "the data": data,
        "the test data": test,
        "the other table": compare,
        "the checkpoint": checkpoint,
    }
    check_target(exposed, sources=sources, suffixes=(".csv",), option="--exposed")
    output.check(
        (".json", ".csv", ".parquet", ".png", ".svg"),
        sources | {"the list of exposed records": exposed},
    )
    read_limits(max_attack_rate=max_attack_rate)
    require_text([*(protect or ()), *(table.categories or ())], option="--protect")
    require_text(group, option="--group")
    _check_mechanism(mechanism, table, protect=protect, epsilon=epsilon, seconds=seconds)
    asked: dict[str, Any] = {
        "epsilon": read_epsilon(epsilon),
        "mechanism": mechanism,
        "correction": correction,
        "shadow_models": USUAL_MODELS
        if shadow_models is None and detect is None
        else shadow_models,
        "detect": detect,
        "online": online,
        **({} if seconds is None else {"seconds": seconds}),
        **training.settings(),
    }
    study = table.study(data, protect=comma_list(protect), groups=group or ())
    with on_cluster(cluster), output.progress() as progress:
        curve = study.risk(
            **asked, checkpoint=checkpoint, progress=progress, announce=output.announce
        )
        document = curve.document
        if compare is not None:
            beside = None if checkpoint is None else f"{checkpoint.rstrip('/')}-compare"
            other = table.study(compare, protect=comma_list(protect))
            document = _compared(curve, other.risk(**asked, checkpoint=beside, progress=progress))
    from epsilens.show import risk_chart, risk_sentences

    document = output.settle(document)
    choice = None
    if max_attack_rate is not None:
        choice = choose_epsilon(document, max_attack_rate=max_attack_rate, measured=measured)
    output.write(document, chart=risk_chart, frame=risk_frame)
    if exposed is not None:
        _write_exposed(exposed, curve, study.prepared.rows)
    sentences = [] if choice is None else [choice.sentence]
    if choice is None or choice.epsilon is not None:
        sentences += risk_sentences(document, epsilon=None if choice is None else choice.epsilon)
    output.show(
        document,
        places=range(len(view(document).tables)),
        sentences=sentences,
        remarks=[
            "These rates are functions of the raw records and not private: publishing them, or "
            "choosing ε by them, leaks."
        ],
        written=[exposed],
    )
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


def _write_exposed(exposed: str, curve: RiskCurve, rows: NDArray[np.intp]) -> None:
    """Write row and success rate of the most exposed records, for the owner's eyes alone.

    This is the one place where rows are numbered: counted from 0, as they stand in the data.
    """
    from epsilens.data import replacing

    frame = curve.most_exposed(N_EXPOSED)
    frame["row"] = rows[frame["row"].to_numpy()]
    with replacing(exposed, private=True) as scratch:
        scratch.write_bytes(frame.to_csv(index=False, lineterminator="\n").encode("utf-8"))
    Note(
        "exposed-records",
        "the file of `--exposed` says which single records can be recognised: keep it on this machine "
        "and delete it when you have looked.",
    ).warn(PrivacyLeakWarning, stacklevel=2)


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
    seconds: float | None,
) -> None:
    """Refuse what belongs to randomised response, before any work."""
    if mechanism == "rr":
        return
    whole_records = "dpsgd protects whole records. Leave it out."
    of_column = "the ε of dpsgd is of a whole record. Use a number or a grid."
    once = "dpsgd counts every record once. Leave it out, and add `--drop` with its name."
    no_penalty = "the training of dpsgd has no penalty. Leave it out."
    for name, is_given, why in (
        ("`--protect`", bool(protect), whole_records),
        ("`--categories`", bool(table.categories), whole_records),
        ("`--weight`", table.weight is not None, once),
        ("`--regularisation`", table.regularisation is not None, no_penalty),
        ("`--epsilon` of a column", "=" in epsilon, of_column),
        ("`--seconds`", seconds is not None, "dpsgd trains all of its models. Leave it out."),
    ):
        if is_given:
            raise InputError(f"{name} belongs to `--mechanism rr`; {why}")

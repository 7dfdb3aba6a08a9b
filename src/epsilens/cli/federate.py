# SPDX-License-Identifier: Apache-2.0
"""`epsilens federate`: train together, and change one's mind afterwards."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from epsilens.cli.federate_input import (
    FederationTable,
    changes_of,
    check_numbers,
    level_of,
    sites_of,
)
from epsilens.cli.federate_output import federation_of, print_federation, write_federation
from epsilens.cli.federate_valuation import (
    Accept,
    Items,
    Offer,
    ScoreFile,
    ScoreLimit,
    SecureAggregation,
    Value,
    ValueModeChoice,
    ValueModeOption,
    check_secure,
    checked_valuations,
    offers_of,
    write_scores,
)
from epsilens.cli.option_groups import ExplainedCommand, Without, option_groups
from epsilens.cli.options import (
    Anonymous,
    Data,
    Force,
    Json,
    Label,
    Quiet,
    comma_list,
    out_option,
    seed_option,
)
from epsilens.cli.training import with_notes
from epsilens.errors import COMMAND_LINE, InputError

_OUT_SUFFIXES = (".json", ".png", ".svg")
_FEDERATION = "Federation"
MOST_SITES = 1000

federate = typer.Typer(
    name="federate",
    help="Train with others, and change one's mind afterwards.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class ModeChoice(StrEnum):
    """Where a changing site's new draw comes from."""

    degrade = "degrade"
    redraw = "redraw"
    as_printed = "as_printed"


class RungChoice(StrEnum):
    """How far the coordinator goes to follow a change."""

    one_message = "one-message"
    newton = "newton"
    exact = "exact"


class AlgorithmChoice(StrEnum):
    """How the sites train together."""

    newton = "newton"
    fedavg = "fedavg"


class SkewChoice(StrEnum):
    """How the rows are divided among the sites."""

    none = "none"
    label = "label"


Protect = Annotated[
    list[str] | None,
    typer.Option(
        "--protect",
        metavar="COL",
        help="The columns that every site randomises (repeat, or separate by commas).",
    ),
]


@federate.callback()
def _group() -> None:
    """Train with others, and change one's mind afterwards."""


@federate.command("simulate")
@option_groups
def simulate(
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="FILE",
            help="A table that is divided among the sites: csv, csv.gz, tsv, parquet, arrow.",
        ),
    ],
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon",
            metavar="E",
            help="At which every site begins, per protected column: one number, or COL=E,COL=E.",
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COL", help="The column that the model predicts."),
    ] = None,
    protect: Protect = None,
    sites: Annotated[
        int, typer.Option("--sites", metavar="N", min=1, max=MOST_SITES, help="How many sites.")
    ] = 5,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--change",
            metavar="SITE:E",
            help="A site changes its ε after training (repeat; 2:1.0,3:1.0 is one operation). "
            "Sites are numbered from 0.",
            rich_help_panel=_FEDERATION,
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            "--remove",
            metavar="SITE",
            help="A site leaves in the end (repeat, or separate by commas).",
            rich_help_panel=_FEDERATION,
        ),
    ] = None,
    skew: Annotated[
        SkewChoice,
        typer.Option(
            "--skew",
            help="label: most sites hold one label only; none: rows at random.",
            rich_help_panel=_FEDERATION,
        ),
    ] = SkewChoice.none,
    mode: Annotated[
        ModeChoice,
        typer.Option(
            "--mode",
            metavar="HOW",
            help="degrade adds noise to the draw there is and spends nothing; redraw draws again and "
            "spends more; as_printed is the published method, without privacy.",
            rich_help_panel=_FEDERATION,
        ),
    ] = ModeChoice.degrade,
    not_private: Annotated[
        bool,
        typer.Option(
            "--i-know-it-is-not-private",
            help="Needed for --mode as_printed.",
            rich_help_panel=_FEDERATION,
        ),
    ] = False,
    rung: Annotated[
        RungChoice,
        typer.Option(
            "--rung",
            metavar="HOW",
            help="How the model follows. one-message: from each changing site; newton: a Newton step; "
            "exact: rounds with all sites until it is what training again would give.",
            rich_help_panel=_FEDERATION,
        ),
    ] = RungChoice.one_message,
    algorithm: Annotated[
        AlgorithmChoice,
        typer.Option("--algorithm", help="How the sites train.", rich_help_panel=_FEDERATION),
    ] = AlgorithmChoice.newton,
    regularisation: Annotated[
        float,
        typer.Option(
            "--regularisation",
            metavar="L",
            help="λ of the penalty ½λ‖θ‖² beside the mean loss.",
            rich_help_panel=_FEDERATION,
        ),
    ] = 1e-3,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit",
            metavar="E",
            help="The most that a record may spend at a site in all; its first draw unless given.",
            rich_help_panel=_FEDERATION,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="The contract, as `epsilens federate schema` writes it (with the same --bins); otherwise "
            "one is made up from the data.",
            rich_help_panel=_FEDERATION,
        ),
    ] = None,
    secure_aggregation: SecureAggregation = False,
    value: Value = None,
    value_mode: ValueModeOption = ValueModeChoice.items,
    items: Items = None,
    offer: Offer = None,
    accept: Accept = False,
    score_limit: ScoreLimit = None,
    scores: ScoreFile = None,
    in_process: Annotated[
        bool,
        typer.Option(
            "--in-process",
            help="Without Flower: the same numbers, at once.",
            rich_help_panel=_FEDERATION,
        ),
    ] = False,
    *,
    table: Annotated[FederationTable, Without("scale")],
    json: Json = False,
    out: Annotated[
        str | None,
        out_option("Also write the document (.json) or the chart (.png, .svg)."),
    ] = None,
    seed: Annotated[
        int, seed_option("Seed of the division among sites and of all draws: this is a rehearsal.")
    ] = 0,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    """Rehearse a federation on one machine: train, let sites tighten their ε or leave, and see.

    Every change is shown twice: as its preview, and as applied.

    Example: [bold]epsilens federate simulate --sites 5 --data survey.csv --label smokes
    --protect smokes,region --epsilon 3 --change 2:1.0 --remove 4 --secure-aggregation[/bold]
    """
    import time

    from epsilens.cli.session import check_target, print_json, show_progress, withhold_names
    from epsilens.document import anonymise, to_json
    from epsilens.federated.flower.simulation import require_flower
    from epsilens.federated.flower.simulation import simulate as simulate_on_flower
    from epsilens.federated.plan import story
    from epsilens.federated.rehearsal import Rehearsal, divide, rehearse
    from epsilens.federated.value_service import AnswerLimits

    started = time.perf_counter()
    if anonymous:
        withhold_names()
    check_target(out, sources={"the data": data, "the contract": schema}, suffixes=_OUT_SUFFIXES)
    changes = [changes_of(text) for text in change or ()]
    leaving = sites_of(remove, option="--remove")
    check_numbers(regularisation, limit)
    check_target(
        scores,
        sources={"the data": data, "the contract": schema},
        suffixes=(".csv",),
        option="--scores",
    )
    offers = offers_of(offer, n_sites=sites)
    valuations = checked_valuations(
        value, mode=value_mode.value, items=items, accept=accept, offers=offers
    )
    check_secure(algorithm.value, secure=secure_aggregation)
    check_mode(mode, not_private=not_private)
    if not in_process:
        require_flower()
    prepared = table.read(data)
    contract = prepared.contract
    operations, notes = story(
        contract,
        epsilon=level_of(epsilon, contract),
        n_sites=sites,
        changes=changes,
        remove=leaving,
        algorithm=algorithm.value,
        mode=mode.value,
        rung=rung.value,
        values=valuations,
    )
    rows = divide(
        prepared.train[contract.label.name],
        n_sites=sites,
        skew=skew.value,
        seed=seed,
    )
    rehearsal = Rehearsal(
        contract,
        tuple(prepared.train.iloc[part].reset_index(drop=True) for part in rows),
        operations,
        level_of(epsilon, contract),
        regularisation=regularisation,
        test=prepared.test,
        limit=limit,
        seed=seed,
        secure_aggregation=secure_aggregation,
        offers=offers,
        answer_limits=AnswerLimits(limit=score_limit),
    )
    with show_progress(quiet=quiet, json=json) as progress:
        progress(0, len(operations), "operations")
        run = rehearse if in_process else simulate_on_flower
        outcome = run(rehearsal, progress=progress)
    settings: dict[str, object] = {
        "label": contract.label.name,
        "protect": list(contract.protected),
        "epsilon": epsilon,
        "sites": sites,
        "changes": [list(pair) for step in changes for pair in step.items()],
        "remove": list(leaving),
        "skew": skew.value,
        "mode": mode.value,
        "rung": rung.value,
        "algorithm": algorithm.value,
        "regularisation": regularisation,
        "limit": limit,
        "drop": list(comma_list(table.drop)),
        "missing": table.missing.value,
        "test_share": table.test_share,
        "secure_aggregation": secure_aggregation,
        "values": [list(step.sites) for step in valuations],
    }
    document = federation_of(
        outcome,
        contract,
        settings,
        in_process=in_process,
        seed=seed,
        seconds=time.perf_counter() - started,
    )
    document = with_notes(document, [*prepared.notes, *notes])
    if anonymous:
        document = anonymise(document)
    if out is not None:
        write_federation(document, out)
    if scores is not None:
        write_scores(outcome.valuations, scores)
    if json:
        print_json(to_json(document))
    else:
        print_federation(document, quiet=quiet, out=out)


@federate.command("schema", cls=ExplainedCommand)
@option_groups
def schema_command(
    data: Data,
    label: Label,
    protect: Annotated[
        list[str],
        typer.Option(
            "--protect",
            metavar="COL",
            help="The columns that every site randomises (repeat, or separate by commas).",
        ),
    ],
    out: Annotated[
        str,
        typer.Option("--out", metavar="FILE", help="Where the contract goes: a .json file."),
    ],
    *,
    table: Annotated[FederationTable, Without("schema", "test_share", "seed")],
    scale: Annotated[
        list[str] | None,
        typer.Option(
            "--scale",
            metavar="COL=CENTRE:SCALE",
            help="Where a number lies and in which unit it is measured (repeat); otherwise taken from the data.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Draft the contract of a federation from a table, for people to check before they agree on it.

    It names columns, possible answers, scales, the label and what is protected; no record. Read it:
    answers that were found in the data tell which ones occur, and centres and scales where the numbers lie.

    Example: [bold]epsilens federate schema survey.csv --label smokes --protect smokes
    --out contract.json[/bold]
    """
    import json as json_text

    from epsilens.cli.session import check_new, check_target, print_json
    from epsilens.data import write_text

    check_target(out, sources={"the data": data}, suffixes=(".json",))
    check_new(out, force=force)
    prepared = table.read(data)
    contract = prepared.contract
    text = json_text.dumps(contract.to_dict(), ensure_ascii=False, indent=2)
    write_text(text + "\n", out)
    if json:
        print_json(text)
    elif not quiet:
        for note in prepared.notes:
            typer.echo(f"Note: {note.render(COMMAND_LINE).rstrip('.')}.")
        typer.echo(
            f"{len(contract.columns)} columns and the label, {len(contract.protected)} protected, "
            f"{contract.n_parameters} coefficients. Fingerprint {contract.fingerprint[:16]}."
        )
        typer.echo(f"Written: {out}. Check every answer in it before anybody agrees to it.")


def check_mode(mode: ModeChoice, *, not_private: bool) -> None:
    """Refuse the published method unless its lack of privacy was confirmed."""
    if mode is ModeChoice.as_printed and not not_private:
        raise InputError(
            "`--mode as_printed` sends a message that is computed from the true answers, without any "
            "privacy. Use degrade; to study the published method, add `--i-know-it-is-not-private`."
        )

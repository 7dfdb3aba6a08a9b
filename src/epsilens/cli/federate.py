# SPDX-License-Identifier: Apache-2.0
"""`epsilens federate`: train together, and change one's mind afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epsilens.cli.federate_input import (
    Accept,
    FederationTable,
    Items,
    Offer,
    ScoreFile,
    ScoreLimit,
    SecureAggregation,
    Value,
    ValueModeOption,
    changes_of,
    check_numbers,
    check_secure,
    checked_valuations,
    level_of,
    offers_of,
    sites_of,
    write_scores,
)
from epsilens.cli.option_groups import (
    ExplainedCommand,
    Help,
    Without,
    choice,
    option,
    option_groups,
    switch,
)
from epsilens.cli.options import Data, Label, comma_list
from epsilens.cli.output import Force, Json, Output, Quiet, check_new, check_target, print_json
from epsilens.errors import COMMAND_LINE, InputError

if TYPE_CHECKING:
    from epsilens.document import FederationDocument


_FEDERATION = "Federation"
MOST_SITES = 1000

federate = typer.Typer(
    name="federate",
    help="Train with others, and change one's mind afterwards.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


ModeChoice = Literal["degrade", "redraw", "as_printed"]
"""Where a changing site's new draw comes from."""


RungChoice = Literal["one-message", "newton", "exact"]
"""How far the coordinator goes to follow a change."""


AlgorithmChoice = Literal["newton", "fedavg"]
"""How the sites train together."""


SkewChoice = Literal["none", "label"]
"""How the rows are divided among the sites."""


Protect = Annotated[
    list[str] | None,
    option("The columns that every site randomises (repeat, or separate by commas).", "COL"),
]


@federate.callback()
def _group() -> None:
    """Train with others, and change one's mind afterwards."""


@federate.command("simulate")
@option_groups
def simulate(
    data: Annotated[
        str,
        option(
            "A table that is divided among the sites: csv, csv.gz, tsv, parquet, arrow, xlsx, sav, dta, sas7bdat, xpt.",
            "FILE",
        ),
    ],
    epsilon: Annotated[
        str,
        option(
            "At which every site begins, per protected column: one number, or COL=E,COL=E.", "E"
        ),
    ],
    label: Annotated[str | None, option("The column that the model predicts.", "COL")] = None,
    protect: Protect = None,
    sites: Annotated[int, option("How many sites.", "N", min=1, max=MOST_SITES)] = 5,
    change: Annotated[
        list[str] | None,
        option(
            "A site changes its ε after training (repeat; 2:1.0,3:1.0 is one operation). "
            "Sites are numbered from 0.",
            "SITE:E",
            panel=_FEDERATION,
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        option(
            "A site leaves in the end (repeat, or separate by commas).", "SITE", panel=_FEDERATION
        ),
    ] = None,
    skew: Annotated[
        SkewChoice,
        choice(
            SkewChoice,
            "label: most sites hold one label only; none: rows at random.",
            panel=_FEDERATION,
        ),
    ] = "none",
    mode: Annotated[
        ModeChoice,
        choice(
            ModeChoice,
            "degrade adds noise to the draw there is and spends nothing; redraw draws again and "
            "spends more; as_printed is the published method, without privacy.",
            "HOW",
            panel=_FEDERATION,
        ),
    ] = "degrade",
    not_private: Annotated[
        bool,
        switch("--i-know-it-is-not-private", "Needed for --mode as_printed.", panel=_FEDERATION),
    ] = False,
    rung: Annotated[
        RungChoice,
        choice(
            RungChoice,
            "How the model follows. one-message: from each changing site; newton: a Newton step; "
            "exact: rounds with all sites until it is what training again would give.",
            "HOW",
            panel=_FEDERATION,
        ),
    ] = "one-message",
    algorithm: Annotated[
        AlgorithmChoice, choice(AlgorithmChoice, "How the sites train.", panel=_FEDERATION)
    ] = "newton",
    regularisation: Annotated[
        float, option("λ of the penalty ½λ‖θ‖² beside the mean loss.", "L", panel=_FEDERATION)
    ] = 1e-3,
    limit: Annotated[
        float | None,
        option(
            "The most that a record may spend at a site in all; its first draw unless given.",
            "E",
            panel=_FEDERATION,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        option(
            "The contract, as `epsilens federate schema` writes it (with the same --bins); otherwise "
            "one is made up from the data.",
            "FILE",
            panel=_FEDERATION,
        ),
    ] = None,
    secure_aggregation: SecureAggregation = False,
    value: Value = None,
    value_mode: ValueModeOption = "items",
    items: Items = None,
    offer: Offer = None,
    accept: Accept = False,
    score_limit: ScoreLimit = None,
    scores: ScoreFile = None,
    in_process: Annotated[
        bool,
        switch("--in-process", "Without Flower: the same numbers, at once.", panel=_FEDERATION),
    ] = False,
    *,
    table: Annotated[FederationTable, Without("scale")],
    output: Annotated[
        Output,
        Help(
            out="Also write the document (.json) or the chart (.png, .svg).",
            seed="Seed of the division among sites and of all draws: this is a rehearsal.",
        ),
    ],
) -> None:
    """Rehearse a federation on one machine: train, let sites tighten their ε or leave, and see.

    Every change is shown twice: as its preview, and as applied.

    Example: [bold]epsilens federate simulate --sites 5 --data survey.csv --label smokes
    --protect smokes,region --epsilon 3 --change 2:1.0 --remove 4 --secure-aggregation[/bold]
    """
    import time

    from epsilens.document import Provenance
    from epsilens.federated.as_document import document_of
    from epsilens.federated.flower.simulation import require_flower
    from epsilens.federated.flower.simulation import simulate as simulate_on_flower
    from epsilens.federated.plan import story
    from epsilens.federated.rehearsal import Rehearsal, divide, rehearse
    from epsilens.federated.value_service import AnswerLimits

    started = time.perf_counter()
    sources: dict[str, str | None] = {"the data": data, "the contract": schema}
    output.check((".json", ".png", ".svg"), sources)
    changes = [changes_of(text) for text in change or ()]
    leaving = sites_of(remove, option="--remove")
    check_numbers(regularisation, limit)
    check_target(scores, sources=sources, suffixes=(".csv",), option="--scores")
    offers = offers_of(offer, n_sites=sites)
    valuations = checked_valuations(
        value, mode=value_mode, items=items, accept=accept, offers=offers
    )
    check_secure(algorithm, secure=secure_aggregation)
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
        algorithm=algorithm,
        mode=mode,
        rung=rung,
        values=valuations,
    )
    rows = divide(
        prepared.train[contract.label.name],
        n_sites=sites,
        skew=skew,
        seed=output.seed,
    )
    rehearsal = Rehearsal(
        contract,
        tuple(prepared.train.iloc[part].reset_index(drop=True) for part in rows),
        operations,
        level_of(epsilon, contract),
        regularisation=regularisation,
        test=prepared.test,
        limit=limit,
        seed=output.seed,
        secure_aggregation=secure_aggregation,
        offers=offers,
        answer_limits=AnswerLimits(limit=score_limit),
    )
    with output.progress() as progress:
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
        "skew": skew,
        "mode": mode,
        "rung": rung,
        "algorithm": algorithm,
        "regularisation": regularisation,
        "limit": limit,
        "drop": list(comma_list(table.drop)),
        "missing": table.missing,
        "test_share": table.test_share,
        "secure_aggregation": secure_aggregation,
        "values": [list(step.sites) for step in valuations],
    }
    document = document_of(
        outcome.versions,
        outcome.ledger,
        Provenance(
            method=algorithm,
            settings=settings,
            seed=output.seed,
            simulated=True,
            schema_fingerprint=contract.fingerprint,
            seconds=round(time.perf_counter() - started, 3),
        ),
        protect=contract.protected,
        engine="in process" if in_process else "flower simulation",
        carried=outcome.carried,
        valuations=outcome.valuations,
        secure_aggregation=secure_aggregation,
    )
    document = output.settle(document, [*prepared.notes, *notes])
    from epsilens.show import federation_chart

    output.write(document, chart=federation_chart)
    if scores is not None:
        write_scores(outcome.valuations, scores)
    show_federation(document, output)


def show_federation(document: FederationDocument, output: Output) -> None:
    """Show versions and ledger as tables, and what they mean in words."""
    from epsilens.document import view
    from epsilens.show import valuation_sentences

    valued = [line for one in document.valuations for line in valuation_sentences(one)]
    output.show(
        document,
        places=[0, 1] if document.versions else [1],
        sentences=[*view(document).sentences, *valued],
    )


@federate.command("schema", cls=ExplainedCommand)
@option_groups
def schema_command(
    data: Data,
    label: Label,
    protect: Annotated[
        list[str],
        option("The columns that every site randomises (repeat, or separate by commas).", "COL"),
    ],
    out: Annotated[str, option("Where the contract goes: a .json file.", "FILE")],
    *,
    table: Annotated[FederationTable, Without("schema", "test_share", "seed")],
    scale: Annotated[
        list[str] | None,
        option(
            "Where a number lies and in which unit it is measured (repeat); otherwise taken from the data.",
            "COL=CENTRE:SCALE",
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
    if mode == "as_printed" and not not_private:
        raise InputError(
            "`--mode as_printed` sends a message that is computed from the true answers, without any "
            "privacy. Use degrade; to study the published method, add `--i-know-it-is-not-private`."
        )

# SPDX-License-Identifier: Apache-2.0
"""`epsilens decide`: the budget that limits on the loss and on the attack lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
    Protect,
    Quiet,
    Test,
    comma_list,
    out_option,
    require_text,
    seed_option,
    shadow_models_option,
)
from epsilens.cli.session import Cluster, on_cluster
from epsilens.cli.training import TableOptions, read_epsilon, with_notes
from epsilens.study import DEFAULT_GRID

if TYPE_CHECKING:
    from rich.console import Console

    from epsilens.document import DecisionDocument


_OUT_SUFFIXES = (".html", ".json", ".png", ".svg")


@option_groups
def decide(
    data: Data,
    label: Label,
    protect: Protect = None,
    max_loss_increase: Annotated[
        float | None,
        typer.Option(
            "--max-loss-increase",
            metavar="X",
            help="Largest acceptable increase of the test loss.",
        ),
    ] = None,
    max_attack_rate: Annotated[
        float | None,
        typer.Option(
            "--max-attack-rate",
            metavar="R",
            help="Largest share of answers that an attacker may guess, such as 0.9; the proven ceiling "
            "must be within it.",
        ),
    ] = None,
    max_advantage: Annotated[
        float | None,
        typer.Option(
            "--max-advantage",
            metavar="A",
            help="Largest advantage: the share of the answers that other data do not give away and that "
            "become guessable. 0.1 if no limit is given.",
        ),
    ] = None,
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon", metavar="GRID", help="START:STOP:COUNT, lin:START:STOP:COUNT, or a list."
        ),
    ] = DEFAULT_GRID,
    confidence: Annotated[
        float,
        typer.Option(
            "--confidence",
            metavar="C",
            help="Confidence level of the interval whose upper end is compared with a limit.",
        ),
    ] = 0.9,
    measured: Measured = False,
    proven_only: Annotated[
        bool,
        typer.Option(
            "--proven-only",
            help="The attack limit must be met by the proven ceiling: the default.",
        ),
    ] = False,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            metavar="S",
            min=0,
            help="Time for training again where an estimate of the cost failed its check.",
        ),
    ] = 20.0,
    identity: Annotated[
        str | None,
        typer.Option(
            "--identity",
            metavar="COL",
            help="Whose record it is: also try without the columns that identify people and do not serve "
            "the model. Needs the extra explain.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="A",
            help="With --identity: the share of what identifies people that must go, from 0 to 1; 0.2 "
            "unless given.",
        ),
    ] = None,
    test: Test = None,
    shadow_models: Annotated[
        int, shadow_models_option("Models that are attacked for every ε.")
    ] = 128,
    checkpoint: Checkpoint = None,
    cluster: Cluster = None,
    *,
    table: TableOptions,
    json: Json = False,
    out: Annotated[
        str | None,
        out_option("Write the decision: .html (the report), .json, .png or .svg."),
    ] = None,
    seed: Annotated[
        int, seed_option("Seed of the random split, the simulated runs and the attacks.")
    ] = 0,
    quiet: Quiet = False,
    anonymous: Anonymous = False,
) -> None:
    """Recommend a privacy budget: what each costs and what it buys, on one axis.

    Without a limit, the largest ε with an advantage of at most 0.1, our default.

    Example: [bold]epsilens decide survey.csv --label smokes --protect smokes --max-loss-increase 0.01
    --max-attack-rate 0.9 --out report.html[/bold]
    """
    from pathlib import Path

    from epsilens.cli.session import (
        check_target,
        print_json,
        printable,
        show_progress,
        withhold_names,
    )
    from epsilens.document import anonymise, to_json

    if anonymous:
        withhold_names()
    check_target(
        out,
        sources={"the data": data, "the test data": test, "the checkpoint": checkpoint},
        suffixes=_OUT_SUFFIXES,
    )
    require_text([*(protect or ()), *(table.categories or ())], option="--protect")
    study = table.study(data, protect=comma_list(protect), identity=identity)
    with on_cluster(cluster), show_progress(quiet=quiet, json=json) as progress:
        decision = study.decide(
            max_loss_increase=max_loss_increase,
            max_attack_rate=max_attack_rate,
            max_advantage=max_advantage,
            confidence=confidence,
            measured=measured,
            proven_only=proven_only,
            seconds=seconds,
            epsilon=read_epsilon(epsilon),
            shadow_models=shadow_models,
            alpha=alpha,
            checkpoint=checkpoint,
            progress=progress,
        )
    document = with_notes(decision.document)
    if anonymous:
        document = anonymise(document)
    if out is not None:
        names = {} if anonymous else {"label": label, "data": printable(Path(data).name)}
        write_decision(out, document, names=names)
    if json:
        print_json(to_json(document))
    else:
        print_decision(document, quiet=quiet, out=out)
    # Nobody asked for the default limit: a grid without an ε within it is no failure.
    if not document.recommendation.holds and not document.recommendation.is_default:
        raise typer.Exit(EXIT_LIMIT_NOT_MET)


def write_decision(out: str, document: DecisionDocument, *, names: dict[str, str]) -> None:
    """Write the decision as the ending of the file says."""
    from pathlib import Path

    from epsilens.cli.session import typed_command
    from epsilens.data import write_text
    from epsilens.document import to_json
    from epsilens.show import decision_chart, save_chart, write_report

    suffix = Path(out).suffix.lower()
    if suffix == ".json":
        write_text(to_json(document) + "\n", out)
    elif suffix == ".html":
        write_report(document, out, question=names, command=typed_command() if names else None)
    else:
        save_chart(decision_chart(document), out)


def print_recommendation(console: Console, document: DecisionDocument) -> None:
    """Print the recommendation, and below it how often a randomised answer is the true one."""
    from rich.text import Text

    console.print(Text(document.recommendation.sentence, style="bold"))
    if (fact := document.face_value()) is not None:
        console.print(Text(fact))


def print_decision(document: DecisionDocument, *, quiet: bool, out: str | None) -> None:
    """Print the decision as a table and in words."""
    from rich.console import Console
    from rich.text import Text

    from epsilens.cli.session import print_notes
    from epsilens.show import document_table

    console = Console()
    if not quiet:
        console.print(document_table(document))
        print_notes(console, document.notes)
    print_recommendation(console, document)
    if document.lever is not None:
        gone = ", ".join(document.lever.masked)
        console.print(Text(f"Masking {gone}: {document.lever.sentence}"))
    if quiet:
        return
    console.print(
        Text(
            "These numbers are functions of the raw records and not private: publishing them, or "
            "choosing ε by them, leaks."
        )
    )
    if out is not None:
        console.print(Text(f"Written: {out}"), soft_wrap=True)

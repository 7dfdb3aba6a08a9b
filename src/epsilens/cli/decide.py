# SPDX-License-Identifier: Apache-2.0
"""`epsilens decide`: the budget that limits on the loss and on the attack lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from epsilens.cli.ending import EXIT_LIMIT_NOT_MET
from epsilens.cli.option_groups import Help, choice, option, option_groups, switch
from epsilens.cli.options import (
    Checkpoint,
    Cluster,
    Data,
    Label,
    Measured,
    Protect,
    Ranges,
    TableOptions,
    Test,
    Together,
    comma_list,
    on_cluster,
    read_epsilon,
    read_group_epsilon,
    require_text,
    shadow_models_option,
)
from epsilens.cli.output import PANEL, Output, check_new, check_target, print_notes, printable
from epsilens.study import DEFAULT_GRID

if TYPE_CHECKING:
    from rich.console import Console

    from epsilens.document import DecisionDocument

Trust: TypeAlias = Literal["nobody", "curator"]
Protects: TypeAlias = Literal["answer", "record"]
Correction: TypeAlias = Literal["none", "forward"]


@option_groups
def decide(
    data: Data,
    label: Label,
    protect: Protect = None,
    group: Annotated[
        list[str] | None,
        option("Group of people whose cost and risk are shown too (repeat).", "NAME=EXPR"),
    ] = None,
    trust: Annotated[
        Trust | None,
        choice(
            Trust,
            "Who may see the true answers: the curator who holds the table, or nobody, so that answers are "
            "randomised before they are collected. curator unless given.",
        ),
    ] = None,
    protects: Annotated[Protects, choice(Protects, "What the guarantee must cover.")] = "answer",
    mechanism: Annotated[
        str | None,
        option(
            "Mechanisms to compare, such as noisy-descent,dp-ebm; slow ones only when named, or within "
            "--seconds.",
            "NAME,..",
        ),
    ] = None,
    max_loss_increase: Annotated[
        float | None, option("Largest acceptable increase of the test loss.", "X")
    ] = None,
    max_accuracy_loss: Annotated[
        float | None,
        option("Largest acceptable loss of test accuracy in percentage points.", "POINTS"),
    ] = None,
    max_attack_rate: Annotated[
        float | None,
        option(
            "Largest share of answers that an attacker may guess, such as 0.9; the proven ceiling "
            "must be within it.",
            "R",
        ),
    ] = None,
    max_advantage: Annotated[
        float | None,
        option(
            "Largest advantage: the share of the answers that other data do not give away and that "
            "become guessable. 0.1 if no limit is given.",
            "A",
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        option(
            "START:STOP:COUNT, lin:START:STOP:COUNT, or a list. For randomised response "
            f"{DEFAULT_GRID} unless given.",
            "GRID",
        ),
    ] = None,
    together: Together = False,
    delta: Annotated[
        float | None,
        option("Delta of mechanisms that need one; well below 1/rows unless given.", "D"),
    ] = None,
    x_bound: Annotated[
        float | None,
        option("Largest length of a row of features, for mechanisms that clip rows.", "B"),
    ] = None,
    correction: Annotated[
        Correction | None,
        choice(Correction, "Forward correction of the loss under randomised response."),
    ] = None,
    confidence: Annotated[
        float,
        option("Confidence level of the interval whose upper end is compared with a limit.", "C"),
    ] = 0.9,
    measured: Measured = False,
    proven_only: Annotated[
        bool,
        switch("--proven-only", "The attack limit must be met by the proven ceiling: the default."),
    ] = False,
    seconds: Annotated[
        float | None,
        option(
            "Time for training again where an estimate failed its check (20 unless given), and for slow "
            "mechanisms (0 unless given). For a model that is not linear: time for its cost (10 unless given) "
            "and for its attack (60 unless given).",
            "S",
            min=0,
        ),
    ] = None,
    identity: Annotated[
        str | None,
        option(
            "Whose record it is: also try without the columns that identify people and do not serve "
            "the model. Needs the extra explain.",
            "COL",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        option(
            "With --identity: the share of what identifies people that must go, from 0 to 1; 0.2 "
            "unless given.",
            "A",
        ),
    ] = None,
    range_: Ranges = None,
    test: Test = None,
    shadow_models: Annotated[
        int, shadow_models_option("Models that are attacked for every ε.")
    ] = 128,
    checkpoint: Checkpoint = None,
    cluster: Cluster = None,
    has_tables: Annotated[
        bool, switch("--table", "Print the tables and all details too.", panel=PANEL)
    ] = False,
    *,
    table: Annotated[
        TableOptions,
        Help(
            categories='All possible answers of a column (repeat); one with a bar in it as "A|B". Those of '
            "protected columns are otherwise taken from the data, which leaks."
        ),
    ],
    output: Annotated[
        Output,
        Help(
            out="Write the decision: .html (the report), .json, .png or .svg.",
            seed="Seed of the random split, the simulated runs and the attacks.",
        ),
    ],
    annexes: Annotated[
        str | None,
        option(
            "Write the annexes here: a section for an impact assessment, a checklist after NIST SP 800-226, an "
            "entry for a registry. A new file: .json, .md or .txt.",
            "FILE",
            panel=PANEL,
        ),
    ] = None,
) -> None:
    """Recommend a mechanism and a privacy budget: what each costs, and what an attacker gains.

    Without a limit, the lowest cost with an advantage of at most 0.1, our default.

    Example: [bold]epsilens decide survey.csv --label smokes --max-advantage 0.1 --out report.html[/bold]
    """
    sources = {"the data": data, "the test data": test, "the checkpoint": checkpoint}
    output.check((".html", ".json", ".png", ".svg"), sources)
    check_annexes(annexes, {**sources, "the decision": output.out})
    require_text([*(protect or ()), *(table.categories or ())], option="--protect")
    study = table.study(
        data,
        protect=comma_list(protect),
        groups=group or (),
        identity=identity,
        ranges=range_,
        declares_any=True,
    )
    budget: dict[str, list[float]] | dict[str, float] | tuple[float, ...] | None = None
    if epsilon is not None:
        budget = read_group_epsilon(epsilon) if together else read_epsilon(epsilon)
    with on_cluster(cluster), output.progress() as progress:
        decision = study.decide(
            trust=trust,
            protects=protects,
            mechanisms=None if mechanism is None else comma_list([mechanism]),
            max_loss_increase=max_loss_increase,
            max_accuracy_loss=max_accuracy_loss,
            max_attack_rate=max_attack_rate,
            max_advantage=max_advantage,
            confidence=confidence,
            measured=measured,
            proven_only=proven_only,
            seconds=seconds,
            epsilon=budget,
            delta=delta,
            x_bound=x_bound,
            correction=None if correction == "none" else correction,
            shadow_models=shadow_models,
            alpha=alpha,
            checkpoint=checkpoint,
            together=together,
            progress=progress,
        )
    from epsilens.decision.release_command import with_command
    from epsilens.show import document_chart

    document = output.settle(
        with_command(
            decision.document,
            data,
            label=label,
            answers=study.possible_answers,
            drop=comma_list(table.drop),
            categorical=comma_list(table.categorical),
            missing=table.missing,
            positive=table.positive,
            bins=table.bins or (),
            delimiter=table.delimiter,
            encoding=table.encoding,
            categories=table.categories or (),
            ranges=range_ or (),
        )
    )
    question = {"label": label, "data": printable(Path(data).name)}
    output.write(document, chart=document_chart, question=question)
    if annexes is not None:
        write_annexes(document, annexes, data=None if output.anonymous else question["data"])
    show_decision(document, output, has_tables=has_tables, written=(annexes,))
    # Nobody asked for the default limit: a grid without an ε within it is no failure.
    if not document.recommendation.holds and not document.recommendation.is_default:
        raise typer.Exit(EXIT_LIMIT_NOT_MET)


ANNEX_ENDINGS = (".json", ".md", ".txt")


def check_annexes(file: str | None, sources: Mapping[str, str | None]) -> None:
    """Refuse, before any work, annexes that cannot be written or exist already."""
    if file is None:
        return
    check_target(file, sources=sources, suffixes=ANNEX_ENDINGS, option="--annexes")
    check_new(file, force=None, option="--annexes")


def write_annexes(document: DecisionDocument, file: str, *, data: str | None) -> None:
    """Write the annexes to a decision as the ending says, whole or not at all."""
    from epsilens.data import write_text
    from epsilens.document.annexes import annexes

    found, ending = annexes(document, data=data), Path(file).suffix.lower()
    if ending == ".json":
        text = f"{found.to_json()}\n"
    else:
        text = found.markdown if ending == ".md" else found.text
    write_text(text, file)


def show_decision(
    document: DecisionDocument,
    output: Output,
    *,
    has_tables: bool,
    written: Sequence[str | None] = (),
) -> None:
    """Print a decision as JSON, or what is recommended in a few lines; its tables where asked for."""
    if output.json:
        output.show(document)
        return
    from rich.console import Console
    from rich.text import Text

    from epsilens.show import decision_details, document_table

    console = Console()
    print_decision(console, document, is_quiet=output.quiet)
    if output.out is not None and not output.quiet:
        is_report = Path(output.out).suffix.lower() == ".html"
        console.print(Text(f"{'Report' if is_report else 'Written'}: {output.out}"), soft_wrap=True)
    for file in written:
        if file is not None and not output.quiet:
            console.print(Text(f"Written: {file}"), soft_wrap=True)
    if has_tables:
        if not output.quiet:
            console.print()
            console.print(document_table(document, place=1 if document.is_comparison else 0))
        for line in decision_details(document):
            console.print(line)
    if output.quiet:
        return
    if not has_tables:
        console.print(Text("Tables and details: add --table."))
    print_notes(console, document.notes)
    console.print(
        Text(
            "These numbers are functions of the raw records and not private: publishing them, or "
            "choosing ε by them, leaks."
        )
    )


def print_decision(console: Console, document: DecisionDocument, *, is_quiet: bool) -> None:
    """Print the recommendation, its picture unless it is to be quiet, its facts and the next command."""
    from rich.text import Text

    from epsilens.show import decision_lines

    for line in decision_lines(
        document, width=console.width, is_plain=console.options.ascii_only, is_short=is_quiet
    ):
        console.print(line)
    if document.recommendation.command is not None:
        console.print(Text(f"Next: {document.recommendation.command}"), soft_wrap=True)

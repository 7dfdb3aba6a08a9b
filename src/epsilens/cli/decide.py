# SPDX-License-Identifier: Apache-2.0
"""`epsilens decide`: the budget that limits on the loss and on the attack lead to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.ending import EXIT_LIMIT_NOT_MET
from epsilens.cli.option_groups import Help, option, option_groups, switch
from epsilens.cli.options import (
    Checkpoint,
    Cluster,
    Data,
    Label,
    Measured,
    Protect,
    TableOptions,
    Test,
    comma_list,
    on_cluster,
    read_epsilon,
    require_text,
    shadow_models_option,
)
from epsilens.cli.output import Output, printable
from epsilens.study import DEFAULT_GRID

if TYPE_CHECKING:
    from rich.text import Text

    from epsilens.document import DecisionDocument


@option_groups
def decide(
    data: Data,
    label: Label,
    protect: Protect = None,
    max_loss_increase: Annotated[
        float | None, option("Largest acceptable increase of the test loss.", "X")
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
        str, option("START:STOP:COUNT, lin:START:STOP:COUNT, or a list.", "GRID")
    ] = DEFAULT_GRID,
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
        float,
        option(
            "Time for training again where an estimate of the cost failed its check.", "S", min=0
        ),
    ] = 20.0,
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
    test: Test = None,
    shadow_models: Annotated[
        int, shadow_models_option("Models that are attacked for every ε.")
    ] = 128,
    checkpoint: Checkpoint = None,
    cluster: Cluster = None,
    *,
    table: TableOptions,
    output: Annotated[
        Output,
        Help(
            out="Write the decision: .html (the report), .json, .png or .svg.",
            seed="Seed of the random split, the simulated runs and the attacks.",
        ),
    ],
) -> None:
    """Recommend a privacy budget: what each costs and what it buys, on one axis.

    Without a limit, the largest ε with an advantage of at most 0.1, our default.

    Example: [bold]epsilens decide survey.csv --label smokes --protect smokes --max-loss-increase 0.01
    --max-attack-rate 0.9 --out report.html[/bold]
    """
    output.check(
        (".html", ".json", ".png", ".svg"),
        {"the data": data, "the test data": test, "the checkpoint": checkpoint},
    )
    require_text([*(protect or ()), *(table.categories or ())], option="--protect")
    study = table.study(data, protect=comma_list(protect), identity=identity)
    with on_cluster(cluster), output.progress() as progress:
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
    from epsilens.show import decision_chart

    document = output.settle(decision.document)
    question = {"label": label, "data": printable(Path(data).name)}
    output.write(document, chart=decision_chart, question=question)
    output.show(
        document,
        sentences=recommendation_lines(document),
        remarks=[
            "These numbers are functions of the raw records and not private: publishing them, or "
            "choosing ε by them, leaks."
        ],
    )
    # Nobody asked for the default limit: a grid without an ε within it is no failure.
    if not document.recommendation.holds and not document.recommendation.is_default:
        raise typer.Exit(EXIT_LIMIT_NOT_MET)


def recommendation_lines(document: DecisionDocument) -> list[Text]:
    """Return the recommendation, how often a randomised answer is the true one, and what masking does."""
    from rich.text import Text

    lines = [Text(document.recommendation.sentence, style="bold")]
    if (fact := document.face_value()) is not None:
        lines.append(Text(fact))
    if document.lever is not None:
        gone = ", ".join(document.lever.masked)
        lines.append(Text(f"Masking {gone}: {document.lever.sentence}"))
    return lines

# SPDX-License-Identifier: Apache-2.0
"""A decision as a table for the terminal: what each budget costs beside what an attacker gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._validate import as_count
from epsilens.decision.trade_off import Point, join
from epsilens.display.cell_text import thinned
from epsilens.display.risk_text import ceiling_note
from epsilens.display.rounding import (
    change_decimals,
    format_change,
    format_count,
    format_epsilon,
    format_percent,
    format_points,
)
from epsilens.display.words import answers_text
from epsilens.document import DecisionDocument, WhatIfCell, at_most_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["decision_table"]


def decision_table(document: DecisionDocument, *, max_rows: int = 12) -> Table:
    """Show cost and attack side by side, a few rows from the smallest to the largest budget.

    Parameters
    ----------
    document : DecisionDocument
        The decision.
    max_rows : int
        About how many rows to show; the recommended budget is always among them.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    as_count(max_rows, name="max_rows", least=2)
    points = join(document.cost, document.risk)
    chosen = document.recommendation.epsilon
    shown = {point.epsilon for point in thinned(points, max_rows)} | {chosen}
    wanted = [point for point in points if point.epsilon in shown]
    names = answers_text(document.risk.protect)
    table = Table(
        title=Text(f"What randomising {names} costs, and what an attacker gets", style="bold"),
        title_justify="left",
        caption_justify="left",
        header_style="",
        collapse_padding=True,
        pad_edge=False,
        box=SIMPLE_HEAD,
    )
    for title in (
        "ε",
        "loss",
        "up to",
        "accuracy\ndown to",
        "guessed",
        "up to",
        "never\nseen",
        "ceiling\n(proven)",
    ):
        table.add_column(title, justify="right")
    for point in wanted:
        style = "bold" if point.epsilon == chosen else None
        table.add_row(*map(Text, _texts(document, point)), style=style)
    notes = [
        f"Loss and accuracy (points): change on the test rows, "
        f"{'measured' if cost_is_measured(document) else 'estimated'}; up to, down to: 19 in 20 releases.",
        f"Guessed: answers of people in the data, measured on {format_count(document.risk.n_models)} models, "
        "each trained on a random half of the records; never seen: of people the model was not trained on.",
        ceiling_note(document.risk),
    ]
    if len(wanted) < len(points):
        notes.append(f"{len(wanted)} of {len(points)} rows shown; --json or --out has them all.")
    table.caption = Text("\n".join(notes))
    return table


def cost_is_measured(document: DecisionDocument) -> bool:
    """Return whether the cost comes from really training again."""
    return document.cost.number_types.get("loss_change") == "measured"


def _texts(document: DecisionDocument, point: Point) -> list[str]:
    cost, risk = point.cost, point.risk
    high, ceiling = risk.answer_inference_high, risk.answer_inference_ceiling
    return [
        format_epsilon(point.epsilon),
        format_change(cost.loss_change, decimals=change_decimals(document.cost)),
        format_change(cost.loss_change_high, decimals=change_decimals(document.cost)),
        _worst_accuracy(document, cost),
        format_percent(risk.answer_inference_rate),
        "–" if high is None else at_most_text(high),
        format_percent(risk.answer_inference_unseen),
        "–" if ceiling is None else at_most_text(ceiling),
    ]


def _worst_accuracy(document: DecisionDocument, cost: WhatIfCell) -> str:
    """Return the lower end of the change of accuracy, in points."""
    for interval in document.cost.intervals:
        here = (interval.group, interval.epsilon) == (cost.group, cost.epsilon)
        if here and interval.outcome == "accuracy" and interval.low is not None:
            return format_points(interval.low)
    return "–" if cost.accuracy_change is None else format_points(cost.accuracy_change)

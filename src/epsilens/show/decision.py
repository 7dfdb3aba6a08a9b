# SPDX-License-Identifier: Apache-2.0
"""A decision as a table for the terminal: what each budget costs beside what an attacker gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._validate import as_count
from epsilens.document import DecisionDocument, Point, WhatIfCell, at_most_text, cost_type
from epsilens.show.cell_text import outcome_interval, thinned
from epsilens.show.columns import rows_note
from epsilens.show.plain_table import ALL_ROWS, plain_table
from epsilens.show.risk_text import ceiling_note, models_text
from epsilens.show.rounding import (
    NOTHING,
    change_decimals,
    format_change,
    format_epsilon,
    format_percent,
    format_points,
)
from epsilens.show.words import answers_text

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

    Examples
    --------
    >>> from epsilens.document import (Baseline, Provenance, Recommendation, RiskCell, RiskDocument,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> origin, grid = Provenance(method="exact"), (0.5, 1.0, 2.0)
    >>> cost = WhatIfDocument(provenance=origin, baseline=start, cells=[
    ...     WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                loss_change=0.02 / epsilon) for epsilon in grid])
    >>> risk = RiskDocument(provenance=origin, n_models=256, n_targets=75, cells=[
    ...     RiskCell(epsilon=epsilon, mechanism="rr", answer_inference_rate=0.7) for epsilon in grid])
    >>> chosen = Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.", rule="max_loss_increase",
    ...                         confidence=0.9)
    >>> decision_table(DecisionDocument(provenance=origin, cost=cost, risk=risk,
    ...                                 recommendation=chosen)).row_count
    3
    """
    from rich.text import Text

    as_count(max_rows, name="max_rows", least=2)
    document = document.answered()
    points = document.points()
    chosen = document.recommendation.epsilon
    shown = {point.epsilon for point in thinned(points, max_rows)} | {chosen}
    wanted = [point for point in points if point.epsilon in shown]
    notes = [
        f"Loss and accuracy (points): change on the test rows, {cost_type(document.cost)}; up to, down to: "
        "19 in 20 releases.",
        f"Guessed: answers of people in the data, {models_text(document.risk)}; never seen: of people the "
        "model was not trained on.",
        ceiling_note(document.risk),
        *rows_note(len(wanted), len(points), ALL_ROWS),
    ]
    table = plain_table(
        f"What randomising {answers_text(document.risk.protect)} costs, and what an attacker gets",
        notes=notes,
        collapse_padding=True,
        pad_edge=False,
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
    return table


def _texts(document: DecisionDocument, point: Point) -> list[str]:
    cost, risk = point.cost, point.risk
    high, ceiling = risk.answer_inference_high, risk.answer_inference_ceiling
    return [
        format_epsilon(point.epsilon),
        format_change(cost.loss_change, decimals=change_decimals(document.cost)),
        format_change(cost.loss_change_high, decimals=change_decimals(document.cost)),
        _worst_accuracy(document, cost),
        format_percent(risk.answer_inference_rate),
        NOTHING if high is None else at_most_text(high),
        format_percent(risk.answer_inference_unseen),
        NOTHING if ceiling is None else at_most_text(ceiling),
    ]


def _worst_accuracy(document: DecisionDocument, cost: WhatIfCell) -> str:
    """Return the lower end of the change of accuracy, in points."""
    interval = outcome_interval(document.cost, cost, "accuracy")
    return format_points(cost.accuracy_change if interval is None else interval.low)

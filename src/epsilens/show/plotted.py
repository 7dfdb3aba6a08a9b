# SPDX-License-Identifier: Apache-2.0
"""What every chart of a what-if shares: its numbers, its limits, its ticks and its looks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeGuard, get_args

from epsilens._validate import as_choice, as_loss_limit
from epsilens.document import WhatIfCell, WhatIfDocument, group_names
from epsilens.errors import InputError
from epsilens.show.words import (
    OUTCOME_NAMES,
    PERCENT_OUTCOMES,
    Outcome,
    axis_budget,
    group_label,
)

__all__ = [
    "ACCENT",
    "DASHES",
    "SHADES",
    "TITLE",
    "available_outcomes",
    "budget_limits",
    "budget_ticks",
    "change_limits",
    "plotted_rows",
    "tolerance_for",
]

TITLE = "What a privacy budget costs"
ACCENT = "#1d5fa8"
SHADES = (ACCENT, "#6b7280", "#8f959f", "#4b5563", "#7c8694", "#9aa0a9")
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4), (1, 3))
"""Dash and gap in pixels; the first is a line without gaps."""


def available_outcomes(document: WhatIfDocument) -> list[Outcome]:
    """List the outcomes of a what-if that have numbers to draw on a logarithmic axis.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                     loss_change=0.02, accuracy_change=-0.01)]
    >>> available_outcomes(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                   cells=cells))
    ['loss', 'accuracy']
    """
    names: tuple[Outcome, ...] = get_args(Outcome)
    found = [
        name for name in names if any(row["change"] is not None for row in _rows(document, name)[0])
    ]
    # Where nothing passed its checks, the chart of the loss says so.
    return found or (["loss"] if _rows(document, "loss")[0] else [])


def plotted_rows(
    document: WhatIfDocument, outcome: Outcome
) -> tuple[list[dict[str, Any]], list[WhatIfCell]]:
    """Give the rows that fit a logarithmic axis, and the cells that do not.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if to draw.
    outcome : {"loss", "accuracy", "auc", "loss_gap", "accuracy_gap"}
        What is drawn upwards. Accuracies and their gaps are given in percentage points.

    Returns
    -------
    rows : list of dict
        group and its label, epsilon, change (None where the checks failed), low, high (None without
        an interval), and segment: the number of the stretch without a gap that it belongs to.
    aside : list of WhatIfCell
        The cells at a budget of 0 or infinity.

    Raises
    ------
    InputError
        If there is nothing to draw, or no such outcome.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02) for epsilon in (1.0, float("inf"))]
    >>> rows, aside = plotted_rows(WhatIfDocument(provenance=Provenance(method="exact"),
    ...                                           baseline=start, cells=cells), "loss")
    >>> [row["epsilon"] for row in rows], len(aside)
    ([1.0], 1)
    """
    as_choice(outcome, get_args(Outcome), name="outcome")
    rows, aside = _rows(document, outcome)
    if not rows:
        raise InputError(
            f"expected numbers for {OUTCOME_NAMES[outcome]} at an epsilon between 0 and infinity, got none. "
            "Add such an epsilon to the grid or draw another outcome."
        )
    return rows, aside


def tolerance_for(outcome: Outcome, max_loss_increase: float | None) -> float | None:
    """Check the accepted loss: a finite number of at least 0, and only in a chart of the loss.

    Examples
    --------
    >>> tolerance_for("loss", 0.01)
    0.01
    """
    if max_loss_increase is None:
        return None
    if outcome != "loss":
        raise InputError(
            f"`max_loss_increase` belongs to the chart of the loss, got outcome {outcome!r}. "
            "Leave one of them out."
        )
    return as_loss_limit(max_loss_increase)


def budget_limits(low: float, high: float) -> tuple[float, float]:
    """Give the ends of the logarithmic axis: a little room beyond the first and last budget.

    Examples
    --------
    >>> budget_limits(1.0, 1.0)
    (0.3333333333333333, 3.0)
    """
    if low == high:
        return low / 3, high * 3
    margin = (high / low) ** 0.025
    return low / margin, high * margin


def budget_ticks(low: float, high: float) -> list[float]:
    """Choose round ticks: 1, 2 and 5 of each decade, or only the decades when there are many.

    Between budgets so close that fewer than two such numbers lie among them, the budgets at the
    ends are labelled instead.

    Examples
    --------
    >>> budget_ticks(0.1, 1.0)
    [0.1, 0.2, 0.5, 1.0]
    >>> budget_ticks(1.1, 1.9)
    [1.1, 1.9]
    """
    left, right = budget_limits(low, high)
    decades = range(math.floor(math.log10(left)), math.ceil(math.log10(right)) + 1)
    steps = (1, 2, 5) if len(decades) <= 5 else (1,)
    ticks = [
        tick
        for power in decades
        for step in steps
        if left <= (tick := float(f"{step}e{power}")) <= right
    ]
    return ticks if len(ticks) > 1 else sorted({low, high, *ticks})


def change_limits(values: Iterable[float | None], tolerance: float | None) -> tuple[float, float]:
    """Give the ends of the vertical axis, which shows zero, every number and the accepted loss.

    Examples
    --------
    >>> change_limits([1.0, None, float("nan")], None)
    (-0.04, 1.04)
    """
    shown = [0.0, *(value for value in (*values, tolerance) if _finite(value))]
    low, high = min(shown), max(shown)
    if low == high:
        return low - 1, high + 1
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def _finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _rows(
    document: WhatIfDocument, outcome: Outcome
) -> tuple[list[dict[str, Any]], list[WhatIfCell]]:
    document = document.answered()
    factor = 100.0 if outcome in PERCENT_OUTCOMES else 1.0
    intervals = {
        (item.group, item.epsilon): (item.low, item.high)
        for item in document.intervals
        if item.outcome == outcome
    }
    numbers = {name: number for number, name in enumerate(group_names(document))}
    rows: list[dict[str, Any]] = []
    aside: list[WhatIfCell] = []
    # A group that this outcome says nothing of has no gap in its line either.
    drawn = {cell.group for cell in document.cells if _finite(getattr(cell, f"{outcome}_change"))}
    if not drawn and outcome == "loss":
        drawn = set(numbers)
    n_gaps = 0
    for cell in document.cells:
        change = getattr(cell, f"{outcome}_change")
        if cell.group not in drawn or (cell.trusted and not _finite(change)):
            continue
        budget = axis_budget(document, cell)
        if budget == 0 or math.isinf(budget):
            aside.append(cell)
            continue
        if outcome == "loss":
            low, high = cell.loss_change_low, cell.loss_change_high
        else:
            low, high = intervals.get((cell.group, cell.epsilon), (None, None))
        # A band needs both of its ends.
        ends = (factor * low, factor * high) if _finite(low) and _finite(high) else (None, None)
        n_gaps += change is None
        rows.append(
            {
                "group": cell.group,
                "label": group_label(cell.group),
                "dash": str(numbers[cell.group]),
                "epsilon": budget,
                "change": None if change is None else factor * change,
                "low": ends[0],
                "high": ends[1],
                "segment": n_gaps,
            }
        )
    return rows, aside

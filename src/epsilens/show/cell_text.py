# SPDX-License-Identifier: Apache-2.0
"""What a table shows of a cell: its numbers and ranges as text, the same in every view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypeVar, get_args

from epsilens.document import OutcomeInterval, WhatIfCell, WhatIfDocument, group_names, loss_unit
from epsilens.show.rounding import change_decimals, format_change, format_points

__all__ = [
    "GAPS",
    "Gap",
    "accuracy_text",
    "cells_to_show",
    "expected_accuracy_text",
    "expected_gap_text",
    "gap_text",
    "gap_unit",
    "has_gap",
    "interval_text",
    "outcome_interval",
    "thinned",
]

Gap: TypeAlias = Literal["loss_gap", "accuracy_gap"]
GAPS: tuple[Gap, ...] = get_args(Gap)

_T = TypeVar("_T")


def cells_to_show(document: WhatIfDocument, *, max_rows: int) -> list[WhatIfCell]:
    """Pick a few cells of each group, evenly spaced and always with both ends of the grid.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=float(epsilon), record_epsilon=float(epsilon),
    ...                     method="exact", loss_change=0.02) for epsilon in range(1, 31)]
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=cells)
    >>> [cell.epsilon for cell in cells_to_show(document, max_rows=3)]
    [1.0, 15.0, 30.0]
    """
    names = group_names(document)
    shown: list[WhatIfCell] = []
    for name in names:
        mine = [cell for cell in document.cells if cell.group == name]
        shown += thinned(mine, max(2, max_rows // len(names)))
    return shown


def outcome_interval(
    document: WhatIfDocument,
    cell: WhatIfCell,
    outcome: Literal["accuracy", "auc", "loss_gap", "accuracy_gap"],
) -> OutcomeInterval | None:
    """Find the range that nine of ten runs show, or None without one.

    Examples
    --------
    >>> from epsilens.document import (Baseline, OutcomeInterval, Provenance, WhatIfCell,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> interval = OutcomeInterval(group="all", epsilon=1.0, outcome="auc", low=-0.03, high=0.001)
    >>> outcome_interval(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                 cells=[cell], intervals=[interval]), cell, "auc").low
    -0.03
    """
    for item in document.intervals:
        if (item.group, item.epsilon, item.outcome) == (cell.group, cell.epsilon, outcome):
            return None if item.low is None or item.high is None else item
    return None


def interval_text(document: WhatIfDocument, cell: WhatIfCell) -> str | None:
    """Give the range of the loss change that nine of ten runs show, or None without one.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_change_low=-0.001, loss_change_high=0.04)
    >>> interval_text(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[cell]), cell)
    '−0.0010 to +0.0400'
    """
    if cell.loss_change_low is None or cell.loss_change_high is None:
        return None
    decimals = change_decimals(document)
    low = format_change(cell.loss_change_low, decimals=decimals)
    high = format_change(cell.loss_change_high, decimals=decimals)
    return f"{low} to {high}"


def accuracy_text(document: WhatIfDocument, cell: WhatIfCell) -> str | None:
    """Give the accuracy change in points: the range of nine runs in ten where it is known, else the mean.

    Examples
    --------
    >>> from epsilens.document import (Baseline, OutcomeInterval, Provenance, WhatIfCell,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, accuracy_change=0.004)
    >>> interval = OutcomeInterval(group="all", epsilon=1.0, outcome="accuracy", low=-0.03,
    ...                            high=0.001)
    >>> accuracy_text(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[cell], intervals=[interval]), cell)
    '−3.0 to +0.1'
    """
    return _change_text(document, cell, "accuracy")


def expected_accuracy_text(document: WhatIfDocument, cell: WhatIfCell) -> str | None:
    """Give the mean accuracy change over runs where `accuracy_text` gives a range.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, accuracy_change=0.004)
    >>> print(expected_accuracy_text(WhatIfDocument(provenance=Provenance(method="exact"),
    ...                                             baseline=start, cells=[cell]), cell))
    None
    """
    return _expected_text(document, cell, "accuracy")


def has_gap(cells: Sequence[WhatIfCell], outcome: Gap) -> bool:
    """Say whether any of the cells knows how far its group moves from everybody else.

    Examples
    --------
    >>> from epsilens.document import WhatIfCell
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_gap_change=0.004)
    >>> has_gap([cell], "loss_gap"), has_gap([cell], "accuracy_gap")
    (True, False)
    """
    return any(_change(cell, outcome) is not None for cell in cells)


def gap_unit(document: WhatIfDocument, outcome: Gap) -> str:
    """Name the unit of a gap.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start, cells=[])
    >>> gap_unit(document, "loss_gap"), gap_unit(document, "accuracy_gap")
    ('nats', 'points')
    """
    return "points" if outcome == "accuracy_gap" else loss_unit(document)


def gap_text(document: WhatIfDocument, cell: WhatIfCell, outcome: Gap) -> str | None:
    """Give the change of a gap between a group and everybody else, or None without one.

    As with the accuracy, the range that nine of ten runs show comes first wherever it is known.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    cell : WhatIfCell
        One of its cells.
    outcome : {"loss_gap", "accuracy_gap"}
        The gap in test loss, or the gap in accuracy in percentage points.

    Returns
    -------
    str or None
        A range, a number, or None where the gap has no meaning.

    Examples
    --------
    >>> from epsilens.document import (Baseline, OutcomeInterval, Provenance, WhatIfCell,
    ...                                WhatIfDocument)
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_gap_change=0.004, accuracy_gap_change=-0.01)
    >>> interval = OutcomeInterval(group="women", epsilon=1.0, outcome="accuracy_gap", low=-0.03,
    ...                            high=0.001)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell], intervals=[interval])
    >>> gap_text(document, cell, "accuracy_gap"), gap_text(document, cell, "loss_gap")
    ('−3.0 to +0.1', '+0.0040')
    """
    return _change_text(document, cell, outcome)


def expected_gap_text(document: WhatIfDocument, cell: WhatIfCell, outcome: Gap) -> str | None:
    """Give the mean change of a gap over runs where `gap_text` gives a range.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_gap_change=0.004)
    >>> print(expected_gap_text(WhatIfDocument(provenance=Provenance(method="exact"),
    ...                                        baseline=start, cells=[cell]), cell, "loss_gap"))
    None
    """
    return _expected_text(document, cell, outcome)


_Ranged: TypeAlias = Literal["accuracy", "loss_gap", "accuracy_gap"]


def _change(cell: WhatIfCell, outcome: _Ranged) -> float | None:
    change: float | None = getattr(cell, f"{outcome}_change")
    return change


def _change_text(document: WhatIfDocument, cell: WhatIfCell, outcome: _Ranged) -> str | None:
    """Give the range that nine of ten runs show where it is known, else the change itself."""
    change, interval = _change(cell, outcome), outcome_interval(document, cell, outcome)
    if change is None:
        return None
    if interval is None:
        return _number(document, change, outcome)
    low, high = (_number(document, end, outcome) for end in (interval.low, interval.high))
    return f"{low} to {high}"


def _expected_text(document: WhatIfDocument, cell: WhatIfCell, outcome: _Ranged) -> str | None:
    """Give the mean change over runs, where `_change_text` gives a range."""
    change = _change(cell, outcome)
    if change is None or outcome_interval(document, cell, outcome) is None:
        return None
    return _number(document, change, outcome)


def _number(document: WhatIfDocument, value: float | None, outcome: _Ranged) -> str:
    if outcome == "loss_gap":
        return format_change(value, decimals=change_decimals(document))
    return format_points(value)


def thinned(items: Sequence[_T], most: int) -> list[_T]:
    """Pick so many of a sequence at most, evenly spaced and always with both ends.

    Examples
    --------
    >>> thinned([1, 2, 3, 4, 5], 3)
    [1, 3, 5]
    """
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / (most - 1)
    return [items[round(number * step)] for number in range(most)]

# SPDX-License-Identifier: Apache-2.0
"""Words for the cost: changes with their intervals, and why a budget has no answer."""

from __future__ import annotations

from typing import Literal

from epsilens.document.rounding import (
    change_text,
    epsilon_text,
    points_text,
)
from epsilens.document.whatif import OutcomeInterval, WhatIfCell, WhatIfDocument
from epsilens.document.wording import (
    EVERYBODY,
    OUTCOME_NAMES,
    PERCENT_OUTCOMES,
    Gap,
    Outcome,
    Ranged,
    axis_budget,
    change_decimals,
    group_label,
    group_names,
    loss_unit,
)


def change_title(document: WhatIfDocument, outcome: Outcome) -> str:
    """Name the vertical axis, with its unit.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell])
    >>> change_title(document, "loss")
    'change of test loss (nats)'
    """
    title = f"change of {OUTCOME_NAMES[outcome]}"
    if outcome == "auc":
        return title
    unit = "percentage points" if outcome in PERCENT_OUTCOMES else loss_unit(document)
    return f"{title} ({unit})"


def failed_check(method: str) -> str:
    """Say why an estimate is not shown: a sentence without its end.

    Examples
    --------
    >>> failed_check("influence")
    'the first-order estimate failed its checks'
    """
    if method == "exact":
        return "one run may move the predictions too far for this method"
    name = {"influence": "first-order ", "newton": "Newton "}.get(method, "")
    return f"the {name}estimate failed its checks"


def unanswered_reason(method: str) -> str:
    """Say why an estimate is not shown, and what to do instead.

    Examples
    --------
    >>> unanswered_reason("exact")
    'one run may move the predictions too far for this method. The method `retrain` measures it.'
    """
    advice = "`retrain` measures it" if method == "exact" else "`exact` is more accurate"
    return f"{failed_check(method)}. The method {advice}."


def unanswered_text(document: WhatIfDocument) -> str | None:
    """Say at which budgets no estimate passed its checks, why, and what to do; None if all did.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02, trusted=epsilon > 0.3) for epsilon in (0.1, 0.3, 1.0)]
    >>> unanswered_text(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                                cells=cells))
    'No estimate at ε ≤ 0.3: one run may move the predictions too far for this method. The method
    `retrain` measures it.'
    """
    failed = [cell for cell in document.cells if not cell.trusted]
    if not failed:
        return None
    places = {name: _unanswered_place(document, name) for name in group_names(document)}
    if len(set(places.values())) == 1:
        where = next(iter(places.values()))
    else:
        where = " and ".join(
            f"{place} for {group_label(name) if name == EVERYBODY else f'the group “{name}”'}"
            for name, place in places.items()
            if place is not None
        )
    return f"No estimate {where}: {unanswered_reason(failed[0].method)}"


def _unanswered_place(document: WhatIfDocument, group: str) -> str | None:
    """Name the budgets at which a group has no estimate; None if it has one everywhere."""
    cells = [cell for cell in document.cells if cell.group == group]
    cells.sort(key=lambda cell: axis_budget(document, cell))
    passed = [cell.trusted for cell in cells]
    n_failed = len(passed) - sum(passed)
    if not n_failed:
        return None
    budgets = [epsilon_text(axis_budget(document, cell)) for cell in cells]
    if n_failed == len(cells):
        return f"at ε = {budgets[0]}" if len(cells) == 1 else "at any ε of the grid"
    if not any(passed[:n_failed]):
        return f"at ε ≤ {budgets[n_failed - 1]}"
    if not any(passed[-n_failed:]):
        return f"at ε ≥ {budgets[-n_failed]}"
    return f"at {n_failed} of {len(cells)} ε"


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
    low = change_text(cell.loss_change_low, decimals=decimals)
    high = change_text(cell.loss_change_high, decimals=decimals)
    return f"{low} to {high}"


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


def outcome_text(document: WhatIfDocument, cell: WhatIfCell, outcome: Ranged) -> str | None:
    """Give the change of accuracy or of a gap: the range of nine runs in ten where it is known.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    cell : WhatIfCell
        One of its cells.
    outcome : {"accuracy", "loss_gap", "accuracy_gap"}
        The accuracy and its gap are in percentage points, the gap in test loss in its unit.

    Returns
    -------
    str or None
        A range, a number, or None where the outcome has no meaning.

    Examples
    --------
    >>> from epsilens.document import Baseline, OutcomeInterval, Provenance
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, loss_gap_change=0.004, accuracy_gap_change=-0.01)
    >>> interval = OutcomeInterval(group="women", epsilon=1.0, outcome="accuracy_gap", low=-0.03,
    ...                            high=0.001)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell], intervals=[interval])
    >>> outcome_text(document, cell, "accuracy_gap"), outcome_text(document, cell, "loss_gap")
    ('−3.0 to +0.1', '+0.0040')
    """
    interval = outcome_interval(document, cell, outcome)
    if _change(cell, outcome) is None or interval is None:
        return expected_text(document, cell, outcome)
    low, high = (_outcome_number(document, end, outcome) for end in (interval.low, interval.high))
    return f"{low} to {high}"


def expected_text(document: WhatIfDocument, cell: WhatIfCell, outcome: Ranged) -> str | None:
    """Give the mean change of accuracy or of a gap over runs; None where it has no meaning.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="women", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02, accuracy_change=-0.004)
    >>> expected_text(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[cell]), cell, "accuracy")
    '−0.4'
    """
    change = _change(cell, outcome)
    return None if change is None else _outcome_number(document, change, outcome)


def _change(cell: WhatIfCell, outcome: Ranged) -> float | None:
    change: float | None = getattr(cell, f"{outcome}_change")
    return change


def _outcome_number(document: WhatIfDocument, value: float | None, outcome: Ranged) -> str:
    if outcome == "loss_gap":
        return change_text(value, decimals=change_decimals(document))
    return points_text(value)

# SPDX-License-Identifier: Apache-2.0
"""The words on a chart: titles, what kind of numbers it shows, and a description to be read aloud."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from epsilens.document import (
    EVERYBODY,
    RiskCell,
    RiskDocument,
    WhatIfCell,
    WhatIfDocument,
    cost_type,
    epsilon_text,
    group_names,
    loss_unit,
    own_budget,
)

__all__ = [
    "GAP_MEANINGS",
    "NO_PRIVACY",
    "OUTCOME_NAMES",
    "PERCENT_OUTCOMES",
    "Outcome",
    "answers_text",
    "axis_budget",
    "budget_title",
    "change_title",
    "failed_check",
    "group_label",
    "spoken_description",
    "subtitle_lines",
    "unanswered_reason",
    "unanswered_text",
]

Outcome: TypeAlias = Literal["loss", "accuracy", "auc", "loss_gap", "accuracy_gap"]

PERCENT_OUTCOMES = ("accuracy", "accuracy_gap")
_SEEN_APART = 0.005
"""A line that leaves its band by less than this share of the chart's height is not seen to."""

OUTCOME_NAMES: dict[Outcome, str] = {
    "loss": "test loss",
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "loss_gap": "loss gap",
    "accuracy_gap": "accuracy gap",
}
NO_PRIVACY = "No ε is stated: the body of the network may have learnt from the true answers."
GAP_MEANINGS = {
    "loss_gap": "Loss gap: the group's test loss less everybody else's; where it rises, the group falls behind.",
    "accuracy_gap": "Accuracy gap: the group's accuracy less everybody else's; where it falls, the group falls behind.",
}


def answers_text(names: Sequence[str]) -> str:
    """Name the protected answers.

    Examples
    --------
    >>> answers_text(["smokes"]), answers_text(["smokes", "age"]), answers_text([])
    ('the answer “smokes”', 'the answers “smokes” and “age”', 'the protected answer')
    """
    quoted = [f"“{name}”" for name in names]
    if not quoted:
        return "the protected answer"
    if len(quoted) == 1:
        return f"the answer {quoted[0]}"
    return f"the answers {', '.join(quoted[:-1])} and {quoted[-1]}"


def group_label(group: str) -> str:
    """Name a group in a table or a legend; that of everybody is the package's own.

    Examples
    --------
    >>> group_label("all"), group_label("women")
    ('everyone', 'women')
    """
    return "everyone" if group == EVERYBODY else group


def axis_budget(document: WhatIfDocument | RiskDocument, cell: WhatIfCell | RiskCell) -> float:
    """Give the budget at which a cell is drawn: per column, or per record where columns differ.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell])
    >>> axis_budget(document, cell)
    1.0
    """
    by_record = any(other.epsilon is None for other in document.cells)
    if by_record and cell.record_epsilon is not None:
        return cell.record_epsilon
    return own_budget(cell)


def budget_title(document: WhatIfDocument | RiskDocument) -> str:
    """Name the horizontal axis.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell])
    >>> budget_title(document)
    'privacy budget ε'
    """
    if any(cell.epsilon is None for cell in document.cells):
        return "privacy budget ε of a record"
    return "privacy budget ε"


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


def subtitle_lines(
    document: WhatIfDocument,
    rows: list[dict[str, Any]],
    aside: list[WhatIfCell],
    *,
    outcome: Outcome = "loss",
) -> list[str]:
    """Say what kind of numbers a chart shows and where it shows none.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell])
    >>> row = {"group": "all", "epsilon": 1.0, "change": 0.02, "low": None, "high": None}
    >>> subtitle_lines(document, [row], [])
    ['Estimated, without training again.']
    """
    banded = [row for row in rows if row["low"] is not None and row["high"] is not None]
    line, mark = ("line", "band") if len({row["epsilon"] for row in rows}) > 1 else ("point", "bar")
    if cost_type(document) == "measured":
        band = f"; the {mark} holds 9 in 10 of the runs" if banded else ""
        lines = [f"Measured by training again{band}."]
    elif any(row["change"] is not None for row in rows):
        band = f"; 9 in 10 real runs fall in the {mark}" if banded else ""
        lines = [f"Estimated, without training again{band}."]
    else:
        lines = []
    if not document.is_about_privacy:
        lines.append(NO_PRIVACY)
    blur = _SEEN_APART * _height(rows)
    # Documents of earlier versions have the accuracy of the expected model, which no run need come near.
    if any(max(row["change"] - row["high"], row["low"] - row["change"]) > blur for row in banded):
        lines.append(f"Where {line} and {mark} part, few runs come near the {line}.")
    if outcome in GAP_MEANINGS:
        lines.append(GAP_MEANINGS[outcome])
    if (unanswered := unanswered_text(document)) is not None:
        lines.append(unanswered)
    if any(math.isinf(axis_budget(document, cell)) for cell in aside):
        lines.append("ε = ∞ (nothing is randomised) lies outside the axis; there nothing changes.")
    if any(axis_budget(document, cell) == 0 for cell in aside):
        lines.append("ε = 0 (answers are pure noise) lies outside the axis.")
    return lines


def _height(rows: list[dict[str, Any]]) -> float:
    """Give the range of numbers that a chart has to show; 0 is always among them."""
    shown = [
        row[name] for row in rows for name in ("change", "low", "high") if row[name] is not None
    ]
    return float(max([0.0, *shown]) - min([0.0, *shown]))


def spoken_description(
    document: WhatIfDocument, rows: list[dict[str, Any]], groups: list[str], outcome: Outcome
) -> str:
    """Say in words what a chart shows, for those who do not see it.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                   loss_change=0.02)
    >>> document = WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                           cells=[cell])
    >>> row = {"group": "all", "epsilon": 1.0, "change": 0.02, "low": None}
    >>> spoken_description(document, [row], ["all"], "loss")
    'Line chart, estimated: change of test loss (nats) against the privacy budget epsilon on a
    logarithmic axis. Everyone: +0.02 at epsilon 1.'
    """
    parts = [
        f"Line chart, {cost_type(document)}: {change_title(document, outcome)} against the privacy budget "
        "epsilon on a logarithmic axis."
    ]
    for group in groups:
        mine = [row for row in rows if row["group"] == group and row["change"] is not None]
        if not mine:
            continue
        first = min(mine, key=lambda row: float(row["epsilon"]))
        last = max(mine, key=lambda row: float(row["epsilon"]))
        whom = "Everyone" if group == EVERYBODY else f"Group {group}"
        if first is last:
            parts.append(f"{whom}: {first['change']:+.3g} at epsilon {first['epsilon']:.3g}.")
        else:
            parts.append(
                f"{whom}: from {first['change']:+.3g} at epsilon {first['epsilon']:.3g} "
                f"to {last['change']:+.3g} at epsilon {last['epsilon']:.3g}."
            )
    if (unanswered := unanswered_text(document)) is not None:
        parts.append(unanswered)
    return " ".join(parts)


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

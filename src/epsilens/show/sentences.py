# SPDX-License-Identifier: Apache-2.0
"""The answer in words, for readers who are not statisticians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from epsilens.document import (
    EVERYBODY,
    RiskCell,
    WhatIfCell,
    WhatIfDocument,
    cost_type,
    group_names,
    is_model_release,
    loss_unit,
    own_budget,
)
from epsilens.show.cell_text import accuracy_text, interval_text, outcome_interval
from epsilens.show.rounding import (
    change_decimals,
    format_epsilon,
    format_loss,
    format_percent,
    format_points,
    rounds_to_zero,
)
from epsilens.show.words import (
    answers_text,
    group_label,
    unanswered_reason,
    unanswered_text,
)

__all__ = [
    "EpsilonChoice",
    "budget_distance",
    "budget_text",
    "cell_sentence",
    "cost_clause",
    "nearest_cell",
    "protected_text",
    "typical_cell",
    "unanswered_sentence",
    "whatif_sentence",
    "whom_text",
]


class EpsilonChoice(Protocol):
    """A chosen budget, as `LossChangeEstimate.choose` gives it."""

    @property
    def epsilon(self) -> float | None:
        """The chosen budget, or None when no budget meets the limit."""

    @property
    def holds(self) -> bool:
        """Whether the limit is met."""

    @property
    def sentence(self) -> str:
        """The choice in words."""


def whom_text(group: str) -> str:
    """Name a group as a reader would say it.

    Examples
    --------
    >>> whom_text("all"), whom_text("women")
    ('everyone', 'the group “women”')
    """
    return group_label(group) if group == EVERYBODY else f"the group “{group}”"


def protected_text(document: WhatIfDocument) -> str:
    """Name what is randomised.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> protected_text(WhatIfDocument(
    ...     provenance=Provenance(method="exact", settings={"protect": ["smokes"]}),
    ...     baseline=start, cells=[]))
    'the answer “smokes”'
    """
    protect = document.provenance.settings.get("protect")
    names = [protect] if isinstance(protect, str) else protect
    return answers_text(names if isinstance(names, list) else [])


def typical_cell(
    document: WhatIfDocument, *, group: str | None = None, epsilon: float | None = None
) -> WhatIfCell | None:
    """Find the cell to speak of: the budget nearest to the wanted one, by default to 1.

    Near is meant by ratio: 0.5 and 2 are equally far from 1. A cell that failed its checks is taken
    only if all did.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02) for epsilon in (0.1, 0.9, 10.0)]
    >>> typical_cell(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                             cells=cells)).epsilon
    0.9
    """
    names = group_names(document)
    if not names:
        return None
    wanted = group if group in names else names[0]
    cells = [cell for cell in document.cells if cell.group == wanted]
    target = 1.0 if epsilon is None else epsilon
    passed = [
        cell
        for cell in cells
        if cell.trusted and math.isfinite(budget_distance(own_budget(cell), target))
    ]
    return nearest_cell(passed or cells, target)


def nearest_cell(cells: Sequence[WhatIfCell], epsilon: float = 1.0) -> WhatIfCell:
    """Find the cell whose budget is nearest to one, whether it passed its checks or not.

    Examples
    --------
    >>> cells = [WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                     loss_change=0.02) for epsilon in (0.1, 0.9, 10.0)]
    >>> nearest_cell(cells).epsilon
    0.9
    """
    return min(cells, key=lambda cell: budget_distance(own_budget(cell), epsilon))


def budget_distance(budget: float, target: float) -> float:
    """Say how far two budgets are apart, by ratio: 0.5 and 2 are equally far from 1.

    Examples
    --------
    >>> budget_distance(0.5, 1.0) == budget_distance(2.0, 1.0)
    True
    """
    if budget == target:
        return 0.0
    if budget in (0.0, math.inf) or target in (0.0, math.inf):
        return math.inf
    return abs(math.log(budget / target))


def cell_sentence(document: WhatIfDocument, cell: WhatIfCell) -> str:
    """Say in one or two sentences what one budget would cost one group.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021, loss_change_low=0.015, loss_change_high=0.027)
    >>> cell_sentence(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                              cells=[cell]), cell)
    'Randomising the protected answer of everyone at ε = 1 would raise the test loss by 0.0210 nats,
    from 0.5000 (estimated; 9 in 10 real runs: +0.0150 to +0.0270).'
    """
    if not cell.trusted:
        return unanswered_sentence(cell)
    parts = [cost_clause(document, cell)]
    accuracy = _accuracy_clause(document, cell, measured=cost_type(document, cell) == "measured")
    if accuracy is not None:
        parts.append(accuracy)
    return f"{' and '.join(parts)}."


def unanswered_sentence(cell: WhatIfCell) -> str:
    """Say that the estimate at one budget failed its checks, why, and what to do.

    Examples
    --------
    >>> unanswered_sentence(WhatIfCell(group="all", epsilon=0.1, record_epsilon=0.1,
    ...                                method="exact", loss_change=0.4, trusted=False))
    'No estimate at ε = 0.1: one run may move the predictions too far for this method. The method
    `retrain` measures it.'
    """
    return f"No estimate at {budget_text(cell)}: {unanswered_reason(cell.method)}"


def cost_clause(document: WhatIfDocument, cell: WhatIfCell) -> str:
    """Say what one budget would do to the test loss: a sentence without its end.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021)
    >>> cost_clause(WhatIfDocument(provenance=Provenance(method="exact"), baseline=start,
    ...                            cells=[cell]), cell)
    'Randomising the protected answer of everyone at ε = 1 would raise the test loss by 0.0210 nats,
    from 0.5000 (estimated)'
    """
    if is_model_release(document):
        subject = f"Publishing the ridge model with noise at {budget_text(cell)}"
    else:
        subject = (
            f"Randomising {protected_text(document)} of {whom_text(cell.group)} at "
            f"{budget_text(cell)}"
        )
    measured = cost_type(document, cell) == "measured"
    return f"{subject} {_loss_clause(document, cell, measured=measured)}"


def whatif_sentence(document: WhatIfDocument, choice: EpsilonChoice | None = None) -> str:
    """Give the answer of a what-if in words for lay people.

    Parameters
    ----------
    document : WhatIfDocument
        The what-if.
    choice : EpsilonChoice, optional
        A chosen budget; its own sentence comes first. Without it the budget nearest to 1 is
        spoken of, for the first group.

    Returns
    -------
    str
        A few sentences on one line. Budgets without an estimate that passed its checks are named.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance, WhatIfCell, WhatIfDocument
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cells = [WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="retrain",
    ...                     loss_change=0.000001)]
    >>> whatif_sentence(WhatIfDocument(provenance=Provenance(method="retrain"), baseline=start,
    ...                                cells=cells))
    'Randomising the protected answer of everyone at ε = 1 left the test loss as it was, at 0.5000
    nats (measured).'
    """
    opening: list[str] = []
    wanted: float | None = None
    if choice is not None:
        opening.append(choice.sentence)
        wanted = choice.epsilon
        if wanted is None:
            return choice.sentence
    group = getattr(choice, "group", None)
    cell = typical_cell(document, group=group if isinstance(group, str) else None, epsilon=wanted)
    if cell is None:
        return " ".join([*opening, "No budget was asked about."])
    unanswered = unanswered_text(document)
    said = [cell_sentence(document, cell)] if cell.trusted else []
    return " ".join([*opening, *said, *([] if unanswered is None else [unanswered])])


def budget_text(cell: WhatIfCell | RiskCell) -> str:
    """Name the budget of a cell, with that of a whole record where it is another.

    Examples
    --------
    >>> budget_text(WhatIfCell(group="all", epsilon=1.0, record_epsilon=2.0, method="exact",
    ...                        loss_change=0.1))
    'ε = 1 each (ε = 2 in all)'
    """
    if cell.epsilon is None:
        return f"ε = {format_epsilon(cell.record_epsilon)} for a record"
    text = f"ε = {format_epsilon(cell.epsilon)}"
    if cell.record_epsilon is not None and not math.isclose(cell.epsilon, cell.record_epsilon):
        text += f" each (ε = {format_epsilon(cell.record_epsilon)} in all)"
    return text


def _loss_clause(document: WhatIfDocument, cell: WhatIfCell, *, measured: bool) -> str:
    decimals = change_decimals(document)
    in_nats = loss_unit(document) == "nats"
    loss, unit = ("test loss", " nats") if in_nats else ("mean squared error on the test rows", "")
    before = document.baseline.loss
    interval = interval_text(document, cell)
    runs = "9 in 10 of the runs" if measured else "9 in 10 real runs"
    note = cost_type(document, cell) + ("" if interval is None else f"; {runs}: {interval}")
    change = cell.loss_change
    if change is None:
        return f"has an effect on the {loss} that could not be {cost_type(document, cell)}"
    if rounds_to_zero(change, decimals=decimals):
        verb = "left" if measured else "would leave"
        at = "" if before is None else f", at {format_loss(before, decimals=decimals)}{unit}"
        return f"{verb} the {loss} as it {'was' if measured else 'is'}{at} ({note})"
    if measured:
        verb = "raised" if change > 0 else "lowered"
    else:
        verb = "would raise" if change > 0 else "would lower"
    amount = format_loss(abs(change), decimals=decimals)
    of = "" if before is None else f", from {format_loss(before, decimals=decimals)}"
    return f"{verb} the {loss} by {amount}{unit}{of} ({note})"


def _accuracy_clause(document: WhatIfDocument, cell: WhatIfCell, *, measured: bool) -> str | None:
    change, before = cell.accuracy_change, document.baseline.accuracy
    if change is None or before is None:
        return None
    interval = outcome_interval(document, cell, "accuracy")
    if interval is not None and not all(
        end is None or rounds_to_zero(100 * end, decimals=1)
        for end in (change, interval.low, interval.high)
    ):
        verb = "changed" if measured else "change"
        shown = accuracy_text(document, cell)
        return f"{verb} the accuracy of {format_percent(before)} by {shown} percentage points"
    if rounds_to_zero(100 * change, decimals=1):
        return f"{'left' if measured else 'leave'} the accuracy at {format_percent(before)}"
    if measured:
        verb = "raised" if change > 0 else "lowered"
    else:
        verb = "raise" if change > 0 else "lower"
    points = format_points(change, signed=False)
    return f"{verb} the accuracy by {points} percentage points, from {format_percent(before)}"

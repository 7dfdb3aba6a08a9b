# SPDX-License-Identifier: Apache-2.0
"""What the documents of a study lead to: a decision, or as far as they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epsilens.app.questions import Limits
from epsilens.app.surface import PAGE
from epsilens.document import own_budget
from epsilens.notes import Note

if TYPE_CHECKING:
    from epsilens.document import DecisionDocument, WhatIfDocument


Task = dict[str, Any]


def _costs(task: Task) -> WhatIfDocument:
    from epsilens.document import load_document

    found: Any = load_document(task["cost"])
    return found  # type: ignore[no-any-return]


def decide_on(task: Task) -> DecisionDocument:
    """Join the cost and the attack of a study, and decide by its limits."""
    from epsilens.decision import decide
    from epsilens.document import load_document

    cost, limits = _costs(task), Limits.model_validate(task["limits"])
    risk: Any = load_document(task["risk"])
    return decide(
        cost,
        risk,
        max_loss_increase=limits.max_loss_increase,
        max_attack_rate=limits.max_attack_rate,
        max_advantage=limits.max_advantage,
        measured=limits.measured,
    ).document


def _preview_note(cost: WhatIfDocument) -> Note:
    """Say what the first answer is."""
    n_budgets = len({own_budget(cell) for cell in cost.cells})
    return Note(
        "preview",
        f"this is a preview at {n_budgets} budget{'s' if n_budgets > 1 else ''}, with rough ranges. The "
        "cost at all budgets takes its place when it arrives.",
    )


def latest_of(task: Task) -> tuple[Any, dict[str, object] | None]:
    """Return the latest document of a study, and a recommendation where it has none of its own."""
    from epsilens.errors import InputError
    from epsilens.whatif import LossChangeEstimate

    cost = _costs(task)
    if task.get("risk") is not None:
        try:
            return decide_on(task), None
        except InputError as error:
            said = f"the attack is not shown: {error.render(PAGE)}"
            notes = [Note("attack-not-shown", said), *cost.notes]
            cost = cost.model_copy(update={"notes": notes})
    if task["is_preview"]:
        cost = cost.model_copy(update={"notes": [_preview_note(cost), *cost.notes]})
    most = Limits.model_validate(task["limits"]).max_loss_increase
    if most is None:
        return cost, None
    choice = LossChangeEstimate(cost).choose(max_loss_increase=most, group=cost.cells[0].group)
    if task["is_preview"] and not choice.holds:
        return cost, None
    return cost, {
        "epsilon": choice.epsilon,
        "holds": choice.holds,
        "sentence": choice.sentence,
        "max_loss_increase": most,
    }

# SPDX-License-Identifier: Apache-2.0
"""What somebody gets who holds the randomised answers themselves."""

from __future__ import annotations

from epsilens.document import RiskCell, WhatIfCell
from epsilens.show.report_words import ATTACKER, proof_text
from epsilens.show.sentences import budget_text

__all__ = ["holder_text"]


def holder_text(cost: WhatIfCell, risk: RiskCell | None, *, many: bool = False) -> str:
    """Say what somebody gets who holds the randomised answers themselves, not only the model.

    Parameters
    ----------
    cost : WhatIfCell
        The budget.
    risk : RiskCell or None
        The attack at the same budget, whose ceiling is quoted.
    many : bool
        Whether several answers are protected, which count as guessed only all at once.

    Returns
    -------
    str
        One or two sentences.

    Examples
    --------
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> holder_text(cell, None)[:51]
    'The collector, or a reader of the randomised table,'
    """
    said = (
        "The collector, or a reader of the randomised table, can guess better than from the model: "
        f"the attack that was measured is by {ATTACKER}."
    )
    proof = None if risk is None else proof_text(risk, many=many)
    if proof is not None:
        said += f" With everything else that is known beside it, at {budget_text(cost)}: {proof}."
    return said

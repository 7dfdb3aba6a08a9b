# SPDX-License-Identifier: Apache-2.0
"""What somebody gets who holds the randomised answers themselves."""

from __future__ import annotations

import math

from epsilens.display.rounding import format_percent
from epsilens.document import RiskCell, WhatIfCell
from epsilens.reporting.report_words import ATTACKER, proof_text
from epsilens.reporting.sentences import budget_text

__all__ = ["holder_text"]


def holder_text(
    cost: WhatIfCell, risk: RiskCell | None, *, two_answers: bool = False, many: bool = False
) -> str:
    """Say what somebody gets who holds the randomised answers themselves, not only the model.

    Parameters
    ----------
    cost : WhatIfCell
        The budget.
    risk : RiskCell or None
        The attack at the same budget, whose ceiling is quoted.
    two_answers : bool
        Whether the protected answer is known to be one of two.
    many : bool
        Whether several answers are protected, which count as guessed only all at once.

    Returns
    -------
    str
        A few sentences.

    Notes
    -----
    Randomised response over k answers keeps the true one with probability e^ε/(e^ε + k − 1): P1,
    equation (12), whose diagonal is printed with ε for e^ε. For two answers that is e^ε/(1 + e^ε).

    Examples
    --------
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.02)
    >>> "is right 73.1% of the time at ε = 1" in holder_text(cell, None, two_answers=True)
    True
    """
    said = (
        "The collector, or a reader of the randomised table, can guess better than from the model: "
        f"the attack that was measured is by {ATTACKER}."
    )
    if two_answers and not many:
        share = 1.0 / (1.0 + math.exp(-cost.record_epsilon))
        said += (
            f" Taking a randomised answer at face value is right {format_percent(share)} of the time "
            f"at {budget_text(cost)}, whoever the person is (proven)."
        )
    else:
        said += (
            " Taking a randomised answer at face value is right up to e^ε/(1 + e^ε) of the time where "
            "there are two possible answers, e^ε/(e^ε + k − 1) where there are k."
        )
    proof = None if risk is None else proof_text(risk, many=many)
    if proof is not None:
        said += f" With everything else that is known beside it, at {budget_text(cost)}: {proof}."
    return said

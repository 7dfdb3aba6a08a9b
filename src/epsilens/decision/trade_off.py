# SPDX-License-Identifier: Apache-2.0
"""Cost and risk of the same mechanism on one axis of budgets."""

from __future__ import annotations

from dataclasses import dataclass

from epsilens.document import (
    EVERYBODY,
    RiskCell,
    RiskDocument,
    WhatIfCell,
    WhatIfDocument,
    own_budget,
)
from epsilens.errors import InputError

__all__ = ["Point", "join"]


@dataclass(frozen=True)
class Point:
    """What is known about one budget.

    Attributes
    ----------
    epsilon : float
        Per column, or of a whole record where the columns have different budgets.
    cost : WhatIfCell
    risk : RiskCell
    """

    epsilon: float
    cost: WhatIfCell
    risk: RiskCell


def join(cost: WhatIfDocument, risk: RiskDocument) -> list[Point]:
    """Return the budgets that both have been asked about, ascending.

    Parameters
    ----------
    cost : WhatIfDocument
        Of everybody: a risk is of everybody whose records are in the data.
    risk : RiskDocument

    Raises
    ------
    InputError
        If they are of different mechanisms or columns, or share no budget.
    """
    mechanism = cost.provenance.settings.get("mechanism", "rr")
    mechanisms = {cell.mechanism for cell in risk.cells}
    if mechanism != "rr" or mechanisms != {"rr"}:
        raise InputError(
            "cost and risk must be of one mechanism, randomised response: the ε of DP-SGD is of "
            "something else and does not belong on the same axis. Ask both with mechanism 'rr'."
        )
    protected = cost.provenance.settings.get("protect")
    names = [str(name) for name in protected] if isinstance(protected, list) else None
    if names is not None and risk.protect and set(names) != set(risk.protect):
        raise InputError(
            f"cost and risk must be of the same protected columns, but {len(names)} and "
            f"{len(risk.protect)} differ. Ask both with the same `protect`."
        )
    prints = (cost.provenance.schema_fingerprint, risk.provenance.schema_fingerprint)
    if None not in prints and prints[0] != prints[1]:
        raise InputError(
            "cost and risk must be of the same data, but their columns or numbers of rows differ. Ask "
            "both of the same training and test data."
        )
    budgets = [part.provenance.settings.get("epsilon") for part in (cost, risk)]
    if any(isinstance(budget, dict) for budget in budgets) and budgets[0] != budgets[1]:
        raise InputError(
            "cost and risk must have the same budget for every column, but theirs differ. Ask both "
            "with the same `epsilon`."
        )
    cells = {own_budget(cell): cell for cell in cost.cells if cell.group == EVERYBODY}
    if not cells:
        raise InputError(
            f"the cost must be that of everybody, group {EVERYBODY!r}: the risk is. Leave out the "
            "groups, or add one with all records."
        )
    points = [
        Point(at, cells[at], cell) for cell in risk.cells if (at := own_budget(cell)) in cells
    ]
    if not points:
        raise InputError(
            "cost and risk must share at least one ε, got none. Ask both with the same grid."
        )
    return sorted(points, key=lambda point: point.epsilon)

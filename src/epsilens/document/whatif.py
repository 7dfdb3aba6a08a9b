# SPDX-License-Identifier: Apache-2.0
"""The document of a what-if: what privacy budgets would cost."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field, StrictStr

from epsilens.document.parts import (
    Baseline,
    DocumentHead,
    Flag,
    NonNegative,
    NumberType,
    OptionalNonNegative,
    OptionalNumber,
    Part,
)
from epsilens.errors import InputError, setting

BODY = "body"
"""The setting that says what was declared of a network's body, the layers before its head."""
UNDECLARED = "undeclared"
"""Its value where nothing was declared: the body may have learnt from the true answers."""
_OLD_BODY = "public_body"

WhatIfMethod: TypeAlias = Literal[
    "influence", "newton", "exact", "curve", "retrain", "paper", "output-perturbation"
]


OPTIONAL_KEYS = frozenset({"number_type", "group_epsilons"})
"""Keys of a cell that are written only where they say something."""


class WhatIfCell(Part):
    """What one privacy budget would cost if one group's answers were randomised with it.

    Examples
    --------
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                   loss_change=0.021, loss_change_low=0.015, loss_change_high=0.027,
    ...                   accuracy_change=-0.01, auc_change=-0.02, loss_gap_change=None,
    ...                   accuracy_gap_change=None, trusted=True)
    >>> cell.loss_change
    0.021
    """

    group: StrictStr
    """The group whose protected columns are randomised."""
    epsilon: OptionalNonNegative
    """Privacy budget per protected column; null when columns or groups have different budgets."""
    record_epsilon: NonNegative
    """Privacy budget of a whole record: the sum over its protected columns; the largest of the groups."""
    method: WhatIfMethod
    """The method that was really used; output-perturbation for a published model."""
    loss_change: OptionalNumber
    """Expected change of the mean test loss; positive is worse."""
    loss_change_low: OptionalNumber = None
    """5 % end of the prediction interval for one realised run."""
    loss_change_high: OptionalNumber = None
    """95 % end of the prediction interval for one realised run."""
    accuracy_change: OptionalNumber = None
    """Change of test accuracy as a share; negative is worse; null for a regression."""
    auc_change: OptionalNumber = None
    """Change of the area under the ROC curve; negative is worse; null for a regression."""
    loss_gap_change: OptionalNumber = None
    """Change of the difference in test loss between the group and everybody else."""
    accuracy_gap_change: OptionalNumber = None
    """Change of the difference in test accuracy between the group and everybody else."""
    trusted: Flag = True
    """Whether the checks of the approximation passed; for a network's head, of the head alone."""
    number_type: Literal["measured", "estimated"] | None = None
    """For the method curve: measured where models were trained, estimated where it is interpolated. Left out
    where one type holds for all cells."""
    group_epsilons: dict[StrictStr, NonNegative] | None = None
    """Privacy budget per protected column of each group, where groups were randomised at once."""


class OutcomeInterval(Part):
    """The 5-95 % prediction interval of accuracy, AUC or a gap for one cell.

    Examples
    --------
    >>> OutcomeInterval(group="all", epsilon=1.0, outcome="auc", low=-0.02, high=-0.01).outcome
    'auc'
    """

    group: StrictStr
    """The group of the cell."""
    epsilon: OptionalNonNegative
    """The privacy budget of the cell."""
    group_epsilons: dict[StrictStr, NonNegative] | None = None
    """Privacy budget of each group of the cell, where groups were randomised at once."""
    outcome: Literal["accuracy", "auc", "loss_gap", "accuracy_gap"]
    """Which outcome the interval is for."""
    low: OptionalNumber
    """5 % end of the change that one realised run shows."""
    high: OptionalNumber
    """95 % end of the change that one realised run shows."""


def cell_key(cell: WhatIfCell | OutcomeInterval) -> tuple[object, ...]:
    """Return what tells a cell, or the cell of an interval, from the others of its document.

    Examples
    --------
    >>> cell = WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact", loss_change=0.0)
    >>> cell_key(cell)
    ('all', 1.0)
    """
    return (cell.group, cell.epsilon, *(cell.group_epsilons or {}).items())


class WhatIfDocument(DocumentHead):
    """What privacy budgets would cost: one cell for each group and budget.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> document = example_document("whatif")
    >>> document.kind, len(document.cells)
    ('whatif', 2)
    """

    kind: Literal["whatif"] = "whatif"
    """The kind of document."""
    baseline: Baseline
    """The model before anything is randomised."""
    cells: list[WhatIfCell]
    """Groups in the given order, epsilon ascending."""
    intervals: list[OutcomeInterval] = Field(default_factory=list)
    """Prediction intervals of accuracy, AUC and gaps, where they were computed."""

    @property
    def body(self) -> str | None:
        """What was declared of a network's body: "public", "retrained" or "undeclared"; else None."""
        settings = self.provenance.settings
        if _OLD_BODY in settings:
            return "public" if settings[_OLD_BODY] else UNDECLARED
        if BODY not in settings:
            return None
        # What is not known counts as not declared.
        declared = settings[BODY]
        return declared if declared in ("public", "retrained") else UNDECLARED

    @property
    def is_about_privacy(self) -> bool:
        """Whether ε protects the answers: not in a network whose body may have learnt from them."""
        return self.body != UNDECLARED

    @property
    def is_about_head(self) -> bool:
        """Whether the numbers are about the last layer of a network, with its body frozen."""
        return self.body in {"public", UNDECLARED}

    @property
    def cost(self) -> WhatIfDocument:
        """The what-if itself, so that it is read as the decision that it may become."""
        return self

    @property
    def risk(self) -> None:
        """No attack was asked about."""
        return None

    def require_privacy(self) -> None:
        """Refuse to go on where ε protects nothing.

        Raises
        ------
        InputError
            If nothing was declared of the body of the network.
        """
        if not self.is_about_privacy:
            raise InputError(
                "no ε is stated for this network. Its body, the layers before the head, may have learnt from "
                "the true answers, and then gives them back. If it never saw them, write "
                'WhatIf(module, head=..., body="public"). Otherwise train all of it on randomised answers: '
                'WhatIf(module, body="retrained").'
            )

    def require_order(self) -> None:
        """Refuse to choose among cells that their least protected group does not tell apart.

        Raises
        ------
        InputError
            If groups have their own ε and two cells the same largest one.
        """
        largest = [cell.record_epsilon for cell in self.cells if cell.group_epsilons is not None]
        if len(set(largest)) < len(largest):
            raise InputError(
                "to choose among ε of several groups, each position of the lists needs another largest ε: "
                f"the advantage is that of the least protected group. Change {setting('epsilon')}."
            )

    def answered(self) -> WhatIfDocument:
        """Return what may be shown as an answer: cells that failed their checks without numbers.

        Examples
        --------
        >>> from epsilens.document import example_document
        >>> cell = WhatIfCell(group="all", epsilon=0.1, record_epsilon=0.1, method="influence",
        ...                   loss_change=-0.004, trusted=False)
        >>> document = example_document("whatif", cells=[cell])
        >>> print(document.answered().cells[0].loss_change)
        None
        """
        nothing = dict.fromkeys(COST_CHANGES)
        failed = {cell_key(cell) for cell in self.cells if not cell.trusted}
        cells = [cell if cell.trusted else cell.model_copy(update=nothing) for cell in self.cells]
        kept = [item for item in self.intervals if cell_key(item) not in failed]
        return self.model_copy(update={"cells": cells, "intervals": kept})


COST_CHANGES = (
    "loss_change",
    "loss_change_low",
    "loss_change_high",
    "accuracy_change",
    "auc_change",
    "loss_gap_change",
    "accuracy_gap_change",
)
"""The numbers of a cell that say what its budget costs."""


def whatif_number_types(*, retrained: bool, is_about_privacy: bool = True) -> dict[str, NumberType]:
    """Say which numbers of a what-if are proven, measured and estimated.

    The budgets are proven: randomised response gives them for every data set. The model's own
    quality on the test set is measured. What the budget would cost is measured when models were
    really trained again and estimated otherwise.

    Parameters
    ----------
    retrained : bool
        Whether the cells come from really training again.
    is_about_privacy : bool
        Whether the budgets protect anything; otherwise they are no proven numbers.

    Returns
    -------
    dict of str to {"proven", "measured", "estimated"}
        One entry per number of a `WhatIfCell`, of the `Baseline` and of the intervals.

    Examples
    --------
    >>> whatif_number_types(retrained=False)["loss_change"]
    'estimated'
    >>> whatif_number_types(retrained=True)["loss_change"]
    'measured'
    """
    budgets = ("epsilon", "record_epsilon", "group_epsilons") if is_about_privacy else ()
    types: dict[str, NumberType] = dict.fromkeys(budgets, "proven")
    types |= dict.fromkeys(("loss", "accuracy", "auc"), "measured")
    cost: NumberType = "measured" if retrained else "estimated"
    return types | dict.fromkeys((*COST_CHANGES, "intervals"), cost)

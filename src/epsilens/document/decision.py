# SPDX-License-Identifier: Apache-2.0
"""The document of a decision: cost and risk on one axis of budgets, and the one that is recommended."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictStr

from epsilens.document.numbers import Flag, OptionalNonNegative, OptionalNumber
from epsilens.document.parts import DocumentHead, Names, Part
from epsilens.document.risk import RiskDocument
from epsilens.document.whatif import WhatIfDocument

__all__ = ["DecisionDocument", "MaskingLever", "Recommendation"]


class Recommendation(Part):
    """The budget that the limits lead to, and why.

    Examples
    --------
    >>> Recommendation(epsilon=0.5, holds=True, sentence="ε = 0.5 is the most private choice.",
    ...                rule="max_loss_increase", confidence=0.9, max_loss_increase=0.01).epsilon
    0.5
    """

    epsilon: OptionalNonNegative
    """The recommended budget; null if no budget of the grid meets the limits."""
    holds: Flag
    """Whether the limits are met at the stated confidence, on numbers that can be trusted."""
    sentence: StrictStr
    """The recommendation in words."""
    rule: Literal["max_loss_increase", "max_attack_rate", "both"]
    """Which limits were set: the most private budget within a loss, the most accurate one under an
    attack rate, or the most private that meets both."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Of the two-sided interval whose upper end a limit is compared with."""
    max_loss_increase: OptionalNumber = None
    """The increase of the mean test loss that can be borne; null if none was set."""
    max_attack_rate: OptionalNumber = None
    """The share of answers that attackers may guess at most; null if none was set."""
    rests_on: Literal["proven", "measured"] | None = None
    """Whether the attack rate is met by a proven ceiling or by the upper end of what was measured."""
    least: OptionalNonNegative = None
    """The smallest budget that meets the limits; null if none does or none is set from below."""
    most: OptionalNonNegative = None
    """The largest budget that meets the limits; null if none does."""


class MaskingLever(Part):
    """The same risk at a larger budget if some columns go, and what that costs.

    Examples
    --------
    >>> MaskingLever(masked=["gait"], epsilon=1.0, epsilon_masked=1.6, attack_rate=0.8,
    ...     loss_increase=0.04, loss_increase_masked=0.03, is_larger=True, sentence="").masked
    ['gait']
    """

    masked: Names
    """The columns that would go."""
    epsilon: OptionalNonNegative
    """The recommended budget with all columns."""
    epsilon_masked: OptionalNonNegative
    """The largest budget of the grid that exposes no more without them; null if there is none."""
    attack_rate: OptionalNumber
    """The proven ceiling that both keep."""
    loss_increase: OptionalNumber
    """The largest increase of the test loss to be reckoned with, at the recommended budget."""
    loss_increase_masked: OptionalNumber
    """The same without the columns, against the model on all of them."""
    is_larger: Flag
    """Whether a larger budget exposes no more without the columns, by more than the noise of what is measured."""
    sentence: StrictStr
    """The lever in words, without the names of the columns."""


class DecisionDocument(DocumentHead):
    """What each budget costs and what it buys, for the same people and the same mechanism.

    Examples
    --------
    >>> from epsilens.document import (Baseline, Provenance, RiskCell, RiskDocument, WhatIfCell,
    ...                                WhatIfDocument)
    >>> origin = Provenance(method="exact")
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> cost = WhatIfDocument(provenance=origin, baseline=start, cells=[
    ...     WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                loss_change=0.02)])
    >>> risk = RiskDocument(provenance=origin, n_models=256, n_targets=75,
    ...     cells=[RiskCell(epsilon=1.0, mechanism="rr", record_epsilon=1.0)])
    >>> chosen = Recommendation(epsilon=1.0, holds=True, sentence="ε = 1.", rule="max_loss_increase",
    ...                         confidence=0.9)
    >>> DecisionDocument(provenance=origin, cost=cost, risk=risk, recommendation=chosen).kind
    'decision'
    """

    kind: Literal["decision"] = "decision"
    """The kind of document."""
    cost: WhatIfDocument
    """What each budget costs."""
    risk: RiskDocument
    """What attackers get at each budget."""
    recommendation: Recommendation
    """The budget that the limits lead to."""
    lever: MaskingLever | None = None
    """What masking columns would change; null if it was not asked."""

    def answered(self) -> DecisionDocument:
        """Return what may be shown as an answer: costs that failed their checks without numbers."""
        return self.model_copy(update={"cost": self.cost.answered()})

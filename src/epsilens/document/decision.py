# SPDX-License-Identifier: Apache-2.0
"""The document of a decision: cost and risk on one axis of budgets, and the one that is recommended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StrictStr

from epsilens.document.clauses import face_value_text, outcome_interval
from epsilens.document.parts import (
    Count,
    DocumentHead,
    Flag,
    Names,
    NonNegative,
    NumberType,
    OptionalNonNegative,
    OptionalNumber,
    Part,
)
from epsilens.document.risk import RiskCell, RiskDocument
from epsilens.document.whatif import COST_CHANGES, WhatIfCell, WhatIfDocument, WhatIfMethod
from epsilens.document.wording import (
    cost_type,
    epsilon_text,
    group_budgets_text,
    own_budget,
    whole_group,
)

MechanismName: TypeAlias = Literal[
    "randomised-response",
    "randomised-response-corrected",
    "noisy-descent",
    "output-perturbation",
    "dp-sgd",
    "dp-ebm",
    "synthetic-aim",
]
Trust: TypeAlias = Literal["nobody", "curator"]
Protects: TypeAlias = Literal["answer", "record"]
Rule: TypeAlias = Literal[
    "max_loss_increase", "max_accuracy_loss", "max_attack_rate", "max_advantage", "both"
]
RANDOMISED: frozenset[MechanismName] = frozenset(
    {"randomised-response", "randomised-response-corrected"}
)
"""Mechanisms that randomise answers before they are collected."""
ADDED: frozenset[MechanismName] = frozenset({"dp-sgd", "dp-ebm", "synthetic-aim"})
"""Mechanisms whose ε is about a record that is added or removed."""
ABOUT_ADDED = (
    "ε and δ are about a record that is added or removed, the advantage is about a replaced one."
)
"""What their numbers are about."""


TITLES: dict[MechanismName, str] = {
    "randomised-response": "randomised response",
    "randomised-response-corrected": "corrected randomised response",
    "noisy-descent": "noisy gradient descent",
    "output-perturbation": "output perturbation",
    "dp-sgd": "DP-SGD",
    "dp-ebm": "a private boosted additive model",
    "synthetic-aim": "a synthetic table by AIM",
}
"""Names of the mechanisms in sentences."""


EXPLANATIONS: dict[MechanismName, str] = {
    "randomised-response": "Each answer is replaced at random, with a known probability, before it is collected",
    "randomised-response-corrected": "Answers are replaced at random, and the training allows for that",
    "noisy-descent": "A linear model is trained in small steps, and noise is added to each step",
    "output-perturbation": "A linear model is trained, and noise is added to the finished model",
    "dp-sgd": "A network is trained on random samples, and noise is added to each step",
    "dp-ebm": "A sum of curves, one a column, is trained with noise",
    "synthetic-aim": "A table of invented people is drawn from noisy counts",
}
"""How the mechanisms work, in a sentence each."""


BETWEEN: tuple[float, ...] = (0.025, 0.05, 0.16, 0.35, 0.7, 1.4, 2.8, 5.6)
"""Budgets of fast mechanisms beside the usual ones, for limits that are moved in a report. Tables and labels leave
them out."""


def released_text(mechanism: MechanismName) -> str:
    """Say what a mechanism publishes.

    Examples
    --------
    >>> released_text("noisy-descent")
    'One model that was trained with noise. The table is not published'
    """
    if mechanism in RANDOMISED:
        return "The table with randomised answers, and any model of it"
    if mechanism == "synthetic-aim":
        return "A table of invented people, and any model of it. The true table is not published"
    return "One model that was trained with noise. The table is not published"


@dataclass(frozen=True)
class Point:
    """Cost and risk at one budget.

    Attributes
    ----------
    epsilon : float
        Budget per column, or of a whole record where the columns have different budgets.
    cost : WhatIfCell
        Cost for everybody.
    risk : RiskCell
    """

    epsilon: float
    cost: WhatIfCell
    risk: RiskCell


def risk_at(risk: RiskDocument, epsilon: float | None) -> RiskCell | None:
    """Return the cell of a risk at one budget; None if there is none.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> risk = example_document("risk", cells=[RiskCell(epsilon=2.0, mechanism="rr")])
    >>> risk_at(risk, 2.0).mechanism, risk_at(risk, 1.0)
    ('rr', None)
    """
    return next((cell for cell in risk.cells if own_budget(cell) == epsilon), None)


def joined_points(cost: WhatIfDocument, risk: RiskDocument) -> list[Point]:
    """Return everybody's cost and the risk at every budget that both have, ascending.

    Whether the two are of one question is not checked: `epsilens.decision.question.join` does that.

    Parameters
    ----------
    cost : WhatIfDocument
    risk : RiskDocument

    Returns
    -------
    list of Point

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> cost = example_document("whatif", cells=[
    ...     WhatIfCell(group="all", epsilon=epsilon, record_epsilon=epsilon, method="exact",
    ...                loss_change=0.02) for epsilon in (1.0, 2.0)])
    >>> risk = example_document("risk", cells=[RiskCell(epsilon=2.0, mechanism="rr")])
    >>> [point.epsilon for point in joined_points(cost, risk)]
    [2.0]
    """
    group = whole_group(cost)
    costs = {own_budget(cell): cell for cell in cost.cells if cell.group == group}
    points = [
        Point(at, costs[at], cell) for cell in risk.cells if (at := own_budget(cell)) in costs
    ]
    return sorted(points, key=lambda point: point.epsilon)


class Recommendation(Part):
    """The budget that the limits lead to, and why.

    Examples
    --------
    >>> Recommendation(epsilon=0.18, holds=True, sentence="Use ε = 0.18.", rule="max_advantage",
    ...                confidence=0.9, max_advantage=0.1, is_default=True).epsilon
    0.18
    """

    mechanism: MechanismName = "randomised-response"
    """The recommended mechanism."""
    trust: Trust = "nobody"
    """Who must be trusted with the true answers for this mechanism. Nobody: answers can be randomised
    before they are collected. Curator: somebody holds the true answers and protects what leaves."""
    protects: Protects = "answer"
    """What the guarantee covers: the protected answers of a person, or the whole record."""
    epsilon: OptionalNonNegative
    """The recommended budget; null if no budget of the grid meets the limits. Where groups have their own,
    that of the least protected record."""
    group_epsilons: dict[StrictStr, NonNegative] | None = None
    """The recommended budget per protected column of each group, where groups have their own."""
    delta: NonNegative = 0.0
    """The delta of the guarantee; 0 for randomised response."""
    holds: Flag
    """Whether the limits are met at the stated confidence, on numbers that can be trusted."""
    sentence: StrictStr
    """The recommendation in words."""
    details: list[StrictStr] = Field(default_factory=list)
    """Further sentences: the limits, the range of the cost, what is proven and what was measured."""
    command: StrictStr | None = None
    """Command that makes the protected release; null if nothing is recommended."""
    rule: Rule
    """Which limits were set: the smallest advantage within a cost, the lowest cost within an attack rate or
    an advantage, or, with one of each kind (both), the smallest advantage that meets both."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Confidence level of the two-sided interval whose upper end is compared with a limit."""
    advantage: OptionalNumber = None
    """Proven advantage at the recommended budget; null if there is none."""
    attack_rate_ceiling: OptionalNumber = None
    """Largest share of answers that any attack can guess at the recommended budget, proven given b."""
    max_loss_increase: OptionalNumber = None
    """Largest acceptable increase of the mean test loss; null if none was set."""
    max_accuracy_loss: OptionalNumber = None
    """Largest acceptable loss of test accuracy in percentage points; null if none was set."""
    max_attack_rate: OptionalNumber = None
    """Largest share of answers that attackers may guess; null if none was set."""
    max_advantage: OptionalNumber = None
    """Largest acceptable advantage; null if none was set."""
    is_default: Flag = False
    """Whether the limit is the default of epsilens: no limit was given."""
    rests_on: Literal["proven", "measured"] | None = None
    """Whether the attack rate is met by a proven ceiling or by the upper end of what was measured."""
    least: OptionalNonNegative = None
    """The smallest budget that meets the limits; null if none does or none is set from below."""
    most: OptionalNonNegative = None
    """The largest budget that meets the limits; null if none does."""
    no_cost_from: OptionalNonNegative = None
    """Smallest budget from which on no cost is measurable: there and at every larger one the interval of
    the loss change reaches 0 and the expected change is at most a hundredth of the loss before, or the
    upper end is at most a thousandth of it."""
    proof_up_to: OptionalNonNegative = None
    """Largest budget up to which something is proven: there and at every smaller one the advantage is at
    most 0.8, so that one in five of the answers that other data do not give away stays hidden."""


class Alternative(Recommendation):
    """Another answer to the same question, and why it is not the recommended one.

    Examples
    --------
    >>> Alternative(epsilon=0.5, holds=True, sentence="Use ε = 0.5.", rule="max_advantage",
    ...             confidence=0.9, reason="It costs more.").reason
    'It costs more.'
    """

    reason: StrictStr
    """Why it is not recommended."""


def answer_title(answer: Recommendation) -> str:
    """Name the mechanism of an answer, with its budget where it has one.

    Examples
    --------
    >>> answer_title(Recommendation(epsilon=1.0, holds=True, sentence="", rule="max_advantage",
    ...                             confidence=0.9))
    'randomised response at ε = 1'
    """
    at = "" if answer.epsilon is None else f" at ε = {epsilon_text(answer.epsilon)}"
    if answer.group_epsilons is not None:
        at = f" at {group_budgets_text(answer.group_epsilons, ' ε = ')}"
    return f"{TITLES[answer.mechanism]}{at}"


class MechanismCell(Part):
    """What one budget of a mechanism costs, and what it proves.

    Examples
    --------
    >>> MechanismCell(epsilon=1.0, record_epsilon=1.0, delta=0.0, advantage=0.462, loss_change=0.02,
    ...               method="exact").advantage
    0.462
    """

    epsilon: OptionalNonNegative
    """Privacy budget: per protected column for randomised response (null when the columns differ), else of
    a whole record."""
    record_epsilon: OptionalNonNegative = None
    """For randomised response, the sum over the protected columns."""
    delta: NonNegative = 0.0
    """The delta of the guarantee; 0 for randomised response."""
    advantage: OptionalNumber
    """Proven advantage of an attacker: of the answers that the rest of the data do not give away, at most
    this share becomes guessable."""
    mu: OptionalNumber = None
    """μ of Gaussian differential privacy, about the same answer or record as the advantage; null where the
    mechanism is not Gaussian."""
    tpr_ceiling_at_fpr_0_01: OptionalNumber = None
    """Largest share of true alarms of any attacker with one false alarm in a hundred, proven. The alarm is that
    a person gave one answer (or was one record) and not another, never that the person took part."""
    tpr_ceiling_at_fpr_0_001: OptionalNumber = None
    """The same with one false alarm in a thousand."""
    attack_rate_ceiling: OptionalNumber = None
    """Largest share of answers that any attack can guess, proven given b."""
    loss_change: OptionalNumber
    """Expected change of the mean test loss; positive is worse."""
    loss_change_low: OptionalNumber = None
    """5 % end of the prediction interval for one realised run."""
    loss_change_high: OptionalNumber = None
    """95 % end of the prediction interval for one realised run."""
    accuracy_change: OptionalNumber = None
    """Change of test accuracy as a share; negative is worse; null for a regression."""
    accuracy_change_low: OptionalNumber = None
    """5 % end of the prediction interval of that change for one realised run."""
    accuracy_change_high: OptionalNumber = None
    """95 % end of the prediction interval of that change for one realised run."""
    auc_change: OptionalNumber = None
    """Change of the area under the ROC curve; negative is worse; null for a regression."""
    method: WhatIfMethod | Literal["simulation"]
    """How the cost was found; simulation: by private trainings with seeded noise."""
    trusted: Flag = True
    """Whether the checks of the approximation passed."""
    group_epsilons: dict[StrictStr, NonNegative] | None = None
    """Privacy budget per protected column of each group, where groups were randomised at once."""

    @property
    def mistakes(self) -> int | None:
        """The further wrong predictions in 1,000; None if they are not known."""
        if not self.trusted or self.accuracy_change is None:
            return None
        return round(-1000 * self.accuracy_change)

    @property
    def budget(self) -> float | None:
        """The budget that the cell is found by: of a record where columns or groups differ."""
        by_record = self.epsilon is None or self.group_epsilons is not None
        return self.record_epsilon if by_record else self.epsilon


class AuditCheck(Part):
    """What one attack on a mechanism proved, beside what was claimed.

    Examples
    --------
    >>> AuditCheck(kind="many-runs", protects="answer", epsilon=1.0, delta=1e-5, epsilon_lower_bound=0.2,
    ...            advantage=0.09, advantage_lower_bound=0.06, n_runs=2000).is_broken
    False
    """

    kind: Literal["one-run", "many-runs"]
    """One run with many canaries, or many runs on two tables that differ in one record."""
    protects: Protects
    """The claim: an answer, or a whole record."""
    epsilon: NonNegative
    """The claimed epsilon, for the neighbours that the mechanism means by it."""
    delta: NonNegative
    """Its delta."""
    epsilon_lower_bound: NonNegative
    """With the stated confidence epsilon is at least this."""
    advantage: OptionalNumber = None
    """The claimed advantage; null where it was not attacked."""
    advantage_lower_bound: OptionalNumber = None
    """With the stated confidence the advantage is at least this; null where it was not attacked."""
    n_runs: Count
    """How many runs there were: all, or the canaries of a single one."""

    @property
    def is_broken(self) -> bool:
        """Whether the claim is refuted: the advantage where it was attacked, else epsilon."""
        if self.advantage is None or self.advantage_lower_bound is None:
            return self.epsilon_lower_bound > self.epsilon
        return self.advantage_lower_bound > self.advantage


class MechanismAudit(Part):
    """What our own attacks on a mechanism found, on small tables made for it.

    Examples
    --------
    >>> MechanismAudit(library="interpret-core 0.7.8", neighbours="added or removed", confidence=0.95,
    ...                checks=[]).sentence
    'No breach found: none of 0 attacks on this mechanism (interpret-core 0.7.8) proved more than is claimed (a test, no proof).'
    """

    library: StrictStr
    """What was attacked, with its version."""
    neighbours: Literal["added or removed", "replaced"]
    """The neighbouring tables that epsilon is about: a record is added or removed, or replaced."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """How often all bounds together are right."""
    checks: list[AuditCheck]
    """The attacks."""

    @property
    def is_broken(self) -> bool:
        """Whether a claim is refuted."""
        return any(check.is_broken for check in self.checks)

    @property
    def sentence(self) -> str:
        """The result in words."""
        n_broken = sum(check.is_broken for check in self.checks)
        if n_broken:
            return f"A claim is broken: {n_broken} of {len(self.checks)} attacks on this mechanism ({self.library}) proved more than is claimed."
        return (
            f"No breach found: none of {len(self.checks)} attacks on this mechanism ({self.library}) proved more "
            "than is claimed (a test, no proof)."
        )


class MechanismCurve(Part):
    """What the budgets of one mechanism cost and prove.

    Examples
    --------
    >>> MechanismCurve(mechanism="randomised-response", trust="nobody", protects="answer",
    ...                cells=[]).mechanism
    'randomised-response'
    """

    mechanism: MechanismName
    """The mechanism."""
    trust: Trust
    """Who must be trusted with the true answers."""
    protects: Protects
    """What the guarantee covers."""
    cells: list[MechanismCell]
    """Epsilon ascending."""
    audit: MechanismAudit | None = None
    """What our own audit of the mechanism found; null if there was none."""

    @classmethod
    def of_randomised_response(cls, cost: WhatIfDocument, risk: RiskDocument) -> MechanismCurve:
        """Return the budgets that both a cost of everybody and a risk have been asked about."""
        return cls(
            mechanism=randomising_mechanism(cost),
            trust="nobody",
            protects="answer",
            cells=[
                MechanismCell(
                    advantage=point.risk.advantage,
                    tpr_ceiling_at_fpr_0_01=point.risk.tpr_ceiling_at_fpr_0_01,
                    tpr_ceiling_at_fpr_0_001=point.risk.tpr_ceiling_at_fpr_0_001,
                    attack_rate_ceiling=point.risk.answer_inference_ceiling,
                    **point.cost.model_dump(include=_SHARED_WITH_COST),
                    **_accuracy_ends(cost, point.cost),
                )
                for point in joined_points(cost, risk)
            ],
        )

    def listed(self, chosen: Recommendation) -> list[MechanismCell]:
        """Return the cells that are written out: not those at `BETWEEN`, but what is recommended."""
        if not {cell.budget for cell in self.cells}.issuperset(BETWEEN):
            return self.cells
        own = chosen.epsilon if chosen.mechanism == self.mechanism else None
        return [cell for cell in self.cells if cell.budget == own or cell.budget not in BETWEEN]

    def answered(self) -> MechanismCurve:
        """Return what may be shown as an answer: cells that failed their checks without costs."""
        ends = ("accuracy_change_low", "accuracy_change_high")
        nothing = dict.fromkeys([*_SHARED_WITH_COST.intersection(COST_CHANGES), *ends])
        cells = [cell if cell.trusted else cell.model_copy(update=nothing) for cell in self.cells]
        return self.model_copy(update={"cells": cells})


def randomising_mechanism(cost: WhatIfDocument) -> MechanismName:
    """Name the mechanism of a cost: randomised response without or with forward correction."""
    is_corrected = cost.provenance.settings.get("correction") == "forward"
    return "randomised-response-corrected" if is_corrected else "randomised-response"


_SHARED_WITH_COST = set(MechanismCell.model_fields) & set(WhatIfCell.model_fields)


def _accuracy_ends(cost: WhatIfDocument, cell: WhatIfCell) -> dict[str, Any]:
    """Return the interval of the accuracy of one realised run, where there is one."""
    found = outcome_interval(cost, cell, "accuracy")
    if found is None:
        return {}
    return {"accuracy_change_low": found.low, "accuracy_change_high": found.high}


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
    >>> from epsilens.document import example_document
    >>> decision = example_document("decision")
    >>> decision.recommendation.mechanism, decision.recommendation.epsilon
    ('randomised-response', 1.0)
    """

    kind: Literal["decision"] = "decision"
    """The kind of document."""
    cost: WhatIfDocument
    """What each budget costs."""
    risk: RiskDocument
    """What attackers get at each budget."""
    recommendation: Recommendation
    """The mechanism and the budget that the limits lead to."""
    alternatives: list[Alternative] = Field(default_factory=list)
    """Other answers, the best first, each with the reason why it is not recommended."""
    mechanisms: list[MechanismCurve] = Field(default_factory=list)
    """Every mechanism that was compared."""
    lever: MaskingLever | None = None
    """What masking columns would change; null if it was not asked."""

    @property
    def is_comparison(self) -> bool:
        """Whether other mechanisms than the randomised response of `cost` were compared."""
        return any(curve.mechanism != randomising_mechanism(self.cost) for curve in self.mechanisms)

    @property
    def randomised(self) -> Recommendation:
        """The answer of randomised response, whose budgets are those of `cost` and `risk`."""
        own = randomising_mechanism(self.cost)
        answers = [self.recommendation, *self.alternatives]
        return next((one for one in answers if one.mechanism == own), self.recommendation)

    def chosen_cell(self) -> MechanismCell | None:
        """Return what the recommended budget costs and proves; None without one."""
        chosen = self.recommendation
        curves = [curve for curve in self.mechanisms if curve.mechanism == chosen.mechanism]
        if not curves and chosen.mechanism in RANDOMISED:
            curves = [MechanismCurve.of_randomised_response(self.cost, self.risk)]
        cells = (cell for curve in curves for cell in curve.cells)
        return next((cell for cell in cells if cell.budget == chosen.epsilon), None)

    def cost_type_at(self, mechanism: MechanismName, cell: MechanismCell | None) -> NumberType:
        """Say whether the cost of one budget of a mechanism was estimated or measured."""
        if cell is not None and mechanism == randomising_mechanism(self.cost):
            group = whole_group(self.cost)
            own = (one for one in self.cost.cells if one.group == group)
            at = next((one for one in own if own_budget(one) == cell.budget), None)
            return cost_type(self.cost, at)
        return "measured" if cell is not None and cell.method == "retrain" else "estimated"

    def chosen_cost_type(self) -> NumberType:
        """Say whether the cost of the recommended budget was estimated or measured."""
        return self.cost_type_at(self.recommendation.mechanism, self.chosen_cell())

    def face_value(self) -> str | None:
        """Say how often a randomised answer is the true one where that is recommended; else None."""
        if self.recommendation.mechanism not in RANDOMISED:
            return None
        cell = risk_at(self.risk, self.recommendation.epsilon)
        return None if cell is None else face_value_text(self.risk, cell)

    def answered(self) -> DecisionDocument:
        """Return what may be shown as an answer: costs that failed their checks without numbers."""
        shown = [curve.answered() for curve in self.mechanisms]
        return self.model_copy(update={"cost": self.cost.answered(), "mechanisms": shown})

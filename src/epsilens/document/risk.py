# SPDX-License-Identifier: Apache-2.0
"""The document of a risk: what an attacker gets at each privacy budget, its floor and its ceiling."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import Field, model_validator

from epsilens.document.parts import (
    Baseline,
    Count,
    DocumentHead,
    Names,
    NonNegative,
    NumberType,
    OptionalNonNegative,
    OptionalNumber,
    Part,
)

RiskMechanism: TypeAlias = Literal["rr", "dpsgd"]


CELL_WORDS = ("mechanism", "attack_method", "envelope_method")
"""Fields of a cell that are words, not numbers."""


class RiskCell(Part):
    """What an attacker gets at one privacy budget.

    Examples
    --------
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", record_epsilon=1.0, answer_inference_rate=0.72,
    ...                 answer_inference_low=0.71, answer_inference_high=0.73,
    ...                 advantage=0.462, answer_inference_baseline=0.717,
    ...                 answer_inference_baseline_high=0.728, answer_inference_ceiling=0.854)
    >>> cell.answer_inference_ceiling
    0.854
    """

    epsilon: OptionalNonNegative
    """Privacy budget: per protected column for rr (null when the columns differ), of a whole record
    for dpsgd."""
    mechanism: RiskMechanism
    """What protects: randomised response (rr) or noisy training (dpsgd). Their budgets are of
    different things and are never compared."""
    record_epsilon: OptionalNonNegative = None
    """For rr, the sum over the protected columns."""
    delta: OptionalNumber = None
    """For dpsgd, the delta of the guarantee."""
    advantage: OptionalNumber = None
    """The largest total variation distance between what two sets of protected answers of one person lead to:
    of the answers that the rest of the data do not give away, at most this share becomes guessable. For
    dpsgd, between what two records of a person lead to (a replaced record)."""
    tpr_ceiling_at_fpr_0_01: OptionalNumber = None
    """Largest share of true alarms of any attacker with one false alarm in a hundred. For rr the alarm is about
    the answers: whoever holds the randomised answers of a person takes one set of true answers for another.
    For dpsgd it is about membership, as tpr_at_fpr_0_01 is: a record was there, or not."""
    tpr_ceiling_at_fpr_0_001: OptionalNumber = None
    """The same with one false alarm in a thousand."""
    answer_inference_rate: OptionalNumber = None
    """How often the attack guesses all protected answers of a person in the training data."""
    answer_inference_low: OptionalNumber = None
    """5 % end of that rate for one realised release."""
    answer_inference_high: OptionalNumber = None
    """95 % end of that rate for one realised release."""
    answer_inference_unseen: OptionalNumber = None
    """The same kind of attack, with the same models, on people outside their training data."""
    holder_rate: OptionalNumber = None
    """How often whoever holds the randomised answers, and knows everybody else's data, guesses all true
    answers of a person; null if it was not measured."""
    holder_rate_low: OptionalNumber = None
    """5 % end of that rate for one realised release."""
    holder_rate_high: OptionalNumber = None
    """95 % end of that rate for one realised release."""
    answer_inference_baseline: OptionalNumber = None
    """How often a person's protected answers are guessed from everybody else's data: by the most common
    answer, by the published model, or by models that predict the answers from all other columns,
    whichever is best. The same at every budget."""
    answer_inference_baseline_high: OptionalNumber = None
    """Upper confidence bound of that rate (one-sided, 95 % for all predictors together)."""
    answer_inference_ceiling: OptionalNumber = None
    """The most that any attack can reach with the person's own randomised answers, given that
    everybody else's data give away no more than the upper bound b of the baseline: the smaller of
    b + (1 - b) advantage and e^epsilon b / (e^epsilon b + 1 - b), epsilon that of the record."""
    asr_max: OptionalNumber = None
    """Membership attack: the success rate on the most exposed record."""
    asr_max_null_q95: OptionalNumber = None
    """What that maximum stays below in 95 of 100 useless attacks: its noise floor."""
    asr_max_lower_bound: OptionalNumber = None
    """With 95 % confidence the attack succeeds on some record at least this often."""
    asr_max_p_value: OptionalNumber = None
    """How often a useless attack reaches the maximum by chance."""
    asr_mean: OptionalNumber = None
    """Membership attack: mean success rate over the records."""
    asr_mean_lower_bound: OptionalNumber = None
    """With 95 % confidence the mean success rate over the records is at least this."""
    asr_ceiling: OptionalNumber = None
    """For dpsgd, the success rate that no membership attack can exceed; null for rr, which does
    not hide membership."""
    tpr_at_fpr_0_001: OptionalNumber = None
    """Share of members found with one false alarm in a thousand."""
    tpr_at_fpr_0_01: OptionalNumber = None
    """Share of members found with one false alarm in a hundred."""
    attack_method: str | None = None
    """Method of the membership attack that was chosen beforehand, by the numbers of models and records
    alone. The numbers above are those of the likelihood ratio of the paper."""
    attack_tpr_at_fpr_0_01: OptionalNumber = None
    """Share of members found by that method with one false alarm in a hundred."""
    envelope_method: str | None = None
    """The membership attack that found most members, of all that were tried."""
    envelope_tpr_at_fpr_0_01: OptionalNumber = None
    """Share of members that it finds with one false alarm in a hundred."""
    envelope_tpr_low: OptionalNumber = None
    """Lower end of the 95 % interval of that share, which allows for the choice among the attacks."""
    envelope_tpr_high: OptionalNumber = None
    """Upper end of that interval."""
    envelope_p_value: OptionalNumber = None
    """How often useless attacks find so many members among their surest guesses by chance, corrected for
    the number of attacks."""
    envelope_records: Count | None = None
    """Number of records on which the attacks were compared, drawn at random where there are more. Shares and
    interval are about these."""
    epsilon_lower_bound: OptionalNonNegative = None
    """For dpsgd, the privacy level that the attack refutes everything below of; null for rr."""
    accuracy: OptionalNumber = None
    """Mean test accuracy of the shadow models, which train on half of the records."""
    noise_multiplier: OptionalNumber = None
    """For dpsgd, the standard deviation of the noise in units of the clipping bound."""
    group_epsilons: dict[str, NonNegative] | None = None
    """Privacy budget per protected column of each group, where every group has its own; the other budgets
    are then those of the least protected, and so are the advantage and the ceiling."""

    def measured_high(self, trust: str) -> float | None:
        """Return the most that the attacks which were tried may reach in one release.

        Where nobody is trusted, whoever collects the randomised answers is an attacker too.

        Parameters
        ----------
        trust : {"nobody", "curator"}

        Returns
        -------
        float or None
            None where the published model was not attacked.
        """
        if self.answer_inference_high is None or trust == "curator":
            return self.answer_inference_high
        return max(self.answer_inference_high, self.holder_rate_high or 0.0)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.epsilon is None and self.record_epsilon is None:
            raise ValueError("a cell needs epsilon or record_epsilon")
        return self


class GroupRiskCell(RiskCell):
    """What an attacker gets of a group of people at one privacy budget, where everybody is protected.

    Numbers about membership are null where the group has too few records: 30 for the mean success rate, 100 for the
    share of members found. Their bounds hold for all groups at once. No number is about a single record, but the
    difference of two groups that differ in one record is: do not publish such groups together.

    Examples
    --------
    >>> cell = GroupRiskCell(group="women", n_people=40, epsilon=1.0, mechanism="rr",
    ...                      answer_inference_rate=0.72)
    >>> cell.group, cell.n_people
    ('women', 40)
    """

    group: str
    """Name of the group."""
    n_people: Count
    """Number of training records in the group."""
    n_attacked: Count | None = None
    """Number of the group's records whose membership was attacked; null where it was not."""
    asr_mean_excess: OptionalNumber = None
    """Mean success rate of the membership attack on the group, less that on all other records."""
    asr_mean_excess_lower_bound: OptionalNumber = None
    """With 95 % confidence, for all groups at once, that difference is at least this."""
    tpr_at_fpr_0_01_low: OptionalNumber = None
    """Lower end of the share of members found at one false alarm in a hundred, for all groups at once."""
    tpr_at_fpr_0_01_high: OptionalNumber = None
    """Upper end of that share, for all groups at once."""


class EquivalentEpsilon(Part):
    """The budget at which another table is as exposed as this one (P5).

    Examples
    --------
    >>> EquivalentEpsilon(epsilon=1.0, equivalent=3.9, low=1.2, high=10.0).equivalent
    3.9
    """

    epsilon: OptionalNonNegative
    """The budget on this table."""
    equivalent: OptionalNonNegative
    """The budget on the other table with the same success rate on its most exposed record; null
    outside its grid."""
    low: OptionalNonNegative
    """Smallest budget of the other grid that the confidence intervals do not rule out; null if all
    are ruled out."""
    high: OptionalNonNegative
    """Largest budget of the other grid that the confidence intervals do not rule out."""


class RiskDocument(DocumentHead):
    """What attackers get at each privacy budget: measured, with its noise floor and its ceiling.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> risk = example_document("risk")
    >>> risk.kind, len(risk.cells)
    ('risk', 2)
    """

    kind: Literal["risk"] = "risk"
    """The kind of document."""

    @property
    def is_together(self) -> bool:
        """Whether every group is randomised at its own budget."""
        return any(cell.group_epsilons is not None for cell in self.cells)

    baseline: Baseline | None = None
    """The model on all training records, without any privacy."""
    n_models: Count
    """How many shadow models were trained for every budget."""
    n_targets: Count
    """How many records' membership was attacked."""
    protect: Names = Field(default_factory=list)
    """The protected columns; empty for dpsgd, which protects whole records."""
    n_answers: list[Count] = Field(default_factory=list)
    """Number of possible answers of each protected column; empty for dpsgd, or where it is not known."""
    cells: list[RiskCell]
    """Epsilon ascending. Of everybody."""
    group_cells: list[GroupRiskCell] = Field(default_factory=list)
    """The guesses of answers and the recognition of members in each group of people, where everybody is
    protected; the baseline and the ceiling are those of the group."""
    equivalent_epsilon: list[EquivalentEpsilon] = Field(default_factory=list)
    """Where two tables are compared: the budget of the other that exposes as much."""


_NO_NUMBERS = ("mechanism", "group", "n_people", "n_attacked", "envelope_records")


def risk_number_types() -> dict[str, NumberType]:
    """Say which numbers of a risk are proven, measured and estimated.

    Budgets, advantage and the ceiling of membership hold by proof; so does the privacy level that an
    attack refutes, at its confidence. The ceiling of an answer holds by proof given b, the upper bound
    of what everybody else's data give away. Attack rates and b are measured.

    Examples
    --------
    >>> risk_number_types()["answer_inference_ceiling"], risk_number_types()["asr_max"]
    ('proven given b', 'measured')
    """
    proven = (
        "epsilon",
        "record_epsilon",
        "group_epsilons",
        "delta",
        "advantage",
        "asr_ceiling",
        "tpr_ceiling_at_fpr_0_01",
        "tpr_ceiling_at_fpr_0_001",
        "epsilon_lower_bound",
        "asr_max_null_q95",
        "noise_multiplier",
    )
    types: dict[str, NumberType] = dict.fromkeys(proven, "proven")
    words = (*CELL_WORDS, *_NO_NUMBERS)
    measured = tuple(name for name in GroupRiskCell.model_fields if name not in (*proven, *words))
    types |= dict.fromkeys((*measured, "loss", "auc"), "measured")
    types["answer_inference_ceiling"] = "proven given b"
    types["equivalent_epsilon"] = "estimated"
    return types

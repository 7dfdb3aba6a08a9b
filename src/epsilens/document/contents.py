# SPDX-License-Identifier: Apache-2.0
"""The documents themselves: one frozen model for each kind of result.

Every result of the package is written as one of these, and the terminal, the report and the page
show nothing that is not in one. No document contains a record. The descriptions below are also
the descriptions in the JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, StrictStr, model_validator

from epsilens.document.numbers import (
    Budget,
    Count,
    Flag,
    OptionalBudget,
    OptionalNumber,
    plain_value,
)
from epsilens.document.parts import Baseline, DocumentHead, Names, Part, as_list, check_ends

__all__ = [
    "AuditDocument",
    "AuditMethod",
    "ColumnKind",
    "InspectColumn",
    "InspectDocument",
    "OutcomeInterval",
    "ReleaseDocument",
    "ValueDocument",
    "ValuePoint",
    "WhatIfCell",
    "WhatIfDocument",
    "WhatIfMethod",
]

WhatIfMethod: TypeAlias = Literal[
    "influence", "newton", "exact", "retrain", "paper", "output-perturbation"
]
AuditMethod: TypeAlias = Literal["pure", "approximate", "f-dp", "independent-gdp"]
ColumnKind: TypeAlias = Literal["numeric", "categorical", "binary", "constant", "identifier"]


def _as_category_names(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    return [str(plain_value(item)) for item in value]


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
    epsilon: OptionalBudget
    """Privacy budget per protected column; null when the columns have different budgets."""
    record_epsilon: Budget
    """Privacy budget of a whole record: the sum over its protected columns."""
    method: WhatIfMethod
    """The rung of the ladder that was really used; output-perturbation for a published model."""
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
    """Whether the checks of the approximation passed."""

    @model_validator(mode="after")
    def _interval_is_ordered(self) -> Self:
        check_ends(self, "loss_change")
        return self


class OutcomeInterval(Part):
    """The 5-95 % prediction interval of accuracy, AUC or a gap for one cell.

    Examples
    --------
    >>> OutcomeInterval(group="all", epsilon=1.0, outcome="auc", low=-0.02, high=-0.01).outcome
    'auc'
    """

    group: StrictStr
    """The group of the cell."""
    epsilon: OptionalBudget
    """The privacy budget of the cell."""
    outcome: Literal["accuracy", "auc", "loss_gap", "accuracy_gap"]
    """Which outcome the interval is for."""
    low: OptionalNumber
    """5 % end of the change that one realised run shows."""
    high: OptionalNumber
    """95 % end of the change that one realised run shows."""


class WhatIfDocument(DocumentHead):
    """What privacy budgets would cost: one cell for each group and budget.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance
    >>> document = WhatIfDocument(
    ...     provenance=Provenance(method="exact"),
    ...     baseline=Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25,
    ...                       n_parameters=3),
    ...     cells=[WhatIfCell(group="all", epsilon=1.0, record_epsilon=1.0, method="exact",
    ...                       loss_change=0.02)])
    >>> document.kind, len(document.cells)
    ('whatif', 1)
    """

    kind: Literal["whatif"] = "whatif"
    """The kind of document."""
    baseline: Baseline
    """The model before anything is randomised."""
    cells: Annotated[list[WhatIfCell], BeforeValidator(as_list)]
    """Groups in the given order, epsilon ascending."""
    intervals: Annotated[list[OutcomeInterval], BeforeValidator(as_list)] = Field(
        default_factory=list
    )
    """Prediction intervals of accuracy and AUC, where they were computed."""


class ReleaseDocument(DocumentHead):
    """The receipt of a release: what was randomised and how much budget was spent.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> receipt = ReleaseDocument(provenance=Provenance(method="randomised response"),
    ...     columns=["smokes"], epsilon={"smokes": 1.0}, record_epsilon=1.0, rows=100,
    ...     simulated=False, mechanism="randomised response")
    >>> receipt.record_epsilon
    1.0
    """

    kind: Literal["release"] = "release"
    """The kind of document."""
    columns: Names
    """The columns that were randomised."""
    epsilon: dict[StrictStr, Budget]
    """The budget spent on each randomised column."""
    record_epsilon: Budget
    """The budget spent on a whole record: the sum over the columns."""
    rows: Count
    """How many records were released."""
    simulated: Flag
    """Whether a seed was given: then this is a simulation and protects nobody."""
    mechanism: StrictStr
    """The mechanism that randomised the values."""


class InspectColumn(Part):
    """One column of a table: what it is and whether it can be protected.

    Examples
    --------
    >>> InspectColumn(name="smokes", kind="binary", n_distinct=2, n_missing=0,
    ...               protectable=True, categories=["no", "yes"]).protectable
    True
    """

    name: StrictStr
    """The name of the column."""
    kind: ColumnKind
    """What the column is taken for."""
    n_distinct: Count
    """How many different values it has, missing values not counted."""
    n_missing: Count
    """How many values are missing."""
    protectable: Flag
    """Whether randomised response can protect it as it is."""
    categories: Annotated[list[str], BeforeValidator(_as_category_names)] | None = None
    """The names of its categories where they are few; null otherwise."""
    note: StrictStr | None = None
    """What the reader should know about the column."""


class InspectDocument(DocumentHead):
    """What a table contains and what of it can be protected.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> InspectDocument(provenance=Provenance(method="inspect"), rows=0, columns=[]).kind
    'inspect'
    """

    kind: Literal["inspect"] = "inspect"
    """The kind of document."""
    rows: Count
    """How many rows the table has."""
    columns: Annotated[list[InspectColumn], BeforeValidator(as_list)]
    """The columns in the order of the table."""
    suggestion: StrictStr | None = None
    """A command to go on with, ready for the shell; null when none suggests itself."""


class ValuePoint(Part):
    """What the test loss does when a share of the records is dropped, or added, in some order.

    Examples
    --------
    >>> ValuePoint(order="score", share=0.1, n_records=50, loss_change=-0.01).order
    'score'
    """

    order: Literal["score", "training loss", "random"]
    """Worst (or best) score first, largest (or smallest) loss of the model first, or at random."""
    share: OptionalNumber
    """The share of the training records that is dropped, or of the candidates that is added."""
    n_records: Count
    """How many records that are."""
    loss_change: OptionalNumber
    """Change of the test loss, measured by training again; null where no model can be trained."""
    standard_error: OptionalNumber = None
    """Of the mean over random orders, or for the other orders over test records; null if unknown."""


class ValueDocument(DocumentHead):
    """What records are worth to a model: a summary. The scores themselves are in a local file.

    Examples
    --------
    >>> from epsilens.document import Baseline, Provenance
    >>> start = Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3)
    >>> document = ValueDocument(provenance=Provenance(method="exact"), baseline=start,
    ...     scored="training", n=75, mean=1e-4, harmful=30, total=7.5e-3)
    >>> document.kind, document.harmful
    ('value', 30)
    """

    kind: Literal["value"] = "value"
    """The kind of document."""
    baseline: Baseline
    """The model that the records are worth something to."""
    scored: Literal["training", "candidates"]
    """Whether training records were left out one by one, or candidates added one by one."""
    n: Count
    """How many records were scored."""
    mean: OptionalNumber
    """Mean score: how much the test loss rises without one record (or falls with it)."""
    harmful: Count
    """How many scores are below zero."""
    total: OptionalNumber
    """Sum of the scores."""
    clearly_harmful: Count | None = None
    """How many are below zero by more than two standard errors of the test set."""
    batch_factor: OptionalNumber = None
    """How much the candidates' sum is expected to overstate their worth together; else null."""
    measured_batch_factor: OptionalNumber = None
    """The sum over the fall of the test loss when all are really added; null if that is not known,
    is within two standard errors of zero, or differs from the sum in sign."""
    paid: OptionalNumber = None
    """What was divided among helpful records, 0 if no record helps; null if none was asked for."""
    curve: Annotated[list[ValuePoint], BeforeValidator(as_list)] = Field(default_factory=list)
    """Models trained again without the worst records, or with the best candidates."""


class AuditDocument(DocumentHead):
    """What one run of a mechanism proves about its privacy level, beside what was claimed.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> audit = AuditDocument(provenance=Provenance(method="approximate"), mechanism="gaussian-sum",
    ...     epsilon_lower_bound=1.1, confidence=0.95, method="approximate", selection="path",
    ...     is_confidence_bound=True, assumptions=["(epsilon, delta)-differential privacy"],
    ...     claimed_epsilon=4.0, claimed_delta=1e-6, true_epsilon=4.0, is_broken=False,
    ...     verdict="no evidence of a breach", n_canaries=1000, n_guesses=86, n_correct=74)
    >>> audit.kind, audit.is_broken
    ('audit', False)
    """

    kind: Literal["audit"] = "audit"
    """The kind of document."""
    mechanism: StrictStr
    """What was audited."""
    epsilon_lower_bound: Budget
    """With the stated confidence epsilon is at least this, if the assumptions hold."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """How often such a bound is right."""
    method: AuditMethod
    """The theorem that the bound rests on."""
    selection: StrictStr
    """How the number of guesses was chosen; a number fixes the guesses on each side."""
    is_confidence_bound: Flag
    """False where the number is the best of many uncorrected tests and no bound at all."""
    assumptions: Names
    """What the bound takes for granted about the mechanism."""
    conditions: Names = Field(default_factory=list)
    """What every one-run bound rests on."""
    claimed_epsilon: OptionalBudget
    """The privacy level that was claimed; null when there is no claim."""
    claimed_delta: OptionalBudget
    """The delta of the claim; null when there is no claim."""
    true_epsilon: OptionalBudget
    """The level that theory gives at the claimed delta; null where it is not known."""
    is_broken: Flag
    """Whether the claim is refuted."""
    verdict: StrictStr
    """The same as a sentence."""
    n_canaries: Count
    """How many canaries there were."""
    n_guesses: Count
    """How many of them were guessed where the bound was found."""
    n_correct: Count
    """How many of those guesses were right."""

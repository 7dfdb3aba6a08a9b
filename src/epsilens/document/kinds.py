# SPDX-License-Identifier: Apache-2.0
"""All kinds of documents under one name.

Every result of the package is written as one of these, and the terminal, the report and the page
show nothing that is not in one. No document contains a record. The descriptions of the fields are
also those in the JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field, StrictStr

from epsilens.document.audit import AuditDocument
from epsilens.document.decision import DecisionDocument
from epsilens.document.federation import FederationDocument
from epsilens.document.mask import MaskDocument
from epsilens.document.parts import (
    Baseline,
    Count,
    DocumentHead,
    Flag,
    Names,
    NonNegative,
    OptionalNumber,
    Part,
    plain_value,
)
from epsilens.document.risk import RiskDocument
from epsilens.document.training import TrainingDocument
from epsilens.document.whatif import WhatIfDocument

# --- The document of a valuation: what records are worth to a model ---


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
    """Standard error of the mean over random orders, or over test records for the other orders; null if unknown."""


class ValueDocument(DocumentHead):
    """What records are worth to a model: a summary. The scores themselves are in a local file.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> document = example_document("value")
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
    curve: list[ValuePoint] = Field(default_factory=list)
    """Models trained again without the worst records, or with the best candidates."""


# --- The document of a first look at a table ---

ColumnKind: TypeAlias = Literal["numeric", "categorical", "binary", "constant", "identifier"]


def _as_category_names(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    return [str(plain_value(item)) for item in value]


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
    >>> from epsilens.document import example_document
    >>> example_document("inspect").kind
    'inspect'
    """

    kind: Literal["inspect"] = "inspect"
    """The kind of document."""
    rows: Count
    """How many rows the table has."""
    columns: list[InspectColumn]
    """The columns in the order of the table."""
    suggestion: StrictStr | None = None
    """A command to go on with, ready for the shell; null when none suggests itself."""


# --- The document of a release: its receipt ---


class ReleaseDocument(DocumentHead):
    """The receipt of a release: what was randomised and how much budget was spent.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> receipt = example_document("release")
    >>> receipt.record_epsilon
    1.0
    """

    kind: Literal["release"] = "release"
    """The kind of document."""
    columns: Names
    """The columns that were randomised."""
    epsilon: dict[StrictStr, NonNegative]
    """The budget spent on each randomised column."""
    record_epsilon: NonNegative
    """The budget spent on a whole record: the sum over the columns."""
    rows: Count
    """How many records were released."""
    simulated: Flag
    """Whether a seed was given: then this is a simulation and protects nobody."""
    mechanism: StrictStr
    """The mechanism that randomised the values."""


# --- All kinds of documents under one name ---

Document: TypeAlias = (
    WhatIfDocument
    | ReleaseDocument
    | InspectDocument
    | ValueDocument
    | AuditDocument
    | RiskDocument
    | DecisionDocument
    | MaskDocument
    | FederationDocument
    | TrainingDocument
)
DocumentKind: TypeAlias = Literal[
    "whatif",
    "release",
    "inspect",
    "value",
    "audit",
    "risk",
    "decision",
    "mask",
    "federation",
    "training",
]

MODELS: dict[str, type[Document]] = {
    model.model_fields["kind"].default: model for model in get_args(Document)
}
"""From a kind to its model."""

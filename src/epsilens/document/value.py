# SPDX-License-Identifier: Apache-2.0
"""The document of a valuation: what records are worth to a model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from epsilens.document.numbers import Count, OptionalNumber
from epsilens.document.parts import Baseline, DocumentHead, Part, as_list


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
    curve: Annotated[list[ValuePoint], BeforeValidator(as_list)] = Field(default_factory=list)
    """Models trained again without the worst records, or with the best candidates."""

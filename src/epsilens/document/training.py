# SPDX-License-Identifier: Apache-2.0
"""The document of a private training: the receipt that stands beside a published model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, StrictStr

from epsilens.document.decision import MechanismName, Protects, Trust
from epsilens.document.parts import (
    Count,
    DocumentHead,
    Flag,
    Names,
    NonNegative,
    OptionalNonNegative,
    Part,
)

Share = Annotated[float, Field(ge=0, le=1)]


class EarlierRelease(Part):
    """What is known of an earlier release of the same people's data: enough to add it up.

    Examples
    --------
    >>> EarlierRelease(receipt="0f3a", mechanism="noisy-descent", epsilon=1.0, delta=1e-6, mu=0.25).mu
    0.25
    """

    receipt: StrictStr
    """Its id, or the SHA-256 of a receipt without one: by this it is counted once."""
    mechanism: StrictStr
    """Its mechanism."""
    epsilon: NonNegative
    """Its ε, for a changed answer or a replaced record."""
    delta: Share
    """Its δ, for the same."""
    mu: OptionalNonNegative = None
    """Sensitivity over noise of a Gaussian release; null for another mechanism."""
    advantage: Share | None = None
    """Its advantage; null where it follows from the numbers beside it."""
    n_categories: Count | None = None
    """Number of possible answers of randomised response; null for another mechanism."""


def join_lines(*sources: Iterable[EarlierRelease]) -> list[EarlierRelease]:
    """Return the lines of all sources, each as often as in the source that has it most often.

    A release that stands in several sources is counted once. Equal lines within one source are parts of a
    release, such as two columns with the same budget, and all of them count.

    Examples
    --------
    >>> column = EarlierRelease(receipt="a", mechanism="randomised-response", epsilon=1.0, delta=0.0)
    >>> len(join_lines([column, column], [column]))
    2
    """
    found: Counter[EarlierRelease] = Counter()
    for source in sources:
        found |= Counter(source)
    return list(found.elements())


class PrivacyTotal(Part):
    """What this release and earlier ones give away together.

    Examples
    --------
    >>> PrivacyTotal(epsilon=1.0, delta=1e-6, advantage=0.1, n_releases=1).n_releases
    1
    """

    epsilon: NonNegative
    """ε of all releases together, at `delta`, for a changed answer or a replaced record."""
    delta: Share
    """Sum of the δ of all releases, for the same."""
    advantage: Share
    """Largest total variation distance between what two answers, or records, of a person lead to."""
    n_releases: Count
    """Number of releases, this one included."""
    earlier: list[EarlierRelease] = Field(default_factory=list)
    """The earlier releases; several lines for one that randomised several columns."""


class TrainingDocument(DocumentHead):
    """The receipt of a private training: what is claimed of the model, and what was spent.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> receipt = example_document("training")
    >>> receipt.mechanism, receipt.protects, receipt.epsilon
    ('noisy-descent', 'answer', 1.0)
    """

    kind: Literal["training"] = "training"
    """The kind of document."""
    mechanism: MechanismName
    """The mechanism that protects."""
    model: Literal["logistic", "ridge", "additive"]
    """The model that was trained."""
    trust: Trust
    """Who must be trusted with the true answers."""
    protects: Protects
    """Whether the answers of a person are protected, or the whole record."""
    neighbours: StrictStr
    """What differs between two tables that cannot be told apart: for ε and δ, and for the advantage."""
    label: StrictStr
    """The column that the model predicts."""
    columns: Names
    """The columns that are protected."""
    epsilon: NonNegative
    """The budget ε."""
    delta: Share
    """The budget δ."""
    rho: OptionalNonNegative = None
    """The budget of zero-concentrated differential privacy; null if none is accounted for."""
    mu: OptionalNonNegative = None
    """Sensitivity over noise of the whole training, for a replacement; null if the noise is not Gaussian."""
    sigma: OptionalNonNegative = None
    """Standard deviation of the noise on each number that was released or summed up; null if it varies."""
    advantage: Share
    """Largest total variation distance between what two answers, or records, of a person lead to."""
    x_bound: OptionalNonNegative = None
    """Length that longer rows of features were shrunk to; null if none were shrunk."""
    n_steps: Count | None = None
    """Number of noisy steps; null for a mechanism without steps."""
    rows: Count
    """Number of training records."""
    time: StrictStr
    """When the training began, in UTC."""
    simulated: Flag
    """Whether a seed was given: then this is a simulation and protects nobody."""
    total: PrivacyTotal
    """What this release and the earlier ones that were named give away together."""

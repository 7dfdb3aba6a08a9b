# SPDX-License-Identifier: Apache-2.0
"""Mechanisms that bring their own canaries, score and claim, ready to be audited.

Any callable that turns a data set into an output can be audited. Those here also know what they
claim, what they really keep, and how they leak, so that an unsuitable bound can be refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import FloatArray
from epsilens._validate import as_choice, as_count, as_epsilon, as_positive
from epsilens.audit.canaries import (
    Canaries,
    Dataset,
    answer_pairs,
    mislabelled_records,
    one_hot_directions,
    random_unit_vectors,
)
from epsilens.audit.gaussian import as_gaussian_claim, gaussian_epsilon, gaussian_mu, printed_noise
from epsilens.audit.scores import AnswerMatch, LinearMMSE, Loss, Score
from epsilens.channels import RandomizedResponse, simulate
from epsilens.errors import InputError, setting

Leakage: TypeAlias = Literal["gaussian", "pure", "unknown"]
"""How a mechanism leaks: as Gaussian noise does, with δ = 0, or in a way that is not known."""

BareCallable: TypeAlias = Callable[[Dataset], object]
"""Anything that turns a data set into an output."""

_ROWS_AT_ONCE = 512


@runtime_checkable
class Mechanism(Protocol):
    """A mechanism that knows its claim and how it is best attacked."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def claimed_epsilon(self) -> float | None:
        """The ε it promises, or None."""
        ...

    @property
    def claimed_delta(self) -> float:
        """The δ it promises."""
        ...

    @property
    def leakage(self) -> Leakage:
        """How it leaks."""
        ...

    def true_epsilon(self, delta: float) -> float | None:
        """Return the ε it really keeps at δ, or None where that is not known."""
        ...

    def canaries(self, n_canaries: int, generator: np.random.Generator) -> Canaries:
        """Return canaries that suit it."""
        ...

    def score(self) -> Score:
        """Return the score that finds them best."""
        ...

    def __call__(self, dataset: Dataset) -> object:
        """Run it once."""
        ...


@runtime_checkable
class Simulated(Protocol):
    """A mechanism whose noise an audit with a seed can repeat."""

    def with_noise_from(self, generator: np.random.Generator) -> Mechanism:
        """Return the mechanism with noise from this generator, unless it was given one before."""
        ...


@dataclass(frozen=True, eq=False)
class OwnNoise:
    """What a mechanism with noise of its own has: a place where that noise comes from.

    Parameters
    ----------
    generator : numpy.random.Generator, optional
        By default the seed of the audit.
    """

    generator: np.random.Generator | None = field(default=None, repr=False, kw_only=True)

    def with_noise_from(self, generator: np.random.Generator) -> Self:
        """Return the same with noise from this generator, unless it was given one before."""
        return self if self.generator is not None else replace(self, generator=generator)


@dataclass(frozen=True, eq=False)
class GaussianClaim(OwnNoise):
    """What a mechanism has that promises (ε, δ) and keeps it by Gaussian noise.

    Parameters
    ----------
    epsilon : float in [1e-12, 1e8]
        The level that is claimed.
    delta : float in (0, 1)
        Its δ.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        as_gaussian_claim(self.epsilon, self.delta)

    @property
    def claimed_epsilon(self) -> float:
        """The ε it promises."""
        return self.epsilon

    @property
    def claimed_delta(self) -> float:
        """The δ it promises."""
        return self.delta

    @property
    def leakage(self) -> Leakage:
        """As Gaussian noise does, because it is."""
        return "gaussian"


@dataclass(frozen=True, eq=False)
class GaussianSum(GaussianClaim):
    """The sum of vectors of length at most 1, with Gaussian noise: P3's experiment.

    Parameters
    ----------
    epsilon : float in [1e-12, 1e8]
        The level that is claimed.
    delta : float in (0, 1)
        Its δ.
    dimension : int, at least 1
        Dimension of the vectors.
    noise : {"exact", "printed"}
        "exact": just enough for the claim. "printed": P3's √(2 ln(1.25/δ))/ε, which is more than
        enough for a small and too little for a large ε.
    directions : {"random", "one-hot"}
        Canaries in random directions as in P3, or each in a direction of its own, which needs as
        many dimensions as canaries and makes the canaries independent.
    clip : float, greater than 0
        Longer vectors are shortened to this length; the noise is a multiple of it.
    generator : numpy.random.Generator, optional
        Where the noise comes from: by default the seed of the audit, or the operating system. This
        is a simulation, not a release.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = GaussianSum(16.0, 1e-6, dimension=10, noise="printed")
    >>> round(mechanism.noise_scale, 3), round(mechanism.true_epsilon(1e-6), 2)
    (0.331, 18.31)
    >>> mechanism(np.zeros((5, 10))).shape
    (10,)
    """

    name: ClassVar[str] = "gaussian-sum"
    """What it is called."""

    dimension: int = 10_000
    noise: Literal["exact", "printed"] = "exact"
    directions: Literal["random", "one-hot"] = "random"
    clip: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_count(self.dimension, name="dimension")
        as_choice(self.noise, ("exact", "printed"), name="noise")
        as_choice(self.directions, ("random", "one-hot"), name="directions")
        as_positive(self.clip, name="clip")

    @property
    def noise_scale(self) -> float:
        """Standard deviation of the noise in each coordinate."""
        if self.noise == "printed":
            return self.clip * printed_noise(self.epsilon, self.delta)
        return self.clip / gaussian_mu(self.epsilon, self.delta)

    def true_epsilon(self, delta: float) -> float:
        """Return the exact ε of the noise at δ; infinite at δ = 0."""
        return math.inf if delta == 0.0 else gaussian_epsilon(self.clip / self.noise_scale, delta)

    def canaries(self, n_canaries: int, generator: np.random.Generator) -> Canaries:
        """Return canaries of length 1, or `clip`."""
        if self.directions == "one-hot":
            return one_hot_directions(n_canaries, self.dimension, norm=self.clip)
        return random_unit_vectors(
            n_canaries, self.dimension, norm=self.clip, random_state=generator
        )

    def score(self) -> Score:
        """Return the linear estimate for this noise."""
        return LinearMMSE(self.noise_scale)

    def __call__(self, dataset: Dataset) -> FloatArray:
        """Return the noisy sum of the clipped rows."""
        rows = np.asarray(dataset)
        total = np.zeros(rows.shape[1])
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            block = rows[first : first + _ROWS_AT_ONCE]
            # Rounding may put a row of exactly the allowed length a hair above it.
            norm = np.maximum(np.linalg.norm(block, axis=1), self.clip)
            total += (self.clip / norm) @ block
        generator = self.generator or np.random.default_rng()
        return total + generator.normal(0.0, self.noise_scale, size=total.size)


@dataclass(frozen=True, eq=False)
class RandomisedAnswers(OwnNoise):
    """k-ary randomised response: each person's answer, or another one by chance.

    Parameters
    ----------
    epsilon : float in [0, inf)
        The level that is claimed.
    k : int, at least 2
        How many answers are possible.
    generator : numpy.random.Generator, optional
        Where the lies come from: by default the seed of the audit, or the operating system. This is
        a simulation, not a release.

    Examples
    --------
    >>> import numpy as np
    >>> RandomisedAnswers(1.0, k=3)(np.zeros(5, dtype=int)).shape
    (5,)
    """

    leakage: ClassVar[Leakage] = "pure"
    """With δ = 0."""

    claimed_delta: ClassVar[float] = 0.0
    """Nothing is left to chance."""

    name: ClassVar[str] = "rr"
    """What it is called."""

    epsilon: float
    k: int = 2

    def __post_init__(self) -> None:
        if math.isinf(as_epsilon(self.epsilon, allow_zero=True)):
            raise InputError(f"{setting('epsilon')} of randomised answers must be finite, got inf.")
        as_count(self.k, name="k", least=2)

    @property
    def claimed_epsilon(self) -> float:
        """The ε it promises for replacing an answer."""
        return self.epsilon

    def true_epsilon(self, delta: float) -> float | None:
        """Return the ε it keeps at δ = 0; for larger δ it is smaller."""
        if delta == 0.0:
            return self.epsilon
        channel = RandomizedResponse(self.k, self.epsilon)
        # Two answers apart: δ(ε') = max(0, p − e^ε' b).
        excess = channel.keep_probability - delta
        if excess <= channel.flip_probability:
            return 0.0
        return math.log(excess / channel.flip_probability)

    def canaries(self, n_canaries: int, generator: np.random.Generator) -> Canaries:
        """Return people with one of two answers."""
        return answer_pairs(n_canaries, k=self.k, random_state=generator)

    def score(self) -> Score:
        """Return whether the report is the one answer or the other."""
        return AnswerMatch()

    def __call__(self, dataset: Dataset) -> NDArray[np.int64]:
        """Return one report for each answer."""
        codes = np.asarray(dataset, dtype=np.int64)
        generator = self.generator or np.random.default_rng()
        return simulate(RandomizedResponse(self.k, self.epsilon), codes, generator)


@dataclass(frozen=True, eq=False)
class EstimatorFit:
    """A scikit-learn fit as it is: no privacy is claimed unless one is named.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Fitted anew, on a clone, in every run.
    features : array, (n, d)
        The table from which canaries are taken.
    labels : array, (n,)
        Its labels.
    epsilon : float in (0, inf), optional
        The level that somebody claims for it.
    delta : float in [0, 1)
        Its δ.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(60, 2))
    >>> mechanism = EstimatorFit(LogisticRegression(), features, features[:, 0] > 0)
    >>> mechanism.canaries(20, rng).n_canaries
    20
    """

    leakage: ClassVar[Leakage] = "unknown"
    """Not known."""

    estimator: object
    features: ArrayLike
    labels: ArrayLike
    epsilon: float | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "fit"):
            raise InputError(
                f"{setting('estimator')} must have a method `fit`, got "
                f"{type(self.estimator).__name__}."
            )
        if self.epsilon is not None:
            as_epsilon(self.epsilon)

    @property
    def name(self) -> str:
        """The estimator's name."""
        return type(self.estimator).__name__

    @property
    def claimed_epsilon(self) -> float | None:
        """What is claimed, if anything."""
        return self.epsilon

    @property
    def claimed_delta(self) -> float:
        """The δ of the claim."""
        return self.delta

    def true_epsilon(self, delta: float) -> None:
        """Return None: not known."""

    def canaries(self, n_canaries: int, generator: np.random.Generator) -> Canaries:
        """Return records of the table with wrong labels."""
        return mislabelled_records(self.features, self.labels, n_canaries, random_state=generator)

    def score(self) -> Score:
        """Return minus the loss of the canary."""
        return Loss()

    def __call__(self, dataset: Dataset) -> object:
        """Return the fitted clone."""
        from sklearn.base import clone

        features, labels = dataset
        return clone(self.estimator).fit(features, labels)

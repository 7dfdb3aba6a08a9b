# SPDX-License-Identifier: Apache-2.0
"""Losses as functions of the linear predictor.

A generalised linear model sees a record only through its linear predictor s = xᵀθ. Each loss here
has the canonical form ℓ(s, y) = ψ(s) − t(y)·s + c(y): the curvature does not contain the label, so
randomising labels moves only the linear term. Everything that is built on these losses (influence,
the expected perturbed objective, the noise of one run) needs nothing but the functions below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["LogisticLoss", "Loss", "SquaredLoss"]

FloatArray = NDArray[np.float64]


class Loss(Protocol):
    """What the solver and the influence functions ask of a loss.

    Arrays of linear predictors may have any shape; statistics of labels must broadcast with them.
    """

    @property
    def name(self) -> str:
        """The loss in one word, as shown in results."""
        ...

    @property
    def is_quadratic(self) -> bool:
        """Whether one Newton step is exact."""
        ...

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return t(y), what the linear predictor is multiplied by."""
        ...

    def value(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return ℓ(s, y)."""
        ...

    def slope(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return ∂ℓ/∂s."""
        ...

    def mean(self, s: FloatArray) -> FloatArray:
        """Return ψ'(s), the expected statistic."""
        ...

    def curvature(self, s: FloatArray) -> FloatArray:
        """Return ψ''(s) = ∂²ℓ/∂s², free of the label."""
        ...

    def third(self, s: FloatArray) -> FloatArray:
        """Return ψ'''(s)."""
        ...


@dataclass(frozen=True)
class LogisticLoss:
    """Cross-entropy of a yes/no answer, in nats: log(1 + eˢ) − y·s with y in {0, 1}.

    Examples
    --------
    >>> import numpy as np
    >>> loss = LogisticLoss()
    >>> loss.value(np.array([0.0]), np.array([1.0])).round(6)
    array([0.693147])
    >>> loss.slope(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    name: str = "logistic"
    is_quadratic: bool = False

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return y itself."""
        return y

    def value(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the cross-entropy, without overflow for any s."""
        softplus: FloatArray = np.maximum(s, 0) + np.log1p(np.exp(-np.abs(s)))
        return softplus - y * s

    def slope(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return σ(s) − y."""
        return self.mean(s) - y

    def mean(self, s: FloatArray) -> FloatArray:
        """Return the probability of yes, σ(s)."""
        probability: FloatArray = expit(s)
        return probability

    def curvature(self, s: FloatArray) -> FloatArray:
        """Return σ(s)σ(−s), which keeps its digits where 1 − σ(s) would lose them."""
        curvature: FloatArray = expit(s) * expit(-s)
        return curvature

    def third(self, s: FloatArray) -> FloatArray:
        """Return σ'(s)(1 − 2σ(s))."""
        third: FloatArray = expit(s) * expit(-s) * np.tanh(-s / 2)
        return third


@dataclass(frozen=True)
class SquaredLoss:
    """Squared error in full, (s − y)², without the factor ½.

    Examples
    --------
    >>> import numpy as np
    >>> loss = SquaredLoss()
    >>> loss.value(np.array([1.0]), np.array([3.0]))
    array([4.])
    >>> loss.slope(np.array([1.0]), np.array([3.0]))
    array([-4.])
    """

    name: str = "squared"
    is_quadratic: bool = True

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return 2y."""
        return 2.0 * y

    def value(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return (s − y)²."""
        return (s - y) ** 2

    def slope(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return 2(s − y)."""
        return 2.0 * (s - y)

    def mean(self, s: FloatArray) -> FloatArray:
        """Return 2s."""
        return 2.0 * s

    def curvature(self, s: FloatArray) -> FloatArray:
        """Return 2."""
        return np.full_like(s, 2.0)

    def third(self, s: FloatArray) -> FloatArray:
        """Return 0."""
        return np.zeros_like(s)

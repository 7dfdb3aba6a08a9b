# SPDX-License-Identifier: Apache-2.0
"""Losses as functions of the linear predictor.

A generalised linear model sees a record only through its linear predictor s, one number for a yes/no
answer or a score, one number a class for several classes. Each loss here has the canonical form
ℓ(s, y) = ψ(s) − ⟨t(y), s⟩ + c(y): the curvature does not contain the label, so randomising labels moves
only the linear term. Everything that is built on these losses (influence, the expected perturbed
objective, the noise of one run) needs nothing but the functions below.

Shapes: a predictor is (n, K) or, for many models side by side, (n, K, B), with K outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from epsilens._types import FloatArray

__all__ = ["LogisticLoss", "Loss", "SoftmaxLoss", "SquaredLoss"]


class Loss(Protocol):
    """What the solver and the influence functions ask of a loss."""

    @property
    def name(self) -> str:
        """The loss in one word, as shown in results."""
        ...

    @property
    def n_outputs(self) -> int:
        """K, the numbers in a record's predictor."""
        ...

    @property
    def is_quadratic(self) -> bool:
        """Whether one Newton step is exact."""
        ...

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return t(y), what the predictor is multiplied by: (n,) to (n, K)."""
        ...

    def value(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return ℓ(s, y): (n, K[, B]) and (n,) to (n[, B])."""
        ...

    def slope(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return ∂ℓ/∂s: (n, K[, B]) and (n,) to (n, K[, B])."""
        ...

    def mean(self, s: FloatArray) -> FloatArray:
        """Return ψ'(s), the expected statistic, in the shape of s."""
        ...

    def curvature(self, s: FloatArray) -> FloatArray:
        """Return ψ″(s) = ∂²ℓ/∂s², free of the label: (n, K) to (n, K, K)."""
        ...

    def third(self, s: FloatArray, spread: FloatArray) -> FloatArray:
        """Return ψ‴(s) contracted with a symmetric spread: (n, K), (n, K, K) to (n, K)."""
        ...


def _over_outputs(y: FloatArray, s: FloatArray) -> FloatArray:
    """Return labels in a shape that broadcasts with predictors of one output."""
    return y.reshape(len(y), *(1,) * (s.ndim - 1))


@dataclass(frozen=True)
class LogisticLoss:
    """Cross-entropy of a yes/no answer, in nats: log(1 + eˢ) − y·s with y in {0, 1}.

    Examples
    --------
    >>> import numpy as np
    >>> loss = LogisticLoss()
    >>> loss.value(np.array([[0.0]]), np.array([1.0])).round(6)
    array([0.693147])
    >>> loss.slope(np.array([[0.0]]), np.array([1.0]))
    array([[-0.5]])
    """

    name: str = "logistic"
    n_outputs: int = 1
    is_quadratic: bool = False

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return y itself."""
        return y[:, None]

    def value(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the cross-entropy, without overflow for any s."""
        tail = np.exp(-np.abs(s))
        # In single precision the plain logarithm is many times faster and as good.
        tail = np.log(1 + tail) if s.dtype == np.float32 else np.log1p(tail)
        softplus: FloatArray = np.maximum(s, 0) + tail
        softplus -= _over_outputs(y, s) * s
        return softplus[:, 0]

    def slope(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return σ(s) − y."""
        return self.mean(s) - _over_outputs(y, s)

    def mean(self, s: FloatArray) -> FloatArray:
        """Return the probability of yes, σ(s)."""
        # Three times as fast as expit; e^−s may overflow to infinity, whose reciprocal is right.
        with np.errstate(over="ignore"):
            odds = np.exp(-s)
            odds += 1.0
            probability: FloatArray = np.reciprocal(odds, out=odds)
        return probability

    def curvature(self, s: FloatArray) -> FloatArray:
        """Return σ(s)σ(−s), which keeps its digits where 1 − σ(s) would lose them."""
        curvature: FloatArray = expit(s) * expit(-s)
        return curvature[:, :, None]

    def third(self, s: FloatArray, spread: FloatArray) -> FloatArray:
        """Return σ'(s)(1 − 2σ(s))·spread."""
        third: FloatArray = expit(s) * expit(-s) * np.tanh(-s / 2) * spread[:, :, 0]
        return third


@dataclass(frozen=True)
class SoftmaxLoss:
    """Cross-entropy over K classes, in nats: log Σ_k e^{s_k} − s_y with y in 0..K−1.

    The same number added to every output changes nothing: the curvature is singular in that direction.

    Examples
    --------
    >>> import numpy as np
    >>> loss = SoftmaxLoss(3)
    >>> loss.value(np.zeros((1, 3)), np.array([2.0])).round(6)
    array([1.098612])
    >>> loss.slope(np.zeros((1, 3)), np.array([2.0])).round(3)
    array([[ 0.333,  0.333, -0.667]])
    """

    n_outputs: int
    name: str = "softmax"
    is_quadratic: bool = False

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return the indicator of the class."""
        return np.eye(self.n_outputs)[y.astype(np.intp)]

    def value(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the cross-entropy, without overflow for any s."""
        largest = s.max(axis=1)
        total = np.exp(s - largest[:, None]).sum(axis=1)
        own = np.take_along_axis(
            s, y.astype(np.intp).reshape(len(y), *(1,) * (s.ndim - 1)), axis=1
        )[:, 0]
        value: FloatArray = np.log(total) + largest - own
        return value

    def slope(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return the probabilities less the indicator of the class."""
        indicator = self.statistic(y)
        return self.mean(s) - (indicator if s.ndim == 2 else indicator[:, :, None])

    def mean(self, s: FloatArray) -> FloatArray:
        """Return the class probabilities."""
        odds = np.exp(s - s.max(axis=1, keepdims=True))
        probability: FloatArray = odds / odds.sum(axis=1, keepdims=True)
        return probability

    def curvature(self, s: FloatArray) -> FloatArray:
        """Return diag(h) − hhᵀ."""
        h = self.mean(s)
        curvature: FloatArray = -h[:, :, None] * h[:, None, :]
        k = np.arange(self.n_outputs)
        curvature[:, k, k] += h
        return curvature

    def third(self, s: FloatArray, spread: FloatArray) -> FloatArray:
        """Return h_k (S_kk − 2(Sh)_k − Σ_l h_l S_ll + 2hᵀSh), from the cumulants of a class."""
        h = self.mean(s)
        along = np.einsum("nkl,nl->nk", spread, h)
        own = np.einsum("nkk->nk", spread)
        common = -(h * own).sum(axis=1) + 2.0 * (h * along).sum(axis=1)
        third: FloatArray = h * (own - 2.0 * along + common[:, None])
        return third


@dataclass(frozen=True)
class SquaredLoss:
    """Squared error in full, (s − y)², without the factor ½.

    Examples
    --------
    >>> import numpy as np
    >>> loss = SquaredLoss()
    >>> loss.value(np.array([[1.0]]), np.array([3.0]))
    array([4.])
    >>> loss.slope(np.array([[1.0]]), np.array([3.0]))
    array([[-4.]])
    """

    name: str = "squared"
    n_outputs: int = 1
    is_quadratic: bool = True

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return 2y."""
        return 2.0 * y[:, None]

    def value(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return (s − y)²."""
        error: FloatArray = (s - _over_outputs(y, s)) ** 2
        return error[:, 0]

    def slope(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return 2(s − y)."""
        return 2.0 * (s - _over_outputs(y, s))

    def mean(self, s: FloatArray) -> FloatArray:
        """Return 2s."""
        return 2.0 * s

    def curvature(self, s: FloatArray) -> FloatArray:
        """Return 2."""
        return np.full((*s.shape, 1), 2.0)

    def third(self, s: FloatArray, spread: FloatArray) -> FloatArray:
        """Return 0."""
        return np.zeros_like(s)

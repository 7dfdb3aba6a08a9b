# SPDX-License-Identifier: Apache-2.0
"""The training objective of a linear model, for one label vector or for many side by side.

With a canonical loss the labels enter the objective only through its linear term,

    F(θ) = (1/n) Σ_i w_i ψ(x_iᵀθ) − ⟨linear, θ⟩ + ½ θᵀ diag(penalty) θ,   linear = (1/n) Σ_i w_i t(y_i) x_i,

so training on another label vector, or on the expected one, is another `linear` of p numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from epsilens._types import FloatArray
from epsilens.models.design import Design, distinct_rows

# --- Losses as functions of the linear predictor ---


class Loss(Protocol):
    """What the solver and the influence functions ask of a loss."""

    name: str
    """The loss in one word, as shown in results."""
    n_outputs: int
    """K, the numbers in a record's predictor."""
    is_quadratic: bool
    """Whether one Newton step is exact."""

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return t(y), what the predictor is multiplied by: (n,) to (n, K)."""
        ...

    def value(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return ℓ(s, y): (n, K[, B]) and (n,) to (n[, B])."""
        ...

    def slope(self, s: FloatArray, y: FloatArray) -> FloatArray:
        """Return ∂ℓ/∂s = ψ'(s) − t(y): (n, K[, B]) and (n,) to (n, K[, B])."""
        statistic = self.statistic(y)
        return self.mean(s) - (statistic if s.ndim == 2 else statistic[:, :, None])

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
class LogisticLoss(Loss):
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
class SoftmaxLoss(Loss):
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
        own = np.take_along_axis(s, _over_outputs(y, s).astype(np.intp), axis=1)[:, 0]
        value: FloatArray = np.log(total) + largest - own
        return value

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
class SquaredLoss(Loss):
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

    def mean(self, s: FloatArray) -> FloatArray:
        """Return 2s."""
        return 2.0 * s

    def curvature(self, s: FloatArray) -> FloatArray:
        """Return 2."""
        return np.full((*s.shape, 1), 2.0)

    def third(self, s: FloatArray, spread: FloatArray) -> FloatArray:
        """Return 0."""
        return np.zeros_like(s)


# --- The training objective of a linear model, for one label vector or for many side by side ---

# The strength with which the mean over the classes is held at zero; any positive number will do, for
# no prediction depends on it and an l2 penalty has its optimum there anyway.
_GAUGE = 1.0


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Problem:
    """Features, weights, loss and penalty; everything but the labels.

    Parameters
    ----------
    design : Design
    weights : array of shape (n_rows,)
        Sample weights, ≥ 0.
    loss : Loss
    penalty : array of shape (n_columns,)
        The diagonal λD of math in the scaled coordinates of the design, the same for every output;
        0 at a free intercept.
    looks_for_alike : bool
        Whether to look for rows that are alike; not worth it for rows that are read for one pass.
    is_part : bool
        Whether this is a piece of a larger problem: all is then a sum over its records instead of
        a mean, without penalty or linear term, so that pieces add up.

    Attributes
    ----------
    n_rows : int
        Number of training records, the n of the objective.
    n_parameters : int
        K·p, one coefficient per column and output.
    is_quadratic : bool
        Whether one Newton step is exact.
    """

    design: Design
    weights: FloatArray
    loss: Loss
    penalty: FloatArray
    looks_for_alike: bool = True
    is_part: bool = False
    n_rows: int = field(init=False)
    n_parameters: int = field(init=False)
    is_quadratic: bool = field(init=False)
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        n_parameters = self.design.n_columns * self.loss.n_outputs
        object.__setattr__(self, "n_rows", self.design.n_rows)
        object.__setattr__(self, "n_parameters", n_parameters)
        object.__setattr__(self, "is_quadratic", self.loss.is_quadratic)

    @cached_property
    def distinct(self) -> tuple[Design, FloatArray]:
        """The distinct rows and the weight of each, where many records are alike; else all rows.

        Labels enter through the linear term only, so two records with the same features are one with
        the sum of their weights. A table of categories has far fewer distinct rows than records.
        """
        rows = distinct_rows(self.design.matrix) if self.looks_for_alike else None
        if rows is None:
            return self.design, self.weights
        first, place = rows
        weights = np.bincount(place, weights=self.weights, minlength=len(first))
        return self.design.take(first), weights.astype(np.float64)

    def linear_term(self, statistics: FloatArray) -> FloatArray:
        """Return (1/n) Σ w_i t_i ⊗ x_i for label statistics (n, K) or (n, K, B)."""
        weights = self.weights.reshape(-1, *(1,) * (statistics.ndim - 1))
        total = self.design.pull(weights * statistics)
        return total if self.is_part else total / self.n_rows

    def penalise(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of the penalty at θ of shape (K·p,) or (K·p, B).

        For several classes it includes the square of the mean over classes, which removes the
        direction in which the softmax is flat and moves no optimum.
        """
        n_outputs = self.loss.n_outputs
        by_output = theta.reshape(n_outputs, self.design.n_columns, *theta.shape[1:])
        weights = self.penalty.reshape(1, -1, *(1,) * (theta.ndim - 1))
        result = weights * by_output
        if n_outputs > 1:
            result = result + _GAUGE * by_output.mean(axis=0, keepdims=True)
        return result.reshape(theta.shape)

    def objective(self, theta: FloatArray, linear: FloatArray) -> float:
        """Return F(θ) up to the constant in the labels."""
        design, weights = self.distinct
        s = design.predict(theta)
        first = np.zeros(len(s))
        # ψ(s) = ℓ(s, y) + ⟨t(y), s⟩ for any y up to a constant; 0 is in every domain.
        cumulant = self.loss.value(s, first) + (self.loss.statistic(first) * s).sum(axis=1)
        mean = float(weights @ cumulant) / self.n_rows
        return mean - float(linear @ theta) + 0.5 * float(theta @ self.penalise(theta))

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return ∇F for columns of parameters (K·p, B): two matrix products a chunk."""
        total = np.zeros_like(theta)
        design, weights = self.distinct
        for rows in design.chunks(width=2 * theta.shape[1] * self.loss.n_outputs):
            mean = self.loss.mean(design.predict(theta, rows))
            mean *= weights[rows, None, None]
            total += design.pull(mean, rows)
        return total if self.is_part else total / self.n_rows + self.penalise(theta) - linear

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return ∇²F(θ), shape (K·p, K·p)."""
        design, weights = self.distinct
        curvature = self.loss.curvature(design.predict(theta))
        curvature *= weights[:, None, None]
        total = design.gram(curvature)
        return total if self.is_part else total / self.n_rows + self.penalty_hessian()

    def hessians(self, thetas: FloatArray) -> list[FloatArray]:
        """Return ∇²F at every column of parameters (K·p, B)."""
        return [self.hessian(theta) for theta in thetas.T]

    def thirds(
        self, thetas: FloatArray, middles: list[FloatArray], *, are_roots: bool
    ) -> list[FloatArray]:
        """Return ∇³F[M] at every column of parameters, M = RRᵀ if roots are given."""
        design, weights = self.distinct
        found = []
        for theta, middle in zip(thetas.T, middles, strict=True):
            spread = design.spread(middle) if are_roots else design.quadratic(middle)
            bent = self.loss.third(design.predict(theta), spread)
            total = design.pull(weights[:, None] * bent)
            found.append(total if self.is_part else total / self.n_rows)
        return found

    def along_lines(
        self, theta: FloatArray, directions: FloatArray, lengths: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return slope and bend of F, but for its linear term, at θ + a_b·d_b along every d_b.

        Parameters
        ----------
        theta : array of shape (K·p,)
        directions : array of shape (K·p, B)
        lengths : array of shape (B,)
        """
        design, weights = self.distinct
        slopes, bends = np.zeros(len(lengths)), np.zeros(len(lengths))
        for rows in design.chunks(width=4 * self.loss.n_outputs * len(lengths)):
            s = design.predict(theta, rows)
            along = design.predict(directions, rows)
            for b, length in enumerate(lengths):
                step = np.ascontiguousarray(along[:, :, b])
                at = s + length * step
                slopes[b] += weights[rows] @ (step * self.loss.mean(at)).sum(axis=1)
                bent = np.einsum("ik,ikl,il->i", step, self.loss.curvature(at), step)
                bends[b] += weights[rows] @ bent
        if self.is_part:
            return slopes, bends
        held, stiff = self.penalty_along(theta, directions, lengths)
        return slopes / self.n_rows + held, bends / self.n_rows + stiff

    def penalty_along(
        self, theta: FloatArray, directions: FloatArray, lengths: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the penalty's part of `along_lines`: slope and bend, (B,) each."""
        pushed = self.penalise(theta[:, None] + lengths * directions)
        slopes: FloatArray = np.einsum("ib,ib->b", directions, pushed)
        bends: FloatArray = np.einsum("ib,ib->b", directions, self.penalise(directions))
        return slopes, bends

    def penalty_hessian(self) -> FloatArray:
        """Return the second derivative of the penalty, (K·p, K·p)."""
        n_outputs, p = self.loss.n_outputs, self.design.n_columns
        hessian = np.diag(np.tile(self.penalty, n_outputs))
        if n_outputs > 1:
            column = np.arange(p)
            blocks = hessian.reshape(n_outputs, p, n_outputs, p)
            blocks[:, column, :, column] += _GAUGE / n_outputs
        return hessian

    def leverages(self, theta: FloatArray, inverse: FloatArray) -> FloatArray:
        """Return w_i tr(∇²ℓ_i H⁻¹) of every record: n times its share in its own prediction."""
        forms = self.design.quadratic(inverse)
        bend = self.loss.curvature(self.design.predict(theta))
        shares: FloatArray = np.einsum("ikl,ikl->i", bend, forms) * self.weights
        return shares

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the largest distance that each column of steps moves a record's predictor, (B,)."""
        reach: FloatArray = np.abs(self.distinct[0].predict(steps)).max(axis=(0, 1))
        return reach

# SPDX-License-Identifier: Apache-2.0
"""The training objective of a linear model, for one label vector or for many side by side.

With a canonical loss the labels enter the objective only through its linear term,

    F(θ) = (1/n) Σ_i w_i ψ(x_iᵀθ) − ⟨linear, θ⟩ + ½ θᵀ diag(penalty) θ,   linear = (1/n) Σ_i w_i t(y_i) x_i,

so training on another label vector, or on the expected one, is another `linear` of p numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsilens.models.design import Design, distinct_rows
from epsilens.models.losses import Loss

__all__ = ["Problem"]

FloatArray = NDArray[np.float64]


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
    """

    design: Design
    weights: FloatArray
    loss: Loss
    penalty: FloatArray

    @property
    def n_rows(self) -> int:
        """Number of training records, the n of the objective."""
        return self.design.n_rows

    @property
    def n_parameters(self) -> int:
        """K·p, one coefficient per column and output."""
        return self.design.n_columns * self.loss.n_outputs

    @cached_property
    def distinct(self) -> tuple[Design, FloatArray]:
        """The distinct rows and the weight of each, where many records are alike; else all rows.

        Labels enter through the linear term only, so two records with the same features are one with
        the sum of their weights. A table of categories has far fewer distinct rows than records.
        """
        rows = distinct_rows(self.design.matrix)
        if rows is None:
            return self.design, self.weights
        first, place = rows
        weights = np.bincount(place, weights=self.weights, minlength=len(first))
        return self.design.take(first), weights.astype(np.float64)

    def linear_term(self, statistics: FloatArray) -> FloatArray:
        """Return (1/n) Σ w_i t_i ⊗ x_i for label statistics (n, K) or (n, K, B)."""
        weights = self.weights.reshape(-1, *(1,) * (statistics.ndim - 1))
        return self.design.pull(weights * statistics) / self.n_rows

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
            mean = self.loss.mean(design.predict_rows(rows, theta))
            mean *= weights[rows, None, None]
            total += design.pull_rows(rows, mean)
        return total / self.n_rows + self.penalise(theta) - linear

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return ∇²F(θ), shape (K·p, K·p)."""
        design, weights = self.distinct
        curvature = self.loss.curvature(design.predict(theta))
        curvature *= weights[:, None, None]
        return design.gram(curvature) / self.n_rows + self.penalty_hessian()

    def third(self, theta: FloatArray, root: FloatArray) -> FloatArray:
        """Return ∇³F(θ)[RRᵀ] for R of shape (K·p, r): (K·p,)."""
        design, weights = self.distinct
        bent = self.loss.third(design.predict(theta), design.spread(root))
        return design.pull(weights[:, None] * bent) / self.n_rows

    def penalty_hessian(self) -> FloatArray:
        """Return the second derivative of the penalty, (K·p, K·p)."""
        n_outputs, p = self.loss.n_outputs, self.design.n_columns
        hessian = np.diag(np.tile(self.penalty, n_outputs))
        if n_outputs > 1:
            column = np.arange(p)
            blocks = hessian.reshape(n_outputs, p, n_outputs, p)
            blocks[:, column, :, column] += _GAUGE / n_outputs
        return hessian

    @property
    def is_quadratic(self) -> bool:
        """Whether one Newton step is exact."""
        return self.loss.is_quadratic

    @property
    def is_convex(self) -> bool:
        """Whether the objective has one minimum."""
        return True

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the furthest that each column of steps moves a record's predictor, (B,)."""
        reach: FloatArray = np.abs(self.distinct[0].predict(steps)).max(axis=(0, 1))
        return reach

# SPDX-License-Identifier: Apache-2.0
"""The training objective of a linear model, for one label vector or for many side by side.

With a canonical loss the labels enter the objective only through its linear term,

    F(θ) = (1/n) Σ_i w_i ψ(x_iᵀθ) − ⟨linear, θ⟩ + ½ θᵀ diag(penalty) θ,   linear = (1/n) Σ_i w_i t(y_i) x_i,

so training on another label vector, or on the expected one, is another `linear` of p numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens.models.design import Design
from epsilens.models.losses import Loss

__all__ = ["Problem"]

FloatArray = NDArray[np.float64]


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
        The diagonal λD of math in the scaled coordinates of the design; 0 at a free intercept.
    """

    design: Design
    weights: FloatArray
    loss: Loss
    penalty: FloatArray

    @property
    def n_rows(self) -> int:
        """Number of training records, the n of the objective."""
        return self.design.n_rows

    def linear_term(self, statistics: FloatArray) -> FloatArray:
        """Return (1/n) Σ w_i t_i x_i for one or many columns of label statistics."""
        weighted = (self.weights * statistics.T).T
        return self.design.pull(weighted) / self.n_rows

    def objective(self, theta: FloatArray, linear: FloatArray) -> float:
        """Return F(θ) up to the constant in the labels."""
        s = self.design.predict(theta)
        # ψ is the loss at label 0 for both canonical losses in use.
        cumulant = self.loss.value(s, np.zeros_like(s))
        mean = float(self.weights @ cumulant) / self.n_rows
        return mean - float(linear @ theta) + 0.5 * float(self.penalty @ theta**2)

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return ∇F, one column per column of theta and linear: two matrix products a chunk."""
        total = np.zeros_like(theta)
        matrix = self.design.matrix
        for rows in self.design.chunks(width=2 * theta.shape[1]):
            block = matrix[rows]
            mean = self.loss.mean(np.asarray(block @ theta))
            mean *= self.weights[rows, None]
            total += block.T @ mean
        return total / self.n_rows + self.penalty[:, None] * theta - linear

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return ∇²F(θ), shape (p, p)."""
        curvature = self.loss.curvature(self.design.predict(theta)) * self.weights
        hessian = self.design.gram(curvature) / self.n_rows
        hessian[np.diag_indices_from(hessian)] += self.penalty
        return hessian

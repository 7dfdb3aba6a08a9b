# SPDX-License-Identifier: Apache-2.0
"""The objective of all sites together, from their sums: F(θ) = (1/N) Σ ℓ + ½ λ θᵀDθ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray
from epsilens.federated.sums import SiteSums
from epsilens.models.solver import Curvature, factorise

_GAUGE = 1.0
"""Holds the mean over the classes of a softmax at zero; no prediction depends on it."""


@dataclass(frozen=True)
class Penalty:
    """½ λ θᵀDθ, with D the identity but for the intercept, in the mean convention.

    Parameters
    ----------
    strength : float, ≥ 0
        λ. It does not change when a site leaves.
    n_features : int
        Columns of the design, the intercept included.
    n_outputs : int
    intercept : bool
        Whether the last feature is one, which is free.

    Examples
    --------
    >>> import numpy as np
    >>> Penalty(0.1, n_features=2, n_outputs=1, intercept=True).gradient(np.array([2.0, 5.0]))
    array([0.2, 0. ])
    """

    strength: float
    n_features: int
    n_outputs: int
    intercept: bool

    @property
    def _diagonal(self) -> FloatArray:
        diagonal = np.full(self.n_features, self.strength)
        if self.intercept:
            diagonal[-1] = 0.0
        return diagonal

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return λDθ, and for several classes what holds their mean."""
        by_output = theta.reshape(self.n_outputs, self.n_features)
        result: FloatArray = self._diagonal * by_output
        if self.n_outputs > 1:
            result += _GAUGE * by_output.mean(axis=0)
        return np.asarray(result.ravel(), dtype=np.float64)

    def value(self, theta: FloatArray) -> float:
        """Return the penalty itself."""
        return 0.5 * float(theta @ self.gradient(theta))

    def hessian(self) -> FloatArray:
        """Return its second derivative."""
        hessian: FloatArray = np.kron(np.eye(self.n_outputs), np.diag(self._diagonal)).astype(float)
        if self.n_outputs > 1:
            share = np.full((self.n_outputs, self.n_outputs), _GAUGE / self.n_outputs)
            hessian += np.kron(share, np.eye(self.n_features))
        return hessian


@dataclass(frozen=True)
class Objective:
    """Value, gradient and Hessian of the common objective at one model.

    Parameters
    ----------
    theta : array of shape (p,)
    sums : SiteSums
        Over all sites.
    penalty : Penalty
    """

    theta: FloatArray
    sums: SiteSums
    penalty: Penalty

    @property
    def value(self) -> float:
        """F(θ)."""
        return self.sums.loss / self.sums.n + self.penalty.value(self.theta)

    @property
    def gradient(self) -> FloatArray:
        """∇F(θ)."""
        return self.sums.gradient / self.sums.n + self.penalty.gradient(self.theta)

    def curvature(self) -> Curvature:
        """Return ∇²F(θ), factorised.

        Raises
        ------
        EstimateNotTrustworthyError
            If it cannot be inverted.
        """
        if self.sums.hessian is None:
            raise ValueError("the sums were asked for without their Hessian")
        hessian = self.sums.hessian / self.sums.n + self.penalty.hessian()
        return factorise(0.5 * (hessian + hessian.T))

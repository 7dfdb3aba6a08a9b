# SPDX-License-Identifier: Apache-2.0
"""Ridge regression from noisy sums of products, with a penalty that adapts (AdaSSP).

Instead of the coefficients, the sums that determine them are published with noise: the matrix XᵀX,
the vector Xᵀy, and the least eigenvalue of the matrix, which decides how much penalty the noise
makes necessary. The coefficients are computed from these and cost nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray
from epsilens.models.ball_ridge import minimise_quadratic_in_ball
from epsilens.models.gaussian_release import GaussianRelease

__all__ = ["AdaSSP", "adassp_releases"]


# ϱ of Wang (2018): how often the penalty may be too small for the noise.
_FAILURE_PROBABILITY = 0.05
_CHUNK = 256
_ROUNDING = 1e-7


@dataclass(frozen=True)
class AdaSSP:
    """The three releases of AdaSSP.

    Attributes
    ----------
    least_eigenvalue, products, moments : GaussianRelease
        Of λ_min(XᵀX), XᵀX and Xᵀy.
    """

    least_eigenvalue: GaussianRelease
    products: GaussianRelease
    moments: GaussianRelease

    def release(
        self,
        X: FloatArray,
        y: FloatArray,
        *,
        penalty: float,
        radius: float,
        generator: np.random.Generator | None,
    ) -> FloatArray:
        """Return coefficients that may be published.

        Parameters
        ----------
        X : array of shape (n, p)
            Rows within their bound.
        y : array of shape (n,)
            Targets within their bound.
        penalty : float
            The least penalty, whatever the noise.
        radius : float
            Coefficients are kept in this ball: post-processing, and free.
        generator : numpy Generator or None
            None: a real release, drawn by OpenDP.
        """
        A, b = _sums(X, y)
        p = len(b)
        sigma = self.products.sigma
        least = np.array([max(0.0, float(np.linalg.eigvalsh(A)[0]))])
        noisy_least = float(self.least_eigenvalue.draw(least, generator)[0])
        margin = self.least_eigenvalue.sigma * math.sqrt(2.0 * math.log(1.0 / _FAILURE_PROBABILITY))
        cautious = max(0.0, noisy_least - margin)
        spread = sigma * math.sqrt(p * math.log(2.0 * p * p / _FAILURE_PROBABILITY))
        upper = np.triu_indices(p)
        noisy = np.zeros((p, p))
        noisy[upper] = self.products.draw(A[upper], generator)
        noisy = noisy + np.triu(noisy, 1).T
        return minimise_quadratic_in_ball(
            noisy,
            self.moments.draw(b, generator),
            penalty=max(penalty, spread - cautious),
            radius=radius,
        )


def adassp_releases(*, x_bound: float, y_bound: float, rho: float, replaced: bool) -> AdaSSP:
    """Split a budget over the three releases of AdaSSP, a third each.

    Parameters
    ----------
    x_bound, y_bound : float
        R and Y: no row is longer, no target larger.
    rho : float
        The whole budget. The three thirds compose to it exactly.
    replaced : bool
        Whether a neighbour has one record replaced: twice the sensitivity.

    Notes
    -----
    Wang (2018), Algorithm 2. One record adds xxᵀ to XᵀX (Frobenius length ≤ R², which also bounds
    what the noisy upper triangle and the least eigenvalue can move) and xy to Xᵀy (≤ R Y). Differs
    from the paper in that the noise is calibrated to ρ/3 each in place of (ε/3, δ/3), so the
    margin below the least eigenvalue takes ϱ where the paper has δ; negative eigenvalues of the
    noisy matrix count as 0.

    Examples
    --------
    >>> adassp_releases(x_bound=2.0, y_bound=1.0, rho=1.5, replaced=False).moments.rho
    0.5
    """
    factor = (2.0 if replaced else 1.0) * (1.0 + _ROUNDING)
    square = factor * x_bound * x_bound
    return AdaSSP(
        GaussianRelease("least eigenvalue of XᵀX", square, rho / 3.0),
        GaussianRelease("XᵀX", square, rho / 3.0),
        GaussianRelease("Xᵀy", factor * x_bound * y_bound, rho / 3.0),
    )


def _sums(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return XᵀX and Xᵀy, in short pieces: rounding stays below 1e-7 R² up to 3 million rows."""
    p = X.shape[1]
    A = np.zeros((p, p), dtype=np.longdouble)
    b = np.zeros(p, dtype=np.longdouble)
    for first in range(0, len(X), _CHUNK):
        rows = X[first : first + _CHUNK]
        A += rows.T @ rows
        b += rows.T @ y[first : first + _CHUNK]
    return A.astype(np.float64), b.astype(np.float64)

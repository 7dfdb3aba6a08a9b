# SPDX-License-Identifier: Apache-2.0
"""The test loss of many drawn runs, of which only some are evaluated record by record.

Around θ_ε the test loss is nearly a quadratic, and a quadratic of a draw costs p numbers instead of a
pass over the test set. So every draw gets the quadratic; a part of them is evaluated in full, and the
difference between the two, which is small and follows them closely, is fitted on that part and added to
all: the fit by least squares, and what it leaves over as it was found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray, SingleArray

__all__ = ["Correction", "QuadraticRuns", "fit_correction", "quadratic_runs"]


@dataclass(frozen=True, repr=False)
class QuadraticRuns:
    """Change of the test loss from θ_ε, by draw.

    Attributes
    ----------
    first, second : arrays of shape (n_draws,)
        ηᵀd and ½ dᵀH_te d.
    expected_first, expected_second : float
        Their expectations, which are known exactly: ηᵀb and ½ tr(H_te Σ) + ½ bᵀH_te b.
    second_order : float
        ηᵀb + ½ tr(H_te Σ), the mean to second order.
    """

    first: FloatArray
    second: FloatArray
    expected_first: float = 0.0
    expected_second: float = 0.0
    second_order: float = 0.0

    def expected(self, correction: Correction) -> float:
        """Return the mean change over all runs: known for the quadratic, fitted for the rest.

        The draws serve as a regression estimate, so that their Monte-Carlo error is that of the
        residuals only.
        """
        a, b, c = correction.coefficients
        return float(self.expected_first * (1.0 + b) + self.expected_second * (1.0 + c) + a)

    def total(self, correction: Correction) -> FloatArray:
        """Return the change with the correction added."""
        left = np.resize(correction.residuals, len(self.first))
        a, b, c = correction.coefficients
        total: FloatArray = self.first * (1.0 + b) + self.second * (1.0 + c) + a + left
        return total


@dataclass(frozen=True, repr=False)
class Correction:
    """What the quadratic leaves out: a + b·first + c·second, and residuals of single draws."""

    coefficients: FloatArray
    residuals: FloatArray

    def scaled(self, size: float) -> Correction:
        """Return the correction for noise of another size: what is not in proportion to the runs.

        Examples
        --------
        >>> import numpy as np
        >>> Correction(np.ones(3), np.ones(1)).scaled(0.5).coefficients
        array([0.5, 1. , 1. ])
        """
        return Correction(self.coefficients * np.array([size, 1.0, 1.0]), self.residuals * size)

    def mix(self, other: Correction, share: float) -> Correction:
        """Return the correction of a cell that lies a share of the way to another.

        Examples
        --------
        >>> import numpy as np
        >>> zero = Correction(np.zeros(3), np.zeros(2))
        >>> zero.mix(Correction(np.ones(3), np.ones(2)), 0.25).coefficients
        array([0.25, 0.25, 0.25])
        """
        n_common = min(len(self.residuals), len(other.residuals))
        return Correction(
            (1.0 - share) * self.coefficients + share * other.coefficients,
            (1.0 - share) * self.residuals[:n_common] + share * other.residuals[:n_common],
        )


def quadratic_runs(
    gradient: FloatArray,
    hessian: FloatArray,
    bias: FloatArray,
    root: FloatArray,
    standard: SingleArray | FloatArray,
    spread: float = 0.0,
) -> QuadraticRuns:
    """Return ηᵀd and ½ dᵀH_te d for the draws d = b + S z.

    Parameters
    ----------
    gradient : array of shape (K·p,)
        η at θ_ε.
    hessian : array of shape (K·p, K·p)
        H_te there.
    bias : array of shape (K·p,)
        b.
    root : array of shape (K·p, r)
        S.
    standard : array of shape (r, n_draws)
        z.
    spread : float
        tr(H_te Σ) of the law that z is drawn from.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[1.0, 2.0]], dtype=np.float32)
    >>> runs = quadratic_runs(np.array([3.0]), np.array([[2.0]]), np.zeros(1), np.ones((1, 1)), z)
    >>> runs.first, runs.second
    (array([3., 6.]), array([1., 4.]))
    """
    bent = hessian @ bias
    # In double precision: in single one, rounding would show in the ninth digit of an interval's end.
    z = standard.astype(np.float64)
    along = np.vstack([gradient @ root, bent @ root]) @ z
    curved = 0.5 * np.einsum("rb,rb->b", (root.T @ hessian @ root) @ z, z)
    return QuadraticRuns(
        first=along[0] + float(gradient @ bias),
        second=along[1] + 0.5 * float(bias @ bent) + curved,
        expected_first=float(gradient @ bias),
        expected_second=0.5 * (float(bias @ bent) + spread),
        second_order=float(gradient @ bias) + 0.5 * spread,
    )


def fit_correction(full: FloatArray, runs: QuadraticRuns) -> Correction:
    """Fit what the quadratic leaves out on the draws that were evaluated in full.

    Parameters
    ----------
    full : array of shape (n_full,)
        Change of the test loss from θ_ε for the first draws.
    runs : QuadraticRuns
        For all draws.
    """
    n_full = len(full)
    first, second = runs.first[:n_full], runs.second[:n_full]
    left = full - first - second
    columns = np.column_stack([np.ones(n_full), first, second])
    size = np.maximum(np.abs(columns).max(axis=0), np.finfo(float).tiny)
    coefficients = np.linalg.lstsq(columns / size, left, rcond=1e-8)[0] / size
    return Correction(coefficients, left - columns @ coefficients)

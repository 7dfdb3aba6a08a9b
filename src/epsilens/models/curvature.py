# SPDX-License-Identifier: Apache-2.0
"""The inverse of a Hessian, as a factor that is kept and used many times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from epsilens._types import FloatArray
from epsilens.errors import EstimateNotTrustworthyError

__all__ = ["Curvature", "factorise", "factorise_shifted"]


MOST_FACTORISED = 5000
"""Up to so many parameters the Hessian is factorised: 200 MB a matrix."""


@dataclass(frozen=True)
class Curvature:
    """A symmetric positive definite Hessian with its Cholesky factor.

    Attributes
    ----------
    hessian : array of shape (p, p)
    factor : array of shape (p, p)
        Lower triangular.
    condition : float
        An estimate of the condition number in the 1-norm.
    """

    hessian: FloatArray
    factor: FloatArray
    condition: float

    def solve(self, right: FloatArray) -> FloatArray:
        """Return H⁻¹ r."""
        solution: FloatArray
        # The bare routine: scipy's own wrapper costs more than the solution of a small system.
        solution, _ = scipy.linalg.lapack.dpotrs(self.factor, right, lower=1)
        return solution

    def sandwich(self, middle: FloatArray) -> FloatArray:
        """Return H⁻¹ M H⁻¹ for a symmetric M."""
        half = self.solve(middle)
        return self.solve(half.T)


def factorise(hessian: FloatArray) -> Curvature:
    """Factorise a Hessian.

    Parameters
    ----------
    hessian : array of shape (p, p)
        Symmetric.

    Returns
    -------
    Curvature

    Raises
    ------
    EstimateNotTrustworthyError
        If it is not positive definite to working precision.

    Examples
    --------
    >>> import numpy as np
    >>> factorise(np.diag([2.0, 4.0])).solve(np.array([2.0, 2.0]))
    array([1. , 0.5])
    """
    if not np.isfinite(hessian).all():
        raise EstimateNotTrustworthyError(
            "the Hessian of the training objective is not finite. Scale the features, or add "
            "regularisation."
        )
    factor, info = scipy.linalg.lapack.dpotrf(hessian, lower=1, clean=1)
    if info != 0:
        raise EstimateNotTrustworthyError(
            "the Hessian of the training objective cannot be inverted: the data are separable or "
            "the features carry no curvature. Add regularisation (a smaller C, a larger alpha)."
        )
    reciprocal, _ = scipy.linalg.lapack.dpocon(
        factor, float(np.abs(hessian).sum(axis=0).max()), uplo="L"
    )
    condition = 1.0 / reciprocal if reciprocal > 0 else np.inf
    return Curvature(hessian=hessian, factor=factor, condition=float(condition))


def factorise_shifted(hessian: FloatArray) -> Curvature:
    """Factorise a Hessian that need not be positive definite, shifted until it is.

    Of use on the way to a minimum of an objective that is not convex; at the minimum itself
    `factorise` must do.

    Examples
    --------
    >>> import numpy as np
    >>> factorise_shifted(np.diag([1.0, -0.5])).hessian.diagonal() > 0
    array([ True,  True])
    """
    try:
        return factorise(hessian)
    except EstimateNotTrustworthyError:
        if not np.isfinite(hessian).all():
            raise
    lowest = float(np.linalg.eigvalsh(hessian)[0])
    size = float(np.abs(hessian).max())
    return factorise(hessian + (2.0 * abs(lowest) + 1e-6 * size) * np.eye(len(hessian)))

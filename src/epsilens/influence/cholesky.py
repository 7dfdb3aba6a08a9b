# SPDX-License-Identifier: Apache-2.0
"""H⁻¹η by factorising the Hessian: exact to rounding, O(np² + p³) (P1 Table I, "X")."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from epsilens._types import FloatArray
from epsilens.errors import ApproximationWarning
from epsilens.influence.inverse_hessian import HessianOperator, InverseSolution, relative_norms

__all__ = ["Cholesky"]


_ROUNDING = 1e-6


@dataclass(frozen=True)
class Cholesky:
    """Factorise the Hessian once; every further vector then costs O(p²).

    The fastest way up to some hundred parameters, and a fitted study has the factor already. With many
    more the matrix itself becomes the trouble: that of 10 000 parameters takes 800 MB.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, Problem, SquaredLoss
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), SquaredLoss(), np.array([0.5, 0.0]))
    >>> Cholesky().solve(HessianOperator(problem, np.zeros(2)), np.array([3.0, 2.0])).vector
    array([2., 2.])
    """

    @property
    def name(self) -> str:
        """As it is asked for by name."""
        return "cholesky"

    @property
    def is_matrix_free(self) -> bool:
        """No: the matrix is formed."""
        return False

    def settings(self) -> dict[str, object]:
        """Return the name; there is nothing to set."""
        return {"solver": self.name}

    def loosened(self, tolerance: float) -> Cholesky:
        """Return itself: a factor has no tolerance."""
        return self

    def solve(
        self, operator: HessianOperator, right: FloatArray, *, quiet: bool = False
    ) -> InverseSolution:
        """Return H⁻¹η, with the residual that rounding leaves.

        Raises
        ------
        EstimateNotTrustworthyError
            If the Hessian is not positive definite to working precision.
        """
        vector = operator.factor.solve(right)
        residual = right - operator.factor.hessian @ vector
        columns = right.reshape(len(right), -1)
        relative = float(relative_norms(residual.reshape(columns.shape), columns).max(initial=0.0))
        note = ""
        if not relative <= _ROUNDING:
            note = (
                f"the factorised Hessian leaves a relative residual of {relative:.1e}: it is too badly "
                "conditioned for double precision. Add regularisation."
            )
            if not quiet:
                warnings.warn(note, ApproximationWarning, stacklevel=2)
        return InverseSolution(
            vector=vector,
            residual=residual,
            relative_residual=relative,
            n_products=columns.shape[1],
            n_passes=1,
            converged=not note,
            note=note,
        )

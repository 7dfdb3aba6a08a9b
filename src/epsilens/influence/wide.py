# SPDX-License-Identifier: Apache-2.0
"""Models with so many parameters that no matrix of parameters × parameters is formed.

The Hessian of 10,000 parameters takes 800 MB and a third of 10¹² multiplications to factorise. Past a stated
number the same questions are answered by products with it alone: Newton's method whose steps are found by
conjugate gradient, in passes over the records that cost as much as a gradient.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np

from epsilens._types import FloatArray
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.influence.conjugate_gradient import ConjugateGradient
from epsilens.influence.inverse_hessian import HessianOperator
from epsilens.models import Curvature, Problem, factorise
from epsilens.models.curvature import MOST_FACTORISED
from epsilens.models.objective import LinearObjective
from epsilens.models.solver import CurvatureAt, Objective

__all__ = [
    "MOST_FACTORISED",
    "WideCurvature",
    "curvature_at",
    "curvature_finder",
    "curvatures_at",
    "is_wide",
    "refuse_matrix",
]


_STEP_TOLERANCE = 1e-4
_POWER_ITERATIONS = 20
_INVERSE_ITERATIONS = 3
_LOOSE = 1e-2
_MOST_STEPS = 2000


def is_wide(n_parameters: int) -> bool:
    """Return whether a Hessian of so many parameters is never formed."""
    return n_parameters > MOST_FACTORISED


def refuse_matrix(
    n_parameters: int, what: str, *, instead: str = "Use fewer features."
) -> InputError:
    """Return the error of something that cannot do without the matrix."""
    return InputError(
        f"{what} needs a matrix of parameters × parameters, which is not formed beyond {MOST_FACTORISED:,} "
        f"parameters, got {n_parameters:,}. {instead}"
    )


class WideCurvature(Curvature):
    """A Hessian that is only multiplied with; what is asked of its inverse is found by iteration.

    Parameters
    ----------
    operator : HessianOperator
    tolerance : float
        Relative residual of every solution.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, SquaredLoss
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), SquaredLoss(), np.array([0.5, 0.0]))
    >>> WideCurvature(HessianOperator(problem, np.zeros(2))).solve(np.array([3.0, 2.0])).round(6)
    array([2., 2.])
    """

    def __init__(self, operator: HessianOperator, tolerance: float = _STEP_TOLERANCE) -> None:
        object.__setattr__(self, "operator", operator)
        object.__setattr__(self, "solver", ConjugateGradient(tolerance, _MOST_STEPS))

    operator: HessianOperator
    solver: ConjugateGradient

    def solve(self, right: FloatArray) -> FloatArray:
        """Return H⁻¹r to the tolerance.

        Raises
        ------
        EstimateNotTrustworthyError
            If it is not reached.
        """
        found = self.solver.solve(self.operator, right, quiet=True)
        if not found.converged:
            raise EstimateNotTrustworthyError(
                "the Hessian of the training objective is too badly conditioned for the conjugate gradient "
                f"(relative residual {found.relative_residual:.1e}). Add regularisation, or scale the features."
            )
        return found.vector

    def loosened(self) -> WideCurvature:
        """Return the same with a tolerance that does for the noise of a run."""
        return WideCurvature(self.operator, _LOOSE)

    @cached_property
    def condition(self) -> float:
        """The condition number, estimated from below by a few power and inverse iterations."""
        generator = np.random.default_rng(0)
        vector = generator.normal(size=self.operator.n_parameters)
        largest = 0.0
        for _ in range(_POWER_ITERATIONS):
            vector = self.operator.product(vector / np.linalg.norm(vector))
            largest = float(np.linalg.norm(vector))
        vector = generator.normal(size=self.operator.n_parameters)
        loose, inverse = self.loosened(), 0.0
        for _ in range(_INVERSE_ITERATIONS):
            vector = loose.solve(vector / np.linalg.norm(vector))
            inverse = float(np.linalg.norm(vector))
        return largest * inverse

    @property
    def hessian(self) -> FloatArray:
        """Refused."""
        raise refuse_matrix(self.operator.n_parameters, "this")

    @property
    def factor(self) -> FloatArray:
        """Refused."""
        raise refuse_matrix(self.operator.n_parameters, "this")


def curvature_at(problem: Problem, theta: FloatArray) -> Curvature:
    """Return the Hessian of a problem at θ: factorised, or as products where it is wide."""
    if is_wide(problem.n_parameters):
        return WideCurvature(HessianOperator(problem, theta))
    return factorise(problem.hessian(theta))


def curvatures_at(problem: LinearObjective, thetas: FloatArray) -> tuple[Curvature, ...]:
    """Return the same at every column of parameters."""
    if is_wide(problem.n_parameters):
        return tuple(_as_products(problem, theta, _STEP_TOLERANCE) for theta in thetas.T)
    return tuple(factorise(hessian) for hessian in problem.hessians(thetas))


def _as_products(
    objective: Objective, theta: FloatArray, tolerance: float = _LOOSE
) -> WideCurvature:
    # Streamed records are refused where they are wide: only those in memory come here.
    return WideCurvature(HessianOperator(cast("Problem", objective), theta), tolerance)


def curvature_finder(problem: LinearObjective) -> CurvatureAt | None:
    """Return how the solver finds the curvature of a wide problem; None for its own way."""
    return _as_products if is_wide(problem.n_parameters) else None

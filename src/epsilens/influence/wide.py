# SPDX-License-Identifier: Apache-2.0
"""Models with so many parameters that no matrix of parameters × parameters is formed.

The Hessian of 10,000 parameters takes 800 MB and a third of 10¹² multiplications to factorise. Past a stated
number the same questions are answered by products with it alone: Newton's method whose steps are found by
conjugate gradient, in passes over the records that cost as much as a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, cast

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens._validate import as_choice
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.influence.conjugate_gradient import ConjugateGradient
from epsilens.influence.inverse_hessian import Cholesky, HessianOperator, InverseHessian
from epsilens.influence.stochastic_estimation import StochasticEstimation
from epsilens.models import Curvature, Design, Problem, factorise
from epsilens.models.design import empty_directions, independent_columns
from epsilens.models.scikit_learn import Specification
from epsilens.models.solver import MOST_FACTORISED, CurvatureAt, LinearObjective, SmoothObjective

__all__ = [
    "INVERSE_HESSIANS",
    "MOST_FACTORISED",
    "Space",
    "WideCurvature",
    "as_inverse_hessian",
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


def curvatures_at(problem: LinearObjective, thetas: FloatArray) -> tuple[Curvature, ...]:
    """Return the Hessian at every column of parameters: factorised, or as products where it is wide."""
    if is_wide(problem.n_parameters):
        return tuple(_as_products(problem, theta, _STEP_TOLERANCE) for theta in thetas.T)
    return tuple(factorise(hessian) for hessian in problem.hessians(thetas))


def _as_products(
    objective: SmoothObjective, theta: FloatArray, tolerance: float = _LOOSE
) -> WideCurvature:
    # Streamed records are refused where they are wide: only those in memory come here.
    return WideCurvature(HessianOperator(cast("Problem", objective), theta), tolerance)


def curvature_finder(problem: LinearObjective) -> CurvatureAt | None:
    """Return how the solver finds the curvature of a wide problem; None for its own way."""
    return _as_products if is_wide(problem.n_parameters) else None


# --- Which way to the inverse Hessian: by name, or with settings of its own ---

INVERSE_HESSIANS = ("cholesky", "cg", "stochastic")


def as_inverse_hessian(
    value: object,
    *,
    random_state: int = 0,
    n_parameters: int = 0,
    name: str = "inverse_hessian",
) -> InverseHessian:
    """Return the solver that a caller asked for.

    Parameters
    ----------
    value : None, "cholesky", "cg", "stochastic" or a solver with its settings
        None: Cholesky, or conjugate gradient where the Hessian is too wide to be formed.
    random_state : int
        Seed of a solver asked for by name.
    n_parameters : int
        Number of parameters of the model.
    name : str
        The name the caller typed.

    Returns
    -------
    InverseHessian

    Raises
    ------
    InputError
        If it is none of these, or would form a matrix that is too wide.

    Examples
    --------
    >>> as_inverse_hessian("cg")
    ConjugateGradient(tolerance=1e-08, max_iterations=1000)
    """
    if value is None:
        return ConjugateGradient() if is_wide(n_parameters) else Cholesky()
    if isinstance(value, InverseHessian) and not isinstance(value, type):
        if is_wide(n_parameters) and not value.is_matrix_free:
            raise refuse_matrix(n_parameters, f"{name}={value.name!r}", instead="Use 'cg'.")
        return value
    choice = as_choice(value, INVERSE_HESSIANS, name=name)
    if choice == "cg":
        return ConjugateGradient()
    if choice == "stochastic":
        return StochasticEstimation(random_state=random_state)
    if is_wide(n_parameters):
        raise refuse_matrix(n_parameters, f"{name}={choice!r}", instead="Use 'cg'.")
    return Cholesky()


# --- The space that the training features span: columns that are enough, and directions without anything ---

Features: TypeAlias = "FloatArray | scipy.sparse.csr_array"


@dataclass(frozen=True, repr=False)
class Space:
    """The space that the features span, and the directions in it that carry nothing.

    Attributes
    ----------
    kept : array of int, or None
        Columns that span it; None if no column is dependent.
    empty : array of shape (n_features, d)
        Orthonormal directions in which the training features do not vary, in their own units.
    centre : array of shape (n_features,)
        Where a free intercept takes up the rest: the weighted mean; otherwise 0.
    """

    kept: NDArray[np.intp] | None
    empty: FloatArray
    centre: FloatArray

    @classmethod
    def of_wide(cls, design: Design, penalty: FloatArray, specification: Specification) -> Space:
        """Ask for a penalty: without a matrix only that says that no column depends on the others."""
        n_features = design.n_columns - (specification.intercept is not None)
        if not (penalty[:n_features] > 0).all():
            raise refuse_matrix(
                design.n_columns,
                "a model without a penalty",
                instead="Add regularisation (a finite C, an alpha above 0).",
            )
        return cls(None, np.zeros((n_features, 0)), np.zeros(n_features))

    @classmethod
    def of(
        cls, design: Design, gram: FloatArray, penalty: FloatArray, specification: Specification
    ) -> Space:
        """Look for columns that others make up, given the mean of w xxᵀ in scaled coordinates."""
        n_features = design.n_columns - (specification.intercept is not None)
        inner = gram[:n_features, :n_features]
        centre = np.zeros(n_features)
        if specification.intercept is not None and not specification.intercept_is_penalised:
            # Around the weighted mean, as a free intercept sees it.
            side = gram[:n_features, -1]
            inner = inner - np.outer(side, side) / gram[-1, -1]
            mean = side / gram[-1, -1] * specification.intercept / design.scale[-1]
            centre = mean * design.scale[:n_features] + design.offset[:n_features]
        inner = inner + np.diag(penalty[:n_features])
        kept = independent_columns(inner)
        if kept is None:
            return cls(kept=None, empty=np.zeros((n_features, 0)), centre=centre)
        empty = empty_directions(inner, design.scale[:n_features])
        if n_features < design.n_columns:
            kept = np.append(kept, n_features)
        return cls(kept=kept, empty=empty, centre=centre)

    def nearest(self, features: Features) -> Features:
        """Return test features as the shortest coefficients see them.

        A test record may lie outside what the training records span; coefficients without a part
        in the empty directions do not see that, and neither may the columns that were kept.
        """
        outside = np.asarray(features @ self.empty) - self.centre @ self.empty
        size = np.abs(outside).max(initial=0.0)
        if size <= 1e-9 * (1.0 + np.abs(self.centre).max(initial=0.0)):
            return features
        dense = features if isinstance(features, np.ndarray) else features.toarray()
        return dense - outside @ self.empty.T

    def coefficients(
        self, design: Design, theta: FloatArray, specification: Specification
    ) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts in the features' own units, the shortest there are."""
        n_features = len(self.centre)
        values = theta.reshape(-1, design.n_columns) / design.scale
        intercept = np.zeros(len(values))
        has_intercept = specification.intercept is not None
        if specification.intercept is not None:
            intercept = values[:, -1] * specification.intercept
        own = slice(0, design.n_columns - has_intercept)
        intercept = intercept - values[:, own] @ design.offset[own]
        coefficients = np.zeros((len(values), n_features))
        coefficients[:, design.kept[own]] = values[:, own]
        empty_part = (coefficients @ self.empty) @ self.empty.T
        return coefficients - empty_part, intercept + empty_part @ self.centre

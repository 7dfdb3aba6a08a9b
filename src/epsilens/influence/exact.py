# SPDX-License-Identifier: Apache-2.0
"""The minimiser of the expected perturbed objective, walked along ε for many groups at once.

ε goes from large to small, all groups side by side. Since the objective moves only in its linear
term, the tangent of the path is H⁻¹·(change of the linear term): it predicts the next minimiser so
well that a few gradients, solved with the Hessian of the last one, finish the work. One Hessian a cell
is then taken at the minimiser itself, for the noise of one run and for the next step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from epsilens._types import BoolArray, FloatArray
from epsilens.influence.wide import curvature_finder, curvatures_at
from epsilens.models import Curvature, minimise
from epsilens.models.objective import LinearObjective
from epsilens.models.solver import LONGEST_REACH

__all__ = ["PathPoint", "walk"]


@dataclass(frozen=True)
class PathPoint:
    """The minimisers of all groups at one ε.

    Attributes
    ----------
    index : int
        Position in the list of ε.
    theta : array of shape (p, n_groups)
    converged : array of bool, shape (n_groups,)
    curvatures : tuple of Curvature
        The Hessian of every group's objective at its minimiser.
    """

    index: int
    theta: FloatArray
    converged: BoolArray
    curvatures: tuple[Curvature, ...]


def walk(
    problem: LinearObjective,
    theta: FloatArray,
    curvature: Curvature,
    linear: FloatArray,
    shifts: FloatArray,
    *,
    tolerance: float = 1e-8,
) -> Iterator[PathPoint]:
    """Yield the minimisers from the last ε (the largest) to the first.

    Parameters
    ----------
    problem : Problem
    theta : array of shape (p,)
        The unperturbed optimum.
    curvature : Curvature
        H there.
    linear : array of shape (p,)
        The unperturbed linear term.
    shifts : array of shape (n_epsilon, p, n_groups)
        By how much the linear term moves; ε ascending.
    tolerance : float
        Largest entry of the gradient.

    Yields
    ------
    PathPoint

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, Problem, SquaredLoss, factorise
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), SquaredLoss(), np.zeros(2))
    >>> curvature = factorise(problem.hessian(np.zeros(2)))
    >>> shifts = np.array([[[1.0], [2.0]], [[0.5], [1.0]]])
    >>> points = walk(problem, np.zeros(2), curvature, np.zeros(2), shifts)
    >>> [(point.index, point.theta.ravel().round(6).tolist()) for point in points]
    [(1, [0.5, 1.0]), (0, [1.0, 2.0])]
    """
    n_epsilon, _, n_groups = shifts.shape
    at = np.repeat(theta[:, None], n_groups, axis=1)
    curvatures: tuple[Curvature, ...] = (curvature,) * n_groups
    previous = np.zeros_like(at)
    for index in reversed(range(n_epsilon)):
        moved = shifts[index] - previous
        steps = np.column_stack([curvatures[g].solve(moved[:, g]) for g in range(n_groups)])
        # Where data are nearly separable the tangent points far beyond what it knows of.
        reach = problem.reach(steps)
        if problem.is_quadratic:
            reach[:] = 0.0
        start = at + steps * np.minimum(1.0, LONGEST_REACH / np.maximum(reach, LONGEST_REACH))
        solution = minimise(
            problem,
            linear[:, None] + shifts[index],
            start,
            curvatures=curvatures,
            curvature_at=curvature_finder(problem),
            tolerance=tolerance,
        )
        at, previous = solution.theta, shifts[index]
        curvatures = curvatures_at(problem, at)
        yield PathPoint(index=index, theta=at, converged=solution.converged, curvatures=curvatures)

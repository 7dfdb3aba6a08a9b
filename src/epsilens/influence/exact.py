# SPDX-License-Identifier: Apache-2.0
"""The minimiser of the expected perturbed objective, followed along ε for many groups at once.

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
from epsilens.models.solver import LONGEST_REACH, LinearObjective


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


# --- One Newton step on the expected perturbed objective, with a line search ---

LONGEST_STEP = 1.5
_N_TRIALS = 40


def newton_steps(
    problem: LinearObjective,
    theta: FloatArray,
    curvature: Curvature,
    linear: FloatArray,
    shifts: FloatArray,
) -> FloatArray:
    """Return θ̂ + a·H⁻¹·shift for every column, a = argmin over [0, 1.5] of the objective.

    Parameters
    ----------
    problem : Problem
    theta : array of shape (p,)
        The unperturbed optimum θ̂.
    curvature : Curvature
        H at θ̂.
    linear : array of shape (p,)
        The unperturbed linear term.
    shifts : array of shape (p, n_cells)
        By how much the linear term moves: −γ/n in P1's letters.

    Returns
    -------
    array of shape (p, n_cells)

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, Problem, SquaredLoss, factorise
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), SquaredLoss(), np.zeros(2))
    >>> curvature = factorise(problem.hessian(np.zeros(2)))
    >>> shift = np.array([[1.0], [2.0]])
    >>> newton_steps(problem, np.zeros(2), curvature, np.zeros(2), shift).ravel()
    array([1., 2.])
    """
    directions = curvature.solve(shifts)
    pulls = np.einsum("ib,ib->b", linear[:, None] + shifts, directions)
    n_cells = directions.shape[1]
    low, high = np.zeros(n_cells), np.full(n_cells, LONGEST_STEP)
    a, active = np.ones(n_cells), np.arange(n_cells)
    for _ in range(_N_TRIALS):
        if len(active) == 0:
            break
        slope, bend = problem.along_lines(theta, directions[:, active], a[active])
        slope -= pulls[active]
        at = a[active]
        low[active] = np.where(slope > 0, low[active], at)
        high[active] = np.where(slope > 0, at, high[active])
        flat = ~(bend > 0)
        proposal = np.where(flat, low[active], at - slope / np.where(flat, 1.0, bend))
        outside = (proposal < low[active]) | (proposal > high[active])
        proposal = np.where(outside, 0.5 * (low[active] + high[active]), proposal)
        a[active] = proposal
        active = active[np.abs(proposal - at) >= 1e-10]
    stepped: FloatArray = theta[:, None] + a * directions
    return stepped

# SPDX-License-Identifier: Apache-2.0
"""One Newton step on the expected perturbed objective, with a line search.

For label noise with a canonical link the Hessian does not contain the labels, so the plain step
overshoots badly at small ε; along its direction the objective is a function of one number, and
finding its minimum costs O(n) scalars a trial.
"""

from __future__ import annotations

import numpy as np

from epsilens._types import FloatArray
from epsilens.models import Curvature
from epsilens.models.objective import LinearObjective

__all__ = ["newton_steps"]


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

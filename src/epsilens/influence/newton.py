# SPDX-License-Identifier: Apache-2.0
"""One Newton step on the expected perturbed objective, with a line search.

For label noise with a canonical link the Hessian does not contain the labels, so the plain step
overshoots badly at small ε; along its direction the objective is a function of one number, and
finding its minimum costs O(n) scalars a trial.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilens.models import Curvature, Problem

__all__ = ["newton_steps"]

FloatArray = NDArray[np.float64]

LONGEST_STEP = 1.5
_N_TRIALS = 40


def newton_steps(
    problem: Problem,
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
    """
    directions = curvature.solve(shifts)
    result = np.empty_like(directions)
    s = problem.design.predict(theta)
    n = problem.n_rows
    for cell in range(directions.shape[1]):
        direction = directions[:, cell]
        along = problem.design.predict(direction)
        pull = float((linear + shifts[:, cell]) @ direction)
        low, high, a = 0.0, LONGEST_STEP, 1.0
        for _ in range(_N_TRIALS):
            at = s + a * along
            slope = (
                float(problem.weights @ (along * problem.loss.mean(at)).sum(axis=1)) / n
                + float(direction @ problem.penalise(theta + a * direction))
                - pull
            )
            bent = np.einsum("ik,ikl,il->i", along, problem.loss.curvature(at), along)
            bend = float(problem.weights @ bent) / n
            bend += float(direction @ problem.penalise(direction))
            low, high = (low, a) if slope > 0 else (a, high)
            proposal = a - slope / bend if bend > 0 else low
            if not low <= proposal <= high:
                proposal = 0.5 * (low + high)
            if abs(proposal - a) < 1e-10:
                a = proposal
                break
            a = proposal
        result[:, cell] = theta + a * direction
    return result

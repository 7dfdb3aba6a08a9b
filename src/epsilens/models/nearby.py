# SPDX-License-Identifier: Apache-2.0
"""Minima of many objectives that lie close to a point whose Hessian is known.

Drawn runs of one cell have minimisers around the cell's own. A limited-memory quasi-Newton method that begins
with the known Hessian needs a handful of gradients for all of them, side by side, and no further Hessian.
Single runs that it does not bring home are left to `minimise`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.models.solver import Curvature, SeparateObjectives, SmoothObjective, minimise

_GRADIENT_TOLERANCE = 1e-5
_MOST_ITERATIONS = 20
_MEMORY = 8
_OVERSHOOT = 0.5


@dataclass
class _Memory:
    """Steps and changes of the gradient, the newest last, for every column."""

    steps: list[FloatArray] = field(default_factory=list)
    changes: list[FloatArray] = field(default_factory=list)
    inverses: list[FloatArray] = field(default_factory=list)

    def add(self, step: FloatArray, change: FloatArray, taken: BoolArray) -> None:
        along = np.einsum("pd,pd->d", step, change)
        size = np.sqrt(np.einsum("pd,pd->d", step, step) * np.einsum("pd,pd->d", change, change))
        # A column that took no step, or found no curvature along it, adds nothing.
        counts = taken & (along > 1e-12 * size)
        self.steps.append(step)
        self.changes.append(change)
        self.inverses.append(np.where(counts, 1.0 / np.where(counts, along, 1.0), 0.0))
        for kept in (self.steps, self.changes, self.inverses):
            del kept[:-_MEMORY]

    def solve(self, curvature: Curvature, gradient: FloatArray) -> FloatArray:
        """Return H⁻¹g by the two-loop recursion, beginning with a known H."""
        q = gradient.copy()
        sizes = []
        for s, y, rho in zip(
            reversed(self.steps), reversed(self.changes), reversed(self.inverses), strict=True
        ):
            size = rho * np.einsum("pd,pd->d", s, q)
            sizes.append(size)
            q -= size * y
        r = curvature.solve(q)
        for s, y, rho, size in zip(
            self.steps, self.changes, self.inverses, reversed(sizes), strict=True
        ):
            r += s * (size - rho * np.einsum("pd,pd->d", y, r))
        return r

    def of_columns(self, kept: BoolArray) -> _Memory:
        return _Memory(
            [s[:, kept] for s in self.steps],
            [y[:, kept] for y in self.changes],
            [rho[kept] for rho in self.inverses],
        )


def minimise_nearby(
    problem: SmoothObjective,
    linear: FloatArray,
    start: FloatArray,
    curvature: Curvature,
    *,
    decrement_tolerance: float,
) -> tuple[FloatArray, BoolArray]:
    """Minimise F for every column of `linear`, from starts close to a point whose Hessian is known.

    Parameters
    ----------
    problem : SmoothObjective
    linear, start : arrays of shape (p, n_problems)
    curvature : Curvature
        The Hessian close by.
    decrement_tolerance : float
        How far above its minimum an objective may stay.

    Returns
    -------
    theta : array of shape (p, n_problems)
    converged : array of bool, shape (n_problems,)

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, LogisticLoss, Problem, factorise
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), LogisticLoss(), np.full(2, 0.1))
    >>> linear = np.array([[0.3, 0.2], [0.2, 0.3]])
    >>> curvature = factorise(problem.hessian(np.zeros(2)))
    >>> theta, converged = minimise_nearby(
    ...     problem, linear, np.zeros((2, 2)), curvature, decrement_tolerance=1e-14)
    >>> bool(converged.all()), bool(np.abs(problem.gradient(theta, linear)).max() < 1e-6)
    (True, True)
    """
    theta = start.copy()
    n_problems = theta.shape[1]
    converged = np.zeros(n_problems, dtype=bool)
    active = np.arange(n_problems)
    own, memory = problem, _Memory()
    at = theta.copy()
    gradient = own.gradient(at, linear)
    length = np.ones(n_problems)
    direction = -curvature.solve(gradient)
    for _ in range(_MOST_ITERATIONS):
        decrement = -np.einsum("pd,pd->d", gradient, direction)
        # The last step is known already: taking it costs nothing and gains digits.
        arrived = (np.abs(0.5 * decrement) <= decrement_tolerance) & (length == 1.0)
        if arrived.any():
            theta[:, active[arrived]] = at[:, arrived] + direction[:, arrived]
            converged[active[arrived]] = True
            left = ~arrived
            if not left.any():
                return theta, converged
            active, at, gradient = active[left], at[:, left], gradient[:, left]
            direction, decrement, length = direction[:, left], decrement[left], length[left]
            memory = memory.of_columns(left)
            if isinstance(problem, SeparateObjectives):
                own = problem.of_columns(active)
        trial = at + length * direction
        found = own.gradient(trial, linear[:, active])
        slope = np.einsum("pd,pd->d", found, direction)
        overshoots = (slope > _OVERSHOOT * decrement) | (decrement <= 0) | ~np.isfinite(slope)
        overshoots &= length > 1e-4
        taken = ~overshoots
        step = np.where(taken, trial - at, 0.0)
        memory.add(step, np.where(taken, found - gradient, 0.0), taken)
        at = at + step
        gradient = np.where(taken, found, gradient)
        # Where the slope has turned, the secant knows how far to go.
        turned = np.where(np.isfinite(slope) & (slope > 0), slope, np.abs(decrement))
        shorter = length * np.abs(decrement) / (np.abs(decrement) + turned + 1e-300)
        fresh = -memory.solve(curvature, gradient)
        direction = np.where(taken, fresh, direction)
        length = np.where(taken, 1.0, shorter)
    try:
        solution = minimise(
            own,
            linear[:, active],
            at,
            tolerance=_GRADIENT_TOLERANCE,
            decrement_tolerance=decrement_tolerance,
        )
    except EstimateNotTrustworthyError:
        # A run whose Hessian is singular has no minimum: that is for the caller to judge.
        theta[:, active] = at
        return theta, converged
    theta[:, active], converged[active] = solution.theta, solution.converged
    return theta, converged

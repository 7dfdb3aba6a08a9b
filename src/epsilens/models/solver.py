# SPDX-License-Identifier: Apache-2.0
"""Newton's method for many problems that share their features, side by side.

Problems that differ only in their labels differ only in the linear term of the objective. Their
gradients are then two matrix products for all of them together, and neighbouring problems can share
one factorised Hessian. The single problem is the case of one column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import EstimateNotTrustworthyError

if TYPE_CHECKING:
    from epsilens.models.problem import Problem
    from epsilens.models.streamed_problem import StreamedProblem


# --- The inverse of a Hessian, as a factor that is kept and used many times ---

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

    This is useful on the way to a minimum of an objective that is not convex; at the minimum itself
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


# --- Newton's method for many problems that share their features, side by side ---

GRADIENT_TOLERANCE = 1e-8
DECREMENT_TOLERANCE = 1e-16
# No first step may move a record's linear predictor further than this, for the Hessian says nothing
# there. It doubles with every step that it shortened in vain: one record with huge values would
# otherwise hold up all the others.
LONGEST_REACH = 4.0
_BOLD_DECREMENT = 0.05
_SLOW_CONTRACTION = 0.2
_OVERSHOOT = 0.5
_PATIENCE = 2
_POLISHING_STEPS = 6
_ROUNDING = 1e-15


class SmoothObjective(Protocol):
    """What the solver asks of an objective: `Problem`, or one with alternatives."""

    @property
    def is_quadratic(self) -> bool:
        """Whether a Hessian holds everywhere."""
        ...

    @property
    def is_convex(self) -> bool:
        """Whether every Hessian is positive definite."""
        ...

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return the gradient less a linear term, for columns of parameters."""
        ...

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian at one parameter vector."""
        ...

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the largest distance that each column of steps moves a predictor."""
        ...


CurvatureAt = Callable[[SmoothObjective, FloatArray], Curvature]
"""From an objective and parameters to its Hessian there, ready to be solved with."""


@runtime_checkable
class SeparateObjectives(SmoothObjective, Protocol):
    """Objectives that differ by more than the linear term, such as models on different records."""

    def of_columns(self, columns: NDArray[np.intp]) -> SmoothObjective:
        """Return the objectives of some columns only."""
        ...


@dataclass(frozen=True)
class Solution:
    """Minimisers and how well they were reached.

    Attributes
    ----------
    theta : array of shape (p, n_problems)
    gradient_norm : array of shape (n_problems,)
        Largest entry of the gradient, in scaled coordinates.
    converged : array of bool, shape (n_problems,)
    n_gradients : int
        Gradient evaluations, summed over problems.
    curvatures : tuple of Curvature
        The Hessian that each problem's last step was solved with.
    """

    theta: FloatArray
    gradient_norm: FloatArray
    converged: BoolArray
    n_gradients: int
    curvatures: tuple[Curvature, ...] = ()


def minimise(
    problem: SmoothObjective,
    linear: FloatArray,
    start: FloatArray,
    *,
    clusters: NDArray[np.intp] | None = None,
    curvatures: Sequence[Curvature] | None = None,
    curvature_at: CurvatureAt | None = None,
    tolerance: float = GRADIENT_TOLERANCE,
    decrement_tolerance: float = DECREMENT_TOLERANCE,
    max_iterations: int = 200,
    always_fresh: bool = False,
) -> Solution:
    """Minimise F for every column of `linear`.

    Each step solves with a Hessian taken at the mean of its cluster, which is refreshed when the
    gradient stops shrinking fast. A bold step is shortened to a reach within which the Hessian can be
    believed; one that overshoots, seen by the slope along it at its end, is cut back to where the
    secant puts the minimum, and on from there if that is still far too short: between the two the
    minimum along the step is bracketed, and for a convex objective that is enough.

    Parameters
    ----------
    problem : SmoothObjective
        Convex, such as a `Problem`.
    linear, start : arrays of shape (p, n_problems)
    clusters : array of int, shape (n_problems,), optional
        Problems with the same number share a Hessian. None: each has its own.
    curvatures : sequence of Curvature, optional
        Factorised Hessians to begin with, one per cluster; None: taken at the start.
    curvature_at : callable, optional
        Another way to a Hessian than to form and factorise it. One that costs nothing to take
        is taken anew at every step.
    tolerance : float
        Largest entry of the gradient that counts as zero.
    decrement_tolerance : float
        How far above its minimum the objective may stay.
    max_iterations : int
    always_fresh : bool
        Take a Hessian at every step: for an objective that gives it along with the gradient.

    Returns
    -------
    Solution
        Columns that did not converge are marked, not hidden.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models.design import Design
    >>> from epsilens.models.problem import SquaredLoss
    >>> from epsilens.models.problem import Problem
    >>> design = Design.plain(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]))
    >>> problem = Problem(design, np.ones(3), SquaredLoss(), np.zeros(2))
    >>> linear = problem.linear_term(2 * np.array([[1.0], [3.0], [5.0]]))[:, None]
    >>> solution = minimise(problem, linear, np.zeros((2, 1)))
    >>> solution.theta[:, 0].round(6)
    array([2., 1.])
    """
    n_problems = linear.shape[1]
    may_saturate = not problem.is_quadratic
    separate = problem if isinstance(problem, SeparateObjectives) else None
    cluster_of = np.arange(n_problems) if clusters is None else clusters.copy()
    n_clusters = int(cluster_of.max()) + 1 if n_problems else 0
    known: list[Curvature | None] = [None] * n_clusters if curvatures is None else [*curvatures]
    stale = np.full(n_clusters, curvatures is None)

    # Tolerances are relative to the size of the labels' pull, which is below 1 for classes.
    unit = np.maximum(1.0, np.abs(linear).max(axis=0, initial=0.0))
    theta = start.copy()
    gradient = problem.gradient(theta, linear)
    n_gradients = n_problems
    if problem.is_quadratic and not linear.any():
        # The labels' pull is inside the objective, and may have any unit: what is left at the start counts, but
        # no less of it than rounding leaves of the pull.
        pull = np.abs(problem.gradient(np.zeros_like(theta), linear)).max(axis=0, initial=0.0)
        n_gradients += n_problems
        unit = np.maximum(np.abs(gradient).max(axis=0, initial=0.0), 1e-6 * pull)
        unit = np.maximum(unit, np.finfo(np.float64).tiny)
    active = np.ones(n_problems, dtype=bool)
    step = np.zeros_like(theta)
    decrement = np.full(n_problems, np.inf)
    length = np.ones(n_problems)
    origin = theta.copy()
    must_solve = np.ones(n_problems, dtype=bool)
    n_slow = np.zeros(n_problems, dtype=np.intp)
    origin_size = np.full(n_problems, np.inf)
    limit = np.full(n_problems, LONGEST_REACH)
    too_short = np.zeros(n_problems)
    too_long = np.full(n_problems, np.inf)

    for _ in range(max_iterations):
        stale |= always_fresh
        for cluster in np.unique(cluster_of[active & must_solve]):
            members = cluster_of == cluster
            here = members & active & must_solve
            factor = known[cluster]
            if factor is None or stale[cluster]:
                own = problem if separate is None else separate.of_columns(np.flatnonzero(here))
                centre = theta[:, here].mean(axis=1)
                if curvature_at is not None:
                    factor = curvature_at(own, centre)
                else:
                    hessian = own.hessian(centre)
                    factor = factorise(hessian) if own.is_convex else factorise_shifted(hessian)
                known[cluster] = factor
                stale[cluster] = curvature_at is not None
            step[:, here] = -factor.solve(gradient[:, here])
        decrement[must_solve] = -np.einsum("ij,ij->j", gradient[:, must_solve], step[:, must_solve])
        size = np.abs(gradient).max(axis=0, initial=0.0)
        # Nearly separable data have directions almost without curvature, in which the decrement
        # shrinks no faster than the gradient: a far smaller gradient is proof enough there.
        settled = (0.5 * decrement <= decrement_tolerance * unit**2) | (
            size <= 1e-3 * tolerance * unit
        )
        arrived = active & must_solve & (size <= tolerance * unit) & settled
        # The last step is known already: taking it costs nothing and gains a digit or more.
        theta[:, arrived] += step[:, arrived]
        active &= ~arrived
        if not active.any():
            break
        origin[:, active & must_solve] = theta[:, active & must_solve]
        origin_size[must_solve] = size[must_solve]
        length[must_solve] = 1.0
        too_short[must_solve] = 0.0
        too_long[must_solve] = np.inf
        bold = np.flatnonzero(active & must_solve & (decrement > _BOLD_DECREMENT) & may_saturate)
        if len(bold):
            reach = problem.reach(step[:, bold])
            length[bold] = np.minimum(1.0, limit[bold] / np.maximum(reach, limit[bold]))
            stale[np.unique(cluster_of[bold])] = True
        columns = np.flatnonzero(active)
        trial = origin[:, columns] + length[columns] * step[:, columns]
        own = problem if separate is None else separate.of_columns(columns)
        trial_gradient = own.gradient(trial, linear[:, columns])
        n_gradients += len(columns)
        slope = np.einsum("ij,ij->j", trial_gradient, step[:, columns])
        # Rounding makes the slope meaningless once the step is down to the last digits.
        slope_counts = decrement[columns] > DECREMENT_TOLERANCE * unit[columns] ** 2
        overshoots = (slope > _OVERSHOOT * decrement[columns]) & slope_counts
        overshoots &= length[columns] > 1e-6
        # A secant falls far short where the objective is flat at first and steep beyond.
        falls_short = (slope < -_OVERSHOOT * decrement[columns]) & slope_counts
        bracketed = np.isfinite(too_long[columns])
        halted = ~overshoots & ~bracketed & (length[columns] < 1.0)
        limit[columns[halted]] *= 2.0
        limit[columns[overshoots]] = np.maximum(LONGEST_REACH, limit[columns[overshoots]] / 2.0)
        falls_short &= bracketed & (too_long[columns] > 1.01 * length[columns])
        too_long[columns[overshoots]] = length[columns[overshoots]]
        too_short[columns[falls_short]] = length[columns[falls_short]]
        cut = decrement[columns] / (decrement[columns] + np.maximum(slope, 0.0))
        searches = overshoots | falls_short
        middle = np.sqrt(too_short[columns] * np.where(searches, too_long[columns], 0.0))
        cut_back = np.where(too_short[columns] > 0.0, middle, length[columns] * cut)
        theta[:, columns] = trial
        gradient[:, columns] = trial_gradient
        length[columns] = np.where(searches, cut_back, 1.0)
        must_solve = np.zeros(n_problems, dtype=bool)
        must_solve[columns] = ~searches
        after = np.abs(trial_gradient).max(axis=0)
        # Against the start of the step, which an overshoot on the way has no part in.
        slow = ~searches & (after > _SLOW_CONTRACTION * origin_size[columns])
        n_slow[columns[slow]] += 1
        # A column that the shared Hessian fails twice gets one of its own.
        alone = columns[slow & (n_slow[columns] == _PATIENCE)]
        cluster_of[alone] = len(known) + np.arange(len(alone))
        known += [None] * len(alone)
        stale = np.r_[stale, np.ones(len(alone), dtype=bool)]
        stale[cluster_of[columns[slow]]] = True

    return Solution(
        theta=theta,
        gradient_norm=np.abs(gradient).max(axis=0, initial=0.0),
        converged=~active & np.isfinite(theta).all(axis=0),
        n_gradients=n_gradients,
        curvatures=tuple(
            one for one in (known[cluster] for cluster in cluster_of) if one is not None
        ),
    )


def polish(problem: SmoothObjective, linear: FloatArray, solution: Solution) -> FloatArray:
    """Return the minimiser of one problem down to rounding, with the Hessian that is there already.

    Near the minimum an old Hessian gains two or three digits a step, at the cost of a gradient.

    Parameters
    ----------
    problem : SmoothObjective
    linear : array of shape (p,)
    solution : Solution
        Converged solution of this problem alone.
    """
    theta, (factor,) = solution.theta[:, 0], solution.curvatures
    gradient = problem.gradient(theta[:, None], linear[:, None])[:, 0]
    for _ in range(_POLISHING_STEPS):
        further = theta - factor.solve(gradient)
        left = problem.gradient(further[:, None], linear[:, None])[:, 0]
        if not np.abs(left).max(initial=0.0) < np.abs(gradient).max(initial=0.0):
            break
        theta, gradient = further, left
        if np.abs(gradient).max(initial=0.0) <= _ROUNDING:
            break
    return theta


# --- What the methods ask of a training objective, wherever its records are ---


LinearObjective: TypeAlias = "Problem | StreamedProblem"
"""The mean of a canonical loss with a penalty; labels enter through the linear term only."""


# --- Minima of many objectives that lie close to a point whose Hessian is known ---

_GRADIENT_TOLERANCE = 1e-5
_MOST_ITERATIONS = 20
_MEMORY = 8


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

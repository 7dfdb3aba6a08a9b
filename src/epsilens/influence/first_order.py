# SPDX-License-Identifier: Apache-2.0
"""What first order asks of the inverse Hessian: v, the steps of the cells, and the noise of a run.

Δ = −γᵀv with v = H⁻¹η is all there is to the estimate. What stands beside it needs H⁻¹ along a few more
vectors: accuracy and gaps are evaluated at θ̂ − H⁻¹γ, and whether to believe the estimate hangs on the
noise xᵀΣx, Σ = H⁻¹CH⁻¹, that one run leaves in the test predictors. With a factor Σ is a matrix; without one
its quadratic forms are estimated from a handful of real draws of the channel, each solved to few digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.influence.evaluation import Evaluation
from epsilens.influence.inverse_hessian import HessianOperator, InverseHessian, InverseSolution
from epsilens.influence.label_noise import LabelNoise
from epsilens.influence.perturbed import PerturbedObjective
from epsilens.models import Problem

N_PROBES = 16
"""Draws behind xᵀΣx: its mean over test records is then known to a third at worst."""
PROBE_TOLERANCE = 1e-2
_RANK_TOLERANCE = 1e-13


@dataclass(frozen=True)
class SolveError:
    """How far a first-order number may be off because a linear system was not solved exactly.

    Attributes
    ----------
    size : float
        |rᵀH⁻¹γ|, r the residual of v: estimated.
    standard_error : float or None
        Standard error over the mini-batches; None where nothing was drawn.
    converged : bool
        Whether all systems, for v, for the step and for the noise, were solved to tolerance.
    """

    size: float
    standard_error: float | None
    converged: bool


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class FirstOrder:
    """v = H⁻¹η, with the solver that found it.

    Parameters
    ----------
    operator : HessianOperator
        H at the optimum.
    inverse : InverseHessian
    solution : InverseSolution
        Solution for the test gradient η.
    """

    operator: HessianOperator
    inverse: InverseHessian
    solution: InverseSolution

    @classmethod
    def of(
        cls, operator: HessianOperator, inverse: InverseHessian, test_gradient: FloatArray
    ) -> FirstOrder:
        """Find v; a solution that did not converge is the caller's to speak of."""
        return cls(operator, inverse, inverse.solve(operator, test_gradient, quiet=True))

    @property
    def direction(self) -> FloatArray:
        """The vector v, (K·p,)."""
        return self.solution.vector

    def steps(self, shifts: FloatArray) -> tuple[FloatArray, bool]:
        """Return H⁻¹ times every column of shifts, and whether all were found to tolerance.

        Under randomised response the shifts of one group at several ε are multiples of one vector,
        so without a factor only a basis of what they span is solved for.
        """
        if not self.inverse.is_matrix_free:
            found = self.inverse.solve(self.operator, shifts, quiet=True)
            return found.vector, found.converged
        left, sizes, right = np.linalg.svd(shifts, full_matrices=False)
        rank = int(np.sum(sizes > _RANK_TOLERANCE * sizes[0]))
        if rank == 0:
            return np.zeros_like(shifts), True
        found = self.inverse.solve(self.operator, left[:, :rank], quiet=True)
        return found.vector @ (sizes[:rank, None] * right[:rank]), found.converged

    def error(self, gamma: FloatArray, step: FloatArray, *, converged: bool) -> SolveError:
        """Return how far γᵀv may be off, given step ≈ H⁻¹γ and whether all beside v converged."""
        return SolveError(
            size=abs(self.solution.error_along(step)),
            standard_error=self.solution.standard_error(gamma),
            converged=self.solution.converged and converged,
        )

    def probed_spreads(
        self, evaluation: Evaluation, draws: Sequence[NDArray[np.floating]]
    ) -> tuple[list[FloatArray], bool]:
        """Return xᵀΣx of every test record, (m, K, K), estimated from draws of the gradient's noise.

        All are enlarged by one factor, so that their mean stands at the upper end of its own one-sided
        95 % interval: an estimate is believed only where the draws are sure of it.

        Parameters
        ----------
        evaluation : Evaluation
        draws : list of arrays of shape (K·p, n_draws)
            Draws of mean 0 and covariance C, one array for each C that is asked about; `N_PROBES` draws
            do, and at least 2 there must be.

        Returns
        -------
        list of arrays, and whether the solver reached the tolerance that this takes

        Examples
        --------
        >>> import numpy as np
        >>> from epsilens.influence import Cholesky
        >>> from epsilens.models import Design, Problem, SquaredLoss
        >>> problem = Problem(Design.plain(np.eye(1)), np.ones(1), SquaredLoss(), np.zeros(1))
        >>> first = FirstOrder.of(HessianOperator(problem, np.zeros(1)), Cholesky(), np.ones(1))
        >>> test = Evaluation(Design.plain(np.array([[3.0]])), np.zeros(1), np.ones(1),
        ...                   SquaredLoss(), is_classifier=False)
        >>> first.probed_spreads(test, [np.array([[2.0, -2.0]])])
        ([array([[[9.]]])], True)
        """
        loose = self.inverse.loosened(PROBE_TOLERANCE)
        block = np.concatenate(draws, axis=1).astype(np.float64)
        found = loose.solve(self.operator, block, quiet=True)
        ends = np.cumsum([part.shape[1] for part in draws])[:-1]
        spreads = [
            _enlarged(evaluation, evaluation.design.predict(part))
            for part in np.split(found.vector, ends, axis=1)
        ]
        return spreads, found.converged


def _enlarged(evaluation: Evaluation, moved: FloatArray) -> FloatArray:
    """Return the mean of moved·movedᵀ over draws (m, K, R), at its upper end."""
    n_draws = moved.shape[2]
    spread: FloatArray = moved @ np.swapaxes(moved, 1, 2) / n_draws
    sizes = np.einsum("i,ikr,ikr->r", evaluation.weights, moved, moved)
    if not sizes.mean() > 0:
        return spread
    quantile = float(scipy.special.stdtrit(n_draws - 1, 0.95))
    error = float(sizes.std(ddof=1)) / np.sqrt(n_draws)
    spread *= 1.0 + quantile * error / float(sizes.mean())
    return spread


def probe_seed(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """Return a seed for probes, away from those of the drawn interval, which are children too."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2**32 - 1))


def noise_bound(noise: LabelNoise, channel: FloatArray, noisiest: FloatArray) -> float:
    """Return the smallest ρ with C(channel) ⪯ ρ·C(noisiest), so that Σ is bounded by a known one.

    For yes/no labels the two covariances are proportional and the bound is exact.

    Parameters
    ----------
    noise : LabelNoise
        Label noise of the group.
    channel, noisiest : arrays of shape (k, k)
        The second with every report possible from every label.

    Examples
    --------
    >>> import numpy as np
    >>> nothing = np.zeros((2, 0, 0))
    >>> group = LabelNoise(np.ones(1, bool), np.zeros(1, int), np.array([[0.0], [1.0]]), np.ones((1, 2)), nothing)
    >>> quiet, noisy = np.array([[0.9, 0.1], [0.1, 0.9]]), np.full((2, 2), 0.5)
    >>> round(noise_bound(group, quiet, noisy), 6)
    0.36
    """
    largest = 0.0
    for small, large in zip(noise.variances(channel), noise.variances(noisiest), strict=True):
        values, vectors = np.linalg.eigh(large)
        kept = values > 1e-12 * max(values[-1], 1e-300)
        if not kept.any():
            continue
        root = vectors[:, kept] / np.sqrt(values[kept])
        largest = max(largest, float(np.linalg.eigvalsh(root.T @ small @ root)[-1]))
    return largest


# --- First order: one number a record, from which every group at every ε follows (P1 Eq. 14) ---


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class PointTable:
    """What changing each record would do to the test loss, to first order.

    Attributes
    ----------
    contributions : array of shape (n,), or (n, n_sets)
        Summed over the alternatives, each with weight 1. With several protected columns one number
        for each set of columns that change; bit f of (position + 1) says whether column f does.
    solution : InverseSolution or None
        How v = H⁻¹η was found, and how well.
    """

    contributions: FloatArray
    solution: InverseSolution | None = None

    def change(self, mask: BoolArray, weight: float | FloatArray) -> float:
        """Return Δ for a group when each alternative (of each set) has probability `weight`.

        Examples
        --------
        >>> import numpy as np
        >>> table = PointTable(np.array([0.1, 0.2, 0.4]))
        >>> round(table.change(np.array([True, False, True]), 0.5), 6)
        0.25
        """
        return float(np.sum(mask.astype(np.float64) @ self.contributions * weight))

    def changes(self, masks: BoolArray, weights: FloatArray) -> FloatArray:
        """Return Δ for many groups at many ε, (n_groups, n_epsilon), in one product.

        Parameters
        ----------
        masks : array of bool, shape (n_groups, n)
        weights : array of shape (n_epsilon,), or (n_epsilon, n_sets)

        Examples
        --------
        >>> import numpy as np
        >>> table = PointTable(np.array([0.1, 0.2, 0.4]))
        >>> masks = np.array([[True, False, True], [False, True, False]])
        >>> table.changes(masks, np.array([0.5, 0.25])).round(6)
        array([[0.25 , 0.125],
               [0.1  , 0.05 ]])
        """
        n_sets = 1 if self.contributions.ndim == 1 else self.contributions.shape[1]
        sums = np.asarray(masks).astype(np.float64) @ self.contributions
        changes: FloatArray = sums.reshape(-1, n_sets) @ np.reshape(weights, (-1, n_sets)).T
        return changes


def label_point_table(
    problem: Problem,
    direction: FloatArray,
    codes: NDArray[np.int64],
    values: FloatArray,
) -> PointTable:
    """Compute the table for randomised labels.

    With a canonical loss the slopes of two labels differ by their statistics alone,
    ∇ℓ(x, c) − ∇ℓ(x, y) = (t(y) − t(c)) ⊗ x, so one product of the records with v is all it takes.

    Parameters
    ----------
    problem : Problem
    direction : array of shape (K·p,)
        v = H⁻¹η at the optimum.
    codes : array of int, shape (n,)
        Labels as positions in `values`.
    values : array of shape (k,)
        The label's domain as the loss sees it.

    Returns
    -------
    PointTable

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, LogisticLoss, Problem
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), LogisticLoss(), np.zeros(2))
    >>> codes, values = np.array([0, 1]), np.array([0.0, 1.0])
    >>> label_point_table(problem, np.array([1.0, 1.0]), codes, values).contributions
    array([ 0.5, -0.5])
    """
    along = problem.design.predict(direction)
    statistics = problem.loss.statistic(values)
    difference = len(values) * statistics - statistics.sum(axis=0)
    effect = np.einsum("ik,ik->i", along, difference[codes])
    return PointTable(contributions=-effect * problem.weights / problem.n_rows)


def general_point_table(
    objective: PerturbedObjective,
    direction: FloatArray,
    theta: FloatArray,
) -> PointTable:
    """Compute the table for randomised features, and the label if it is protected.

    Parameters
    ----------
    objective : PerturbedObjective
        Objective of everybody, at any ε: only its alternatives are used.
    direction : array of shape (K·p,)
        v = H⁻¹η at the optimum.
    theta : array of shape (K·p,)
        The optimum.

    Returns
    -------
    PointTable
        With a column for every set of protected columns that may change.
    """
    alternatives = objective.alternatives
    v = direction
    K, k = objective.problem.loss.n_outputs, objective.n_labels
    added = (v.reshape(K, -1) @ alternatives.blocks.T).T  # (V, K)
    changed = alternatives.changed()
    n_features = len(alternatives.sizes)
    n_sets = 2 ** (n_features + (k > 1)) - 1
    contributions = np.zeros((objective.problem.n_rows, n_sets))
    for chunk in objective.chunks(theta):
        c, V = chunk.weights.shape
        slopes = chunk.part.trained.slopes(chunk.flat, chunk.flat_y).reshape(c, V, k, K)
        along = alternatives.base.take(chunk.rows).predict(v)[:, None, :] + added
        effect = np.einsum("ivck,ivk->ivc", slopes, along)
        truth, label = alternatives.codes[chunk.rows], objective.labels[chunk.rows]
        own = effect[np.arange(c), truth, label]
        bits = changed[truth][:, :, None] + (2**n_features) * (
            np.arange(k)[None, None, :] != label[:, None, None]
        )
        bits = np.broadcast_to(bits, effect.shape)
        for position in range(n_sets):
            here = bits == position + 1
            total = np.where(here, effect - own[:, None, None], 0.0).sum(axis=(1, 2))
            contributions[chunk.rows, position] = total
    weights = objective.weights / objective.problem.n_rows
    return PointTable(contributions=-contributions * weights[:, None])

# SPDX-License-Identifier: Apache-2.0
"""Models with one record less or more, really minimised, many side by side.

From the Newton step each model goes on with the same factorised Hessian and its own record's part of
it, until what is left cannot move any score by more than 1e-7 of the largest. A gradient of a block of
models is two matrix products a chunk of records; blocks run on one core each, and neither a matrix of
records × records nor of test × training records is ever stored. Models that do not come closer this way
are minimised alone, with Hessians of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.influence import Evaluation
from epsilens.influence.evaluation import LARGEST_CONDITION
from epsilens.models import Design, Problem, minimise
from epsilens.models.passes import workers
from epsilens.models.separation import runs_away
from epsilens.valuation.record_steps import LossDerivatives, ValuedRecords, steps
from epsilens.valuation.shared_objective import SharedObjective

# Share of the largest score; a tenth of what is promised.
TOLERANCE = 1e-7
_MOST_PASSES = 30
_FEWEST_BEFORE_ALONE = 3
_SLOW = 0.5
# A first pass says how far Newton was off; the passes after it contract up to twice as fast as that
# says, and as much again is allowed for.
_CAUTION = 4.0
_BLOCK_BYTES = 1 << 19


@dataclass(frozen=True)
class Accuracy:
    """When a model is close enough.

    Attributes
    ----------
    score : float
        The change of the test loss that does not matter.
    gradient_size : float
        √(ηᵀH⁻¹η): how much the test loss can change with a step of length 1 in the norm of H.
    largest_bend : float
        The largest eigenvalue of H_te in that norm.
    """

    score: float
    gradient_size: float
    largest_bend: float

    @classmethod
    def of(cls, shared: SharedObjective, test: LossDerivatives, scores: FloatArray) -> Accuracy:
        """Read it off the given model and the scores of the Newton steps."""
        import scipy.linalg

        eta, last = test.gradient, len(test.gradient) - 1
        size = float(np.sqrt(eta @ shared.curvature.solve(eta)))
        bend = scipy.linalg.eigh(
            test.hessian,
            shared.curvature.hessian,
            eigvals_only=True,
            subset_by_index=[last, last],
        )
        largest = float(np.abs(scores).max(initial=0.0))
        return cls(TOLERANCE * largest, size, float(bend[0]))

    def is_enough(self, step: FloatArray, length: FloatArray) -> BoolArray:
        """Return where a further step of this length cannot matter, `length` from the given model."""
        enough: BoolArray = (self.gradient_size + self.largest_bend * length) * step <= self.score
        return enough


def full_loss_changes(
    shared: SharedObjective,
    evaluation: Evaluation,
    records: ValuedRecords,
    a: FloatArray,
    leverage: FloatArray,
    *,
    accuracy: Accuracy | None,
    progress: Progress | None,
) -> FloatArray:
    """Return the change of the test loss, in full, of every minimised model, or at the steps that a_j stand for.

    Blocks of records run on all cores; those that will need many passes stand together.

    Parameters
    ----------
    shared : SharedObjective
    evaluation : Evaluation
    records : ValuedRecords
    a : array of shape (B, K)
        Coefficients of the Newton step; NaN where there is none.
    leverage : array of shape (B, K, K)
    accuracy : Accuracy or None
        How exactly each model is minimised; None: the steps as they are.
    progress : callable, optional
        Called with (done, total, what).

    Raises
    ------
    EstimateNotTrustworthyError
        If a model has no finite optimum.
    """
    size = max(16, _BLOCK_BYTES // (8 * 256 * a.shape[1]))
    effort = np.abs(a).max(axis=1) * np.sqrt(np.abs(np.einsum("bkk->b", leverage)))
    order = np.argsort(-np.nan_to_num(effort, nan=np.inf), kind="stable")

    base = float(evaluation.losses(shared.theta[:, None])[0])

    def block(rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], FloatArray]:
        if accuracy is None:
            delta = steps(shared, records.design.take(rows), a[rows])
            return rows, evaluation.losses(shared.theta[:, None] + delta) - base
        delta, failed = _block(shared, records.take(rows), a[rows], leverage[rows], accuracy)
        change = evaluation.losses(shared.theta[:, None] + delta) - base
        change[failed] = np.nan
        return rows, change

    tasks = (partial(block, order[start : start + size]) for start in range(0, len(order), size))

    change = np.empty(len(records))
    done = 0
    with workers() as team:
        for rows, values in team.run(tasks):
            change[rows] = values
            done += len(rows)
            if progress is not None:
                progress(done, len(records), "records")
    without = int(np.isnan(change).sum())
    if without:
        if shared.problem.penalty.any():
            raise EstimateNotTrustworthyError(
                f"{without} of the {len(records)} models could not be minimised to a gradient of 1e-8. "
                "Scale the features, or add regularisation."
            )
        raise EstimateNotTrustworthyError(
            f"{without} of the {len(records)} models have no finite optimum: with one record less the "
            "data, or those of a rare category, are separable. Add regularisation (a finite C)."
        )
    return change


def _block(
    shared: SharedObjective,
    records: ValuedRecords,
    a: FloatArray,
    leverage: FloatArray,
    accuracy: Accuracy,
) -> tuple[FloatArray, BoolArray]:
    """Return θ_j − θ as columns (K·p, B), and which models could not be minimised."""
    problem, n = shared.problem, shared.problem.n_rows
    stranded = np.asarray(np.isnan(a).any(axis=1))
    delta = steps(shared, records.design, np.where(stranded[:, None], 0.0, a))
    statistic = problem.loss.statistic(records.y)
    start = problem.loss.curvature(records.design.predict(shared.theta))
    own_bend = start * (records.change * records.weights / n)[:, None, None]
    # √(δᵀHδ) for every column.
    length = np.linalg.norm(shared.curvature.factor.T @ delta, axis=0)
    before = length.copy()
    active = np.flatnonzero(~stranded & (records.weights > 0))
    alone = stranded.copy()
    for number in range(_MOST_PASSES):
        if len(active) == 0:
            break
        here = records.take(active)
        gradient = _gradient(shared, here, statistic[active], delta[:, active])
        step = _solve(shared, here, own_bend[active], leverage[active], gradient)
        delta[:, active] -= step
        size = np.sqrt(np.maximum(np.einsum("pb,pb->b", gradient, step), 0.0))
        rate = size / np.maximum(before[active], 1e-300) * (_CAUTION if number == 0 else 1.0)
        left = np.where(rate < 1.0, size * rate / np.maximum(1.0 - rate, 0.1), size)
        floor = size <= 1e-13 * (length[active] + 1e-300)
        arrived = (accuracy.is_enough(left, length[active]) & (rate < _SLOW)) | floor
        slow = ~arrived & (rate > _SLOW) & (number >= _FEWEST_BEFORE_ALONE)
        slow |= ~np.isfinite(size)
        alone[active[slow]] = True
        before[active] = size
        active = active[~arrived & ~slow]
    alone[active] = True
    failed = np.zeros(len(records), dtype=bool)
    for index in np.flatnonzero(alone):
        solution = _by_itself(shared, records.take(np.array([index])), statistic[index])
        failed[index] = solution is None
        if solution is not None:
            delta[:, index] = solution - shared.theta
    return delta, failed


def _outer(values: FloatArray, block: FloatArray) -> FloatArray:
    """Return r_j ⊗ x_j as columns, (K·p, B)."""
    if values.shape[1] == 1:
        return (block * values).T
    wide: FloatArray = np.einsum("bk,bp->kpb", values, block)
    return wide.reshape(values.shape[1] * block.shape[1], len(block))


def _at_own(block: FloatArray, columns: FloatArray, n_outputs: int) -> FloatArray:
    """Return every record's predictor under its own column of parameters, (B, K)."""
    split = columns.reshape(n_outputs, block.shape[1], len(block))
    own: FloatArray = np.einsum("bp,kpb->bk", block, split)
    return own


def _gradient(
    shared: SharedObjective, records: ValuedRecords, statistic: FloatArray, delta: FloatArray
) -> FloatArray:
    """Return ∇F(θ + δ_j) + ς (w_j/n) ∇ℓ_j(θ + δ_j), as columns."""
    problem = shared.problem
    theta = shared.theta[:, None] + delta
    block = records.design.block(slice(None))
    own = problem.loss.mean(_at_own(block, theta, problem.loss.n_outputs)) - statistic
    own *= (records.change * records.weights / problem.n_rows)[:, None]
    gradient = problem.gradient(theta, shared.linear[:, None])
    gradient += _outer(own, block)
    return gradient


def _solve(
    shared: SharedObjective,
    records: ValuedRecords,
    own_bend: FloatArray,
    leverage: FloatArray,
    gradient: FloatArray,
) -> FloatArray:
    """Return (H + ς (w/n) U C Uᵀ)⁻¹ g by Woodbury: two solves with the shared factor."""
    n_outputs = own_bend.shape[1]
    block = records.design.block(slice(None))
    plain = shared.curvature.solve(gradient)
    bent = np.einsum("bkl,bl->bk", own_bend, _at_own(block, plain, n_outputs))
    inner = np.eye(n_outputs) + records.change * leverage
    middle = np.linalg.solve(inner, bent[:, :, None])[:, :, 0]
    solved: FloatArray = plain - shared.curvature.solve(_outer(middle, block))
    return solved


@dataclass(frozen=True, repr=False)
class _OwnObjective:
    """F + share·ℓ(record), for the solver."""

    problem: Problem
    record: Design
    share: float

    @property
    def is_quadratic(self) -> bool:
        return self.problem.is_quadratic

    @property
    def is_convex(self) -> bool:
        return True

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        own = self.problem.loss.mean(self.record.predict(theta))
        return self.problem.gradient(theta, linear) + self.share * self.record.pull(own)

    def hessian(self, theta: FloatArray) -> FloatArray:
        own = self.problem.loss.curvature(self.record.predict(theta))
        # A matrix of its own: the product of roots needs weights that are not negative.
        return self.problem.hessian(theta) + self.share * self.record.gram(own)

    def reach(self, steps: FloatArray) -> FloatArray:
        return self.problem.reach(steps)


def _by_itself(
    shared: SharedObjective, record: ValuedRecords, statistic: FloatArray
) -> FloatArray | None:
    """Minimise one model with Hessians of its own; None if it has no finite optimum."""
    problem = shared.problem
    share = record.change * float(record.weights[0]) / problem.n_rows
    block = record.design.block(slice(None))
    linear = shared.linear + share * _outer(statistic[None, :], block)[:, 0]
    own = _OwnObjective(problem, record.design, share)
    try:
        solution = minimise(own, linear[:, None], shared.theta[:, None], tolerance=1e-9)
    except EstimateNotTrustworthyError:
        return None
    theta = solution.theta[:, 0]
    if not solution.converged[0] or _has_no_optimum(shared, record, theta):
        return None
    return theta


def _has_no_optimum(shared: SharedObjective, record: ValuedRecords, theta: FloatArray) -> bool:
    """Return whether the model runs away without the record; a record more never makes it."""
    problem = shared.problem
    if problem.penalty.any() or record.places is None:
        return False
    if shared.curvature.condition > LARGEST_CONDITION:
        return False  # so does the given model, which has been warned of
    others = problem.weights > 0
    others[record.places] = False
    return runs_away(problem.design.take(others), shared.y[others], theta)

# SPDX-License-Identifier: Apache-2.0
"""Convex models side by side, each trained on its own records and its own draw of their answers.

The models share the table and differ in who is in it, in what each record reported, and so in every
term of the objective. Their predictors are still one matrix product: a record is a base, the same for
all models, and a row of a small table for what it reported in the protected columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.influence.alternatives import Alternatives
from epsilens.models import Design
from epsilens.models.problem import Problem
from epsilens.models.solver import minimise

__all__ = ["EnsembleObjective", "train_side_by_side"]

# A few values are summed one by one, many by counting.
_FEW_VALUES = 6


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class EnsembleObjective:
    """The training objectives of B models.

    Attributes
    ----------
    problem : Problem
        Loss and penalty.
    alternatives : Alternatives
        The records, and what the protected features can add.
    values : array of int, shape (n, B), or None
        What every record reported to every model; None where no feature is protected.
    weights : array of shape (n, B)
        0 for a record that a model does not see.
    penalty_factors : array of shape (B,)
        What the penalty is multiplied by: below 1 where it belongs to the mean over records.
    """

    problem: Problem
    alternatives: Alternatives
    values: NDArray[np.int64] | None
    weights: FloatArray
    penalty_factors: FloatArray

    def of_columns(self, columns: NDArray[np.intp]) -> EnsembleObjective:
        """Return the objectives of some models only."""
        if len(columns) == self.weights.shape[1]:
            return self
        return replace(
            self,
            values=None if self.values is None else self.values[:, columns],
            weights=self.weights[:, columns],
            penalty_factors=self.penalty_factors[columns],
        )

    @property
    def is_quadratic(self) -> bool:
        """Whether one Newton step is exact."""
        return self.problem.is_quadratic

    @property
    def is_convex(self) -> bool:
        """Whether the objectives have one minimum each."""
        return True

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the furthest that each column of steps moves a predictor."""
        return self.problem.reach(steps)

    def _chunks(self, theta: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield rows and their predictors, (rows, K, B)."""
        n_outputs, base = self.problem.loss.n_outputs, self.alternatives.base
        added = self._added(theta)
        for rows in base.chunks(width=2 * theta.shape[1] * n_outputs):
            s = base.predict_rows(rows, theta)
            if self.values is not None:
                s = s + np.take_along_axis(added, self.values[rows, None, :], axis=0)
            yield rows, s

    def _added(self, theta: FloatArray) -> FloatArray:
        """Return what each joint value adds to the predictors, (V, K, B)."""
        by_output = theta.reshape(self.problem.loss.n_outputs, -1, theta.shape[1])
        added: FloatArray = np.einsum("vp,kpb->vkb", self.alternatives.blocks, by_output)
        return added

    def pull(self, rows: slice, slopes: FloatArray) -> FloatArray:
        """Return Σ_i r_i ⊗ x_i over some rows, with what each reported, (K·p, B)."""
        total = self.alternatives.base.pull_rows(rows, slopes)
        if self.values is None:
            return total
        by_value = _sums_by_value(self.values[rows], slopes, len(self.alternatives.blocks))
        added = np.einsum("vp,vkb->kpb", self.alternatives.blocks, by_value)
        total += added.reshape(total.shape)
        return total

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return the gradients at one column of parameters a model, less a linear term."""
        total = np.zeros_like(theta)
        for rows, s in self._chunks(theta):
            mean = self.problem.loss.mean(s)
            mean *= self.weights[rows, None, :]
            total += self.pull(rows, mean)
        penalty = self.penalty_factors * self.problem.penalise(theta)
        return total / self.problem.n_rows + penalty - linear

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of one model; for several, that of a model such as theirs.

        Several share the mean of their weights and the reports that the first of them received: the
        solver needs a Hessian close to theirs, not one of its own for each.
        """
        base, weights = self.alternatives.base, self.weights.mean(axis=1)
        values = None if self.values is None else self.values[:, 0]
        added = self._added(theta[:, None])[:, :, 0]
        total = np.zeros((len(theta), len(theta)))
        for rows in base.chunks(width=base.n_columns):
            s = base.predict_rows(rows, theta)
            records = base.block(rows)
            if values is not None:
                s = s + added[values[rows]]
                records = records + self.alternatives.blocks[values[rows]]
            bend = self.problem.loss.curvature(s)
            bend *= weights[rows, None, None]
            total += Design.plain(records).gram(bend)
        # In place: a matrix of 5,000 parameters takes 200 MB.
        total /= self.problem.n_rows
        penalty = self.problem.penalty_hessian()
        penalty *= float(self.penalty_factors.mean())
        total += penalty
        return total


def _sums_by_value(values: NDArray[np.int64], slopes: FloatArray, n_values: int) -> FloatArray:
    """Return the sums over records of r_ikb by the value that record i reported to b, (V, K, B)."""
    _, n_outputs, n_models = slopes.shape
    result = np.empty((n_values, n_outputs, n_models))
    if n_values <= _FEW_VALUES:
        rest = slopes.sum(axis=0)
        for v in range(1, n_values):
            result[v] = np.einsum("ikb,ib->kb", slopes, (values == v).astype(np.float64))
            rest = rest - result[v]
        result[0] = rest
        return result
    place = (values * n_models + np.arange(n_models)).ravel()
    for k in range(n_outputs):
        sums = np.bincount(place, weights=slopes[:, k].ravel(), minlength=n_values * n_models)
        result[:, k] = sums.reshape(n_values, n_models)
    return result


def train_side_by_side(
    objective: EnsembleObjective, statistics: FloatArray, start: FloatArray
) -> FloatArray:
    """Train every model to convergence.

    Parameters
    ----------
    objective : EnsembleObjective
    statistics : array of shape (n, K, B)
        The reported labels as the loss sees them.
    start : array of shape (K·p,)

    Returns
    -------
    array of shape (K·p, B)

    Raises
    ------
    EstimateNotTrustworthyError
        If a model has no optimum that can be reached, as on separable data without a penalty.
    """
    n_models = objective.weights.shape[1]
    linear = np.zeros((len(start), n_models))
    for rows in objective.alternatives.base.chunks(width=2 * statistics[0].size):
        weighted = objective.weights[rows, None, :] * statistics[rows]
        linear += objective.pull(rows, weighted)
    solution = minimise(
        objective,
        linear / objective.problem.n_rows,
        np.repeat(start[:, None], n_models, axis=1),
        clusters=np.zeros(n_models, dtype=np.intp),
    )
    if not solution.converged.all():
        raise EstimateNotTrustworthyError(
            f"{int(np.sum(~solution.converged))} of {n_models} shadow models did not converge: half "
            "of the records are separable. Add regularisation."
        )
    return solution.theta

# SPDX-License-Identifier: Apache-2.0
"""The training objectives of realised runs: drawn features, drawn labels, weights of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.influence.alternatives import Alternatives
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.perturbed import Reports
from epsilens.models import Design, Problem
from epsilens.models.label import Label, class_totals, class_weights, own_class_weights
from epsilens.models.scikit_learn import ClassWeight

IntArray = NDArray[np.signedinteger]

_CHUNK_NUMBERS = 1 << 18


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class RunRecords:
    """What all runs of a cell share.

    Parameters
    ----------
    problem : Problem
        Loss and penalty.
    alternatives : Alternatives
    mask : array of bool, shape (n,)
        The group S, whose records are drawn; the others are as they are.
    y : array of shape (n,)
        The true labels as the loss sees them.
    codes : array of int, shape (n,)
        The same as positions in `domain`; not looked at without class weights.
    domain : array of shape (k,)
        The label's values as the loss sees them.
    weights : array of shape (n,)
        Sample weights, before any class weight of a run.
    reports : tuple of Reports
        The losses of the group's reported labels, corrected for the noise of each of its parts; empty:
        as they are.
    part : array of int, shape (n_S,), optional
        The part that each of the group's records belongs to; None: the only one.
    """

    problem: Problem
    alternatives: Alternatives
    mask: BoolArray
    y: FloatArray
    codes: IntArray
    domain: FloatArray
    weights: FloatArray
    reports: tuple[Reports, ...] = ()
    part: IntArray | None = None

    @cached_property
    def members(self) -> NDArray[np.intp]:
        """The group's records."""
        return np.flatnonzero(self.mask)

    @cached_property
    def others(self) -> NDArray[np.intp]:
        """Everybody else's."""
        return np.flatnonzero(~self.mask)

    @cached_property
    def inside(self) -> Design:
        """The group's features, the protected columns taken out."""
        base = self.alternatives.base
        return base if self.mask.all() else base.take(self.members)

    @cached_property
    def outside(self) -> Design:
        """Everybody else's features."""
        return self.problem.design.take(self.others)


@dataclass(frozen=True, repr=False)
class RealisedRuns:
    """What is minimised after each of D draws of the channel; a column of parameters a run.

    Parameters
    ----------
    records : RunRecords
    values : array of int, shape (n_S, D)
        The drawn joint value of the protected columns.
    labels : array of int, shape (n_S, D), optional
        The drawn labels as positions in the domain; None: the true ones.
    class_weights : array of shape (k, D), optional
        ω of every run; None: 1.
    """

    records: RunRecords
    values: IntArray
    labels: IntArray | None = None
    class_weights: FloatArray | None = None

    @property
    def is_quadratic(self) -> bool:
        """Whether one Newton step is exact."""
        return self.records.problem.loss.is_quadratic

    @property
    def is_convex(self) -> bool:
        """Whether every objective has one minimum."""
        return not self.records.reports

    def _corrected(
        self, rows: slice, n_runs: int
    ) -> Iterator[tuple[NDArray[np.intp] | slice, Reports]]:
        """Yield the places of some records in every run, flat, with the loss of their part."""
        if self.records.part is None:
            yield slice(None), self.records.reports[0]
            return
        part = np.repeat(self.records.part[rows], n_runs)
        for number, reports in enumerate(self.records.reports):
            yield np.flatnonzero(part == number), reports

    def of_columns(self, columns: NDArray[np.intp]) -> RealisedRuns:
        """Return some of the runs."""
        if len(columns) == self.values.shape[1]:
            return self
        return replace(
            self,
            values=self.values[:, columns],
            labels=None if self.labels is None else self.labels[:, columns],
            class_weights=None if self.class_weights is None else self.class_weights[:, columns],
        )

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the largest distance that a step moves a predictor."""
        return self.records.problem.reach(steps)

    def _drawn(self, theta: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield some records of the group with their predictors in every run, (c, D, K)."""
        records, (K, D) = self.records, (self.records.problem.loss.n_outputs, theta.shape[1])
        added = records.alternatives.blocks @ theta.reshape(K, -1, D)  # (K, V, D)
        run = np.arange(D)
        step = max(64, _CHUNK_NUMBERS // (D * K * K))
        for start in range(0, len(records.members), step):
            rows = slice(start, min(start + step, len(records.members)))
            s = np.moveaxis(records.inside.predict(theta, rows), 2, 1)  # (c, D, K)
            if added.shape[1] > 1:
                s = s + np.moveaxis(added, 0, 2)[self.values[rows], run]
            else:
                s = s + added[:, 0].T
            yield rows, s

    def _rest(self, theta: FloatArray) -> Iterator[tuple[slice, NDArray[np.intp], FloatArray]]:
        """Yield some of the other records with their predictors in every run, (c, D, K)."""
        records, (K, D) = self.records, (self.records.problem.loss.n_outputs, theta.shape[1])
        step = max(64, _CHUNK_NUMBERS // (D * K * K))
        for start in range(0, len(records.others), step):
            rows = slice(start, min(start + step, len(records.others)))
            yield (
                rows,
                records.others[rows],
                np.moveaxis(records.outside.predict(theta, rows), 2, 1),
            )

    def _codes_of(self, rows: slice, n_runs: int) -> IntArray:
        """Return the labels of some of the group's records in every run, flat, as positions."""
        if self.labels is not None:
            return self.labels[rows].ravel()
        return np.repeat(self.records.codes[self.records.members[rows]], n_runs)

    def _labels_of(self, rows: slice, codes: IntArray, n_runs: int) -> FloatArray:
        """Return the same labels as the loss sees them."""
        records = self.records
        if self.labels is not None:
            return records.domain[codes]
        return np.repeat(records.y[records.members[rows]], n_runs)

    def _member_weights(self, rows: slice, codes: IntArray, n_runs: int) -> FloatArray:
        """Return the weight of some of the group's records, (c, D), or (c, 1) if all runs share it."""
        weights = self.records.weights[self.records.members[rows], None]
        if self.class_weights is not None:
            own = codes.reshape(-1, n_runs)
            weights = weights * self.class_weights[own, np.arange(n_runs)]
        return weights

    def _other_weights(self, rows: NDArray[np.intp], n_runs: int) -> FloatArray:
        """Return the weight of some other records in every run, (c, D)."""
        weights = np.repeat(self.records.weights[rows, None], n_runs, axis=1)
        if self.class_weights is not None:
            weights = weights * self.class_weights[self.records.codes[rows]]
        return weights

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return the gradient of every run at its own column, less a linear term."""
        records, problem = self.records, self.records.problem
        K, D = problem.loss.n_outputs, theta.shape[1]
        blocks = records.alternatives.blocks
        V = len(blocks)
        total = np.zeros_like(theta)
        added = np.zeros((K, V, D))
        run = np.arange(D)
        for rows, s in self._drawn(theta):
            flat = s.reshape(-1, K)
            codes = self._codes_of(rows, D)
            if not records.reports:
                slopes = problem.loss.slope(flat, self._labels_of(rows, codes, D))
            else:
                slopes = np.empty_like(flat)
                for place, reports in self._corrected(rows, D):
                    slopes[place] = reports.reported_slopes(flat[place], codes[place])
            shaped = slopes.reshape(-1, D, K) * self._member_weights(rows, codes, D)[:, :, None]
            slopes = shaped.reshape(-1, K)
            total += records.inside.pull(np.moveaxis(shaped, 2, 1), rows)
            if V > 1:
                place = (self.values[rows].astype(np.intp) * D + run).ravel()
                for k in range(K):
                    counted = np.bincount(place, weights=slopes[:, k], minlength=V * D)
                    added[k] += counted.reshape(V, D)
            else:
                added[:, 0] += shaped.sum(axis=0).T
        total += np.einsum("vp,kvd->kpd", blocks, added).reshape(total.shape)
        for rows, chosen, s in self._rest(theta):
            y = np.repeat(records.y[chosen], D)
            slopes = problem.loss.slope(s.reshape(-1, K), y).reshape(s.shape)
            slopes = slopes * self._other_weights(chosen, D)[:, :, None]
            total += records.outside.pull(np.moveaxis(slopes, 2, 1), rows)
        result: FloatArray = total / problem.n_rows + problem.penalise(theta) - linear
        return result

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian of the first run at one parameter vector."""
        records, problem = self.records, self.records.problem
        K = problem.loss.n_outputs
        first = self.of_columns(np.zeros(1, dtype=np.intp))
        total = np.zeros((len(theta), len(theta)))
        blocks = records.alternatives.blocks
        for rows, s in first._drawn(theta[:, None]):
            flat = s.reshape(-1, K)
            codes = first._codes_of(rows, 1)
            y = first._labels_of(rows, codes, 1)
            bend = problem.loss.curvature(flat)
            for place, reports in first._corrected(rows, 1) if records.reports else ():
                every = reports.curvatures(flat[place], y[place])
                bend[place] = every[np.arange(len(every)), codes[place]]
            bend = bend * first._member_weights(rows, codes, 1)[:, :, None]
            features = records.inside.block(rows) + blocks[first.values[rows, 0]]
            total += Design.plain(features).gram(bend)
        for rows, chosen, s in first._rest(theta[:, None]):
            bend = problem.loss.curvature(s.reshape(-1, K))
            bend = bend * first._other_weights(chosen, 1)[:, :, None]
            total += Design.plain(records.outside.block(rows)).gram(bend)
        return total / problem.n_rows + problem.penalty_hessian()


def run_class_weights(
    given: ClassWeight,
    label: Label,
    count_weights: FloatArray,
    mask: BoolArray,
    labels: IntArray,
) -> FloatArray | None:
    """Return ω of every class in every run, (k, D), as scikit-learn would compute it; None: all 1.

    Parameters
    ----------
    given : None, "balanced" or mapping of class to weight
    label : Label
    count_weights : array of shape (n,)
        What a record counts.
    mask : array of bool, shape (n,)
        The group.
    labels : array of int, shape (n_S, D)
        Its drawn labels.
    """
    if given is None:
        return None
    codes, values = label.domain()
    rest = class_totals(codes[~mask], count_weights[~mask], len(values))
    drawn = [class_totals(column, count_weights[mask], len(values)) for column in labels.T]
    return np.column_stack([class_weights(given, label, rest + one) for one in drawn])


def realised_runs(
    baseline: BaselineModel,
    alternatives: Alternatives,
    mask: BoolArray,
    values: NDArray[np.signedinteger],
    labels: NDArray[np.signedinteger] | None,
    *,
    corrections: Sequence[tuple[BoolArray, FloatArray]],
) -> RealisedRuns:
    """Return the training objectives of drawn runs.

    Parameters
    ----------
    baseline : BaselineModel
    alternatives : Alternatives
    mask : array of bool, shape (n,)
        The group.
    values : array of int, shape (n_S, D)
        Its drawn joint values of the protected columns.
    labels : array of int, shape (n_S, D), or None
        Its drawn labels; None if the label is not protected.
    corrections : sequence of (mask, channel)
        The parts of the group and the channel that the loss of their labels is corrected for; empty: none.
    """
    label, weights, omega = baseline.label, baseline.sample_weights, None
    codes, domain = np.zeros(len(label.y), dtype=np.int64), np.zeros(1)
    if labels is None:
        weights = weights * own_class_weights(baseline.class_weight, label, baseline.count_weights)
    else:
        codes, domain = label.domain()
        omega = run_class_weights(
            baseline.class_weight, label, baseline.count_weights, mask, labels
        )
    part = None
    if len(corrections) > 1:
        part = np.argmax([own[mask] for own, _ in corrections], axis=0)
    records = RunRecords(
        problem=baseline.problem,
        alternatives=alternatives,
        mask=mask,
        y=label.y,
        codes=codes,
        domain=domain,
        weights=weights,
        reports=tuple(
            Reports(baseline.problem.loss, domain, np.ones(len(domain)), channel)
            for _, channel in corrections
        ),
        part=part,
    )
    return RealisedRuns(records, values, labels, omega)

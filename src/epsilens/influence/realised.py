# SPDX-License-Identifier: Apache-2.0
"""The training objective of one realised run: drawn features, drawn labels, its own weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens.influence.alternatives import Alternatives
from epsilens.influence.reports import Reports
from epsilens.models import Design, Problem

__all__ = ["RealisedObjective"]

FloatArray = NDArray[np.float64]

_CHUNK = 1 << 13


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class RealisedObjective:
    """What is minimised after one draw of the channel.

    Parameters
    ----------
    problem : Problem
        Loss and penalty.
    alternatives : Alternatives
    values : array of int, shape (n,)
        The drawn joint value of the protected columns.
    y : array of shape (n,)
        The drawn labels as the loss sees them.
    weights : array of shape (n,)
        Sample weight times the class weight of the drawn label.
    corrected : array of bool, shape (n,)
        Records whose loss is corrected for the noise.
    reports : Reports, optional
        The corrected loss, with class weights of 1; needed if any record is corrected.
    """

    problem: Problem
    alternatives: Alternatives
    values: NDArray[np.int64]
    y: FloatArray
    weights: FloatArray
    corrected: NDArray[np.bool_]
    reports: Reports | None = None

    @property
    def is_quadratic(self) -> bool:
        """Whether one Newton step is exact."""
        return self.problem.loss.is_quadratic

    @property
    def is_convex(self) -> bool:
        """Whether the objective has one minimum."""
        return self.reports is None

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the furthest that a step moves a predictor."""
        return self.problem.reach(steps)

    def _chunks(self, theta: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        K = self.problem.loss.n_outputs
        added = (theta.reshape(K, -1) @ self.alternatives.blocks.T).T
        base = self.alternatives.base
        for start in range(0, base.n_rows, _CHUNK):
            rows = slice(start, min(start + _CHUNK, base.n_rows))
            yield rows, base.predict_rows(rows, theta) + added[self.values[rows]]

    def _codes(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        assert self.reports is not None  # noqa: S101
        return np.searchsorted(self.reports.values, self.y[rows])

    def _slopes(self, rows: slice, s: FloatArray) -> FloatArray:
        slopes = self.problem.loss.slope(s, self.y[rows])
        here = np.flatnonzero(self.corrected[rows])
        if len(here) and self.reports is not None:
            all_reports = self.reports.slopes(s[here], self.y[rows][here])
            slopes[here] = all_reports[np.arange(len(here)), self._codes(here + rows.start)]
        return slopes

    def _curvatures(self, rows: slice, s: FloatArray) -> FloatArray:
        curvatures = self.problem.loss.curvature(s)
        here = np.flatnonzero(self.corrected[rows])
        if len(here) and self.reports is not None:
            all_reports = self.reports.curvatures(s[here], self.y[rows][here])
            curvatures[here] = all_reports[np.arange(len(here)), self._codes(here + rows.start)]
        return curvatures

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return the gradient at one column of parameters, less a linear term."""
        at = theta[:, 0]
        V, K = len(self.alternatives.blocks), self.problem.loss.n_outputs
        total = np.zeros_like(at)
        added = np.zeros((V, K))
        for rows, s in self._chunks(at):
            slopes = self.weights[rows, None] * self._slopes(rows, s)
            total += self.alternatives.base.pull_rows(rows, slopes)
            for k in range(K):
                added[:, k] += np.bincount(self.values[rows], weights=slopes[:, k], minlength=V)
        total += (added.T @ self.alternatives.blocks).ravel()
        result: FloatArray = total / self.problem.n_rows + self.problem.penalise(at)
        return result[:, None] - linear

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian."""
        total = np.zeros((len(theta), len(theta)))
        for rows, s in self._chunks(theta):
            bend = self.weights[rows, None, None] * self._curvatures(rows, s)
            records = (
                self.alternatives.base.block(rows) + self.alternatives.blocks[self.values[rows]]
            )
            total += Design.plain(records).gram(bend)
        return total / self.problem.n_rows + self.problem.penalty_hessian()

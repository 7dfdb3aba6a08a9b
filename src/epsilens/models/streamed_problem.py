# SPDX-License-Identifier: Apache-2.0
"""The training objective of records that are read again at every pass.

An objective over many records is the sum of those over pieces: each piece becomes an ordinary `Problem` in
memory, whose own formulas give its share, and the shares are added in the order of the pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens.data.parquet_pieces import Piece
from epsilens.models.design import Design
from epsilens.models.passes import (
    Part,
    added,
    current_store,
    largest,
    reduce_pass,
)
from epsilens.models.problem import Loss, Problem
from epsilens.models.streamed_records import RowReading, StreamedRows

Formula = Callable[..., Part]


@dataclass(frozen=True, repr=False)
class TrainingRows:
    """Training records on disk, as problems of a few rows each.

    Attributes
    ----------
    reading : RowReading
    frame : Problem
        Without rows: scales, loss and penalty of the whole.
    intercept : float or None
        The value of the intercept's column.
    weight_unit : float
        What weights are multiplied by to have a mean of 1.
    """

    reading: RowReading
    frame: Problem
    intercept: float | None
    weight_unit: float = 1.0

    def problem(self, records: StreamedRows, *, is_part: bool = False) -> Problem:
        """Return some records as a problem in memory: their own, or a part of the whole."""
        like = self.frame.design
        return replace(
            self.frame,
            design=Design.from_features(records.features, intercept=self.intercept, like=like),
            weights=records.weights * self.weight_unit,
            looks_for_alike=False,
            is_part=is_part,
        )


@dataclass(frozen=True, repr=False)
class PieceWork:
    """A formula on every piece; can be pickled, and called anywhere that sees the files."""

    rows: TrainingRows
    formula: Formula
    arguments: tuple[object, ...]
    join: Callable[[Part, Part], Part] = added

    def __call__(self, piece: Piece) -> Part:
        """Return the formula's parts of a piece, joined."""
        total: Part = {}
        for records in self.rows.reading.records(piece):
            problem = self.rows.problem(records, is_part=True)
            total = self.join(total, self.formula(problem, records, *self.arguments))
        return total


@dataclass(frozen=True, repr=False)
class StreamedProblem:
    """The methods of `Problem`, each a pass over the pieces.

    Attributes
    ----------
    rows : TrainingRows
    n_rows : int
        Number of rows of all pieces together.
    progress : callable, optional
        Called with (done, total, what) within every pass.
    loss : Loss
        The loss at the linear predictor.
    n_parameters : int
        K·p, one coefficient per column and output.
    is_quadratic : bool
        Whether one Newton step is exact.
    """

    rows: TrainingRows
    n_rows: int
    progress: Progress | None = None
    loss: Loss = field(init=False)
    n_parameters: int = field(init=False)
    is_quadratic: bool = field(init=False)
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        frame = self.rows.frame
        object.__setattr__(self, "loss", frame.loss)
        object.__setattr__(self, "n_parameters", frame.n_parameters)
        object.__setattr__(self, "is_quadratic", frame.is_quadratic)

    def sum(
        self,
        formula: Formula,
        *arguments: object,
        join: Callable[[Part, Part], Part] = added,
        what: str,
    ) -> Part:
        """Return a formula's parts over all pieces, joined in their order."""
        return reduce_pass(
            PieceWork(self.rows, formula, arguments, join),
            self.rows.reading.pieces,
            join=join,
            what=what,
            progress=self.progress,
        )

    def _total(
        self,
        method: Callable[..., object],
        *arguments: object,
        join: Callable[[Part, Part], Part] = added,
        what: str,
    ) -> FloatArray:
        """Return what a method of `Problem` gives, over all pieces."""
        part = self.sum(_of_problem, method, *arguments, join=join, what=what)
        return np.asarray(part["total"])

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return ∇F for columns of parameters (K·p, B)."""
        # The linear term is not the pieces' to give.
        total = self._total(Problem.gradient, theta, np.zeros(1), what="gradient")
        return total / self.n_rows + self.rows.frame.penalise(theta) - linear

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return ∇²F(θ)."""
        return self.hessians(theta[:, None])[0]

    def hessians(self, thetas: FloatArray) -> list[FloatArray]:
        """Return ∇²F at every column of parameters, in one pass."""
        if thetas.shape[1] == 0:
            return []
        total = self._total(Problem.hessians, thetas, what="curvature")
        penalty = self.rows.frame.penalty_hessian()
        return [hessian / self.n_rows + penalty for hessian in total]

    def gradient_and_hessian(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ∇F(θ), but for its linear term, and ∇²F(θ), in one pass."""
        total = self.sum(_gradient_and_hessian, theta, what="fit")
        frame = self.rows.frame
        return (
            total["gradient"][:, 0] / self.n_rows + frame.penalise(theta),
            total["hessian"] / self.n_rows + frame.penalty_hessian(),
        )

    def thirds(
        self, thetas: FloatArray, middles: list[FloatArray], *, are_roots: bool
    ) -> list[FloatArray]:
        """Return ∇³F[M] at every column of parameters, in one pass."""
        total = self.sum(_thirds, thetas, middles, are_roots, what="third derivative")["total"]
        return [third / self.n_rows for third in total]

    def along_lines(
        self, theta: FloatArray, directions: FloatArray, lengths: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return slope and bend, but for the linear term, at θ + a_b·d_b along every d_b."""
        total = self._total(Problem.along_lines, theta, directions, lengths, what="line search")
        held, stiff = self.rows.frame.penalty_along(theta, directions, lengths)
        return total[0] / self.n_rows + held, total[1] / self.n_rows + stiff

    def reach(self, steps: FloatArray) -> FloatArray:
        """Return the largest distance that each column of steps moves a record's predictor, (B,)."""
        return self._total(Problem.reach, steps, join=largest, what="reach")

    def largest_leverage(self, theta: FloatArray, inverse: FloatArray) -> float:
        """Return the largest share that a record has in its own prediction."""
        found = self.sum(_leverage, theta, inverse, join=largest, what="leverage")["leverage"]
        return float(found[0]) / self.n_rows

    def is_separated(self, theta: FloatArray) -> bool:
        """Return whether the model gets every record with a weight right."""
        return not self.sum(_wrong, theta, join=largest, what="separation")["wrong"][0]

    def time_of_a_piece(self, theta: FloatArray) -> tuple[float, int]:
        """Return the seconds that the fit's pass takes for one piece, and the rows of that piece."""
        piece = max(self.rows.reading.pieces, key=lambda one: one.n_rows)
        started = time.perf_counter()
        PieceWork(self.rows, _gradient_and_hessian, (theta,))(piece)
        return time.perf_counter() - started, piece.n_rows

    def by_row(self, formula: Formula, *arguments: object, what: str) -> FloatArray:
        """Return one number a record, in the order of the records."""
        rows: FloatArray = np.concatenate(self.sum(formula, *arguments, what=what)["row"])
        return rows


@dataclass(frozen=True, repr=False)
class FusedObjective(StreamedProblem):
    """A streamed objective whose gradient brings the Hessian along: one pass for both."""

    _known: list[tuple[FloatArray, FloatArray, float | None]] = field(default_factory=list)

    def gradient(self, theta: FloatArray, linear: FloatArray) -> FloatArray:
        """Return ∇F at one column of parameters."""
        started = time.perf_counter()
        gradient, hessian = self.gradient_and_hessian(theta[:, 0])
        seconds = time.perf_counter() - started
        store = current_store()
        is_read = store is None or not store.last_was_found
        self._known[:] = [(theta[:, 0].copy(), hessian, seconds if is_read else None)]
        return gradient[:, None] - linear

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return ∇²F(θ), known already where the gradient was taken."""
        known = self._known and np.array_equal(self._known[0][0], theta)
        return self._known[0][1] if known else super().hessian(theta)

    @property
    def last(self) -> tuple[FloatArray, FloatArray, float | None]:
        """Where the last gradient was taken, the Hessian there, and the seconds that the pass took.

        There are no seconds of a pass that was kept by an earlier run, in whole or in part.
        """
        return self._known[0]


def _of_problem(
    problem: Problem, records: StreamedRows, method: Callable[..., object], *arguments: object
) -> Part:
    return {"total": np.asarray(method(problem, *arguments))}


def _thirds(
    problem: Problem,
    records: StreamedRows,
    thetas: FloatArray,
    middles: list[FloatArray],
    are_roots: bool,
) -> Part:
    return {"total": np.array(problem.thirds(thetas, middles, are_roots=are_roots))}


def _gradient_and_hessian(problem: Problem, records: StreamedRows, theta: FloatArray) -> Part:
    return {
        "gradient": problem.gradient(theta[:, None], np.zeros(1)),
        "hessian": problem.hessian(theta),
    }


def _leverage(
    problem: Problem, records: StreamedRows, theta: FloatArray, inverse: FloatArray
) -> Part:
    return {"leverage": problem.leverages(theta, inverse).max(keepdims=True)}


def _wrong(problem: Problem, records: StreamedRows, theta: FloatArray) -> Part:
    s = problem.design.predict(theta)
    right = (s[:, 0] > 0) == (records.y > 0.5)
    if problem.loss.n_outputs > 1:
        right = s.argmax(axis=1) == records.y
    return {"wrong": (~right[problem.weights > 0]).any(keepdims=True)}

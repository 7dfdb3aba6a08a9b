# SPDX-License-Identifier: Apache-2.0
"""A test set that is read again at every question.

Each piece becomes an ordinary `Evaluation` in memory, whose own formulas give its share of every sum. Only
what cannot be added up is kept of every record: its label, its weight, and, while an AUC is computed, its
score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from epsilens._types import FloatArray, Progress, SingleArray
from epsilens.data.expressions import Expression
from epsilens.data.parquet_pieces import Piece
from epsilens.influence.evaluation import CellNoise, Evaluation, NoiseForms, Outcomes
from epsilens.models import Design
from epsilens.models.passes import Part, added, reduce_pass
from epsilens.models.streamed_records import RowReading, StreamedRows


@dataclass(frozen=True)
class Contrast:
    """The weights with which the gaps of a group are summed: its place, and the weight on each side."""

    place: int
    inside: float
    outside: float

    def of(self, evaluation: Evaluation, records: StreamedRows) -> FloatArray:
        """Return the weights of some records."""
        weights = evaluation.weights
        mask = records.masks[self.place]
        contrast: FloatArray = np.where(mask, weights / self.inside, -weights / self.outside)
        return contrast


@dataclass(frozen=True, repr=False)
class TestRows:
    """Test records on disk, as test sets of a few rows each.

    Attributes
    ----------
    reading : RowReading
    frame : Evaluation
        Without rows: columns, offsets and scales of the training design, loss and kind of model.
    nearest : callable or None
        What is done to features that may lie outside what the training records span.
    intercept : float or None
    total_weight : float
        Total weight of all test records.
    """

    __test__ = False  # no test of pytest's

    reading: RowReading
    frame: Evaluation
    nearest: Callable[[object], object] | None
    intercept: float | None
    total_weight: float

    def evaluation(self, records: StreamedRows) -> Evaluation:
        """Return some records as a test set in memory, whose weights are shares of the whole."""
        features = records.features if self.nearest is None else self.nearest(records.features)
        like = self.frame.design
        return replace(
            self.frame,
            design=Design.from_features(features, intercept=self.intercept, like=like),
            y=records.y,
            weights=records.weights / self.total_weight,
        )


@dataclass(frozen=True, repr=False)
class _TestWork:
    """A formula on every piece of a test set."""

    rows: TestRows
    formula: Callable[..., Part]
    arguments: tuple[object, ...]
    join: Callable[[Part, Part], Part]

    def __call__(self, piece: Piece) -> Part:
        total: Part = {}
        for records in self.rows.reading.records(piece):
            part = self.formula(self.rows.evaluation(records), records, *self.arguments)
            total = self.join(total, part)
        return total


@dataclass(frozen=True, repr=False)
class NarrowWork:
    """A formula on labels, weights and groups alone: the other columns are not read."""

    reading: RowReading
    formula: Callable[[StreamedRows], Part]

    def __call__(self, piece: Piece) -> Part:
        """Return the formula's parts of a piece, joined."""
        narrow = replace(self.reading, features=(), transformers=None, schema=None)
        total: Part = {}
        for records in narrow.records(piece):
            total = added(total, self.formula(records))
        return total


@dataclass(frozen=True, repr=False)
class StreamedEvaluation(Evaluation):
    """A test set whose sums are each one or a few passes.

    Attributes
    ----------
    design : Design
        Without rows.
    y, weights : arrays of shape (m,)
        Of all records: what the AUC needs beside the scores.
    rows : TestRows
    progress : callable, optional
    """

    rows: TestRows
    progress: Progress | None = None
    is_streamed: ClassVar[bool] = True
    _known: dict[object, Any] = field(default_factory=dict)

    def sum(
        self,
        formula: Callable[..., Part],
        *arguments: object,
        join: Callable[[Part, Part], Part] = added,
        what: str = "test",
    ) -> Part:
        """Return a formula's parts over all pieces, joined in their order."""
        return reduce_pass(
            _TestWork(self.rows, formula, arguments, join),
            self.rows.reading.pieces,
            join=join,
            what=what,
            progress=self.progress,
        )

    def with_groups(self, groups: tuple[Expression | None, ...]) -> StreamedEvaluation:
        """Return the test set with other groups to look at."""
        reading = replace(self.rows.reading, groups=groups)
        known = {key: value for key, value in self._known.items() if key != "sides"}
        return replace(self, rows=replace(self.rows, reading=reading), _known=known)

    def look(self, theta: FloatArray) -> Outcomes:
        """Return the outcomes at θ, and keep gradient and Hessian there: all in one pass."""
        part = self.sum(_look, theta)
        for name in ("gradient", "hessian"):
            self._known[(name, theta.tobytes())] = part[name]
        return self.outcomes_of(part, [None])[0]

    def contrast(self, members: Any) -> Any:
        """Return the contrast of the group at a place; None if one side is empty."""
        if members is None:
            return None
        if "sides" not in self._known:
            work = NarrowWork(self.rows.reading, _sides)
            self._known["sides"] = reduce_pass(
                work, self.rows.reading.pieces, what="groups of the test set"
            )["sides"]
        inside, outside = self._known["sides"][:, members] / self.rows.total_weight
        if not (inside > 0.0 and outside > 0.0):
            return None
        return Contrast(members, float(inside), float(outside))

    def tally(self, thetas: FloatArray, contrasts: Sequence[Any], *, with_scores: bool) -> Part:
        """Return the sums at every column of θ, and the scores where they are wanted."""
        return self.sum(_tally, thetas, list(contrasts), with_scores)

    def drawn_tally(
        self, theta: FloatArray, deviations: SingleArray, *, scored: slice, contrast: Any
    ) -> Part:
        """Return the sums of drawn outcomes, with the scores of some draws."""
        return self.sum(_drawn, theta, deviations, scored, contrast)

    def _added(self, method: Callable[..., object], argument: FloatArray) -> FloatArray:
        """Return the sum over the pieces of a method of `Evaluation`."""
        return np.asarray(self.sum(_of_piece, method, argument)["sum"])

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return the mean test loss for every column of θ."""
        return self._added(Evaluation.losses, theta)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return η = ∇L_te(θ)."""
        known = self._known.get(("gradient", theta.tobytes()))
        return self.gradients_at(theta[:, None])[:, 0] if known is None else np.asarray(known)

    def gradients_at(self, thetas: FloatArray) -> FloatArray:
        """Return η for every column of parameters."""
        return self._added(Evaluation.gradients_at, thetas)

    def bends(self, theta: FloatArray, steps: FloatArray) -> FloatArray:
        """Return dᵀH_te(θ)d for every column d of steps."""
        bends: FloatArray = np.einsum("pb,pb->b", steps, self.hessian(theta) @ steps)
        return bends

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return H_te = ∇²L_te(θ)."""
        known = self._known.get(("hessian", theta.tobytes()))
        return self.hessians(theta[:, None])[0] if known is None else np.asarray(known)

    def hessians(self, thetas: FloatArray) -> list[FloatArray]:
        """Return H_te at every column of parameters, in one pass."""
        if thetas.shape[1] == 0:
            return []
        return list(self._added(Evaluation.hessians, thetas))

    def noise_at(self, thetas: FloatArray, noises: Sequence[NoiseForms]) -> list[CellNoise]:
        """Return what the noise of a run does to the test records, in one pass."""
        part = self.sum(_noise, thetas, list(noises), join=_noises)
        result, at = [], 0
        for forms in noises:
            cells = slice(at, at + len(forms.weights))
            result.append(CellNoise(part["largest"][cells], *part["sums"][:, cells]))
            at += len(forms.weights)
        return result


def _noises(left: Part, right: Part) -> Part:
    if not left:
        return right
    if not right:
        return left
    return {
        "largest": np.maximum(left["largest"], right["largest"]),
        "sums": left["sums"] + right["sums"],
    }


def _of_piece(
    evaluation: Evaluation,
    records: StreamedRows,
    method: Callable[..., object],
    argument: FloatArray,
) -> Part:
    return {"sum": np.array(method(evaluation, argument))}


def _tally(
    evaluation: Evaluation,
    records: StreamedRows,
    thetas: FloatArray,
    contrasts: list[Contrast | None],
    with_scores: bool,
) -> Part:
    resolved = [None if one is None else one.of(evaluation, records) for one in contrasts]
    return evaluation.tally(thetas, resolved, with_scores=with_scores)


def _look(evaluation: Evaluation, records: StreamedRows, theta: FloatArray) -> Part:
    return {
        **evaluation.tally(theta[:, None], [None], with_scores=evaluation.is_classifier),
        "gradient": evaluation.gradient(theta),
        "hessian": evaluation.hessian(theta),
    }


def _sides(records: StreamedRows) -> Part:
    inside = [records.weights[mask].sum() for mask in records.masks]
    outside = [records.weights[~mask].sum() for mask in records.masks]
    return {"sides": np.array([inside, outside])}


def _noise(
    evaluation: Evaluation, records: StreamedRows, thetas: FloatArray, noises: list[NoiseForms]
) -> Part:
    cells = evaluation.noise_at(thetas, noises)
    return {
        "largest": np.concatenate([cell.largest for cell in cells]),
        "sums": np.hstack([[cell.variance, cell.undetermined_loss, cell.bent] for cell in cells]),
    }


def _drawn(
    evaluation: Evaluation,
    records: StreamedRows,
    theta: FloatArray,
    deviations: SingleArray,
    scored: slice,
    contrast: Contrast | None,
) -> Part:
    aside = None if contrast is None else contrast.of(evaluation, records)
    return evaluation.drawn_tally(theta, deviations, scored=scored, contrast=aside)

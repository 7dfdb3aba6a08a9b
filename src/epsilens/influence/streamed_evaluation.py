# SPDX-License-Identifier: Apache-2.0
"""A test set that is read again at every question.

Each piece becomes an ordinary `Evaluation` in memory, whose own formulas give its share of every sum. Only
what cannot be added up is kept of every record: its label, its weight, and, while an AUC is computed, its
score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray, Progress, SingleArray
from epsilens.data.expressions import Expression
from epsilens.data.parquet_pieces import Piece
from epsilens.influence.evaluation import (
    DrawnOutcomes,
    Evaluation,
    Outcomes,
    Tally,
    areas_of,
    drawn_from,
    outcomes_from,
)
from epsilens.influence.record_noise import CellNoise, NoiseForms
from epsilens.models import Design, Loss
from epsilens.models.passes import (
    Part,
    added,
    current_passes,
    reduce_pass,
)
from epsilens.models.streamed_records import RowReading, StreamedRows

Nearest = Callable[[object], object]

# Bytes of scores that may be kept at a time; more columns take more passes.
_SCORE_BYTES = 1 << 28


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
    like : Design
        Without rows: columns, offsets and scales of the training design.
    nearest : callable or None
        What is done to features that may lie outside what the training records span.
    intercept : float or None
    loss : Loss
    is_classifier : bool
    total_weight : float
        Total weight of all test records.
    """

    __test__ = False  # no test of pytest's

    reading: RowReading
    like: Design
    nearest: Callable[[object], object] | None
    intercept: float | None
    loss: Loss
    is_classifier: bool
    total_weight: float

    def evaluation(self, records: StreamedRows) -> Evaluation:
        """Return some records as a test set in memory, whose weights are shares of the whole."""
        features = records.features if self.nearest is None else self.nearest(records.features)
        return Evaluation(
            design=Design.from_features(features, intercept=self.intercept, like=self.like),
            y=records.y,
            weights=records.weights / self.total_weight,
            loss=self.loss,
            is_classifier=self.is_classifier,
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
class StreamedEvaluation:
    """The methods of `Evaluation`, each one or a few passes.

    Attributes
    ----------
    rows : TestRows
    n_rows : int
    y, weights : arrays of shape (m,)
        Labels, and weights that sum to 1: what the AUC needs beside the scores.
    progress : callable, optional
    """

    rows: TestRows
    n_rows: int
    y: FloatArray
    weights: FloatArray
    progress: Progress | None = None
    _known: dict[object, object] = field(default_factory=dict)

    def sum(
        self,
        formula: Callable[..., Part],
        *arguments: object,
        join: Callable[[Part, Part], Part] = added,
        what: str = "test",
    ) -> Part:
        """Return a formula's parts over all pieces, joined in their order."""
        return reduce_pass(
            current_passes(),
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
        part = self.sum(_look, theta, join=added)
        self._known[("gradient", theta.tobytes())] = part["gradient"]
        self._known[("hessian", theta.tobytes())] = part["hessian"]
        tally = _as_tally(part)
        areas = self._areas(tally.scores) if self.rows.is_classifier else None
        return outcomes_from(tally, areas, [False], is_classifier=self.rows.is_classifier)[0]

    def contrast(self, members: int | None) -> Contrast | None:
        """Return the contrast of the group at a place; None if one side is empty."""
        if members is None:
            return None
        if "sides" not in self._known:
            work = NarrowWork(self.rows.reading, _sides)
            self._known["sides"] = reduce_pass(
                current_passes(), work, self.rows.reading.pieces, what="groups of the test set"
            )["sides"]
        inside, outside = self._known["sides"][:, members] / self.rows.total_weight  # type: ignore[index]
        if not (inside > 0.0 and outside > 0.0):
            return None
        return Contrast(members, float(inside), float(outside))

    def gaps(
        self, theta: FloatArray, contrasts: Sequence[Contrast | None], known: Outcomes
    ) -> list[Outcomes]:
        """Return known outcomes at θ with the gaps of several groups."""
        if all(contrast is None for contrast in contrasts):
            return [replace(known, loss_gap=None, accuracy_gap=None)] * len(contrasts)
        thetas = np.repeat(theta[:, None], len(contrasts), axis=1)
        tally = _as_tally(self.sum(_tally, thetas, list(contrasts), False, join=added))
        has_gap = [contrast is not None for contrast in contrasts]
        found = outcomes_from(tally, None, has_gap, is_classifier=self.rows.is_classifier)
        return [
            replace(known, loss_gap=one.loss_gap, accuracy_gap=one.accuracy_gap) for one in found
        ]

    def outcomes_at(
        self, thetas: FloatArray, contrasts: Sequence[Contrast | None]
    ) -> list[Outcomes]:
        """Return the outcomes of many parameter vectors, as many a pass as their scores fit."""
        result: list[Outcomes] = []
        is_classifier = self.rows.is_classifier
        most = thetas.shape[1]
        if is_classifier:
            most = max(1, _SCORE_BYTES // (8 * self.n_rows * self.rows.loss.n_outputs))
        for first in range(0, thetas.shape[1], most):
            part = slice(first, first + most)
            chosen = list(contrasts[part])
            tally = _as_tally(self.sum(_tally, thetas[:, part], chosen, True, join=added))
            areas = self._areas(tally.scores) if is_classifier else None
            has_gap = [contrast is not None for contrast in chosen]
            result += outcomes_from(tally, areas, has_gap, is_classifier=is_classifier)
        return result

    def _areas(self, scores: NDArray[np.floating]) -> FloatArray | None:
        return areas_of(scores, self.y, self.weights)

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return the mean test loss for every column of θ."""
        return np.asarray(self.sum(_losses, theta)["losses"])

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return η = ∇L_te(θ)."""
        known = self._known.get(("gradient", theta.tobytes()))
        return self.gradients_at(theta[:, None])[:, 0] if known is None else np.asarray(known)

    def gradients_at(self, thetas: FloatArray) -> FloatArray:
        """Return η for every column of parameters."""
        return np.asarray(self.sum(_gradients, thetas)["gradients"])

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
        return list(self.sum(_hessians, thetas)["hessians"])

    def noise_at(self, thetas: FloatArray, noises: Sequence[NoiseForms]) -> list[CellNoise]:
        """Return what the noise of a run does to the test records, in one pass."""
        part = self.sum(_noise, thetas, list(noises), join=_noises)
        result, at = [], 0
        for forms in noises:
            cells = slice(at, at + len(forms.weights))
            result.append(CellNoise(part["largest"][cells], *part["sums"][:, cells]))
            at += len(forms.weights)
        return result

    def drawn(
        self,
        theta: FloatArray,
        deviations: SingleArray,
        *,
        n_auc_draws: int,
        contrast: Contrast | None = None,
    ) -> DrawnOutcomes:
        """Return the outcomes at θ + every column of `deviations`; see `Evaluation.drawn`."""
        n_auc = min(n_auc_draws, deviations.shape[1]) if self.rows.is_classifier else 0
        most = max(1, _SCORE_BYTES // (4 * self.n_rows * self.rows.loss.n_outputs))
        whole: Tally | None = None
        areas: list[FloatArray | None] = []
        for first in range(0, max(n_auc, 1), most):
            scored = slice(first, min(first + most, n_auc))
            # Once all sums are known, only the scores of the other draws are wanted.
            own = slice(None) if whole is None else scored
            kept = scored if whole is None else slice(0, scored.stop - scored.start)
            part = self.sum(_drawn, theta, deviations[:, own], kept, contrast, join=added)
            tally = _as_tally(part)
            whole = tally if whole is None else whole
            areas.append(self._areas(tally.scores) if n_auc else None)
        assert whole is not None  # noqa: S101  (one pass at least)
        known = [area for area in areas if area is not None]
        return drawn_from(
            whole,
            np.concatenate(known) if known else None,
            has_gap=contrast is not None,
            scored=self.rows.is_classifier,
        )


def _noises(left: Part, right: Part) -> Part:
    if not left:
        return right
    if not right:
        return left
    return {
        "largest": np.maximum(left["largest"], right["largest"]),
        "sums": left["sums"] + right["sums"],
    }


def _as_part(tally: Tally) -> Part:
    sums = np.array([tally.loss, tally.loss_gap, tally.correct, tally.correct_gap])
    # A list, whose addition puts one behind the other: arrays would be copied at every piece.
    return {"sums": sums, "scores": [tally.scores]}


def _as_tally(part: Part) -> Tally:
    loss, loss_gap, correct, correct_gap = part["sums"]
    return Tally(loss, loss_gap, correct, correct_gap, np.concatenate(part["scores"]))


def _resolved(
    evaluation: Evaluation, records: StreamedRows, contrasts: Sequence[Contrast | None]
) -> list[FloatArray | None]:
    return [None if c is None else c.of(evaluation, records) for c in contrasts]


def _tally(
    evaluation: Evaluation,
    records: StreamedRows,
    thetas: FloatArray,
    contrasts: list[Contrast | None],
    with_scores: bool,
) -> Part:
    part = _as_part(evaluation.tally(thetas, _resolved(evaluation, records, contrasts)))
    if not with_scores:
        part["scores"] = [part["scores"][0][:, :, :0]]
    return part


def _look(evaluation: Evaluation, records: StreamedRows, theta: FloatArray) -> Part:
    return {
        **_tally(evaluation, records, theta[:, None], [None], True),
        "gradient": evaluation.gradient(theta),
        "hessian": evaluation.hessian(theta),
    }


def _sides(records: StreamedRows) -> Part:
    inside = [records.weights[mask].sum() for mask in records.masks]
    outside = [records.weights[~mask].sum() for mask in records.masks]
    return {"sides": np.array([inside, outside])}


def _losses(evaluation: Evaluation, records: StreamedRows, thetas: FloatArray) -> Part:
    return {"losses": evaluation.losses(thetas)}


def _gradients(evaluation: Evaluation, records: StreamedRows, thetas: FloatArray) -> Part:
    return {"gradients": evaluation.gradients_at(thetas)}


def _hessians(evaluation: Evaluation, records: StreamedRows, thetas: FloatArray) -> Part:
    return {"hessians": np.array(evaluation.hessians(thetas))}


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
    (aside,) = _resolved(evaluation, records, [contrast])
    tally = evaluation.drawn_tally(theta, deviations, scored=scored, contrast=aside)
    return _as_part(tally)

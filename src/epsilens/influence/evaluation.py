# SPDX-License-Identifier: Apache-2.0
"""What the test set says of a parameter vector, and of many that lie close together.

Every number is a sum over the test records, or their largest, so that the pieces of a test set that is too
large for memory add up to it. One in memory is a single piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.models import Design, Loss
from epsilens.models.passes import Part

_N_BINS = 2048
_REACH = 5.0
_FEWEST_FOR_BINS = 1000
# Bytes of scores that may be kept at a time; more columns take more passes.
_SCORE_BYTES = 1 << 28


@dataclass(frozen=True)
class Outcomes:
    """Mean test loss, and accuracy and AUC where they have a meaning (else None).

    The gaps are those of a group: its mean loss or accuracy less that of everybody else.
    """

    loss: float
    accuracy: float | None
    auc: float | None
    loss_gap: float | None = None
    accuracy_gap: float | None = None


@dataclass(frozen=True)
class DrawnOutcomes:
    """The same for every draw: arrays, or None where a metric has no meaning."""

    loss: FloatArray
    accuracy: FloatArray | None
    auc: FloatArray | None
    loss_gap: FloatArray | None = None
    accuracy_gap: FloatArray | None = None


def area_under_curve(
    scores: NDArray[np.floating], positive: BoolArray, weights: FloatArray
) -> float | None:
    """Return the probability that a positive record scores higher than a negative one.

    Ties count half. None if one of the two kinds has no weight.

    Examples
    --------
    >>> import numpy as np
    >>> area_under_curve(np.array([1.0, 2.0, 3.0]), np.array([False, True, True]), np.ones(3))
    1.0
    """
    if np.ptp(weights) == 0:
        above, beneath = np.sort(scores[positive]), np.sort(scores[~positive])
        if len(above) == 0 or len(beneath) == 0:
            return None
        below = np.searchsorted(beneath, above, side="left").sum()
        ties = np.searchsorted(beneath, above, side="right").sum() - below
        return float((below + 0.5 * ties) / (len(above) * len(beneath)))
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    up = np.where(positive, weights, 0.0)[order]
    down = np.where(positive, 0.0, weights)[order]
    total = up.sum() * down.sum()
    if total <= 0:
        return None
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    up_at, down_at = np.add.reduceat(up, starts), np.add.reduceat(down, starts)
    below = np.cumsum(down_at) - down_at
    return float(np.sum(up_at * (below + 0.5 * down_at)) / total)


def contrast_weights(weights: FloatArray, members: Any) -> Any:
    """Return weights whose sum with a metric is the group's gap; None if one side is empty."""
    if members is None:
        return None
    inside = np.where(members, weights, 0.0)
    outside = np.where(members, 0.0, weights)
    if not (inside.sum() > 0 and outside.sum() > 0):
        return None
    contrast: FloatArray = inside / inside.sum() - outside / outside.sum()
    return contrast


@dataclass(frozen=True, repr=False)
class NoiseForms:
    """The covariance xᵀΣx of a record's predictor in many cells, mixed from a few quadratic forms.

    Attributes
    ----------
    forms : list of arrays
        M of shape (K·p, K·p), or roots R of shape (K·p, r) with M = RRᵀ, or the values themselves of
        all records, (m, K, K).
    weights : array of shape (n_cells, n_forms)
    kind : {"matrix", "root", "values"}
    """

    forms: list[FloatArray]
    weights: FloatArray
    kind: Literal["matrix", "root", "values"] = "matrix"

    def spreads(self, design: Design) -> Iterator[FloatArray]:
        """Yield xᵀΣx of every record, (m, K, K), cell after cell."""
        readings: dict[str, Callable[[FloatArray], FloatArray]] = {
            "matrix": design.quadratic,
            "root": design.spread,
            "values": np.asarray,
        }
        read = readings[self.kind]
        if np.array_equal(self.weights, np.eye(len(self.forms))):
            yield from (read(form) for form in self.forms)
            return
        shared = [read(form) for form in self.forms]
        for weights in self.weights:
            spread = weights[0] * shared[0]
            for weight, form in zip(weights[1:], shared[1:], strict=True):
                spread += weight * form
            yield spread


@dataclass(frozen=True)
class CellNoise:
    """What the noise of a run does to the test records, cell by cell.

    Attributes
    ----------
    largest : array of shape (n_cells,)
        The largest entry of xᵀΣx.
    variance : array of shape (n_cells,)
        Mean of the variance of a logit; 0 for a squared loss.
    undetermined_loss : array of shape (n_cells,)
        See `undetermined_loss`; 0 for a squared loss.
    bent : array of shape (n_cells,)
        Mean of tr(ψ″ xᵀΣx), twice what the noise adds to the mean loss.
    """

    largest: FloatArray
    variance: FloatArray
    undetermined_loss: FloatArray
    bent: FloatArray

    @property
    def logit_noise(self) -> FloatArray:
        """Root mean square over test records of √(xᵀΣx), (n_cells,); 0 for a squared loss."""
        noise: FloatArray = np.sqrt(self.variance)
        return noise


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Evaluation:
    """The test set: features in the training design's coordinates, labels, weights.

    Parameters
    ----------
    design : Design
    y : array of shape (m,)
        The class for a classifier, the target for a regression.
    weights : array of shape (m,)
        Sum to 1.
    loss : Loss
    is_classifier : bool
    """

    design: Design
    y: FloatArray
    weights: FloatArray
    loss: Loss
    is_classifier: bool
    is_streamed: ClassVar[bool] = False

    @property
    def n_rows(self) -> int:
        """Number of test records."""
        return len(self.y)

    @cached_property
    def _single(self) -> Design:
        return replace(self.design, matrix=self.design.matrix.astype(np.float32))

    def _correct(self, s: FloatArray, rows: slice) -> BoolArray:
        """Return which predictions are right, for predictors (n, K[, B])."""
        y = self.y[rows].reshape(-1, *(1,) * (s.ndim - 2))
        if self.loss.n_outputs == 1:
            correct: BoolArray = (s[:, 0] > 0) == (y > 0.5)
            return correct
        return np.asarray(s.argmax(axis=1) == y)

    def _weighed(self, values: NDArray[np.generic], rows: slice) -> FloatArray:
        """Return the sum over some rows of weight times value, in double precision, (B,)."""
        if np.ptp(self.weights) > 0:
            weighed: FloatArray = self.weights[rows] @ values.astype(np.float64)
            return weighed
        if values.dtype == np.bool_:
            values = np.count_nonzero(values, axis=0)[None]
        total: FloatArray = values.sum(axis=0, dtype=np.float64)
        return float(self.weights[0]) * total

    def contrast(self, members: Any) -> Any:
        """Return weights whose sum with a metric is the group's gap; None if one side is empty."""
        return contrast_weights(self.weights, members)

    def outcomes(self, theta: FloatArray, contrast: Any = None) -> Outcomes:
        """Return loss, accuracy and AUC at θ, and the gaps of a group given by its contrast."""
        return self.outcomes_at(theta[:, None], [contrast])[0]

    def outcomes_at(
        self, thetas: FloatArray, contrasts: Sequence[Any], *, with_area: bool = True
    ) -> list[Outcomes]:
        """Return the outcomes of many parameter vectors (K·p, B), each with a contrast of its own.

        As many are looked at in a pass as their scores fit.
        """
        result: list[Outcomes] = []
        has_area, most = with_area and self.is_classifier, thetas.shape[1]
        if has_area:
            most = max(1, _SCORE_BYTES // (8 * self.n_rows * self.loss.n_outputs))
        for first in range(0, thetas.shape[1], most):
            chosen = list(contrasts[first : first + most])
            part = self.tally(thetas[:, first : first + most], chosen, with_scores=has_area)
            result += self.outcomes_of(part, chosen)
        return result

    def outcomes_of(self, part: Part, contrasts: Sequence[Any]) -> list[Outcomes]:
        """Return the outcomes that sums over all test records stand for, the AUC where scores were kept."""
        result = []
        scores = np.concatenate(part["scores"]) if part["scores"] else None
        for b, (loss, loss_gap, correct, correct_gap) in enumerate(part["sums"].T.tolist()):
            has_gap, areas = contrasts[b] is not None, None
            if scores is not None:
                areas = areas_of(scores[:, :, b : b + 1], self.y, self.weights)
            result.append(
                Outcomes(
                    loss=loss,
                    accuracy=correct if self.is_classifier else None,
                    auc=None if areas is None else float(areas[0]),
                    loss_gap=loss_gap if has_gap else None,
                    accuracy_gap=correct_gap if has_gap and self.is_classifier else None,
                )
            )
        return result

    def gaps(self, theta: FloatArray, contrasts: Sequence[Any], known: Outcomes) -> list[Outcomes]:
        """Return known outcomes at θ with the gaps of several groups."""
        if all(contrast is None for contrast in contrasts):
            return [replace(known, loss_gap=None, accuracy_gap=None)] * len(contrasts)
        thetas = np.repeat(theta[:, None], len(contrasts), axis=1)
        return [
            replace(known, loss_gap=found.loss_gap, accuracy_gap=found.accuracy_gap)
            for found in self.outcomes_at(thetas, contrasts, with_area=False)
        ]

    def tally(self, thetas: FloatArray, contrasts: Sequence[Any], *, with_scores: bool) -> Part:
        """Return what these records add to the outcomes at every column of θ, (K·p, B).

        Sums of loss and right predictions, each with the records' weights and with a group's contrast,
        (4, B); and a list of the predictors (m, K, B), which the AUC needs of all records together.
        """
        sums = np.zeros((4, thetas.shape[1]))
        scores = []
        for b, (theta, contrast) in enumerate(zip(thetas.T, contrasts, strict=True)):
            s = self.design.predict(theta)
            losses = self.loss.value(s, self.y)
            right = np.zeros(len(losses), dtype=bool)
            if self.is_classifier:
                right = self._correct(s, slice(None))
            sums[0, b], sums[2, b] = self.weights @ losses, self.weights @ right
            if contrast is not None:
                sums[1, b], sums[3, b] = contrast @ losses, contrast @ right
            scores.append(s[:, :, None])
        # A list, whose addition puts one behind the other: arrays would be copied at every piece.
        return {"sums": sums, "scores": [np.concatenate(scores, axis=-1)] if with_scores else []}

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return the mean test loss for every column of θ."""
        total = np.zeros(theta.shape[1])
        for rows in self.design.chunks(width=2 * len(theta) // self.design.n_columns):
            s = self.design.predict(theta, rows)
            total += self.weights[rows] @ self.loss.value(s, self.y[rows])
        return total

    def accuracies(self, theta: FloatArray) -> FloatArray:
        """Return the share of right predictions for every column of θ."""
        total = np.zeros(theta.shape[1])
        for rows in self.design.chunks(width=2 * len(theta) // self.design.n_columns):
            total += self.weights[rows] @ self._correct(self.design.predict(theta, rows), rows)
        return total

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return η = ∇L_te(θ), shape (K·p,)."""
        s = self.design.predict(theta)
        return self.design.pull(self.weights[:, None] * self.loss.slope(s, self.y))

    def gradients_at(self, thetas: FloatArray) -> FloatArray:
        """Return η for many parameter vectors (K·p, B)."""
        s = self.design.predict(thetas)
        return self.design.pull(self.weights[:, None, None] * self.loss.slope(s, self.y))

    def bends(self, theta: FloatArray, steps: FloatArray) -> FloatArray:
        """Return dᵀH_te(θ)d for every column d of steps, (B,); no matrix is formed."""
        curvature = self.loss.curvature(self.design.predict(theta))
        result = np.empty(steps.shape[1])
        for b, step in enumerate(steps.T):
            along = self.design.predict(step)
            result[b] = np.einsum("i,ikl,ik,il->", self.weights, curvature, along, along)
        return result

    def noise_at(self, thetas: FloatArray, noises: Sequence[NoiseForms]) -> list[CellNoise]:
        """Return what randomised labels do to the test records in a run.

        The optimum of a squared loss moves with its labels in proportion, and the loss is a parabola:
        nothing is expanded there that large noise could make false.

        Parameters
        ----------
        thetas : array of shape (K·p, n_cells), or (K·p, 1) if all cells are judged at one place
        noises : sequence of NoiseForms
            Each for the next of the cells.
        """
        result, at = [], 0
        for forms in noises:
            own = thetas if thetas.shape[1] == 1 else thetas[:, at : at + len(forms.weights)]
            at += len(forms.weights)
            found = CellNoise(*np.zeros((4, len(forms.weights))))
            s = self.design.predict(own[:, 0])
            curvature = self.loss.curvature(s)
            for cell, spread in enumerate(forms.spreads(self.design)):
                if 0 < cell < own.shape[1]:
                    s = self.design.predict(own[:, cell])
                    curvature = self.loss.curvature(s)
                found.largest[cell] = spread.max(initial=0.0)
                if not self.loss.is_quadratic:
                    found.variance[cell] = self.weights @ contrast_variance(spread)
                    found.undetermined_loss[cell] = undetermined_loss(self, s, spread)
                found.bent[cell] = np.einsum("i,ikl,ikl->", self.weights, curvature, spread)
            result.append(found)
        return result

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return H_te = ∇²L_te(θ), shape (K·p, K·p)."""
        return self.hessians(theta[:, None])[0]

    def hessians(self, thetas: FloatArray) -> list[FloatArray]:
        """Return H_te at every column of parameters (K·p, B)."""
        result = []
        for theta in thetas.T:
            curvature = self.loss.curvature(self.design.predict(theta))
            curvature *= self.weights[:, None, None]
            result.append(self.design.gram(curvature))
        return result

    def drawn(
        self,
        theta: FloatArray,
        deviations: SingleArray,
        *,
        n_auc_draws: int,
        contrast: Any = None,
    ) -> DrawnOutcomes:
        """Return the outcomes at θ + every column of `deviations`.

        The products are in single precision: a draw's own noise is thousands of times larger than
        the rounding, which averages out over the test records; sums are in double precision.

        Parameters
        ----------
        theta : array of shape (K·p,)
        deviations : array of shape (K·p, n_draws)
        n_auc_draws : int
            AUC needs a sort a draw; it is computed for this many.
        contrast : array of shape (m,), optional
            Contrast of a group, for its gaps.
        """
        n_auc = min(n_auc_draws, deviations.shape[1]) if self.is_classifier else 0
        most = max(1, n_auc)
        if self.is_streamed:
            most = max(1, _SCORE_BYTES // (4 * self.n_rows * self.loss.n_outputs))
        whole = self.drawn_tally(
            theta, deviations, scored=slice(0, min(most, n_auc)), contrast=contrast
        )
        areas = []
        for first in range(0, n_auc, most):
            part = whole
            if first:
                # All sums are known: only the scores of the other draws are wanted.
                others = deviations[:, first : min(first + most, n_auc)]
                part = self.drawn_tally(theta, others, scored=slice(None), contrast=None)
            areas.append(areas_of(np.concatenate(part["scores"]), self.y, self.weights))
        known = [area for area in areas if area is not None]
        loss, loss_gap, correct, correct_gap = whole["sums"]
        has_gap = contrast is not None
        return DrawnOutcomes(
            loss=loss,
            accuracy=correct if self.is_classifier else None,
            auc=np.concatenate(known) if known else None,
            loss_gap=loss_gap if has_gap else None,
            accuracy_gap=correct_gap if has_gap and self.is_classifier else None,
        )

    def drawn_tally(
        self,
        theta: FloatArray,
        deviations: SingleArray,
        *,
        scored: slice,
        contrast: Any,
    ) -> Part:
        """Return what these records add to the drawn outcomes, with the scores of some draws."""
        n_draws, n_outputs = deviations.shape[1], self.loss.n_outputs
        s = self.design.predict(theta)
        loss, loss_gap = np.zeros(n_draws), np.zeros(n_draws)
        correct, correct_gap = np.zeros(n_draws), np.zeros(n_draws)
        n_auc = len(range(*scored.indices(n_draws)))
        scores = np.empty((self.design.n_rows, n_outputs, n_auc), dtype=np.float32)
        zero = self.loss.value(s, self.y)
        y = self.y.astype(np.float32)
        if self.loss.is_quadratic and not self.is_classifier:
            # Residuals: of numbers far from 0, nothing but their offset is left in single precision.
            s, y = s - self.y[:, None], np.zeros_like(y)
        for rows in self.design.chunks(width=2 * n_draws * n_outputs):
            moved = self._single.predict(deviations, rows)  # type: ignore[arg-type]
            single = s[rows].astype(np.float32)
            moved += single[:, :, None]
            change = self.loss.value(moved, y[rows])  # type: ignore[arg-type]
            # Against the loss of the same rounded predictor, so that its rounding cancels.
            change -= self.loss.value(single, y[rows])[:, None]  # type: ignore[arg-type]
            # The weights sum to 1 and are far from the smallest single: sum in double.
            loss += self._weighed(change, rows)
            if contrast is not None:
                loss_gap += contrast[rows] @ change.astype(np.float64)
            if self.is_classifier:
                right = self._correct(moved, rows)
                correct += self._weighed(right, rows)
                if contrast is not None:
                    correct_gap += contrast[rows] @ right
                scores[rows] = moved[:, :, scored]
        loss += float(self.weights @ zero)
        if contrast is not None:
            loss_gap += float(contrast @ zero)
        return {"sums": np.array([loss, loss_gap, correct, correct_gap]), "scores": [scores]}


def areas_of(s: NDArray[np.floating], y: FloatArray, weights: FloatArray) -> FloatArray | None:
    """Return the AUC of every column of predictors (m, K, B); one against the rest, averaged.

    For single precision without weights the scores are counted in bins, and two records in one bin are
    a tie; with thousands of bins over five standard deviations that moves the area by about 1e-6.
    """
    m, n_outputs, n_columns = s.shape
    score, kinds = s, [y > 0.5]
    if n_outputs > 1:
        score = s - s.max(axis=1, keepdims=True)
        score = score - np.log(np.exp(score).sum(axis=1, keepdims=True))
        kinds = [y == k for k in range(n_outputs)]
    is_one_by_one = m < _FEWEST_FOR_BINS or np.ptp(weights) > 0 or n_columns == 1
    areas = []
    for k, positive in enumerate(kinds):
        scores, n_positive = score[:, k], int(positive.sum())
        if n_positive in {0, m}:
            return None
        if is_one_by_one or scores.dtype != np.float32:
            found = [area_under_curve(column, positive, weights) for column in scores.T]
            if None in found:
                return None
            areas.append(np.array(found, dtype=np.float64))
            continue
        # A range for each column: drawn runs may differ far in size.
        centre, spread = scores.mean(axis=0), _REACH * scores.std(axis=0)
        low = np.maximum(scores.min(axis=0), centre - spread)[:, None]
        high = np.minimum(scores.max(axis=0), centre + spread)[:, None]
        scale = (_N_BINS / np.maximum(high - low, np.float32(1e-30))).astype(np.float32)
        area = np.empty(n_columns)
        # Both kinds in a row each, so that a column needs two counts and no sorting into kinds.
        ups, downs = (
            np.clip((scores[kind].T - low) * scale, 0, _N_BINS - 1).astype(np.int16)
            for kind in (positive, ~positive)
        )
        for number, (above, beneath) in enumerate(zip(ups, downs, strict=True)):
            up = np.bincount(above, minlength=_N_BINS)
            down = np.bincount(beneath, minlength=_N_BINS)
            area[number] = up @ (np.cumsum(down) - 0.5 * down)
        areas.append(area / (n_positive * (m - n_positive)))
    mean: FloatArray = areas[0] if n_outputs == 1 else np.mean(np.array(areas), axis=0)
    return mean


# --- What the noise of one run does to the test records: how far it moves them, and what that costs ---


def predictor_unit(evaluation: Evaluation, predictor: FloatArray) -> float:
    """Return what a move of the predictor is large or small against.

    Logits have a unit of their own. A squared loss has that of its label, and what was measured in
    years must deserve as much belief as in days: there it is the root mean square residual.

    Parameters
    ----------
    evaluation : Evaluation
    predictor : array of shape (m, K)

    Returns
    -------
    float, greater than 0

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.influence import Evaluation
    >>> from epsilens.models import SquaredLoss
    >>> tested = Evaluation(
    ...     Design.plain(np.eye(2)), np.zeros(2), np.full(2, 0.5), SquaredLoss(), is_classifier=False)
    >>> predictor_unit(tested, np.full((2, 1), 3.0))
    3.0
    """
    if not evaluation.loss.is_quadratic:
        return 1.0
    residual = evaluation.weights @ evaluation.loss.value(predictor, evaluation.y)
    return max(float(np.sqrt(residual)), np.finfo(np.float64).tiny)


def undetermined_loss(
    evaluation: Evaluation, predictor: FloatArray, spread: FloatArray, *, unit: float = 1.0
) -> float:
    """Return the test loss that hangs on records whose predictor one run leaves undetermined.

    A rare category without a penalty has a coefficient that a single flip decides. Few test records
    feel it, so the root mean square stays small, but each may lose much: the sum, over the records
    whose √(xᵀΣx) exceeds a unit, of what a move by that much can add to their loss. A record far on the
    right side loses nothing by it.

    Parameters
    ----------
    evaluation : Evaluation
    predictor : array of shape (m, K)
    spread : array of shape (m, K, K)
        xᵀΣx.
    unit : float
        See `predictor_unit`.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.influence import Evaluation
    >>> from epsilens.models import SquaredLoss
    >>> tested = Evaluation(
    ...     Design.plain(np.eye(2)), np.zeros(2), np.full(2, 0.5), SquaredLoss(), is_classifier=False)
    >>> undetermined_loss(tested, np.zeros((2, 1)), np.array([[[4.0]], [[0.5]]]))
    2.0
    """
    noise = np.sqrt(contrast_variance(spread))
    rows = np.flatnonzero(noise > unit)
    if len(rows) == 0:
        return 0.0
    s, y = predictor[rows], evaluation.y[rows]
    value = evaluation.loss.value
    worst = np.zeros(len(rows))
    for k in range(evaluation.loss.n_outputs):
        step = np.zeros_like(s)
        step[:, k] = noise[rows]
        worst = np.maximum(worst, value(s + step, y) - value(s, y))
        worst = np.maximum(worst, value(s - step, y) - value(s, y))
    return float(evaluation.weights[rows] @ worst)


def contrast_variance(spread: FloatArray) -> FloatArray:
    """Return the largest variance of a logit: of s, or of s_k − s_l for several outputs.

    Parameters
    ----------
    spread : array of shape (n, K, K)
        Covariance of the predictor of every record.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> contrast_variance(np.array([[[2.0]]])), contrast_variance(np.eye(2)[None])
    (array([2.]), array([2.]))
    """
    own = np.einsum("nkk->nk", spread)
    if spread.shape[1] == 1:
        only: FloatArray = np.maximum(own[:, 0], 0.0)
        return only
    between = own[:, :, None] + own[:, None, :] - 2.0 * spread
    largest: FloatArray = np.maximum(between.max(axis=(1, 2)), 0.0)
    return largest


def predictor_noise(
    evaluation: Evaluation, predictor: FloatArray, spread: FloatArray
) -> tuple[float, float]:
    """Return the noise of one run in the test records: the root mean square in units, and `undetermined_loss`.

    Parameters
    ----------
    evaluation : Evaluation
    predictor : array of shape (m, K)
    spread : array of shape (m, K, K)
        xᵀΣx.

    Returns
    -------
    tuple of float

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.influence import Evaluation
    >>> from epsilens.models import SquaredLoss
    >>> tested = Evaluation(
    ...     Design.plain(np.eye(2)), np.zeros(2), np.full(2, 0.5), SquaredLoss(), is_classifier=False)
    >>> predictor_noise(tested, np.full((2, 1), 3.0), np.full((2, 1, 1), 2.25))
    (0.5, 0.0)
    """
    unit = predictor_unit(evaluation, predictor)
    mean = float(np.sqrt(evaluation.weights @ contrast_variance(spread)))
    return mean / unit, undetermined_loss(evaluation, predictor, spread, unit=unit)


# --- When an estimate that was not checked against solved runs deserves belief ---

LARGEST_LOGIT_NOISE = 0.5
LARGEST_CONDITION = 1e10
LARGEST_OMISSION = 0.6
"""What may be left out, of half the width of the interval."""


def is_trustworthy(
    *,
    converged: bool,
    logit_noise: float,
    condition: float,
    undetermined_loss: float = 0.0,
    omitted: float = 0.0,
    half_width: float = math.inf,
) -> bool:
    """Return whether an estimated change of loss deserves belief.

    Parameters
    ----------
    converged : bool
        Whether the solver reached its tolerance.
    logit_noise : float
        Root mean square noise of one run in a test record's logit; for a squared loss what is said above.
    condition : float
        Condition number of the Hessian, features scaled.
    undetermined_loss : float
        Test loss that hangs on records whose predictor one run leaves undetermined.
    omitted : float
        Size of the next term, which the method left out.
    half_width : float
        Half the width of the prediction interval.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_trustworthy(converged=True, logit_noise=0.1, condition=100.0)
    True
    >>> is_trustworthy(converged=True, logit_noise=0.9, condition=100.0)
    False
    """
    tolerable = LARGEST_OMISSION * half_width
    return (
        converged
        and logit_noise <= LARGEST_LOGIT_NOISE
        and condition <= LARGEST_CONDITION
        and abs(omitted) <= tolerable
        and undetermined_loss <= tolerable
    )

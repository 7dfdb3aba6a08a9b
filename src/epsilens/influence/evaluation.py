# SPDX-License-Identifier: Apache-2.0
"""What the test set says of a parameter vector, and of many that lie close together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.influence.record_noise import CellNoise, NoiseForms, cell_noise
from epsilens.models import Design, Loss

_N_BINS = 2048
_REACH = 5.0
_FEWEST_FOR_BINS = 1000


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


def _areas_under_curve(
    scores: NDArray[np.floating], positive: BoolArray, weights: FloatArray
) -> FloatArray | None:
    """Return the area for every column of scores; the many-column twin of `area_under_curve`.

    For single precision without weights the scores are counted in bins, and two records in one bin are
    a tie; with thousands of bins over five standard deviations that moves the area by about 1e-6.
    """
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if n_positive == 0 or n_negative == 0:
        return None
    is_small = len(scores) < _FEWEST_FOR_BINS
    if is_small or np.ptp(weights) > 0 or scores.dtype != np.float32 or scores.shape[1] == 1:
        areas = [area_under_curve(column, positive, weights) for column in scores.T]
        return None if None in areas else np.array(areas, dtype=np.float64)
    # A range for each column: drawn runs may differ far in size.
    centre, spread = scores.mean(axis=0), _REACH * scores.std(axis=0)
    low = np.maximum(scores.min(axis=0), centre - spread)[:, None]
    high = np.minimum(scores.max(axis=0), centre + spread)[:, None]
    scale = (_N_BINS / np.maximum(high - low, np.float32(1e-30))).astype(np.float32)
    area = np.empty(scores.shape[1])
    # Both kinds in a row each, so that a column needs two counts and no sorting into kinds.
    ups, downs = (
        np.clip((scores[kind].T - low) * scale, 0, _N_BINS - 1).astype(np.int16)
        for kind in (positive, ~positive)
    )
    for number, (above, beneath) in enumerate(zip(ups, downs, strict=True)):
        up = np.bincount(above, minlength=_N_BINS)
        down = np.bincount(beneath, minlength=_N_BINS)
        area[number] = up @ (np.cumsum(down) - 0.5 * down)
    area /= n_positive * n_negative
    return area


@dataclass(frozen=True, repr=False)
class Tally:
    """What some test records add to the outcomes of many parameter vectors.

    Attributes
    ----------
    loss, loss_gap, correct, correct_gap : arrays of shape (B,)
        Sums with the records' weights, and with a group's contrast.
    scores : array of shape (m, K, B)
        Their predictors, which the AUC needs of all records together; B is 0 where it has no meaning.
    """

    loss: FloatArray
    loss_gap: FloatArray
    correct: FloatArray
    correct_gap: FloatArray
    scores: NDArray[np.floating]


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

    @property
    def n_rows(self) -> int:
        """Number of test records."""
        return self.design.n_rows

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

    def contrast(self, members: BoolArray | None) -> FloatArray | None:
        """Return weights whose sum with a metric is the group's gap; None if one side is empty."""
        if members is None:
            return None
        inside = np.where(members, self.weights, 0.0)
        outside = np.where(members, 0.0, self.weights)
        if not (inside.sum() > 0 and outside.sum() > 0):
            return None
        contrast: FloatArray = inside / inside.sum() - outside / outside.sum()
        return contrast

    def outcomes(self, theta: FloatArray, contrast: FloatArray | None = None) -> Outcomes:
        """Return loss, accuracy and AUC at θ, and the gaps of a group given by its contrast."""
        tally = self._tally_of(self.design.predict(theta), contrast)
        areas = areas_of(tally.scores, self.y, self.weights) if self.is_classifier else None
        return outcomes_from(
            tally, areas, [contrast is not None], is_classifier=self.is_classifier
        )[0]

    def outcomes_at(
        self, thetas: FloatArray, contrasts: Sequence[FloatArray | None]
    ) -> list[Outcomes]:
        """Return the outcomes of many parameter vectors (K·p, B), each with a contrast of its own."""
        return [
            self.outcomes(theta, contrast)
            for theta, contrast in zip(thetas.T, contrasts, strict=True)
        ]

    def gaps(
        self, theta: FloatArray, contrasts: Sequence[FloatArray | None], known: Outcomes
    ) -> list[Outcomes]:
        """Return known outcomes at θ with the gaps of several groups."""
        s = self.design.predict(theta)
        result = []
        for contrast in contrasts:
            tally = self._tally_of(s, contrast)
            gap = contrast is not None
            (found,) = outcomes_from(tally, None, [gap], is_classifier=self.is_classifier)
            result.append(replace(known, loss_gap=found.loss_gap, accuracy_gap=found.accuracy_gap))
        return result

    def tally(self, thetas: FloatArray, contrasts: Sequence[FloatArray | None]) -> Tally:
        """Return what these records add to the outcomes at every column of θ, (K·p, B)."""
        parts = [
            self._tally_of(self.design.predict(theta), contrast)
            for theta, contrast in zip(thetas.T, contrasts, strict=True)
        ]
        return Tally(
            *(
                np.concatenate([getattr(part, name) for part in parts], axis=-1)
                for name in ("loss", "loss_gap", "correct", "correct_gap", "scores")
            )
        )

    def _tally_of(self, s: FloatArray, contrast: FloatArray | None) -> Tally:
        losses = self.loss.value(s, self.y)
        aside = np.zeros(len(losses)) if contrast is None else contrast
        right = np.zeros(len(losses), dtype=bool)
        scores = np.zeros((len(losses), s.shape[1], 0))
        if self.is_classifier:
            right, scores = self._correct(s, slice(None)), s[:, :, None]
        return Tally(
            loss=np.array([self.weights @ losses]),
            loss_gap=np.array([aside @ losses]),
            correct=np.array([self.weights @ right]),
            correct_gap=np.array([aside @ right]),
            scores=scores,
        )

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
        """Return what the noise of a run does to the test records; see `cell_noise`.

        Several mixtures are judged one after the other, at the columns of θ that are theirs, or
        all at one.
        """
        result, at = [], 0
        for forms in noises:
            n_cells = len(forms.weights)
            own = thetas if thetas.shape[1] == 1 else thetas[:, at : at + n_cells]
            result.append(cell_noise(self, own, forms))
            at += n_cells
        return result

    def hessians(self, thetas: FloatArray) -> list[FloatArray]:
        """Return H_te at every column of parameters (K·p, B)."""
        return [self.hessian(theta) for theta in thetas.T]

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return H_te = ∇²L_te(θ), shape (K·p, K·p)."""
        curvature = self.loss.curvature(self.design.predict(theta))
        curvature *= self.weights[:, None, None]
        return self.design.gram(curvature)

    def drawn(
        self,
        theta: FloatArray,
        deviations: SingleArray,
        *,
        n_auc_draws: int,
        contrast: FloatArray | None = None,
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
        tally = self.drawn_tally(theta, deviations, scored=slice(0, n_auc), contrast=contrast)
        areas = areas_of(tally.scores, self.y, self.weights) if self.is_classifier else None
        return drawn_from(tally, areas, has_gap=contrast is not None, scored=self.is_classifier)

    def drawn_tally(
        self,
        theta: FloatArray,
        deviations: SingleArray,
        *,
        scored: slice,
        contrast: FloatArray | None,
    ) -> Tally:
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
        return Tally(loss, loss_gap, correct, correct_gap, scores)


def areas_of(s: NDArray[np.floating], y: FloatArray, weights: FloatArray) -> FloatArray | None:
    """Return the AUC of every column of predictors (m, K, B); one against the rest, averaged."""
    n_outputs = s.shape[1]
    if n_outputs == 1:
        return _areas_under_curve(s[:, 0], y > 0.5, weights)
    score = s - s.max(axis=1, keepdims=True)
    score = score - np.log(np.exp(score).sum(axis=1, keepdims=True))
    areas = [_areas_under_curve(score[:, k], y == k, weights) for k in range(n_outputs)]
    if any(area is None for area in areas):
        return None
    mean: FloatArray = np.mean(np.array(areas, dtype=np.float64), axis=0)
    return mean


def outcomes_from(
    tally: Tally, areas: FloatArray | None, has_gap: Sequence[bool], *, is_classifier: bool
) -> list[Outcomes]:
    """Return the outcomes that sums over all test records stand for."""
    return [
        Outcomes(
            loss=float(tally.loss[b]),
            accuracy=float(tally.correct[b]) if is_classifier else None,
            auc=None if areas is None else float(areas[b]),
            loss_gap=float(tally.loss_gap[b]) if gap else None,
            accuracy_gap=float(tally.correct_gap[b]) if gap and is_classifier else None,
        )
        for b, gap in enumerate(has_gap)
    ]


def drawn_from(
    tally: Tally, areas: FloatArray | None, *, has_gap: bool, scored: bool
) -> DrawnOutcomes:
    """Return the drawn outcomes that sums over all test records stand for."""
    return DrawnOutcomes(
        loss=tally.loss,
        accuracy=tally.correct if scored else None,
        auc=areas,
        loss_gap=tally.loss_gap if has_gap else None,
        accuracy_gap=tally.correct_gap if has_gap and scored else None,
    )

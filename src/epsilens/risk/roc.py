# SPDX-License-Identifier: Apache-2.0
"""The trade between true and false alarms over all records and models that were judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.risk.success_rate import lower_rate

_ROWS = 1_000_000
"""Scores that are counted at a time."""
_CLOSE, _WIDE = 384, 128
"""Thresholds near the asked-for rate of false alarms, and over the whole range."""


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Standardised scores of all judged pairs of model and sample, each by the other half's fit.

    Attributes
    ----------
    statistic : array of float32, (n_models, n_samples)
        Above 0 where the sample is judged a member.
    membership : array of bool, (n_models, n_samples)
        The truth.
    judged : array of bool, (2, n_samples)
        Whether the models with even (0) and odd (1) index are judged on this sample.
    """

    statistic: SingleArray
    membership: BoolArray
    judged: BoolArray

    def too_few_models(self) -> str:
        """Say how many samples cannot be judged in full; empty if all can be."""
        n_left = int(np.count_nonzero(~self.judged.all(axis=0)))
        if not n_left:
            return ""
        return (
            f"{n_left} of {self.judged.shape[1]} samples have too few models to be judged in full "
            f"({int(np.count_nonzero(~self.judged.any(axis=0)))} not at all)"
        )

    def split(self) -> tuple[SingleArray, SingleArray]:
        """Return the scores of members and of the others, in no order."""
        inside, outside = [], []
        for half in (0, 1):
            columns = self.judged[half]
            scores, members = self.statistic[half::2], self.membership[half::2]
            if not columns.all():
                scores, members = scores[:, columns], members[:, columns]
            inside.append(scores[members])
            outside.append(scores[~members])
        return np.concatenate(inside), np.concatenate(outside)

    def roc(self, n_points: int) -> tuple[FloatArray, FloatArray]:
        """Return false and true alarm rates at up to `n_points` thresholds, both increasing."""
        inside, outside = self.split()
        if inside.size == 0 or outside.size == 0:
            return np.array([0.0, 1.0]), np.array([0.0, 1.0])
        inside.sort()
        outside.sort()
        half = max(n_points // 2, 2)
        ranks = np.concatenate(
            [np.geomspace(1, outside.size, half), np.linspace(1, outside.size, half)]
        ).astype(np.int64)
        thresholds = np.unique(outside[outside.size - np.unique(ranks)])[::-1]
        false_alarms = outside.size - np.searchsorted(outside, thresholds, side="left")
        hits = inside.size - np.searchsorted(inside, thresholds, side="left")
        # Above the highest outsider there are no false alarms, but hits.
        first = inside.size - int(np.searchsorted(inside, outside[-1], side="right"))
        fpr = np.concatenate([[0.0, 0.0], false_alarms / outside.size, [1.0]])
        tpr = np.concatenate([[0.0, first / inside.size], hits / inside.size, [1.0]])
        return fpr, tpr

    def auc(self) -> float:
        """Return the probability that a member scores above another, ties counting half."""
        inside, outside = self.split()
        if inside.size == 0 or outside.size == 0:
            return 0.5
        outside.sort()
        inside.sort()  # neighbours are found next to each other
        below = 0
        for start in range(0, inside.size, _ROWS):
            some = inside[start : start + _ROWS]
            below += int(np.searchsorted(outside, some, side="left").sum())
            below += int(np.searchsorted(outside, some, side="right").sum())
        return 0.5 * below / (inside.size * outside.size)

    def tpr_at_fpr(self, rate: float) -> float:
        """Return the largest share of hits with at most this share of false alarms."""
        inside, outside = self.split()
        if inside.size == 0 or outside.size == 0:
            return 0.0
        allowed = int(rate * outside.size + 1e-9)
        place = outside.size - 1 - allowed
        outside.partition(place)
        threshold = outside[place]
        return float(np.count_nonzero(inside > threshold) / inside.size)

    def tpr_interval(
        self, rate: float, *, confidence: float, n_resamples: int, seed: int
    ) -> tuple[float, float]:
        """Return an interval of the hits at this share of false alarms, by resampling models."""
        thresholds = self._thresholds(rate)
        out_above, n_out = self._counts_above(thresholds, members=False)
        in_above, n_in = self._counts_above(thresholds, members=True)
        generator = np.random.default_rng(seed)
        weights = np.empty((n_resamples, self.statistic.shape[0]), dtype=np.float32)
        for half in (0, 1):
            # Models of one half are judged by one fit: each half is drawn again by itself.
            size = weights[:, half::2].shape[1]
            weights[:, half::2] = generator.multinomial(size, [1.0 / size] * size, n_resamples)
        fpr = (weights @ out_above) / np.maximum(weights @ n_out, 1.0)[:, None]
        tpr = (weights @ in_above) / np.maximum(weights @ n_in, 1.0)[:, None]
        found = _at_rate(fpr, tpr, rate)
        tail = (1.0 - confidence) / 2.0
        low, high = np.quantile(found, [tail, 1.0 - tail])
        return float(low), float(high)

    def _thresholds(self, rate: float) -> SingleArray:
        """Return increasing thresholds, dense around the asked-for share of false alarms."""
        _, outside = self.split()
        size = outside.size
        if size == 0:
            return np.zeros(1, dtype=np.float32)
        middle = max(rate * size, 1.0)
        close = np.linspace(middle / 4.0, min(4.0 * middle + 20.0, size), _CLOSE)
        wide = np.geomspace(1.0, size, _WIDE)
        places = size - np.unique(np.clip(np.concatenate([close, wide]).astype(int), 1, size))
        # Only the ranks that are asked for are put into their places.
        outside.partition(np.sort(places))
        return np.unique(outside[places])

    def _counts_above(
        self, thresholds: SingleArray, *, members: bool
    ) -> tuple[SingleArray, SingleArray]:
        """Return how many scores of each model lie above each threshold, and how many it has."""
        n_models, n_bins = self.statistic.shape[0], thresholds.size + 1
        table = np.zeros((n_models, n_bins), dtype=np.float32)
        for half in (0, 1):
            columns = self.judged[half]
            models = np.arange(half, n_models, 2)
            step = max(_ROWS // max(columns.size, 1), 1)
            for start in range(0, models.size, step):
                some = models[start : start + step]
                kept = self.membership[some] if members else ~self.membership[some]
                kept &= columns
                row = np.broadcast_to(np.arange(some.size)[:, None], kept.shape)[kept]
                # Number of thresholds strictly below the score.
                place = np.searchsorted(thresholds, self.statistic[some][kept], side="left")
                counts = np.bincount(row * n_bins + place, minlength=some.size * n_bins)
                table[some] = counts.reshape(some.size, n_bins)
        above = np.cumsum(table[:, ::-1], axis=1)[:, ::-1]
        return np.ascontiguousarray(above[:, 1:]), np.ascontiguousarray(above[:, 0])


def _at_rate(fpr: SingleArray, tpr: SingleArray, rate: float) -> FloatArray:
    """Return each row's true alarms where its false alarms cross the rate, on the line between."""
    rows = np.arange(fpr.shape[0])
    # False alarms fall from left to right; the first within the rate.
    first = np.minimum((fpr > rate).sum(axis=1), fpr.shape[1] - 1)
    before = np.maximum(first - 1, 0)
    high, low = fpr[rows, before].astype(np.float64), fpr[rows, first].astype(np.float64)
    gap = high - low
    share = np.where(gap > 0.0, np.clip((rate - low) / np.where(gap > 0.0, gap, 1.0), 0, 1), 0.0)
    share = np.where(low > rate, 0.0, share)
    upper, lower = tpr[rows, before].astype(np.float64), tpr[rows, first].astype(np.float64)
    return np.asarray(lower + share * (upper - lower))


# --- How often the attack is right on members and on others, each half of the weight ---


@dataclass(frozen=True, eq=False)
class BalancedAccuracy:
    """Balanced accuracy of the attack on each sample, at one threshold fixed beforehand.

    Attributes
    ----------
    per_sample : array of float64, (n_samples,)
        Mean of the rates of right judgements on members and on others. Sensitive: it says who is
        exposed. NaN where a sample could not be judged.
    max, mean : float
        Over the samples.
    max_lower_bound : float or None
        With the stated confidence the most exposed sample's balanced accuracy is at least this.
        None if the membership does not come from fair coins.
    threshold : float in (0, 1)
        On Λ; above it the attack says "member".
    confidence : float in (0, 1)
        Confidence level of the bound, for all samples at once.
    """

    per_sample: FloatArray
    max: float
    mean: float
    max_lower_bound: float | None
    threshold: float
    confidence: float

    def __repr__(self) -> str:
        """Return the numbers that describe no single record."""
        bound = "None" if self.max_lower_bound is None else f"{self.max_lower_bound:.4f}"
        return (
            f"BalancedAccuracy(max={self.max:.4f}, max_lower_bound={bound}, "
            f"mean={self.mean:.4f}, threshold={self.threshold:g}, confidence={self.confidence:g})"
        )


def balanced_accuracy(
    held_out: HeldOutScores,
    *,
    cut: float,
    threshold: float,
    confidence: float,
    with_bound: bool,
) -> BalancedAccuracy:
    """Return the balanced accuracy of judging every score above `cut` a member's.

    Parameters
    ----------
    held_out : HeldOutScores
        Standardised scores of the judged pairs.
    cut : float
        The threshold on the scale of the statistic.
    threshold : float
        The same on the scale of Λ, for the record.
    confidence : float in (0, 1)
        Confidence level of the lower bound.
    with_bound : bool
        Whether models are independent, so that a bound can be had.

    Returns
    -------
    BalancedAccuracy
        Per sample, its maximum and the bound of it.

    Notes
    -----
    Four Clopper–Pearson bounds a sample, members and others in each direction of the split, each
    at a 4N-th of the error; directions are averaged by their numbers of models.
    """
    n_samples = held_out.membership.shape[1]
    counts = np.zeros((2, 2, 2, n_samples), dtype=np.int64)  # half, side, right and all
    for half in (0, 1):
        said = held_out.statistic[half::2] > cut
        members = held_out.membership[half::2]
        n_models = members.shape[0]
        n_in, n_said, n_hit = (part.sum(axis=0) for part in (members, said, said & members))
        counts[half] = [[n_hit, n_in], [n_models - n_in - n_said + n_hit, n_models - n_in]]
    right, trials = counts[:, :, 0], counts[:, :, 1]
    usable = held_out.judged & (trials > 0).all(axis=1)
    weights = np.where(usable, trials.sum(axis=1), 0)
    total = weights.sum(axis=0)

    def averaged(rates: FloatArray) -> FloatArray:
        both = (rates.mean(axis=1) * weights).sum(axis=0)
        return np.where(total > 0, both / np.maximum(total, 1), np.nan)

    per_sample = averaged(right / np.maximum(trials, 1))
    bound = None
    if not (total > 0).any():
        return BalancedAccuracy(per_sample, np.nan, np.nan, None, threshold, confidence)
    if with_bound:
        level = (1.0 - confidence) / (4 * n_samples)
        bound = float(np.nanmax(averaged(lower_rate(right, trials, level=level))))
    per_sample.setflags(write=False)
    return BalancedAccuracy(
        per_sample=per_sample,
        max=float(np.nanmax(per_sample)),
        mean=float(np.nanmean(per_sample)),
        max_lower_bound=bound,
        threshold=threshold,
        confidence=confidence,
    )

# SPDX-License-Identifier: Apache-2.0
"""What a membership attack on many models found, beside what chance alone would have found.

The largest of many rates is large by chance alone. Here is what chance would give, how probable
the largest rate is if no sample leaks, and how exposed the most exposed sample is at least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, logit, ndtri
from scipy.stats import binom
from scipy.stats import t as student

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens._validate import as_count, as_share
from epsilens.errors import InputError, setting
from epsilens.risk.proven_epsilon import ProvenEpsilon

# --- How often the attack is right on each sample, and what the largest rate means ---

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Levels of the reported quantiles of the null distribution."""


@dataclass(frozen=True)
class NullOfMaximum(Mapping[float, float]):
    """What the largest success rate would be if no sample leaked: quantiles and mean.

    Read like a table: `null[0.95]` is the rate that chance alone exceeds in one study of twenty.

    Attributes
    ----------
    mean : float in (0, 1]
        Mean of the largest rate under chance.
    quantiles : tuple of (float, float)
        Probability and rate.
    kind : {"binomial", "redrawn coins", "permutation", "either half"}
        Computed exactly, or found by tossing the coins of the membership again (the online attack),
        or by exchanging the models' memberships (coins that are not fair). "either half" is at least
        as large as the truth: the larger rate of both directions, where these may depend on each other.

    Examples
    --------
    >>> null = null_of_maximum(n_judged=1000, n_samples=1797)
    >>> round(null.mean, 3), null[0.95]
    (0.554, 0.564)
    """

    mean: float
    quantiles: tuple[tuple[float, float], ...]
    kind: Literal["binomial", "redrawn coins", "permutation", "either half"]

    def __getitem__(self, probability: float) -> float:
        return dict(self.quantiles)[probability]

    def __iter__(self) -> Iterator[float]:
        return (probability for probability, _ in self.quantiles)

    def __len__(self) -> int:
        return len(self.quantiles)


def null_of_maximum(n_judged: ArrayLike, n_samples: int | None = None) -> NullOfMaximum:
    """Return what the largest success rate would be if every judgement were the toss of a coin.

    With a thousand models and a useless attack the luckiest of 1,797 samples is still judged right
    in about 55 of 100 models: a rate is worth reading only beside this.

    Parameters
    ----------
    n_judged : int or array of int, (n_samples,)
        Models that were judged, for all samples alike or for each.
    n_samples : int, optional
        Number of samples; only with a single `n_judged`.

    Returns
    -------
    NullOfMaximum
        Mean and quantiles of the largest rate.

    Raises
    ------
    InputError
        If a number is below 1, or `n_samples` is missing.

    Notes
    -----
    The largest of N independent Binomial(M, ½)/M (math of ASR^M, P5 section III): its distribution
    function is the product of theirs. Samples that were judged by fewer models count with theirs.

    Examples
    --------
    >>> [round(null_of_maximum(1000, n).mean, 3) for n in (80, 210, 35_000)]
    [0.538, 0.544, 0.566]
    """
    counts = np.atleast_1d(np.asarray(n_judged, dtype=np.int64))
    if n_samples is None and np.ndim(n_judged) == 0:
        raise InputError(
            argument="n_samples", expected=f"given with a single {setting('n_judged')}"
        )
    if counts.size == 0 or counts.min() < 1 or (n_samples is not None and n_samples < 1):
        raise InputError(f"{setting('n_judged')} and {setting('n_samples')} must be at least 1.")
    trials, times = np.unique(counts, return_counts=True)
    if n_samples is not None:
        times = times * n_samples
    # Few models give few different rates; all of them are looked at.
    rates = np.unique(np.concatenate([np.arange(n + 1) / n for n in trials.tolist()]))
    log_below = np.zeros(rates.size)
    for n, often in zip(trials.tolist(), times.tolist(), strict=True):
        at_most = np.floor(rates * n + 1e-9)
        with np.errstate(divide="ignore"):
            log_below += often * np.log1p(-binom.sf(at_most, n, 0.5))
    below = np.exp(log_below)
    mean = float((np.diff(rates) * (1.0 - below[:-1])).sum() + rates[0])
    found = rates[np.searchsorted(below, np.array(QUANTILES) - 1e-12)]
    return NullOfMaximum(mean, tuple(zip(QUANTILES, found.tolist(), strict=True)), "binomial")


def p_value_of_maximum(largest: float, n_judged: NDArray[np.int64]) -> float:
    """Return how often the largest rate would be this large if no sample leaked.

    Parameters
    ----------
    largest : float in [0, 1]
        The largest rate that was seen.
    n_judged : array of int, (n_samples,)
        Models that were judged, per sample.

    Returns
    -------
    float in (0, 1]
        The exact probability, for independent fair judgements.

    Examples
    --------
    >>> import numpy as np
    >>> round(p_value_of_maximum(1.0, np.array([10])) * 2**10, 9)
    1.0
    """
    trials, times = np.unique(n_judged, return_counts=True)
    needed = np.ceil(largest * trials - 1e-9)
    with np.errstate(divide="ignore"):
        log_below = (times * np.log1p(-binom.sf(needed - 1, trials, 0.5))).sum()
    return float(-np.expm1(log_below))


def p_value_at_most(largest: float, judged: NDArray[np.int64]) -> float:
    """Return an upper bound of the p-value, whatever the two directions have to do with each other.

    Parameters
    ----------
    largest : float in [0, 1]
        The largest rate that was seen.
    judged : array of int, (2, n_samples)
        Models that were judged, per half and sample.

    Returns
    -------
    float in (0, 1]
        A sample's rate reaches a value only if that of one of the halves does: the sum of the
        probabilities of all of these.

    Examples
    --------
    >>> import numpy as np
    >>> p_value_at_most(1.0, np.array([[5], [5]]))
    0.0625
    """
    trials, times = np.unique(judged[judged > 0], return_counts=True)
    needed = np.ceil(largest * trials - 1e-9)
    return min(float((times * binom.sf(needed - 1, trials, 0.5)).sum()), 1.0)


def simulated_null(
    largest: float,
    simulated: FloatArray,
    *,
    kind: Literal["redrawn coins", "permutation"],
    at_most: float = 1.0,
) -> tuple[NullOfMaximum, float]:
    """Return the null distribution and the p-value from studies with memberships of no meaning.

    Parameters
    ----------
    largest : float
        The largest rate that was seen.
    simulated : array of float64
        The largest rates of as many studies in which no sample can leak.
    kind : {"redrawn coins", "permutation"}
        How their memberships were made.
    at_most : float in (0, 1]
        A proven upper bound of the p-value. Used where no simulated study comes near: below one
        over the number of studies simulation has nothing to say.

    Returns
    -------
    NullOfMaximum, float
        Quantiles and mean; share of all studies, the real one among them, at or above it.

    Examples
    --------
    >>> import numpy as np
    >>> simulated_null(0.7, np.linspace(0.5, 0.6, 199), kind="permutation")[1]
    0.005
    """
    found = np.quantile(simulated, QUANTILES, method="inverted_cdf")
    null = NullOfMaximum(
        float(simulated.mean()), tuple(zip(QUANTILES, found.tolist(), strict=True)), kind
    )
    at_least = int(np.count_nonzero(simulated >= largest - 1e-12))
    p_value = (1 + at_least) / (1 + simulated.size)
    return null, min(p_value, at_most) if at_least == 0 else p_value


def lower_rate(
    successes: NDArray[np.int64], trials: NDArray[np.int64], *, level: float
) -> FloatArray:
    """Return one-sided Clopper–Pearson lower bounds; 0 without trials.

    Examples
    --------
    >>> import numpy as np
    >>> lower_rate(np.array([0, 10]), np.array([10, 10]), level=0.05).round(4)
    array([0.    , 0.7411])
    """
    safe = np.maximum(successes, 1)
    found = betaincinv(safe, np.maximum(trials - safe + 1, 1), level)
    return np.asarray(np.where(successes < 1, 0.0, found), dtype=np.float64)


def weighted_lower_rate(
    right: NDArray[np.int64], judged: NDArray[np.int64], *, level: float
) -> FloatArray:
    """Return a lower bound of each sample's success rate that holds for all samples at once.

    Parameters
    ----------
    right, judged : array of int, (2, n_samples)
        Right judgements and judgements in each direction of the split.
    level : float in (0, 1)
        The accepted probability that any sample's bound is above its rate.

    Returns
    -------
    array of float64, (n_samples,)
        NaN where nothing was judged.

    Notes
    -----
    Given the fit of the other half, the judgements of one sample are independent, one per model:
    Clopper–Pearson holds in each direction. Each of the 2N bounds gets an equal share of the error
    and the two directions are averaged by their numbers of models; nothing is assumed about the
    dependence between samples.
    """
    bounds = lower_rate(right, judged, level=level / right.size)
    total = judged.sum(axis=0)
    return np.asarray(
        np.where(total > 0, (bounds * judged).sum(axis=0) / np.maximum(total, 1), np.nan)
    )


# --- The trade between true and false alarms over all records and models that were judged ---

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
    has_common_luck : bool
        Whether both halves succeed together by chance: the online attack learns from the members of each half.
    """

    statistic: SingleArray
    membership: BoolArray
    judged: BoolArray
    has_common_luck: bool = False

    @property
    def wider(self) -> float:
        """Factor on standard errors over models: √2 where the means of both halves may go together entirely."""
        return math.sqrt(2.0) if self.has_common_luck else 1.0

    def too_few_models(self) -> str:
        """Say how many samples cannot be judged in full; empty if all can be."""
        n_left = int(np.count_nonzero(~self.judged.all(axis=0)))
        if not n_left:
            return ""
        return (
            f"{n_left} of {self.judged.shape[1]} samples have too few models to be judged in full "
            f"({int(np.count_nonzero(~self.judged.any(axis=0)))} not at all)"
        )

    def mean_lower_bound(self, confidence: float) -> float:
        """Return a lower confidence bound of the mean success rate over samples, by Student's t over models.

        Given the other half's fit the models of one half are judged independently of each other. Where both halves
        may succeed together by chance the standard error is √2 times as large, which covers any dependence.

        Examples
        --------
        >>> import numpy as np
        >>> members = np.array([[True, False]] * 40)
        >>> scores = np.where(members, 1.0, -1.0).astype(np.float32)
        >>> HeldOutScores(scores, members, np.ones((2, 2), dtype=bool)).mean_lower_bound(0.95)
        1.0
        """
        rates, n_judged = self.model_rates()
        rates = rates[n_judged > 0]
        return 0.0 if len(rates) < 2 else self.lower_end(rates, confidence)

    def lower_end(self, per_model: FloatArray, confidence: float) -> float:
        """Return the lower confidence bound of a mean over models, of which there are at least two."""
        error = self.wider * float(per_model.std(ddof=1)) / math.sqrt(len(per_model))
        return float(per_model.mean() - student.ppf(confidence, len(per_model) - 1) * error)

    def model_rates(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the share of right judgements of every model, and how many it has; NaN where it has none."""
        right = (self.statistic > 0) == self.membership
        parity = np.arange(len(right)) % 2
        counted = self.judged[parity]
        n_judged = counted.sum(axis=1)
        rates = (right & counted).sum(axis=1) / np.maximum(n_judged, 1)
        return np.where(n_judged > 0, rates, np.nan), n_judged

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
        found = self.resampled_tpr(rate, n_resamples=n_resamples, seed=seed)
        tail = (1.0 - confidence) / 2.0
        low, high = np.quantile(found, [tail, 1.0 - tail])
        return float(low), float(high)

    def resampled_tpr(self, rate: float, *, n_resamples: int, seed: int) -> FloatArray:
        """Return the hits at this share of false alarms where models are drawn again, one number a draw."""
        thresholds = self._thresholds(rate)
        out_above, n_out = self._counts_above(thresholds, members=False)
        in_above, n_in = self._counts_above(thresholds, members=True)
        weights = drawn_again(self.statistic.shape[0], n_resamples, seed).astype(np.float32)
        fpr = (weights @ out_above) / np.maximum(weights @ n_out, 1.0)[:, None]
        tpr = (weights @ in_above) / np.maximum(weights @ n_in, 1.0)[:, None]
        return _at_rate(fpr, tpr, rate)

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


def drawn_again(n_models: int, n_resamples: int, seed: int) -> FloatArray:
    """Return how often each model is there in studies that drew them again, (n_resamples, n_models).

    Models of one half are judged by one fit: each half is drawn again by itself.
    """
    generator = np.random.default_rng(seed)
    weights = np.empty((n_resamples, n_models))
    for half in (0, 1):
        size = weights[:, half::2].shape[1]
        weights[:, half::2] = generator.multinomial(size, [1.0 / size] * size, n_resamples)
    return weights


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


# --- What a membership attack on many models found, beside what chance alone would have found ---

OFFLINE_THRESHOLD = 0.95
"""Above this Λ the offline attack says "member" where balanced accuracy is asked for."""


@dataclass(frozen=True, eq=False)
class MembershipAttack:
    """How well an attacker tells who was in the training data, and what that proves.

    The success rate of a record is the share of models for which the attack says rightly whether
    they had seen it. The largest of these rates is large by chance alone, so it comes with what
    chance would give, with a p-value, and with a bound below which the most exposed record's rate
    is not.

    Attributes
    ----------
    asr : array of float64, (n_samples,)
        Success rate on each sample, P5's ASR(x). **Sensitive**: it says which records are exposed,
        and is in neither `to_dict` nor `repr`. NaN for samples that could not be judged; their
        number is in `assumptions`.
    asr_max, asr_mean : float in [0, 1]
        The largest rate, P5's ASR^M, and the mean.
    asr_max_null : NullOfMaximum
        Quantiles (`[0.05]`, `[0.5]`, `[0.95]`, …) and `mean` of the largest rate if no sample
        leaked.
    asr_max_p_value : float in (0, 1]
        How often the largest rate would be this large if no sample leaked.
    asr_max_lower_bound : float
        With the stated confidence the attack, as fitted here, is right on new models of the most
        exposed sample at least this often. 0 where the membership does not come from fair coins.
    asr_max_upper_bound : float
        With the stated confidence the attack is right on no sample more often than this.
    epsilon_lower_bound : float
        With the stated confidence the training's ε is at least this, at `delta`. 0 where the
        membership does not come from fair coins.
    proof : ProvenEpsilon or None
        The guesses behind `epsilon_lower_bound`.
    delta : float in [0, 1)
        The δ at which ε is meant.
    confidence : float in (0, 1)
        Confidence level of each bound by itself.
    online : bool
        Whether the attack also looked at models that saw the sample.
    variance : {"fixed", "per-sample", "shrunk", "none"}
        Whether scores were taken to spread alike on all samples, or as each does, or in between; "none"
        where the method has no spread.
    n_models, n_samples, n_judged : int
        Models, samples, and samples that could be judged.
    assumptions : tuple of str
        What is taken for granted, what was left out, and why.
    held_out : HeldOutScores
        Standardised scores of every model and sample. **Sensitive**, as `asr`.
    method : str
        How scores were turned into judgements; see `attack_membership`.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.risk import lira
    >>> rng = np.random.default_rng(0)
    >>> membership = rng.random((200, 50)) < 0.5
    >>> attack = lira(2.0 * membership + rng.normal(size=(200, 50)), membership)
    >>> attack
    MembershipAttack(asr_max=0.790, by chance up to 0.610, p=1.3e-15, at least 0.632; ...)
    >>> round(attack.auc, 2), round(attack.tpr_at_fpr(0.01), 2)
    (0.92, 0.35)
    """

    asr: FloatArray
    asr_max: float
    asr_mean: float
    asr_max_null: NullOfMaximum
    asr_max_p_value: float
    asr_max_lower_bound: float
    asr_max_upper_bound: float
    epsilon_lower_bound: float
    proof: ProvenEpsilon | None
    delta: float
    confidence: float
    online: bool
    variance: Literal["fixed", "per-sample", "shrunk", "none"]
    n_models: int
    n_samples: int
    n_judged: int
    assumptions: tuple[str, ...]
    held_out: HeldOutScores = field(repr=False)
    method: str = "lira"

    def asr_quantile(self, probability: float) -> float:
        """Return a quantile of the success rates over the judged samples.

        Parameters
        ----------
        probability : float in (0, 1)
            0.99 for the rate that one sample of a hundred exceeds.
        """
        share = as_share(probability, name="probability")
        return float(np.nanquantile(self.asr, share))

    def balanced_accuracy(self, threshold: float | None = None) -> BalancedAccuracy:
        """Return how often the attack is right on members and on others, each with half weight.

        P5's rule, Λ > ½, takes half of all outsiders for members and cannot do better than about
        three in four. A stricter threshold reaches 1 when the leak is large.

        Parameters
        ----------
        threshold : float in (0, 1), optional
            The attack says "member" where Λ is above it. To be chosen without looking at these
            models. By default 0.95 for the offline attack and 0.5 for the online one, whose Λ is
            the probability of membership.

        Returns
        -------
        BalancedAccuracy
            Per sample, the maximum and its lower bound for all samples at once.

        Notes
        -----
        Four Clopper–Pearson bounds a sample, members and others in each direction of the split,
        each at a 4N-th of the error; directions are averaged by their numbers of models.

        Examples
        --------
        >>> import numpy as np
        >>> from epsilens.risk import lira
        >>> rng = np.random.default_rng(0)
        >>> membership = rng.random((200, 50)) < 0.5
        >>> attack = lira(9.0 * membership + rng.normal(size=(200, 50)), membership)
        >>> round(attack.asr_mean, 2), round(attack.balanced_accuracy().mean, 2)
        (0.75, 0.97)
        """
        share = (0.5 if self.online else OFFLINE_THRESHOLD) if threshold is None else threshold
        share = as_share(share, name="threshold")
        cut = float(logit(share) if self.online else ndtri(share))
        held_out = self.held_out
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
            return BalancedAccuracy(per_sample, np.nan, np.nan, None, share, self.confidence)
        if self.proof is not None:
            level = (1.0 - self.confidence) / (4 * n_samples)
            bound = float(np.nanmax(averaged(lower_rate(right, trials, level=level))))
        per_sample.setflags(write=False)
        return BalancedAccuracy(
            per_sample=per_sample,
            max=float(np.nanmax(per_sample)),
            mean=float(np.nanmean(per_sample)),
            max_lower_bound=bound,
            threshold=share,
            confidence=self.confidence,
        )

    def roc(self, n_points: int = 2000) -> tuple[FloatArray, FloatArray]:
        """Return the rates of false and of true alarms as the threshold falls.

        Parameters
        ----------
        n_points : int, at least 4
            About how many thresholds; half of them close together where false alarms are rare.

        Returns
        -------
        fpr, tpr : array of float64
            Over all judged pairs of model and sample, both increasing.
        """
        return self.held_out.roc(as_count(n_points, name="n_points", least=4))

    @cached_property
    def auc(self) -> float:
        """Area under the ROC: how often a member scores above an outsider."""
        return self.held_out.auc()

    def tpr_at_fpr(self, fpr: float = 0.01) -> float:
        """Return the share of members found when at most this share of outsiders is accused.

        Parameters
        ----------
        fpr : float in (0, 1)
            Largest share of false alarms.

        Returns
        -------
        float in [0, 1]
            Over all judged pairs. With fewer than 1/fpr outsiders no false alarm is allowed.
        """
        return self.held_out.tpr_at_fpr(as_share(fpr, name="fpr"))

    def tpr_interval(
        self, fpr: float = 0.01, *, n_resamples: int = 1000, seed: int = 0
    ) -> tuple[float, float]:
        """Return an interval for `tpr_at_fpr`, by drawing the models again with replacement.

        Scores of one model belong together, so that models are drawn, not pairs. The threshold is
        found anew in every draw. Weak below some tens of models, and where fewer than about ten
        false alarms are allowed in all.

        Parameters
        ----------
        fpr : float in (0, 1)
            Largest share of false alarms.
        n_resamples : int, at least 1
            How often the models are drawn.
        seed : int
            Seed of the draws: the interval is repeatable.

        Returns
        -------
        low, high : float in [0, 1]
            Percentiles at the attack's confidence.
        """
        return self.held_out.tpr_interval(
            as_share(fpr, name="fpr"),
            confidence=self.confidence,
            n_resamples=as_count(n_resamples, name="n_resamples"),
            seed=as_count(seed, name="seed", least=0),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the numbers that describe no single record, ready for JSON."""
        return {
            "asr_max": self.asr_max,
            "asr_mean": self.asr_mean,
            "asr_max_null_mean": self.asr_max_null.mean,
            "asr_max_null_q05": self.asr_max_null[0.05],
            "asr_max_null_q50": self.asr_max_null[0.5],
            "asr_max_null_q95": self.asr_max_null[0.95],
            "asr_max_null_kind": self.asr_max_null.kind,
            "asr_max_p_value": self.asr_max_p_value,
            "asr_max_lower_bound": self.asr_max_lower_bound,
            "asr_max_upper_bound": self.asr_max_upper_bound,
            "auc": self.auc,
            "tpr_at_fpr_0_001": self.tpr_at_fpr(0.001),
            "tpr_at_fpr_0_01": self.tpr_at_fpr(0.01),
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "delta": self.delta,
            "confidence": self.confidence,
            "method": self.method,
            "online": self.online,
            "variance": self.variance,
            "n_models": self.n_models,
            "n_samples": self.n_samples,
            "n_judged": self.n_judged,
            "assumptions": list(self.assumptions),
        }

    def __repr__(self) -> str:
        """Return the numbers that describe no single record."""
        least = "" if self.proof is None else f", at least {self.asr_max_lower_bound:.3f}"
        proven = (
            "no bound on epsilon"
            if self.proof is None
            else f"epsilon at least {self.epsilon_lower_bound:.3g}"
        )
        return (
            f"MembershipAttack(asr_max={self.asr_max:.3f}, by chance up to "
            f"{self.asr_max_null[0.95]:.3f}, p={self.asr_max_p_value:.2g}{least}; {proven})"
        )

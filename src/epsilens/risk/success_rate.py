# SPDX-License-Identifier: Apache-2.0
"""How often the attack is right on each sample, and what the largest rate means.

The largest of many rates is large by chance alone. Here is what chance would give, how probable
the largest rate is if no sample leaks, and how exposed the most exposed sample is at least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv
from scipy.stats import binom

from epsilens._types import FloatArray
from epsilens.errors import InputError, setting

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
    kind : {"binomial", "redrawn coins", "permutation"}
        Computed exactly, or found by tossing the coins of the membership again (the online attack),
        or by exchanging the models' memberships (coins that are not fair).

    Examples
    --------
    >>> null = null_of_maximum(n_judged=1000, n_samples=1797)
    >>> round(null.mean, 3), null[0.95]
    (0.554, 0.564)
    """

    mean: float
    quantiles: tuple[tuple[float, float], ...]
    kind: Literal["binomial", "redrawn coins", "permutation"]

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

# SPDX-License-Identifier: Apache-2.0
"""Guesses that count for more where they are surer: one weighted sum instead of a number of guesses.

Notes
-----
Under pure privacy the right guesses, in the order of confidence, are dominated by independent coins that show heads
with probability q = e^ε/(1 + e^ε), and any event that more right guesses make more likely is no likelier than
with coins; δ adds mδ/(1 + e^ε) (docs/one-run-audit.md, "The path correction"). "The weighted sum of right guesses is
at least c" is such an event, whatever the weights, as long as they are fixed beforehand and not negative.

The weights are those of the likelihood ratio between coins and scores of normal noise: a guess at rank r is
right with log-odds μ t_r there, t_r being the score at that rank, and counts (μ t_r − ε)₊. For every ε, μ is the one
for which the sum is expected just at the threshold: it follows from ε, δ, m and the error alone. Other noise
costs strength, never validity.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

from epsilens._types import BoolArray, FloatArray
from epsilens.audit.path import first_level
from epsilens.audit.pure import LEVELS

_STEPS = 64
"""Weights are whole numbers up to this, so that the sum has a law that is computed exactly."""
_TRIED = LEVELS[::6]
"""Steps of 0.006 up to 0.4 and of 1.5 % beyond."""
_SHIFTS = np.geomspace(0.05, 12.0, 120)
_NODES = 300
"""So many ranks choose μ; all ranks have weights."""
_BEYOND = 1e-20
"""Probability of sums whose law is not computed."""
_SLOPES = np.geomspace(0.25, 2.0, 12)[:, None]


def weighted_bound(right: BoolArray, *, n_canaries: int, delta: float, level: float) -> float:
    """Return the largest ε that a weighted sum of right guesses refutes, at δ = 0 or above.

    Parameters
    ----------
    right : array of bool, (n_guesses,)
        Whether each guess is right, in the order of confidence.
    n_canaries : int
        All canaries, those without a guess included.
    delta : float in [0, 1)
        The δ of the claim.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, inf)
        The last privacy level before the first that is not refuted, from `first_level` upwards.

    Examples
    --------
    >>> right = np.arange(400) % 40 < 40 - np.arange(400) // 20
    >>> round(weighted_bound(right, n_canaries=400, delta=0.0, level=0.05), 2)
    2.58
    """
    found = 0.0
    start = first_level(n_canaries, delta=delta, level=level)
    n_right = np.concatenate([[0], np.cumsum(right)])
    for epsilon in _TRIED[np.searchsorted(_TRIED, start) :].tolist():
        ends = _ends(right.size, epsilon, n_canaries=n_canaries, delta=delta, level=level)
        if ends is None:
            break
        total = int(n_right[ends].sum())
        left = _left(epsilon, n_canaries=n_canaries, delta=delta, level=level)
        if not _surely_refuted(total, ends, epsilon, left=left):
            threshold = _threshold(ends.tobytes(), epsilon, left=left)
            if threshold is None or total < threshold:
                break
        found = epsilon
    return found


def weighted_test(
    n_guesses: int, epsilon: float, *, n_canaries: int, delta: float, level: float
) -> tuple[NDArray[np.int64], int] | None:
    """Return whole weights of the guesses and the smallest sum that refutes ε; None if no sum does."""
    ends = _ends(n_guesses, epsilon, n_canaries=n_canaries, delta=delta, level=level)
    if ends is None:
        return None
    left = _left(epsilon, n_canaries=n_canaries, delta=delta, level=level)
    threshold = _threshold(ends.tobytes(), epsilon, left=left)
    if threshold is None:
        return None
    weights = np.zeros(n_guesses, dtype=np.int64)
    for end in ends.tolist():
        weights[:end] += 1
    return weights, threshold


def _left(epsilon: float, *, n_canaries: int, delta: float, level: float) -> float:
    """Return the error that δ leaves to the guesses."""
    return level - n_canaries * delta * float(expit(-epsilon))


@lru_cache(maxsize=8192)
def _ends(
    n_guesses: int, epsilon: float, *, n_canaries: int, delta: float, level: float
) -> NDArray[np.int64] | None:
    """Return how many guesses have at least weight 1, 2, …, 64: they are the first; None if no weights refute ε."""
    left = _left(epsilon, n_canaries=n_canaries, delta=delta, level=level)
    if left <= 0.0:
        return None
    chance = float(expit(epsilon))
    log_odds, sizes = _log_odds(n_guesses, n_canaries)
    odds = np.maximum(log_odds - epsilon, 0.0)
    # Both guesses of a rank count the same: twice everything.
    mean = 2.0 * (odds * (expit(odds + epsilon) - chance)) @ sizes
    spread = np.sqrt(2.0 * chance * (1.0 - chance) * (odds**2 @ sizes))
    enough = np.flatnonzero((mean >= -float(ndtri(left)) * spread) & (spread > 0.0))
    if not enough.size:
        return None
    shift, largest = float(_SHIFTS[enough[0]]), float(odds[enough[0], 0])
    # A guess has weight w or more where (μt − ε) / largest is above (w − 1) / 64.
    above = (np.arange(_STEPS) + 1e-9) / _STEPS * largest
    ranks = np.ceil(n_canaries * _share_above((epsilon + above) / shift, shift) - 0.5)
    found = np.clip(2 * ranks.astype(np.int64), 0, n_guesses)
    found.setflags(write=False)
    return found


def _counts(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many guesses have weight 1, 2, …, 64."""
    return np.asarray(ends - np.append(ends[1:], 0), dtype=np.int64)


def _surely_refuted(total: int, ends: NDArray[np.int64], epsilon: float, *, left: float) -> bool:
    """Return whether Chernoff's bound refutes ε: then the law of the sum need not be computed."""
    counts, values, chance = _counts(ends), np.arange(1, _STEPS + 1), float(expit(epsilon))
    over = total - chance * float(counts @ values)
    if over <= 0.0:
        return False
    # Any slope gives a bound; that of normal sums is near the best.
    slopes = _SLOPES * over / (chance * (1.0 - chance) * float(counts @ values**2))
    grown = values * slopes + np.log(chance + (1.0 - chance) * np.exp(-values * slopes))
    return bool((grown @ counts - slopes[:, 0] * total).min() <= math.log(left))


@lru_cache(maxsize=8192)
def _threshold(ends: bytes, epsilon: float, *, left: float) -> int | None:
    """Return the smallest sum that refutes ε; None if no sum does."""
    counts = np.append(0, _counts(np.frombuffer(ends, dtype=np.int64)))
    refuting = np.flatnonzero(sum_tail(counts, float(expit(epsilon))) <= left)
    return int(refuting[0]) if refuting.size else None


def sum_tail(counts: NDArray[np.int64], chance: float) -> FloatArray:
    """Return Pr[Σ w·Z_w ≥ s] for every s, Z_w being binomial with `counts[w]` trials.

    The characteristic functions are multiplied, and one Fourier transform gives the law. It is computed around
    the mean only: Hoeffding's inequality says how far.

    Examples
    --------
    >>> sum_tail(np.array([0, 1, 1]), 0.5).round(4).tolist()
    [1.0, 0.75, 0.5, 0.25]
    """
    values = np.flatnonzero(counts[1:]) + 1
    largest = int(values @ counts[values])
    reach = math.sqrt(float(values**2 @ counts[values]) * math.log(2.0 / _BEYOND) / 2.0)
    mean = chance * largest
    first = max(math.floor(mean - reach), 0)
    last = min(math.ceil(mean + reach), largest)
    size = 1 << math.ceil(math.log2(last - first + 2))
    # One turn of the unit circle; a value's powers are its multiples.
    turn = np.exp(-2j * math.pi * np.arange(size) / size)
    logs = np.log(1.0 - chance + chance * turn)
    places, total = np.arange(size // 2 + 1), np.zeros(size // 2 + 1, dtype=np.complex128)
    for value in values.tolist():
        total += int(counts[value]) * logs[places * value % size]
    total += 2j * math.pi * (places * first % size) / size  # the law begins at `first`
    law = np.fft.irfft(np.exp(total), size)[: last - first + 1]
    tail = np.full(largest + 1, _BEYOND)
    tail[:first] = 1.0
    tail[first : last + 1] = np.minimum(np.cumsum(law[::-1])[::-1] + _BEYOND, 1.0)
    return tail


def _share_above(score: FloatArray, shift: FloatArray | float) -> FloatArray:
    """Return the share of scores above each, half of them around ±μ/2."""
    return np.asarray(0.5 * (ndtr(shift / 2 - score) + ndtr(-shift / 2 - score)))


@lru_cache(maxsize=64)
def _log_odds(n_guesses: int, n_canaries: int) -> tuple[FloatArray, FloatArray]:
    """Return the log-odds of a right guess at some ranks, for normal scores at each of some distances μ.

    The score t at a share s from the top solves ½Φ(μ/2 − t) + ½Φ(−μ/2 − t) = s, and the odds there are e^(μt).
    Each rank stands for as many as the second array says; the first stands for itself.
    """
    n_ranks = (n_guesses + 1) // 2
    edges = np.arange(n_ranks + 1)
    if n_ranks > _NODES:
        edges = np.unique(np.append(0, np.round(np.geomspace(1, n_ranks, _NODES)).astype(int)))
    share = (edges[:-1] + edges[1:]) / 2 / n_canaries
    shift = _SHIFTS[:, None]
    low, high = (
        np.zeros((_SHIFTS.size, share.size)),
        np.broadcast_to(shift / 2 + 9.0, (_SHIFTS.size, share.size)),
    )
    for _ in range(40):
        middle = (low + high) / 2
        above = _share_above(middle, shift) > share
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    found, sizes = shift * (low + high) / 2, np.diff(edges).astype(np.float64)
    found.setflags(write=False)
    sizes.setflags(write=False)
    return found, sizes

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
    for epsilon in _TRIED[np.searchsorted(_TRIED, start) :].tolist():
        test = weighted_test(right.size, epsilon, n_canaries=n_canaries, delta=delta, level=level)
        if test is None:
            break
        weights, threshold = test
        if int(weights @ right) < threshold:
            break
        found = epsilon
    return found


@lru_cache(maxsize=8192)
def weighted_test(
    n_guesses: int, epsilon: float, *, n_canaries: int, delta: float, level: float
) -> tuple[NDArray[np.int64], int] | None:
    """Return whole weights of the guesses and the smallest sum that refutes ε; None if no sum does."""
    chance, left = float(expit(epsilon)), level - n_canaries * delta * float(expit(-epsilon))
    if left <= 0.0:
        return None
    odds = np.maximum(_log_odds(n_guesses, n_canaries) - epsilon, 0.0)
    # Both guesses of a rank count the same: twice everything.
    mean = 2.0 * (odds * (expit(odds + epsilon) - chance)).sum(axis=1)
    spread = np.sqrt(2.0 * chance * (1.0 - chance) * (odds**2).sum(axis=1))
    enough = np.flatnonzero((mean >= -float(ndtri(left)) * spread) & (spread > 0.0))
    if not enough.size:
        return None
    chosen = odds[enough[0]]
    ranks = np.ceil(_STEPS * chosen / chosen.max() - 1e-9).astype(np.int64)
    weights = np.repeat(ranks, 2)[:n_guesses]
    weights.setflags(write=False)
    tail = sum_tail(np.bincount(weights, minlength=_STEPS + 1), chance)
    refuting = np.flatnonzero(tail <= left)
    return (weights, int(refuting[0])) if refuting.size else None


def sum_tail(counts: NDArray[np.int64], chance: float) -> FloatArray:
    """Return Pr[Σ w·Z_w ≥ s] for every s, Z_w being binomial with `counts[w]` trials.

    The characteristic functions are multiplied, and one Fourier transform gives the law.

    Examples
    --------
    >>> sum_tail(np.array([0, 1, 1]), 0.5).round(4).tolist()
    [1.0, 0.75, 0.5, 0.25]
    """
    values = np.flatnonzero(counts[1:]) + 1
    largest = int(values @ counts[values])
    size = 1 << math.ceil(math.log2(largest + 2))
    # One turn of the unit circle; a value's powers are its multiples.
    angles = -2j * math.pi * np.arange(size // 2 + 1) / size
    total = np.ones(size // 2 + 1, dtype=np.complex128)
    for value in values.tolist():
        total *= (1.0 - chance + chance * np.exp(angles * value)) ** int(counts[value])
    law = np.fft.irfft(total, size)[: largest + 1]
    return np.minimum(np.cumsum(law[::-1])[::-1], 1.0)


@lru_cache(maxsize=64)
def _log_odds(n_guesses: int, n_canaries: int) -> FloatArray:
    """Return the log-odds of a right guess at every rank, for normal scores at each of some distances μ.

    The score t at a share s from the top solves ½Φ(μ/2 − t) + ½Φ(−μ/2 − t) = s, and the odds there are e^(μt).
    """
    share = (np.arange((n_guesses + 1) // 2) + 0.5) / n_canaries
    shift = _SHIFTS[:, None]
    low, high = (
        np.zeros((_SHIFTS.size, share.size)),
        np.broadcast_to(shift / 2 + 9.0, (_SHIFTS.size, share.size)),
    )
    for _ in range(40):
        middle = (low + high) / 2
        above = 0.5 * (ndtr(shift / 2 - middle) + ndtr(-shift / 2 - middle)) > share
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    found = shift * (low + high) / 2
    found.setflags(write=False)
    return found

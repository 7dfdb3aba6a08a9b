# SPDX-License-Identifier: Apache-2.0
"""The path correction: all numbers of guesses at once, at the price of little more than one.

Order the guesses from the most to the least confident and look at the share of right ones as the
list grows. To look at many lengths and keep the best is to test many times. But the lengths are
not many unrelated tests: they are points on one path, and under ε-differential privacy that path
is never better than the path of a biased coin thrown again and again. How often the coin's path is
as extreme *somewhere* as the path that was seen can be computed exactly. `docs/one-run-audit.md`
has the proof and its conditions.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

from epsilens._types import FloatArray
from epsilens.audit.pure import LEVELS, pure_bounds, pure_p_value

_REACH = 9.5
"""Standard deviations of a binomial that are carried along; what lies beyond is below 1e-19 and is
counted as evidence for the mechanism."""
_BLOCK = 16
"""Levels that are tried together at first."""
_SHARE_OF_DELTA = 0.9
"""What δ may cost of the error at the first level that is tried; the guesses have the rest. Well below
the bound they need next to nothing, so that a small share only starts too high: 0.1 to 0.5 prove less
wherever scores are middling, 0.95 nothing more."""


def crossing_probability(
    lengths: NDArray[np.int64], thresholds: NDArray[np.int64], chance: float
) -> float:
    """Return how often a coin's path reaches one of several thresholds.

    Parameters
    ----------
    lengths : array of int, increasing
        After how many throws one looks.
    thresholds : array of int, the shape of `lengths`
        So many heads, or more, count as reached at each look.
    chance : float in (0, 1)
        The coin's probability of heads.

    Returns
    -------
    float in [0, 1]
        Probability that the number of heads is at or above its threshold at one look or more.

    Notes
    -----
    Dynamic programming over looks: the distribution of the number of heads among paths that have
    not crossed is convolved with the binomial of the throws until the next look.

    Examples
    --------
    >>> import numpy as np
    >>> crossing_probability(np.array([1, 2]), np.array([1, 2]), 0.5)
    0.5
    """
    alive, lowest, done = np.ones(1), 0, 0
    for length, threshold in zip(lengths.tolist(), thresholds.tolist(), strict=True):
        fresh, start = _binomial(length - done, chance)
        alive, lowest, done = np.convolve(alive, fresh), lowest + start, length
        alive = alive[: max(threshold - lowest, 0)]
        if alive.size == 0:
            return 1.0
        # States that carry nothing any more only cost time.
        first = int(np.argmax(alive > 1e-22))
        alive, lowest = alive[first:], lowest + first
    return float(max(1.0 - alive.sum(), 0.0))


def path_p_value(lengths: NDArray[np.int64], n_correct: NDArray[np.int64], epsilon: float) -> float:
    """Return how often a path is as extreme somewhere as this one, if the mechanism keeps ε.

    Parameters
    ----------
    lengths : array of int, increasing
        Numbers of guesses at which the path is looked at, fixed beforehand.
    n_correct : array of int, the shape of `lengths`
        Right guesses among the first so many.
    epsilon : float in [0, inf)
        The privacy level that is doubted.

    Returns
    -------
    float in [0, 1]
        At most the level with at most that probability.

    Notes
    -----
    The statistic is the smallest binomial p-value over the looks, and the event "some look is at
    least as extreme" is increasing in the correctness of every guess. Not monotone in ε.

    Examples
    --------
    >>> import numpy as np
    >>> round(path_p_value(np.array([10, 20]), np.array([9, 15]), 0.0), 4)
    0.0146
    """
    return _largest_p_value(lengths, n_correct, np.array([float(epsilon)]), 0.0)


def first_level(n_canaries: int, *, delta: float, level: float) -> float:
    """Return the privacy level at which the search for a bound starts.

    At small ε a large δ uses up the whole error by itself: nothing can be refuted there, however good
    the guesses are. The search starts where δ leaves a tenth of the error to them.

    Parameters
    ----------
    n_canaries : int
        All canaries, those without a guess included.
    delta : float in [0, 1)
        The δ of the claim.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, inf]
        0 unless mδ/2 is above nine tenths of the error; infinite if no level is high enough.

    Notes
    -----
    The first of the levels at or above ε₀ = ln(mδ/(0.9 α) − 1), where mδ/(1 + e^ε₀) = 0.9 α. It is
    known before the audit, which is why the search may start there (docs/one-run-audit.md, "The bound").

    Examples
    --------
    >>> first_level(1000, delta=1e-6, level=0.05)
    0.0
    >>> round(first_level(1000, delta=1e-6, level=1e-4), 2)
    2.31
    """
    place = _first_place(n_canaries * delta, level)
    return float(LEVELS[place]) if place < LEVELS.size else math.inf


def path_bound(
    lengths: NDArray[np.int64],
    n_correct: NDArray[np.int64],
    *,
    n_canaries: int,
    delta: float,
    level: float,
) -> float:
    """Return the largest ε that a path of guesses refutes, at δ = 0 or above.

    Parameters
    ----------
    lengths : array of int, increasing
        Numbers of guesses at which the path is looked at, fixed beforehand.
    n_correct : array of int, the shape of `lengths`
        Right guesses among the first so many.
    n_canaries : int
        All canaries, those without a guess included.
    delta : float in [0, 1)
        The δ of the claim.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, inf)
        The last privacy level before the first that is not refuted, from `first_level` upwards; 0 if
        that is not refuted.

    Notes
    -----
    For δ > 0 the p-value grows by mδ/(1 + e^ε): the expected number of guesses that are right only
    because δ gave the canary away (docs/one-run-audit.md, part 3). A mechanism that keeps (ε, δ) below
    the first level keeps that level too, so that a bound above ε needs a refutation of the first level.

    Examples
    --------
    >>> import numpy as np
    >>> lengths, right = np.array([50, 100, 200]), np.array([49, 95, 170])
    >>> round(path_bound(lengths, right, n_canaries=1000, delta=0.0, level=0.05), 2)
    2.14
    """
    given_away = n_canaries * delta
    start = _first_place(given_away, level)
    if start == LEVELS.size:
        return 0.0
    # As many times the smallest p-value as there are looks is larger than the path's, and grows
    # with ε: what it refutes needs no paths.
    left = level - given_away * float(expit(-LEVELS[start]))
    surely = float(pure_bounds(n_correct, lengths, level=left / lengths.size).max())
    first, size = max(int(np.searchsorted(LEVELS, surely)), start), _BLOCK
    while first < LEVELS.size:
        tried = LEVELS[first : first + size]
        if _largest_p_value(lengths, n_correct, tried, given_away) <= level:
            first += tried.size
        elif size == 1:
            break
        else:
            size //= 2
    return float(LEVELS[first - 1]) if first > start else 0.0


def _first_place(given_away: float, level: float) -> int:
    """Return the place of the first level that is tried; by nothing that the audit finds."""
    odds = given_away / (_SHARE_OF_DELTA * level) - 1.0
    return int(np.searchsorted(LEVELS, math.log(odds))) if odds > 1.0 else 0


def _largest_p_value(
    lengths: NDArray[np.int64],
    n_correct: NDArray[np.int64],
    epsilon: FloatArray,
    given_away: float,
) -> float:
    """Return a number that no p-value of neighbouring levels exceeds; of one level, its own.

    A path crosses lower thresholds more often, and a better coin crosses more often: so the lowest
    thresholds of all the levels are taken with the coin of the last.
    """
    smallest = pure_p_value(n_correct, lengths, epsilon[:, None]).min(axis=1)
    thresholds = _thresholds(lengths, smallest[:, None] * (1.0 + 1e-12), epsilon[:, None])
    crossing = crossing_probability(lengths, thresholds.min(axis=0), float(expit(epsilon[-1])))
    return max(crossing, float(smallest[-1])) + given_away * float(expit(-epsilon[0]))


@lru_cache(maxsize=8192)
def _binomial(n: int, chance: float) -> tuple[FloatArray, int]:
    """Return the probabilities of a binomial that matter, and the count of the first.

    The levels are the same in every audit, and so are most of the looks: each is computed once.
    """
    reach = _REACH * np.sqrt(n * chance * (1.0 - chance)) + 12.0
    first = max(int(n * chance - reach), 0)
    heads = np.arange(first, min(int(n * chance + reach) + 1, n) + 1)
    log_ways = gammaln(n + 1) - gammaln(heads + 1) - gammaln(n - heads + 1)
    found = np.exp(log_ways + heads * np.log(chance) + (n - heads) * np.log1p(-chance))
    found.setflags(write=False)
    return found, first


def _thresholds(
    lengths: NDArray[np.int64], p_value: FloatArray, epsilon: FloatArray
) -> NDArray[np.int64]:
    """Return the fewest heads at each look whose p-value is at most the given one of each level."""
    shape = (epsilon.shape[0], lengths.size)
    low = np.zeros(shape, dtype=np.int64)  # p-value 1: too large
    high = np.broadcast_to(lengths + 1, shape)  # p-value 0: small enough
    while np.any(high - low > 1):
        middle = (low + high) // 2
        small = pure_p_value(middle, lengths, epsilon) <= p_value
        high, low = np.where(small, middle, high), np.where(small, low, middle)
    return np.asarray(high, dtype=np.int64)

# SPDX-License-Identifier: Apache-2.0
"""Relaxing a release: a second, more accurate report that costs only the difference.

Somebody has published reports at a strict ε and may now publish at a laxer ε' > ε. A fresh draw
would let those who hold both files learn ε + ε' worth. A draw that is coupled to the old report
lets them learn ε' in all: the pair is as if the new report had been drawn first and the old one
made from it by adding noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from epsilens.channels.draw import (
    WORD_RANGE,
    WORDS_AT_ONCE,
    Words,
    exponential_below,
    is_uniform,
    response_threshold,
    uniform_below,
)

__all__ = ["Relaxation", "draw_relaxation", "joint_masses", "relaxation"]


@dataclass(frozen=True)
class Relaxation:
    """The coupled draw in whole numbers of 2⁻⁶⁴ths.

    Parameters
    ----------
    k : int
        Number of categories.
    leave_truth : int
        Mass on moving away, when the old report was the truth.
    reach_truth : int
        Mass on reporting the truth, when the old report was another value.
    stay : int
        Mass on repeating the old report, when it was not the truth. What is left falls evenly on
        the k − 2 values that are neither.
    """

    k: int
    leave_truth: int
    reach_truth: int
    stay: int


def relaxation(k: int, epsilon: float, new_epsilon: float) -> Relaxation:
    """Return the coupled draw from reports at `epsilon` to reports at `new_epsilon`, exactly.

    Notes
    -----
    With P_ε' P_τ = P_ε, the new report is v with probability P_ε'[u,v] P_τ[v,w]/P_ε[u,w] given the
    truth u and the old report w. P_ε here is what `draw_response` really draws, in rational
    numbers, and e^ε' is taken from below; the masses are then rounded so that no joint ratio
    grows. Where ε' is so close to ε that 64 bits cannot tell them apart, the old report is
    repeated, which keeps ε.

    Examples
    --------
    >>> from epsilens.channels.relaxation import relaxation
    >>> draw = relaxation(2, 1.0, 3.0)
    >>> round(draw.reach_truth / 2**64, 4), round(draw.leave_truth / 2**64, 4)
    (0.8668, 0.0159)
    """
    repeat = Relaxation(k, leave_truth=0, reach_truth=0, stay=WORD_RANGE)
    if is_uniform(k, response_threshold(k, new_epsilon)):
        return repeat
    limit = exponential_below(new_epsilon)
    keep_old, lie_old = realised_response(k, response_threshold(k, epsilon))
    lie_new = 1 / (limit + k - 1)
    keep_new = limit * lie_new
    a_tau = (keep_old - lie_old) / (keep_new - lie_new)
    lie_tau = (1 - a_tau) / k
    keep_tau = a_tau + lie_tau

    leave_truth = math.ceil(WORD_RANGE * (k - 1) * lie_new * lie_tau / keep_old)
    stay = math.ceil(WORD_RANGE * lie_new * keep_tau / lie_old)
    if k == 2:
        reach_truth = WORD_RANGE - stay
    else:
        # One less than the floor, so that what `stay` was rounded up by is not taken from the rest.
        reach_truth = max(math.floor(WORD_RANGE * keep_new * lie_tau / lie_old) - 1, 0)
    draw = Relaxation(k, leave_truth=leave_truth, reach_truth=reach_truth, stay=stay)
    for masses in joint_masses(draw, epsilon):
        if max(masses) > limit * min(masses):
            return repeat
    return draw


def realised_response(k: int, threshold: int) -> tuple[Fraction, Fraction]:
    """Return the probabilities, as drawn, of the truth and of each single lie."""
    if is_uniform(k, threshold):
        return Fraction(1, k), Fraction(1, k)
    return 1 - Fraction(threshold, WORD_RANGE), Fraction(threshold, WORD_RANGE * (k - 1))


def joint_masses(draw: Relaxation, epsilon: float) -> tuple[tuple[Fraction, ...], ...]:
    """Return the joint probability of a pair of reports under each kind of truth.

    By symmetry there are two kinds of pairs. The same value twice: it is the truth, or not.
    Two different values: the old one is the truth, the new one is, or (for k > 2) neither is.
    """
    k = draw.k
    keep, lie = realised_response(k, response_threshold(k, epsilon))
    leave = Fraction(draw.leave_truth, WORD_RANGE)
    same = (keep * (1 - leave), lie * Fraction(draw.stay, WORD_RANGE))
    different = [keep * leave / (k - 1), lie * Fraction(draw.reach_truth, WORD_RANGE)]
    if k > 2:
        rest = Fraction(WORD_RANGE - draw.stay - draw.reach_truth, WORD_RANGE)
        different.append(lie * rest / (k - 2))
    return same, tuple(different)


def draw_relaxation(
    codes: NDArray[np.int64], reports: NDArray[np.int64], *, draw: Relaxation, words: Words
) -> NDArray[np.int64]:
    """Draw the new reports, given the truth and the old reports."""
    truth, relaxed = codes.ravel(), reports.ravel().copy()
    for start in range(0, relaxed.size, WORDS_AT_ONCE):
        true = truth[start : start + WORDS_AT_ONCE]
        block = relaxed[start : start + WORDS_AT_ONCE]
        drawn = words(block.size)
        honest = block == true

        leaving = np.flatnonzero(honest & (drawn < np.uint64(draw.leave_truth)))
        reaching = np.flatnonzero(~honest & (drawn < np.uint64(draw.reach_truth)))
        last_stay = np.uint64(draw.reach_truth + draw.stay - 1)
        elsewhere = np.flatnonzero(~honest & (drawn > last_stay)) if draw.k > 2 else leaving[:0]

        low = np.minimum(true[elsewhere], block[elsewhere])
        high = np.maximum(true[elsewhere], block[elsewhere])
        block[reaching] = true[reaching]
        steps = uniform_below(draw.k - 1, leaving.size, words) + 1
        block[leaving] = (block[leaving] + steps) % draw.k
        if elsewhere.size:
            other = uniform_below(draw.k - 2, elsewhere.size, words)
            other += other >= low
            other += other >= high
            block[elsewhere] = other
    return relaxed.reshape(reports.shape)

# SPDX-License-Identifier: Apache-2.0
"""The privacy levels that are tried one after the other, from 0 upwards.

A bound is reported as the last level before the first one that the guesses do not refute. The
levels are fixed beforehand: a mechanism that keeps ε also keeps the next level above ε, so the
bound exceeds ε only if that one level is refuted, which happens with at most the stated error.
Nothing needs to be known about how the evidence changes between two levels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from epsilens._types import BoolArray, FloatArray

__all__ = ["LEVELS", "last_refuted"]

_STEP, _RATIO, _LARGEST = 0.001, 1.0025, 30.0
_STRAIGHT = np.arange(0.0, _STEP / (_RATIO - 1.0) - _STEP / 2, _STEP)
_GROWING = np.arange(np.log(_STRAIGHT[-1] + _STEP), np.log(_LARGEST), np.log(_RATIO))

LEVELS: FloatArray = np.concatenate([_STRAIGHT, np.exp(_GROWING)])
"""Steps of 0.001 up to 0.4 and of a quarter per cent beyond."""
LEVELS.setflags(write=False)

_BATCH = 16


def last_refuted(
    p_values: Callable[[FloatArray], FloatArray],
    *,
    level: float,
    surely: BoolArray | None = None,
) -> float:
    """Return the last privacy level before the first one that is not refuted.

    Parameters
    ----------
    p_values : callable
        Given privacy levels, an upper bound for the probability of guesses this good under each.
    level : float in (0, 1)
        A privacy level is refuted when its p-value is at most this.
    surely : array of bool, one per entry of `LEVELS`, optional
        Where a cheaper and larger p-value already refutes; they are not computed again.

    Returns
    -------
    float in [0, inf)
        0 when not even perfect privacy is refuted.

    Examples
    --------
    >>> round(last_refuted(lambda epsilon: epsilon / 10, level=0.05), 2)
    0.5
    """
    start = 0 if surely is None else int(np.argmin(surely)) if not surely.all() else LEVELS.size
    for first in range(start, LEVELS.size, _BATCH):
        tried = LEVELS[first : first + _BATCH]
        kept = np.flatnonzero(p_values(tried) > level)
        if kept.size:
            return float(LEVELS[max(first + int(kept[0]) - 1, 0)])
    return float(LEVELS[-1])

# SPDX-License-Identifier: Apache-2.0
"""From scores to guesses: the surest first, and none where the score says little.

A high score says "in", a low one "out". The guesses are put into one order: the highest score, the
lowest, the second highest, the second lowest, and so on. To make 2k guesses is to take the first
2k of that order and to abstain on the rest. The order comes from the scores alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray

__all__ = ["Guesses", "make_guesses"]

_TIES = 20230516
"""Seed of the order among equal scores: it must not come from the order of the canaries, which a
user may have sorted by inclusion."""


@dataclass(frozen=True)
class Guesses:
    """The guesses of an audit in the order of confidence, and which of them are right.

    Attributes
    ----------
    right : array of bool
        Whether each guess is right; "in" and "out" alternate. An odd canary out has no guess.
    n_canaries : int
        All canaries.
    """

    right: BoolArray
    n_canaries: int

    @property
    def most_each_side(self) -> int:
        """The largest number of guesses on each side."""
        return self.right.size // 2

    def n_correct(self, n_each_side: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of right guesses when so many are made on each side.

        Examples
        --------
        >>> import numpy as np
        >>> Guesses(np.array([True, True, False, True]), 4).n_correct(np.array([1, 2])).tolist()
        [2, 3]
        """
        return np.asarray(np.cumsum(self.right)[2 * n_each_side - 1], dtype=np.int64)


def make_guesses(included: BoolArray, scores: FloatArray) -> Guesses:
    """Order the guesses by confidence and mark the right ones.

    Parameters
    ----------
    included : array of bool, (m,)
        Which canaries were really in.
    scores : array of float64, (m,)
        High where the canary seems to be in.

    Returns
    -------
    Guesses
        In the order highest, lowest, second highest, second lowest, ….

    Examples
    --------
    >>> import numpy as np
    >>> make_guesses(np.array([True, False, False, True]), np.array([3.0, 0.0, 2.0, 1.0])).right
    array([ True,  True, False, False])
    """
    among_equals = np.random.default_rng(_TIES).permutation(scores.size)
    order = np.lexsort((among_equals, -scores))
    half = scores.size // 2
    right = np.empty(2 * half, dtype=np.bool_)
    right[0::2] = included[order[:half]]
    right[1::2] = ~included[order[::-1][:half]]
    return Guesses(right, int(scores.size))

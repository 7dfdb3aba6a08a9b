# SPDX-License-Identifier: Apache-2.0
"""Poisson sampling: in every step each record is in the batch by a coin of its own.

The accounting of DP-SGD holds for this sampling and no other. The batches have no fixed size: it is
binomial. Instead of tossing a coin for every record, the gaps between heads are drawn, which are
geometric; the outcome has the same distribution and takes as long as the batches are large.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["batch_capacity", "draw_heads", "fill_batches"]

IntArray = NDArray[np.intp]


def draw_heads(n_coins: int, probability: float, generator: np.random.Generator) -> IntArray:
    """Toss coins that show heads with a given probability; say which did.

    Parameters
    ----------
    n_coins : int, at least 0
    probability : float in (0, 1]
    generator : numpy.random.Generator

    Returns
    -------
    array of int
        Positions of the heads, increasing.

    Notes
    -----
    The gap G to the next head has P(G > k) = (1 − q)^k = P(E > k λ) for E standard exponential and
    λ = −log(1 − q), so G = ⌊E/λ⌋ + 1.

    Examples
    --------
    >>> import numpy as np
    >>> draw_heads(4, 1.0, np.random.default_rng(0))
    array([0, 1, 2, 3])
    >>> heads = draw_heads(100_000, 0.1, np.random.default_rng(0))
    >>> 9_700 < len(heads) < 10_300
    True
    """
    rate = math.inf if probability >= 1.0 else -math.log1p(-probability)
    mean = n_coins * probability
    n_draws = int(mean + 6.0 * math.sqrt(mean) + 8.0)
    parts: list[IntArray] = []
    last = -1
    while last < n_coins - 1:
        # A gap beyond the last coin is as good as any other such gap.
        gaps = np.minimum(generator.standard_exponential(n_draws) / rate, float(n_coins))
        heads = last + np.cumsum(gaps.astype(np.intp) + 1)
        parts.append(heads)
        last = int(heads[-1])
    heads = np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)
    return heads[: np.searchsorted(heads, n_coins)]


def batch_capacity(expected: float) -> int:
    """Return how many places a batch gets: three standard deviations above its mean, in eights.

    Larger batches are not cut: what does not fit is worked off in a second helping.
    """
    return 8 * math.ceil((expected + 3.0 * math.sqrt(expected)) / 8.0)


def fill_batches(
    batches: IntArray,
    members: IntArray,
    probability: float,
    generator: np.random.Generator,
) -> dict[int, IntArray]:
    """Write the batches of one model into places that hold the padding.

    Parameters
    ----------
    batches : array, (n_steps, capacity)
        Filled from the left; the rest is left as it is.
    members : array of int
        The records that the model may see.
    probability : float in (0, 1]
    generator : numpy.random.Generator

    Returns
    -------
    dict of step to array
        The records of batches that did not fit, beyond the first `capacity`.
    """
    n_steps, capacity = batches.shape
    if len(members) == 0:
        return {}
    heads = draw_heads(n_steps * len(members), probability, generator)
    step, position = np.divmod(heads, len(members))
    records = members[position]
    place = np.arange(len(heads)) - np.searchsorted(step, np.arange(n_steps))[step]
    fits = place < capacity
    if fits.all():
        batches[step, place] = records
        return {}
    batches[step[fits], place[fits]] = records[fits]
    step, records = step[~fits], records[~fits]
    return {int(number): records[step == number] for number in np.unique(step)}

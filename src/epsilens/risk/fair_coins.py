# SPDX-License-Identifier: Apache-2.0
"""Whether the membership looks as fair coins would make it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from epsilens._types import BoolArray

__all__ = ["doubts_about_the_coins"]

_LEVEL = 1e-4
"""Fair coins are doubted so often in each of the two directions of each of the three tests."""


def doubts_about_the_coins(membership: BoolArray) -> list[str]:
    """Say what fair coins, one for each model and sample, would hardly have done.

    Parameters
    ----------
    membership : array of bool, (n_models, n_samples)
        Which model saw which sample.

    Returns
    -------
    list of str
        Empty if nothing speaks against fair coins.

    Notes
    -----
    χ² tests of the share of all memberships, and of the dispersion of the numbers of models per
    sample and of samples per model: both too even (a number fixed beforehand, models in
    complementary pairs) and too uneven (records that go in together, models of other sizes).
    Too even is judged with half a unit added to each deviation, without which a single exact half
    would be called impossible.

    Examples
    --------
    >>> import numpy as np
    >>> doubts_about_the_coins(np.random.default_rng(0).random((100, 50)) < 0.5)
    []
    >>> half = np.arange(100) % 2 == 0
    >>> doubts_about_the_coins(np.repeat(half[:, None], 50, axis=1))[0]
    'the numbers of models per sample are too even'
    """
    n_models, n_samples = membership.shape
    per_sample = membership.sum(axis=0, dtype=np.int64)
    per_model = membership.sum(axis=1, dtype=np.int64)
    doubts = []
    total = np.array([per_sample.sum()])
    if _too_uneven(total, n_models * n_samples):
        doubts.append("the share of memberships is not one half")
    for counts, n_coins, words in (
        (per_sample, n_models, "models per sample"),
        (per_model, n_samples, "samples per model"),
    ):
        if _too_even(counts, n_coins):
            doubts.append(f"the numbers of {words} are too even")
        elif _too_uneven(counts, n_coins):
            doubts.append(f"the numbers of {words} are too uneven")
    return doubts


def _too_uneven(counts: NDArray[np.int64], n_coins: int) -> bool:
    statistic = (np.square(counts - n_coins / 2.0) / (n_coins / 4.0)).sum()
    return bool(chi2.sf(statistic, counts.size) < _LEVEL)


def _too_even(counts: NDArray[np.int64], n_coins: int) -> bool:
    statistic = (np.square(np.abs(counts - n_coins / 2.0) + 0.5) / (n_coins / 4.0)).sum()
    return bool(chi2.cdf(statistic, counts.size) < _LEVEL)

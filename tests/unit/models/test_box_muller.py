# SPDX-License-Identifier: Apache-2.0
"""Normal noise: its distribution, and that each model has a stream of its own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from epsilens.models.dp_sgd import NormalNoise


def noise(seeds: range, n_numbers: int, scale: float, dtype: type) -> NormalNoise:
    return NormalNoise([np.random.default_rng(seed) for seed in seeds], n_numbers, scale, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_numbers", [1, 65, 5001])
def test_the_numbers_are_normal(dtype: type, n_numbers: int) -> None:
    source = noise(range(40), n_numbers, 2.5, dtype)
    drawn = np.concatenate(
        [source.draw().ravel().copy() for _ in range(200_000 // n_numbers // 40 + 1)]
    )
    assert drawn.dtype == dtype
    drawn = drawn.astype(np.float64) / 2.5
    # One seed; right noise fails in one of a thousand.
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert abs(drawn.var() - 1.0) < 5 * np.sqrt(2.0 / len(drawn))


def test_neither_coordinates_nor_steps_are_related() -> None:
    """Cosine and sine of one angle are independent: correlations of values and of sizes vanish."""
    source = noise(range(1), 3000, 1.0, np.float64)
    first, second = source.draw().copy()[0], source.draw().copy()[0]
    half = len(first) // 2
    pairs = [(first[:half], first[half:]), (first[:-1], first[1:]), (first, second)]
    for one, other in pairs:
        for power in (1, 2):
            r = np.corrcoef(one**power, other**power)[0, 1]
            assert abs(r) < 5 / np.sqrt(len(one))


@pytest.mark.parametrize("n_numbers", [3, 700, 5001])
def test_a_model_gets_the_same_whoever_else_is_there(n_numbers: int) -> None:
    alone, together = (
        noise(seeds, n_numbers, 1.0, np.float32) for seeds in (range(2, 3), range(0, 5))
    )
    for _ in range(5):
        assert (alone.draw()[0] == together.draw()[2]).all()

# SPDX-License-Identifier: Apache-2.0
"""Batches are drawn by a coin for each record: sizes vary, and no record is preferred."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from epsilens.models.dp_sgd import batch_capacity, draw_heads, fill_batches

MEMBERS = np.array([3, 4, 7, 11, 12, 20, 21, 22, 23, 40])
PADDING = 99


def drawn(
    n_steps: int, probability: float, *, capacity: int = 10, seed: int = 0
) -> list[np.ndarray]:
    batches = np.full((n_steps, capacity), PADDING, dtype=np.intp)
    late = fill_batches(batches, MEMBERS, probability, np.random.default_rng(seed))
    return [
        np.concatenate([row[row != PADDING], late.get(step, np.zeros(0, dtype=np.intp))])
        for step, row in enumerate(batches)
    ]


@pytest.mark.parametrize("probability", [0.02, 0.3, 0.9, 1.0])
def test_heads_are_increasing_and_within_range(probability: float) -> None:
    for n_coins in (0, 1, 2, 50):
        heads = draw_heads(n_coins, probability, np.random.default_rng(n_coins))
        assert (np.diff(heads) > 0).all()
        assert ((heads >= 0) & (heads < n_coins)).all()
    assert draw_heads(5, 1.0, np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 4]


def test_every_pattern_of_three_coins_has_its_probability() -> None:
    """Independent coins, jointly: chi-squared over all 8 patterns of 20,000 throws."""
    q, n = 0.3, 20_000
    rng = np.random.default_rng(1)
    counts = np.zeros(8)
    for _ in range(n):
        counts[int(sum(1 << k for k in draw_heads(3, q, rng).tolist()))] += 1
    size = np.array([pattern.bit_count() for pattern in range(8)])
    expected = n * q**size * (1 - q) ** (3 - size)
    # One seed; a correct sampler fails in one of a thousand.
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_batch_sizes_are_binomial() -> None:
    """Mean, variance and the whole distribution of 20,000 sizes: not of a fixed size."""
    q, n = 0.35, 20_000
    sizes = np.array([len(batch) for batch in drawn(n, q)])
    counts = np.bincount(sizes, minlength=11)
    expected = n * stats.binom.pmf(np.arange(11), 10, q)
    merged = np.append(counts[:8], counts[8:].sum()), np.append(expected[:8], expected[8:].sum())
    assert stats.chisquare(*merged).pvalue > 1e-3
    # The standard error of the variance is about 1 % of it.
    assert abs(sizes.var() / (10 * q * (1 - q)) - 1.0) < 0.05


def test_only_members_and_each_alike() -> None:
    n, q = 20_000, 0.35
    everybody = np.concatenate(drawn(n, q))
    assert set(everybody.tolist()) == set(MEMBERS.tolist())
    counts = np.array([(everybody == member).sum() for member in MEMBERS])
    # Five standard errors over ten members.
    assert np.abs(counts - n * q).max() < 5 * np.sqrt(n * q * (1 - q))


def test_nobody_is_twice_in_a_batch() -> None:
    for batch in drawn(2_000, 0.5):
        assert len(set(batch.tolist())) == len(batch)


def test_large_batches_are_not_cut() -> None:
    """With too few places the same records come, some of them late."""
    wide, narrow = drawn(500, 0.6), drawn(500, 0.6, capacity=4)
    assert max(len(batch) for batch in wide) > 4
    for one, other in zip(wide, narrow, strict=True):
        assert one.tolist() == other.tolist()


def test_a_model_without_records() -> None:
    batches = np.full((3, 4), PADDING, dtype=np.intp)
    late = fill_batches(batches, MEMBERS[:0], 0.5, np.random.default_rng(0))
    assert late == {}
    assert (batches == PADDING).all()


def test_there_is_room_for_most_batches() -> None:
    for expected in (1, 16, 64, 500):
        capacity = batch_capacity(expected)
        assert capacity % 8 == 0
        assert stats.poisson.sf(capacity, expected) < 0.01

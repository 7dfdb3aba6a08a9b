"""What looks like fair coins and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.risk.likelihood_ratio import doubts_about_the_coins


def coins(shape, seed=0, share=0.5):
    return np.random.default_rng(seed).random(shape) < share


@pytest.mark.parametrize("shape", [(4, 1), (16, 20), (64, 3), (5, 300), (200, 50)])
def test_fair_coins_are_hardly_ever_doubted(shape):
    # Six chances of 1e-4 each: 300 studies raise a doubt in 0.2 of 1; two would be 1 in 70.
    rng = np.random.default_rng(5)
    doubted = sum(bool(doubts_about_the_coins(rng.random(shape) < 0.5)) for _ in range(300))
    assert doubted <= 1


def test_half_of_the_models_for_every_sample_is_too_even():
    rng = np.random.default_rng(1)
    half = np.arange(100) < 50
    members = np.stack([rng.permutation(half) for _ in range(40)], axis=1)
    assert doubts_about_the_coins(members) == ["the numbers of models per sample are too even"]


def test_complementary_pairs_of_models_are_too_even():
    first = coins((50, 40))
    members = np.empty((100, 40), dtype=bool)
    members[0::2], members[1::2] = first, ~first
    assert "the numbers of models per sample are too even" in doubts_about_the_coins(members)


def test_subsets_of_a_fixed_size_are_too_even():
    rng = np.random.default_rng(2)
    half = np.arange(80) < 40
    members = np.stack([rng.permutation(half) for _ in range(64)])
    assert doubts_about_the_coins(members) == ["the numbers of samples per model are too even"]


def test_other_shares_and_records_that_go_together_are_seen():
    assert "the share of memberships is not one half" in doubts_about_the_coins(
        coins((64, 80), share=0.7)
    )
    together = np.repeat(coins((64, 8)), 10, axis=1)
    assert "the numbers of samples per model are too uneven" in doubts_about_the_coins(together)

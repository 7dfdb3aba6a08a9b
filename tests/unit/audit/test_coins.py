"""The auditor's coins are his own, fair, and never of a fixed number."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from epsilens.audit import (
    AnswerMatch,
    GaussianSum,
    OneRunAudit,
    draw_inclusion,
    one_hot_directions,
    one_run_bound,
    own_canaries,
    random_unit_vectors,
)
from epsilens.audit.coins import HALF_BY_CHANCE, own_stream
from epsilens.errors import ApproximationWarning, InputError, InputTypeError

M = 400
FOUR_ERRORS = 4 * 0.5 / np.sqrt(M)  # of the share in which two rows of 400 fair coins agree


@pytest.mark.parametrize("seed", [0, 7, 12345])
def test_a_mechanism_with_the_same_seed_is_not_called_broken(seed):
    # It looks at nobody's answer, so it keeps ε = 0; but its noise is that of `default_rng(seed)`.
    answers = own_canaries(np.ones(M, dtype=int), left_out=np.zeros(M, dtype=int))
    result = OneRunAudit(
        lambda codes: np.random.default_rng(seed).integers(0, 2, codes.size),
        canaries=answers,
        score=AnswerMatch(),
        claimed_epsilon=0.5,
    ).run(random_state=seed)
    assert not result.is_broken


@pytest.mark.parametrize("given", [int, np.random.default_rng], ids=["seed", "generator"])
def test_coins_are_not_those_of_the_bare_seed(given):
    for seed in (0, 1, 99):
        coins = draw_inclusion(M, given(seed))
        theirs = np.random.default_rng(seed).integers(0, 2, M).astype(bool)
        assert abs((coins == theirs).mean() - 0.5) < FOUR_ERRORS
        np.testing.assert_array_equal(coins, draw_inclusion(M, given(seed)))


def test_every_purpose_has_a_stream_of_its_own():
    drawn = [
        own_stream(3, purpose=purpose).integers(0, 2, M)
        for purpose in ("coins", "canaries", "noise", "parts")
    ]
    drawn += [np.random.default_rng(seed).integers(0, 2, M) for seed in (3, [3, 1], [3, 2])]
    for place, one in enumerate(drawn):
        for other in drawn[:place]:
            assert abs((one == other).mean() - 0.5) < FOUR_ERRORS


def test_a_generator_gives_new_coins_each_time():
    generator = np.random.default_rng(0)
    assert (draw_inclusion(M, generator) != draw_inclusion(M, generator)).any()


def test_canaries_are_not_those_of_the_bare_seed():
    ours = random_unit_vectors(1, 50, random_state=0).vectors[0]
    bare = np.random.default_rng(0).standard_normal(50, dtype=np.float32)
    assert abs(np.corrcoef(ours, bare)[0, 1]) < 0.5  # five standard errors would be 0.7


def test_an_audit_tosses_its_own_coins():
    counts = []

    def counts_rows(rows):
        counts.append(len(rows) - 1)  # less the row that is always there
        return rows.sum(axis=0)

    audit = OneRunAudit(counts_rows, canaries=one_hot_directions(50))
    for seed in range(60):
        audit.run(random_state=seed)
    # Binomial(50, ½) is 25 in 11 % of draws: 6.7 of 60, with a standard deviation of 2.4.
    assert counts.count(25) < 17
    assert np.std(counts) > 2.0  # 3.5, whose own error is 0.3


@pytest.mark.parametrize("seed", [np.random.default_rng(0), 1.5, -1, True])
def test_an_audit_takes_a_seed_and_nothing_that_could_hold_coins(seed):
    with pytest.raises(InputError, match="`random_state` must be"):
        OneRunAudit(GaussianSum(1.0, 1e-6, dimension=20), canaries=10).run(random_state=seed)
    if isinstance(seed, np.random.Generator):
        return
    with pytest.raises(InputError, match="`random_state` must be"):
        draw_inclusion(10, seed)


@pytest.mark.parametrize("m", [2, 10, 18])
def test_exactly_half_stands_in_the_result_however_few_there_are(m):
    included = np.arange(m) % 2 == 0
    assert HALF_BY_CHANCE in one_run_bound(included, included * 1.0).assumptions


@pytest.mark.parametrize("m", [20, 1000, 16384])
def test_exactly_half_stands_in_the_result_and_is_warned_of(m):
    included = np.random.default_rng(0).permutation(np.arange(m) < m // 2)
    with pytest.warns(ApproximationWarning, match=f"exactly half of the {m} canaries"):
        found = one_run_bound(included, included * 1.0)
    assert found.assumptions == ["pure differential privacy", HALF_BY_CHANCE]


@pytest.mark.parametrize("n_in", [499, 501])
def test_one_more_or_less_than_half_says_nothing(n_in):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = one_run_bound(np.arange(1000) < n_in, np.zeros(1000))
    assert found.assumptions == ["pure differential privacy"]


def test_types_of_seeds():
    with pytest.raises(InputTypeError, match="random_state"):
        own_stream("0", purpose="coins")

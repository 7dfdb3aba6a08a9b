# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from epsilens.channels import Channel, RandomizedResponse, simulate
from epsilens.channels.draw import (
    WORD_RANGE,
    draw_response,
    draw_rows,
    exponential_below,
    generator_words,
    is_uniform,
    masses_epsilon,
    operating_system_words,
    response_threshold,
    row_masses,
    uniform_below,
)
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning

# Operating-system draws cannot be seeded: tests on them raise a false alarm once in a million.
FALSE_ALARM_RATE = 1e-6


def exponential_bounds(epsilon: float) -> tuple[Fraction, Fraction]:
    """Bounds on e^epsilon from the Taylor series in rational numbers, no library involved."""
    x, n_terms = Fraction(epsilon), 260
    term = total = Fraction(1)
    for n in range(1, n_terms):
        term = term * x / n
        total += term
    rest = term * x / n_terms / (1 - x / (n_terms + 1))
    return total, total + rest


def listed_words(*words: int) -> Callable[[int], NDArray[np.uint64]]:
    """A source that gives out the listed words in order."""
    left = list(words)

    def source(n: int) -> NDArray[np.uint64]:
        taken, left[:] = left[:n], left[n:]
        assert len(taken) == n
        return np.array(taken, dtype=np.uint64)

    return source


@pytest.mark.parametrize("k", [2, 3, 16])
@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 10.0, 30.0, 39.9, 40.0])
def test_realised_ratio_never_exceeds_epsilon(epsilon: float, k: int) -> None:
    threshold = response_threshold(k, epsilon)
    below, above = exponential_bounds(epsilon)
    assert above - below < Fraction(1, 10**60) * below
    keep = 1 - Fraction(threshold, WORD_RANGE)
    lie = Fraction(threshold, WORD_RANGE * (k - 1))
    assert keep <= below * lie
    assert lie <= keep
    # One unit less would break the promise: the threshold is not larger than it need be.
    one_less = Fraction(threshold - 1, WORD_RANGE)
    assert 1 - one_less > above * one_less / (k - 1)


@pytest.mark.parametrize("epsilon", [0.0, 1e-50, 1e-20, 0.1, 1.0, math.pi, 39.9, 40.0])
def test_exponential_is_bounded_from_below(epsilon: float) -> None:
    below, _ = exponential_bounds(epsilon)
    bound = exponential_below(epsilon)
    assert bound < below or epsilon == 0.0
    # Sixty digits: far finer than what 64 bits can draw.
    assert bound > below * (1 - Fraction(1, 10**58))


def test_rounding_to_nearest_would_break_the_promise() -> None:
    # Why all this: at epsilon 40 the nearest multiple of 2^-64 lies too seldom.
    below, above = exponential_bounds(40.0)
    nearest = round(WORD_RANGE / (below + 1))
    assert Fraction(WORD_RANGE - nearest, nearest) > above


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-25, 1e-20])
def test_tiny_epsilon_is_exact_noise(epsilon: float, k: int) -> None:
    # Rounding up alone would make lies likelier than the truth, by more than such an epsilon.
    assert is_uniform(k, response_threshold(k, epsilon))


def test_noise_does_not_look_at_the_truth() -> None:
    threshold = response_threshold(3, 1e-25)
    drawn = [
        draw_response(
            np.full(4, code), k=3, threshold=threshold, words=listed_words(0, 4, WORD_RANGE - 2, 8)
        ).tolist()
        for code in range(3)
    ]
    assert drawn == [[0, 1, 2, 2]] * 3


def test_response_lies_exactly_below_the_threshold() -> None:
    threshold = response_threshold(3, 1.0)
    words = listed_words(threshold - 1, threshold, 0, 1, 0)
    reports = draw_response(np.array([0, 0, 2]), k=3, threshold=threshold, words=words)
    # The first and the third lie; their steps are 1 % 2 + 1 and 0 % 2 + 1.
    assert reports.tolist() == [2, 0, 0]


def test_uniform_rejects_the_biased_end() -> None:
    # 2^64 = 1 modulo 3 and modulo 5, so the last word would favour 0.
    last = WORD_RANGE - 1
    assert uniform_below(3, 2, listed_words(last, 4, 5)).tolist() == [2, 1]
    assert uniform_below(5, 1, listed_words(last, last, 7)).tolist() == [2]
    assert uniform_below(4, 1, listed_words(last)).tolist() == [3]
    assert uniform_below(1, 3, listed_words(5, 6, last)).tolist() == [0, 0, 0]


def test_draws_cross_the_border_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilens.channels.draw.WORDS_AT_ONCE", 7)
    codes = np.arange(50).reshape(10, 5) % 3
    identity = draw_rows(codes, masses=row_masses(np.eye(3)), words=operating_system_words)
    np.testing.assert_array_equal(identity, codes)
    cycle = draw_rows(
        codes, masses=row_masses(np.roll(np.eye(3), 1, axis=1)), words=operating_system_words
    )
    np.testing.assert_array_equal(cycle, (codes + 1) % 3)
    certain = draw_response(codes, k=3, threshold=0, words=operating_system_words)
    np.testing.assert_array_equal(certain, codes)


def test_row_masses_round_towards_unlikely_reports() -> None:
    matrix = np.array([[0.7, 0.2, 0.1], [0.0, 1 / 3, 2 / 3], [1.0, 0.0, 0.0]])
    masses = row_masses(matrix)
    for row, probabilities in zip(masses, matrix, strict=True):
        exact = [Fraction(float(p)) for p in probabilities]
        exact = [p / sum(exact) * WORD_RANGE for p in exact]
        likeliest = int(np.argmax(probabilities))
        assert sum(row) == WORD_RANGE
        for report, (mass, p) in enumerate(zip(row, exact, strict=True)):
            if report == likeliest:
                assert p - len(row) < mass <= p
            else:
                assert p <= mass < p + 1
                assert (mass == 0) == (p == 0)


def test_rows_are_drawn_at_their_thresholds() -> None:
    masses = [[WORD_RANGE - 30, 10, 20], [0, WORD_RANGE, 0], [5, 0, WORD_RANGE - 5]]
    words = [0, 9, 10, 29, 30, WORD_RANGE - 1]
    drawn = [
        draw_rows(np.full(6, code), masses=masses, words=listed_words(*words)).tolist()
        for code in range(3)
    ]
    assert drawn == [[1, 1, 2, 2, 0, 0], [1, 1, 1, 1, 1, 1], [0, 2, 2, 2, 2, 2]]


def test_masses_epsilon_sees_zero_beside_non_zero() -> None:
    half = WORD_RANGE // 2
    assert masses_epsilon([[WORD_RANGE, 0], [half, half]]) == math.inf
    assert masses_epsilon([[WORD_RANGE, 0], [WORD_RANGE, 0]]) == 0.0
    assert masses_epsilon([[3, 1], [1, 3]]) == pytest.approx(math.log(3))


def test_operating_system_draw_has_the_right_law() -> None:
    channel = RandomizedResponse(4, 1.0)
    n_draws = 100_000
    for truth in range(4):
        counts = np.bincount(channel.perturb(np.full(n_draws, truth)), minlength=4)
        test = stats.chisquare(counts, n_draws * channel.matrix[truth])
        assert test.pvalue > FALSE_ALARM_RATE / 4


def test_general_channel_has_the_right_law() -> None:
    matrix = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]])
    n_draws = 100_000
    for truth in range(3):
        counts = np.bincount(Channel(matrix).perturb(np.full(n_draws, truth)), minlength=3)
        test = stats.chisquare(counts, n_draws * matrix[truth])
        assert test.pvalue > FALSE_ALARM_RATE / 3


def test_pure_noise_is_uniform() -> None:
    reports = RandomizedResponse(3, 0.0).perturb(np.zeros(60_000, dtype=int))
    assert stats.chisquare(np.bincount(reports, minlength=3)).pvalue > FALSE_ALARM_RATE


@pytest.mark.parametrize("k", [2, 3, 16])
def test_opendp_agrees_on_epsilon_and_on_draws(k: int) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    channel = RandomizedResponse(k, 1.0)
    # The probability of the truth as really drawn, whole multiples of 2^-64, as a float.
    keep = float(1 - Fraction(response_threshold(k, 1.0), WORD_RANGE))
    theirs = dp.m.make_randomized_response(list(range(k)), keep)
    # Their map rounds upwards, by some units in the last place.
    assert theirs.map(1) == pytest.approx(1.0, rel=1e-14)

    n_theirs, n_ours = 4_000, 40_000
    their_counts = np.bincount([theirs(1) for _ in range(n_theirs)], minlength=k)
    our_counts = np.bincount(channel.perturb(np.ones(n_ours, dtype=int)), minlength=k)
    pvalue = stats.chi2_contingency(np.stack([their_counts, our_counts])).pvalue
    assert pvalue > FALSE_ALARM_RATE / 3


def audited_epsilon(reports_of_0: NDArray[np.int64], reports_of_1: NDArray[np.int64]) -> float:
    """Lower bound on epsilon from released pairs: Clopper-Pearson at 99.9999 % for all four."""
    alpha, bounds = FALSE_ALARM_RATE / 8, []
    for report, first in itertools.product((0, 1), (True, False)):
        likely, unlikely = (reports_of_0, reports_of_1) if first else (reports_of_1, reports_of_0)
        often, seldom = int((likely == report).sum()), int((unlikely == report).sum())
        low = stats.beta.ppf(alpha, often, likely.size - often + 1) if often else 0.0
        high = stats.beta.ppf(1 - alpha, seldom + 1, unlikely.size - seldom)
        bounds.append(math.log(low / high) if low > 0 else -math.inf)
    return max(bounds)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_audit_of_the_release_stays_below_epsilon(epsilon: float) -> None:
    channel = RandomizedResponse(2, epsilon)
    zeros, ones = np.zeros(200_000, dtype=int), np.ones(200_000, dtype=int)
    audited = audited_epsilon(channel.perturb(zeros), channel.perturb(ones))
    assert audited <= epsilon
    # The audit is no empty gesture: it proves nearly all of what is spent.
    assert audited > epsilon - 0.15


def test_audit_catches_a_broken_channel() -> None:
    # The slip of published code: keeping with e^eps/(1 + e^eps) whatever k is.
    claimed, k, n_draws = 1.0, 3, 200_000
    keep = math.exp(claimed) / (1 + math.exp(claimed))
    matrix = np.full((k, k), (1 - keep) / (k - 1))
    np.fill_diagonal(matrix, keep)
    broken = Channel(matrix)
    reports_of_0 = broken.perturb(np.zeros(n_draws, dtype=int))
    reports_of_1 = broken.perturb(np.ones(n_draws, dtype=int))
    assert audited_epsilon(reports_of_0, reports_of_1) > claimed


@pytest.mark.parametrize(
    "channel", [RandomizedResponse(2, 40.1), Channel(RandomizedResponse(3, 41.0).matrix)]
)
def test_finite_epsilon_above_40_is_not_released(channel: Channel) -> None:
    with pytest.raises(InputError, match=r"at most 40 or infinite for a draw, got 4[01]"):
        channel.perturb([0, 1])


def test_simulation_takes_any_epsilon() -> None:
    generator = np.random.default_rng(0)
    codes = np.arange(1000) % 2
    np.testing.assert_array_equal(simulate(RandomizedResponse(2, 1e6), codes, generator), codes)


def test_infinite_epsilon_changes_nothing() -> None:
    codes = np.arange(1000) % 5
    released = RandomizedResponse(5, math.inf).perturb(codes)
    np.testing.assert_array_equal(released, codes)
    assert released is not codes


def test_too_small_probabilities_are_not_released() -> None:
    # 1.09e-19 and 1.08e-19 become 3 and 2 of 2^64: a ratio of 1.5 instead of 1.01.
    tiny = [1.09e-19, 1.08e-19]
    channel = Channel([[1 - tiny[0], tiny[0]], [1 - tiny[1], tiny[1]]])
    with pytest.raises(InputError, match="probabilities that 64-bit numbers can draw"):
        channel.perturb([0, 1])


def test_a_seed_simulates_and_says_so() -> None:
    channel, codes = RandomizedResponse(3, 0.5), np.arange(300) % 3
    with pytest.warns(PrivacyLeakWarning, match="simulated and protect nobody") as caught:
        first = channel.perturb(codes, random_state=1)
    assert caught[0].filename == __file__
    with pytest.warns(PrivacyLeakWarning):
        again = channel.perturb(codes, random_state=np.random.default_rng(1))
    with pytest.warns(PrivacyLeakWarning):
        other = channel.perturb(codes, random_state=2)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_simulate_does_not_warn_and_agrees_with_a_seeded_release() -> None:
    channel, codes = RandomizedResponse(3, 0.5), np.arange(300) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulated = simulate(channel, codes, np.random.default_rng(1))
    with pytest.warns(PrivacyLeakWarning):
        seeded = channel.perturb(codes, random_state=1)
    np.testing.assert_array_equal(simulated, seeded)


def test_release_does_not_use_numpys_generator() -> None:
    channel, codes = RandomizedResponse(2, 0.1), np.zeros(200, dtype=int)
    # Two releases of 200 nearly fair coins are equal with probability below 2^-190.
    assert (channel.perturb(codes) != channel.perturb(codes)).any()


def test_generator_words_cover_all_64_bits() -> None:
    words = generator_words(np.random.default_rng(0))(1000)
    assert words.dtype == np.uint64
    # Each bit stands in about half of the words: 1000 words, 6 standard errors of 0.016.
    bits = (words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 6 * 0.016


@pytest.mark.parametrize("bad", [1.5, "7", True])
def test_random_state_must_be_a_seed(bad: object) -> None:
    with pytest.raises(InputTypeError, match="`random_state` must be a whole number"):
        RandomizedResponse(2, 1.0).perturb([0], random_state=bad)  # type: ignore[arg-type]


def test_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="`random_state` must be at least 0, got -1"):
        RandomizedResponse(2, 1.0).perturb([0], random_state=-1)

"""The path correction against enumeration of all paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit

from epsilens.audit.bound import Path
from epsilens.audit.inputs import make_guesses
from epsilens.audit.path import crossing_probability, first_level, path_bound, path_p_value
from epsilens.audit.pure import LEVELS, last_refuted, pure_bounds, pure_p_value


def all_paths(length, chance):
    for path in itertools.product((0, 1), repeat=length):
        heads = sum(path)
        yield np.cumsum(path), chance**heads * (1 - chance) ** (length - heads)


@pytest.mark.parametrize("chance", [0.5, 0.8, 0.999])
def test_crossing_is_the_sum_over_all_paths(chance):
    lengths, thresholds = np.array([2, 5, 9]), np.array([2, 5, 7])
    expected = sum(
        weight
        for path, weight in all_paths(9, chance)
        if any(path[n - 1] >= k for n, k in zip(lengths, thresholds, strict=True))
    )
    assert crossing_probability(lengths, thresholds, chance) == pytest.approx(expected, abs=1e-12)


def test_thresholds_out_of_reach_and_of_zero():
    lengths = np.array([3, 6])
    assert crossing_probability(lengths, np.array([4, 7]), 0.7) == pytest.approx(0.0, abs=1e-14)
    assert crossing_probability(lengths, np.array([0, 7]), 0.7) == 1.0


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("right", [(2, 5, 9), (4, 6, 7), (1, 1, 1)])
def test_path_p_value_is_how_often_a_path_is_as_extreme_somewhere(right, epsilon):
    lengths, right = np.array([4, 7, 10]), np.array(right)
    smallest = pure_p_value(right, lengths, epsilon).min()
    expected = sum(
        weight
        for path, weight in all_paths(10, float(expit(epsilon)))
        if pure_p_value(path[lengths - 1], lengths, epsilon).min() <= smallest * (1 + 1e-9)
    )
    assert path_p_value(lengths, right, epsilon) == pytest.approx(expected, abs=1e-10)


def test_one_look_is_the_fixed_bound():
    found = path_bound(np.array([100]), np.array([95]), n_canaries=100, delta=0.0, level=0.05)
    exact = float(pure_bounds(95, 100, level=0.05))
    assert exact - 0.006 < found <= exact


def test_path_lies_between_bonferroni_and_the_uncorrected_best():
    rng = np.random.default_rng(0)
    counts = np.unique(np.geomspace(10, 500, 25).astype(int))
    for _ in range(5):
        right = np.cumsum(rng.random(1000) < np.linspace(0.95, 0.6, 1000))[2 * counts - 1]
        found = path_bound(2 * counts, right, n_canaries=1000, delta=0.0, level=0.05)
        bonferroni = pure_bounds(right, 2 * counts, level=0.05 / counts.size).max()
        uncorrected = pure_bounds(right, 2 * counts, level=0.05).max()
        assert bonferroni - 0.01 <= found <= uncorrected


def test_every_level_up_to_the_bound_is_refuted_and_the_next_is_not():
    lengths, right = np.array([20, 60, 200]), np.array([20, 55, 160])
    for delta in (0.0, 1e-5):
        bound = path_bound(lengths, right, n_canaries=1000, delta=delta, level=0.05)
        place = int(np.flatnonzero(bound == LEVELS)[0])
        grown = [1000 * delta * expit(-level) for level in LEVELS]
        p = [path_p_value(lengths, right, level) for level in LEVELS[: place + 2]]
        refuted = [value + more <= 0.05 for value, more in zip(p, grown, strict=False)]
        assert all(refuted[:-1])
        assert not refuted[-1]


def test_delta_costs_at_most_the_expected_number_of_canaries_given_away():
    lengths, right = np.array([20, 60, 200]), np.array([20, 55, 160])
    bounds = [
        path_bound(lengths, right, n_canaries=1000, delta=delta, level=0.05)
        for delta in (0.0, 1e-6, 1e-5, 1.1e-4, 0.01)
    ]
    assert bounds == sorted(bounds, reverse=True)
    # Half of a thousand canaries given away with 1.1e-4 is more than the whole error of 5 %: ε = 0
    # cannot be refuted, but levels above the first one can.
    assert bounds[3] > 1.0
    # Ten canaries given away: what is tried starts at 5.4, more than 160 of 200 prove.
    assert bounds[4] == 0.0


@pytest.mark.parametrize(
    ("m", "delta", "level", "bound", "start"),
    [
        (16_384, 1e-5, 0.05, 8.44, 0.97),
        (4_096, 2.5e-5, 0.05, 7.05, 0.24),
        (1_000, 1e-6, 1e-4, 4.50, 2.31),
        (1_000, 1e-6, 0.05, 5.64, 0.0),
    ],
)
def test_perfect_scores_refute_claims_however_large_delta_is(m, delta, level, bound, start):
    counts, included = Path().counts(m), np.random.default_rng(0).random(m) < 0.5
    right = make_guesses(included, included * 1.0).n_correct(counts)
    found = path_bound(2 * counts, right, n_canaries=m, delta=delta, level=level)
    assert found == pytest.approx(bound, abs=0.01)
    assert first_level(m, delta=delta, level=level) == pytest.approx(start, abs=0.01)


def test_the_first_level_leaves_a_tenth_of_the_error_to_the_guesses():
    for m, delta, level in ((1000, 1e-4, 0.05), (50, 0.3, 1e-6), (10**6, 1e-3, 1e-9)):
        first = first_level(m, delta=delta, level=level)
        assert first in LEVELS
        assert 0.0 <= 0.9 * level - m * delta * expit(-first) < 0.1 * level
    assert first_level(10**6, delta=0.5, level=1e-9) == np.inf
    assert first_level(1000, delta=0.0, level=0.05) == 0.0
    lengths = np.array([10**6])
    assert path_bound(lengths, lengths, n_canaries=10**6, delta=0.5, level=1e-9) == 0.0


def test_a_search_that_starts_late_tries_every_level_from_there():
    lengths, right = np.array([20, 60, 200]), np.array([20, 59, 190])
    m, delta, level = 1000, 1.5e-4, 0.05
    first = first_level(m, delta=delta, level=level)
    bound = path_bound(lengths, right, n_canaries=m, delta=delta, level=level)
    assert 0.0 < first < bound
    tried = LEVELS[(first <= LEVELS) & (bound >= LEVELS)]
    p = [path_p_value(lengths, right, each) + m * delta * expit(-each) for each in tried]
    assert max(p) <= level
    following = LEVELS[bound < LEVELS][0]
    assert path_p_value(lengths, right, following) + m * delta * expit(-following) > level


def test_nothing_is_reported_if_the_first_level_stands():
    lengths, right = np.array([20, 60, 200]), np.array([15, 40, 120])
    found = path_bound(lengths, right, n_canaries=1000, delta=1.5e-4, level=0.05)
    assert found == 0.0


def test_the_search_stops_at_the_first_level_that_stands():
    p = np.where((LEVELS > 1.0) & (LEVELS < 1.5), 0.9, 0.0)
    found = last_refuted(lambda tried: np.interp(tried, LEVELS, p), level=0.05)
    assert found == LEVELS[LEVELS <= 1.0][-1]
    assert last_refuted(lambda tried: np.ones(tried.size), level=0.05) == 0.0
    assert last_refuted(lambda tried: np.zeros(tried.size), level=0.05) == LEVELS[-1]

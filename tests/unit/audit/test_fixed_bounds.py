"""Bounds of one number of guesses: each beside a slow and obvious twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from epsilens.audit.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu, printed_noise
from epsilens.audit.many_runs import many_runs_bound
from epsilens.audit.pure import (
    LEVELS,
    approximate_bound,
    approximate_p_values,
    f_dp_mu_bound,
    f_dp_refutes,
    independent_gdp_mu_bound,
    independent_gdp_p_value,
    pure_bounds,
    pure_p_value,
)
from epsilens.errors import InputError


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(("right", "guesses"), [(0, 10), (7, 10), (10, 10), (480, 500)])
def test_pure_p_value_is_a_binomial_tail(right, guesses, epsilon):
    chance = math.exp(epsilon) / (1 + math.exp(epsilon))
    expected = binom.sf(right - 1, guesses, chance)
    assert float(pure_p_value(right, guesses, epsilon)) == pytest.approx(expected, rel=1e-9)


def test_more_right_guesses_than_guesses_are_impossible():
    assert float(pure_p_value(11, 10, 1.0)) == 0.0


@pytest.mark.parametrize(("right", "guesses"), [(60, 100), (95, 100), (100, 100), (900, 1000)])
def test_pure_bound_is_where_the_p_value_meets_the_level(right, guesses):
    bound = float(pure_bounds(right, guesses, level=0.05))
    assert float(pure_p_value(right, guesses, bound)) == pytest.approx(0.05, rel=1e-6)


def test_no_better_than_chance_proves_nothing():
    assert float(pure_bounds(50, 100, level=0.05)) == 0.0
    assert float(pure_bounds(0, 100, level=0.05)) == 0.0


def slow_approximate(right, guesses, epsilon, m, delta):
    chance = 1 / (1 + math.exp(-epsilon))
    beta = binom.sf(right - 1, guesses, chance)
    alpha = max((binom.sf(right - i - 1, guesses, chance) - beta) / i for i in range(1, right + 1))
    return min(beta + 2 * m * delta * alpha, 1.0)


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
@pytest.mark.parametrize(("right", "guesses"), [(5, 10), (95, 100), (300, 400)])
def test_approximate_p_value_is_the_printed_formula(right, guesses, delta):
    levels = np.array([0.0, 0.3, 1.0, 2.0, 5.0])
    found = approximate_p_values(right, guesses, levels, n_canaries=1000, delta=delta)
    expected = [slow_approximate(right, guesses, level, 1000, delta) for level in levels]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(("m", "delta"), [(1000, 1e-6), (1000, 1e-4), (16384, 1e-6)])
def test_approximate_bound_is_the_last_level_before_the_first_not_refuted(m, delta):
    bound = approximate_bound(190, 200, n_canaries=m, delta=delta, level=0.05)
    place = int(np.flatnonzero(bound == LEVELS)[0])
    assert slow_approximate(190, 200, LEVELS[place + 1], m, delta) > 0.05
    for level in (*LEVELS[: place - 10 : 60], *LEVELS[place - 10 : place + 1]):
        assert slow_approximate(190, 200, level, m, delta) <= 0.05


def test_approximate_without_delta_is_pure():
    found = approximate_bound(95, 100, n_canaries=1000, delta=0.0, level=0.05)
    assert found == float(pure_bounds(95, 100, level=0.05))


def test_delta_that_could_give_everything_away_proves_nothing():
    assert approximate_bound(95, 100, n_canaries=1000, delta=0.5, level=0.05) == 0.0
    assert approximate_bound(0, 100, n_canaries=1000, delta=1e-6, level=0.05) == 0.0


def slow_f_dp(right, guesses, m, level, mu):
    a, b = level * right / m, level * (guesses - right) / m
    for i in range(right - 1, -1, -1):
        grown = max(b, norm.cdf(norm.ppf(a) - mu))
        a = min(1.0, a + (grown - b) * i / (guesses - i))
        b = grown
    return a + b > guesses / m


@pytest.mark.parametrize(("right", "guesses"), [(80, 100), (99, 100), (100, 100)])
def test_f_dp_recursion_agrees_with_its_slow_twin(right, guesses):
    mus = np.linspace(0.0, 5.0, 21)
    found = f_dp_refutes(right, guesses, mus, n_canaries=500, level=0.05)
    assert found.tolist() == [slow_f_dp(right, guesses, 500, 0.05, mu) for mu in mus]


def test_f_dp_bound_is_the_edge_of_what_is_refuted():
    bound = f_dp_mu_bound(99, 100, n_canaries=500, level=0.05)
    assert slow_f_dp(99, 100, 500, 0.05, bound)
    assert not slow_f_dp(99, 100, 500, 0.05, bound + 1e-3)
    assert f_dp_mu_bound(50, 100, n_canaries=500, level=0.05) == 0.0
    assert f_dp_mu_bound(0, 100, n_canaries=500, level=0.05) == 0.0


@pytest.mark.parametrize(
    ("m", "k", "mu"), [(200, 20, 1.0), (60, 30, 2.0), (61, 30, 0.5), (40, 1, 1.0)]
)
def test_law_of_independent_canaries_against_simulation(m, k, mu):
    rng = np.random.default_rng(7)
    trials = 20_000
    included = rng.random((trials, m)) < 0.5
    order = np.argsort(rng.standard_normal((trials, m)) + mu * included, axis=1)
    ranked = np.take_along_axis(included, order, axis=1)
    right = ranked[:, m - k :].sum(axis=1) + (~ranked[:, :k]).sum(axis=1)
    for count in np.quantile(right, [0.2, 0.5, 0.9, 0.99]).astype(int):
        seen = (right >= count).mean()
        # Four standard errors of a share of 20,000.
        tolerance = 4 * math.sqrt(max(seen * (1 - seen), 1e-4) / trials)
        found = independent_gdp_p_value(int(count), k, mu, n_canaries=m)
        assert found == pytest.approx(seen, abs=tolerance)


def test_independent_bound_is_where_the_p_value_meets_the_level():
    bound = independent_gdp_mu_bound(180, 100, n_canaries=1000, level=0.05)
    assert independent_gdp_p_value(180, 100, bound, n_canaries=1000) <= 0.05
    assert independent_gdp_p_value(180, 100, bound + 1e-3, n_canaries=1000) > 0.05
    assert independent_gdp_mu_bound(100, 100, n_canaries=1000, level=0.05) == 0.0


@pytest.mark.parametrize("m", [64, 200, 1000])
def test_all_guesses_can_be_right_only_if_half_is_in(m):
    # However large μ is: the law of independent canaries ends in a known number.
    half = binom.pmf(m // 2, m, 0.5)
    found = independent_gdp_p_value(m, m // 2, 14.0, n_canaries=m)
    assert found == pytest.approx(half, rel=1e-6)
    before = [independent_gdp_p_value(m, m // 2, mu, n_canaries=m) for mu in (4.0, 5.0, 6.0, 8.0)]
    assert before == sorted(before)
    assert before[-1] < half


@pytest.mark.parametrize(
    ("right", "each_side", "m", "bound"),
    [
        # By 64 places on each side of one half, a computation seven times as long.
        (200, 100, 200, 5.7646),
        (198, 100, 200, 4.0326),
        (64, 32, 64, 4.0998),
        # By 32.
        (998, 500, 1000, 5.4952),
        # Half of a thousand is in by chance with 2.5 %: all guesses right refute any μ at 5 %.
        (1000, 500, 1000, 16.0),
    ],
)
def test_guesses_on_all_canaries(right, each_side, m, bound):
    found = independent_gdp_mu_bound(right, each_side, n_canaries=m, level=0.05)
    assert found == pytest.approx(bound, abs=1e-3)


def test_the_truth_about_the_printed_noise():
    # The values of P3's five noise levels by the analytic Gaussian mechanism, to three decimals.
    expected = {1: 0.784, 2: 1.657, 4: 3.558, 8: 7.866, 16: 18.314}
    for nominal, truth in expected.items():
        found = gaussian_epsilon(1 / printed_noise(nominal, 1e-6), 1e-6)
        assert found == pytest.approx(truth, abs=5e-4)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0, 50.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 0.1])
def test_noise_and_level_are_inverse(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)


def test_no_shift_leaks_nothing():
    assert gaussian_epsilon(0.0, 1e-6) == 0.0
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_epsilon(1e-8, 1e-6) == 0.0


def test_many_runs_of_a_known_gaussian():
    # 200,000 runs each at the best threshold of mu = 1: the rates are known to 0.2 %.
    rng = np.random.default_rng(1)
    hits = int((rng.standard_normal(200_000) + 1.0 > 0.5).sum())
    alarms = int((rng.standard_normal(200_000) > 0.5).sum())
    found = many_runs_bound(hits, 200_000, alarms, 200_000, delta=1e-6, gaussian=True)
    truth = gaussian_epsilon(1.0, 1e-6)
    assert 0.97 * truth < found.epsilon_lower_bound <= truth
    assert found.assumptions == ["gaussian trade-off"]
    plain = many_runs_bound(hits, 200_000, alarms, 200_000, delta=1e-6)
    assert plain.epsilon_lower_bound == pytest.approx(math.log(0.6915 / 0.3085), abs=0.02)


def test_many_runs_that_say_nothing():
    assert many_runs_bound(0, 10, 10, 10).epsilon_lower_bound == 0.0
    assert many_runs_bound(0, 10, 10, 10, delta=1e-6, gaussian=True).epsilon_lower_bound == 0.0


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        ((11, 10, 0, 10), {}, "`n_said_in_when_in` must be at most `n_runs_in`, got 11 of 10"),
        ((1, 10, 11, 10), {}, "`n_said_in_when_out` must be at most `n_runs_out`, got 11 of 10"),
        ((0, 0, 0, 10), {}, "`n_runs_in` must be at least 1"),
        ((1, 10, 0, 2.5), {}, "`n_runs_out` must be a whole number"),
        ((-1, 10, 0, 10), {}, "`n_said_in_when_in` must be at least 0"),
        ((5, 10, 0, 10), {"gaussian": True}, "where `gaussian` is True"),
        ((5, 10, 0, 10), {"delta": "a"}, "`delta` must be a number"),
        ((5, 10, 0, 10), {"delta": 1.0}, "`delta` must be at least 0 and below 1"),
        ((5, 10, 0, 10), {"confidence": 1.0}, "`confidence` must lie between 0 and 1"),
    ],
)
def test_many_runs_name_the_argument_that_is_wrong(arguments, settings, words):
    with pytest.raises(InputError, match=words):
        many_runs_bound(*arguments, **settings)

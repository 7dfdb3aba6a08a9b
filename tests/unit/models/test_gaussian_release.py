"""Noise that has the stated size, and budgets that convert exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from scipy.stats import kstest, norm

from epsilens.errors import InputError
from epsilens.models import gaussian_release
from epsilens.models.gaussian_release import GaussianRelease, epsilon_of_rho, rho_of_epsilon


@pytest.mark.slow
def test_opendp_really_draws_the_stated_noise():
    release = GaussianRelease("vector", sensitivity=3.0, rho=2.0)
    centre = np.full(10_000, 0.25)
    noise = release.draw(centre, None) - centre
    # A standard deviation from 10,000 draws has a relative error of 0.71 %, the mean one of 1 % of
    # σ: five of them are exceeded once in 1.7 million honest runs. The draws cannot be seeded.
    assert release.sigma == pytest.approx(1.5)
    assert np.std(noise) == pytest.approx(release.sigma, rel=5 * 0.0071)
    assert np.mean(noise) == pytest.approx(0.0, abs=5 * 0.01 * release.sigma)
    assert kstest(noise / release.sigma, norm.cdf).pvalue > 1e-6
    # Neighbouring coordinates are independent: a correlation has error 0.01 here.
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 0.05


def test_real_draws_differ_and_keep_their_shape():
    release = GaussianRelease("matrix", sensitivity=1.0, rho=1.0)
    first, second = (release.draw(np.zeros((2, 3)), None) for _ in range(2))
    assert first.shape == (2, 3)
    assert not np.array_equal(first, second)


def test_opendp_states_the_same_budget():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    release = GaussianRelease("vector", sensitivity=0.7, rho=0.3)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=release.sigma)
    assert measurement.map(release.sensitivity) == pytest.approx(release.rho, rel=1e-12)


def test_a_generator_makes_a_simulation_that_repeats():
    release = GaussianRelease("vector", sensitivity=1.0, rho=1.0)
    draws = [release.draw(np.zeros(3), np.random.default_rng(5)) for _ in range(2)]
    assert np.array_equal(*draws)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 50.0])
def test_conversions_are_inverse_to_each_other_and_safe(epsilon, delta):
    rho = rho_of_epsilon(epsilon, delta)
    assert epsilon_of_rho(rho, delta) == pytest.approx(epsilon, rel=1e-6)
    assert epsilon_of_rho(rho, delta) <= epsilon


def exact_delta(epsilon, rho):
    """The slow twin of the conversions, Balle and Wang (2018), Theorem 8, with 60 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        mu = mpmath.sqrt(2 * mpmath.mpf(rho))
        a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return mpmath.ncdf(a) - mpmath.exp(mpmath.mpf(epsilon)) * mpmath.ncdf(b)


def test_conversions_round_towards_privacy():
    rng = np.random.default_rng(0)
    extremes = [
        (1e-12, 1e-6),
        (1e-6, 1e-300),
        (1e8, 1e-6),
        (1e-9, 0.5),
        (1e4, 1e-12),
        (40.0, 0.999),
    ]
    drawn = [(10 ** rng.uniform(-5, 3), 10 ** rng.uniform(-15, -0.01)) for _ in range(50)]
    for value, delta in extremes + drawn:
        # Each number serves as an ε and as a ρ.
        assert exact_delta(value, rho_of_epsilon(value, delta)) <= delta
        assert exact_delta(epsilon_of_rho(value, delta), value) <= delta


def test_conversions_begin_where_dp_accounting_ends():
    """Bit for bit, and with its refusals: what is drawn with a seed must not depend on who looks for the root."""
    rng = np.random.default_rng(1)

    def found(convert, *numbers):
        with np.errstate(all="ignore"):
            try:
                return float(convert(*numbers))
            except (ValueError, ZeroDivisionError) as refused:
                return repr(refused)

    for _ in range(200):
        width, epsilon = math.exp(rng.uniform(-5, 8)), math.exp(rng.uniform(-7, 5))
        delta = math.exp(rng.uniform(-40, -0.5))
        here = found(gaussian_release._epsilon_of_width, width, delta)
        assert here == found(gaussian_mechanism.get_epsilon_gaussian, width, delta)
        here = found(gaussian_release._width_of_epsilon, epsilon, delta)
        assert here == found(gaussian_mechanism.get_sigma_gaussian, epsilon, delta)


def test_the_homework_s_noise_has_the_known_exact_epsilon():
    # True ε(1e-6) of σ = √(2 ln(1.25/δ))/ε at ε = 1, 2, 4, 8, 16.
    for claimed, exact in ((1, 0.784), (2, 1.657), (4, 3.558), (8, 7.866), (16, 18.31)):
        sigma = math.sqrt(2 * math.log(1.25e6)) / claimed
        assert epsilon_of_rho(1 / (2 * sigma**2), 1e-6) == pytest.approx(exact, rel=1e-3)


def test_a_tiny_budget_is_epsilon_zero():
    assert epsilon_of_rho(1e-15, 1e-6) == 0.0


@pytest.mark.parametrize(
    ("sensitivity", "rho"),
    [(1e-200, 1e308), (1e300, 1e-320), (0.0, 1.0), (np.inf, 1.0), (1.0, 0.0)],
)
def test_noise_of_0_or_without_end_is_refused(sensitivity, rho):
    with pytest.raises(InputError, match="must"):
        GaussianRelease("coefficients", sensitivity, rho)


@pytest.mark.parametrize(
    ("convert", "given", "words"),
    [
        (epsilon_of_rho, (-1.0, 1e-6), "`rho` must be finite and greater than 0, got -1.0"),
        (epsilon_of_rho, (1.0, 1.0), "`delta` must lie between 0 and 1, got 1.0"),
        (rho_of_epsilon, (0.0, 1e-6), "`epsilon` must be finite and greater than 0, got 0.0"),
        (rho_of_epsilon, (math.inf, 1e-6), "`epsilon` must be finite"),
        (rho_of_epsilon, (1.0, 0.0), "`delta` must lie between 0 and 1, got 0.0"),
    ],
)
def test_budgets_that_are_none_are_refused(convert, given, words):
    with pytest.raises(InputError, match=words):
        convert(*given)

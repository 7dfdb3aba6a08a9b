# SPDX-License-Identifier: Apache-2.0
"""The noise that DP-SGD needs: never too little, hardly ever too much."""

from __future__ import annotations

import logging
import math
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from epsilens.errors import InputError, InputTypeError
from epsilens.models import privacy_accounting
from epsilens.models.privacy_accounting import account, calibrate_noise, sampled_advantage

PLAN = {"delta": 1e-5, "sampling_probability": 0.05, "n_steps": 60}


@cache
def calibrated(epsilon: float):
    return calibrate_noise(epsilon, **PLAN)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.0, 3.0, 20.0, 300.0])
def test_the_accounted_epsilon_is_just_below_the_one_asked_for(epsilon: float) -> None:
    found = calibrated(epsilon)
    assert 0.998 * epsilon < found.epsilon_pld <= epsilon
    again = account(found.noise_multiplier, **PLAN)
    assert (again.epsilon_pld, again.epsilon_rdp) == (found.epsilon_pld, found.epsilon_rdp)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 20.0, 300.0])
def test_renyi_lies_above_the_loss_distribution(epsilon: float) -> None:
    found = calibrated(epsilon)
    assert found.epsilon_pld < found.epsilon_rdp < 2.0 * found.epsilon_pld


def test_less_epsilon_needs_more_noise() -> None:
    noise = [calibrated(epsilon).noise_multiplier for epsilon in (0.3, 1.0, 3.0, 20.0, 300.0)]
    assert noise == sorted(noise, reverse=True)


def test_no_sampling_is_the_gaussian_mechanism() -> None:
    """With every record in every batch the answer is known in closed form (Balle and Wang, 2018)."""
    n_steps, noise, delta = 10, 5.0, 1e-5
    mu = math.sqrt(n_steps) / noise

    def excess(epsilon: float) -> float:
        below = stats.norm.cdf(mu / 2 - epsilon / mu)
        return below - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - delta

    exact = brentq(excess, 1e-6, 50.0)
    found = account(noise, delta=delta, sampling_probability=1.0, n_steps=n_steps)
    # Rounded upwards on a grid of 1e-4.
    assert exact - 1e-6 <= found.epsilon_pld <= exact + 2e-3


def test_one_sampled_step_in_closed_form() -> None:
    """δ(ε) of removing a record from one sampled step: q N(1, σ²) + (1 − q) N(0, σ²) against N(0, σ²)."""
    q, noise, delta = 0.2, 0.8, 1e-3

    def excess(epsilon: float) -> float:
        # The mixture exceeds e^ε times the other where x is beyond this point.
        x = noise**2 * math.log((math.exp(epsilon) - 1 + q) / q) + 0.5
        mixture = q * stats.norm.sf(x, 1.0, noise) + (1 - q) * stats.norm.sf(x, 0.0, noise)
        return mixture - math.exp(epsilon) * stats.norm.sf(x, 0.0, noise) - delta

    exact = brentq(excess, 1e-6, 50.0)
    found = account(noise, delta=delta, sampling_probability=q, n_steps=1)
    assert exact - 1e-6 <= found.epsilon_pld <= exact + 1e-3


def test_infinity_means_no_noise() -> None:
    found = calibrate_noise(math.inf, **PLAN)
    assert found.noise_multiplier == 0.0
    assert found.epsilon_pld == math.inf
    assert account(0.0, **PLAN).epsilon_pld == math.inf


def test_a_calibration_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    first = calibrated(1.0)
    monkeypatch.setattr(privacy_accounting, "account", None)
    assert calibrate_noise(1.0, **PLAN) is first


def test_the_accountant_keeps_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """The library logs orders that it leaves out, which is no user's concern."""
    with caplog.at_level(logging.WARNING):
        account(0.31, **PLAN)
    assert not caplog.records


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delta": 0.0}, "`delta` must lie between 0 and 1"),
        ({"delta": 1.0}, "`delta` must lie between 0 and 1"),
        ({"sampling_probability": 0.0}, "greater than 0 and at most 1, got 0.0"),
        ({"sampling_probability": 1.5}, "greater than 0 and at most 1, got 1.5"),
        ({"n_steps": 0}, "`n_steps` must be at least 1"),
    ],
)
def test_plans_that_are_none(change: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        calibrate_noise(1.0, **{**PLAN, **change})


def test_levels_that_are_none() -> None:
    with pytest.raises(InputError, match=r"greater than 0, got 0\.0"):
        calibrate_noise(0.0, **PLAN)
    with pytest.raises(InputTypeError, match="greater than 0, got str"):
        calibrate_noise("1", **PLAN)
    with pytest.raises(InputError, match=r"at most 1000 or infinite, got 1000000\.0"):
        calibrate_noise(1e6, **PLAN)
    with pytest.raises(InputError, match="a level that noise can reach"):
        calibrate_noise(1e-6, delta=1e-12, sampling_probability=1.0, n_steps=10**9)
    for noise in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="finite and at least 0"):
            account(noise, **PLAN)


def test_a_replaced_record_in_every_batch_is_the_gaussian_mechanism_of_twice_the_length() -> None:
    kept = account(5.0, delta=1e-5, sampling_probability=1.0, n_steps=10)
    exact = 2 * stats.norm.cdf(math.sqrt(10) / 5.0) - 1
    assert exact <= sampled_advantage(kept) <= exact + 1e-3


@pytest.mark.parametrize(("q", "sigma"), [(0.05, 0.5), (0.05, 1.0), (0.3, 0.5), (0.8, 1.0)])
def test_no_two_records_are_told_apart_better_than_opposite_gradients(
    q: float, sigma: float
) -> None:
    """Hockey-stick divergences of two sampled gradients, by quadrature over their plane."""
    rng = np.random.default_rng(0)
    line = np.linspace(-6.0, 6.0, 20_001)[None]
    plane = np.stack(np.meshgrid(*2 * [np.linspace(-5.0, 5.0, 301)])).reshape(2, -1)

    def divergences(points: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        nothing, *either = (
            np.exp(-((points - mean[:, None]) ** 2).sum(axis=0) / (2 * sigma**2))
            for mean in (np.zeros_like(u), u, v)
        )
        p, r = ((1 - q) * nothing + q * own for own in either)
        levels = (0.3, 0.8, 1.0, 1.3, 4.0)
        return np.array([np.maximum(p - a * r, 0).sum() / p.sum() for a in levels])

    worst = divergences(line, np.array([1.0]), np.array([-1.0]))
    for _ in range(15):
        u, v = rng.normal(size=(2, 2))
        u, v = u / max(1.0, np.linalg.norm(u)), v / max(1.0, np.linalg.norm(v))
        found = divergences(plane, u, v)
        assert (found <= worst + 2e-6).all()  # what the squares of the plane leave out

"""Instruments that find wrong noise: the residuals of noisy sums, and many runs of a small problem."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from epsilens.audit import many_runs_bound, residual_test
from epsilens.errors import InputError
from epsilens.models.gaussian_release import epsilon_of_rho
from epsilens.models.noisy_descent import DescentPlan, simulate_descents
from epsilens.models.private_logistic import default_bounds
from epsilens.private import PrivateLogisticRegression

# --- Residuals ---


def test_a_right_sigma_is_rejected_as_often_as_stated():
    rng = np.random.default_rng(0)
    passed = sum(residual_test(rng.normal(size=50), 1.0, confidence=0.9).holds for _ in range(800))
    assert binomtest(passed, 800, 0.9).pvalue > 1e-4


def test_the_interval_is_the_test_turned_round():
    noise = np.random.default_rng(1).normal(size=30)
    found = residual_test(noise, 1.3)
    for end in (found.sigma_low, found.sigma_high):
        assert residual_test(noise, end).p_value == pytest.approx(0.05)
    assert found.sigma_low < found.sigma_estimate == pytest.approx(math.sqrt((noise**2).mean()))


@pytest.mark.parametrize("side", ["detectable_below", "detectable_above"])
def test_an_error_that_could_be_seen_is_seen_as_often_as_stated(side):
    rng = np.random.default_rng(2)
    ratio = getattr(residual_test(np.ones(40), 1.0), side)
    seen = sum(not residual_test(ratio * rng.normal(size=40), 1.0).holds for _ in range(800))
    assert binomtest(seen, 800, 0.95).pvalue > 1e-4


@pytest.mark.parametrize("ratio", [0.95, 1.05])
def test_an_error_of_five_per_cent_is_found_in_ten_thousand_numbers(ratio):
    """It is 7 standard errors of σ."""
    noise = ratio * np.random.default_rng(3).normal(size=10_000)
    assert residual_test(noise, 1.0).p_value < 1e-4
    assert residual_test(noise, 1.0).detectable_below > 0.95


@pytest.mark.parametrize("residuals", [[], [1.0, math.nan], [math.inf]])
def test_residuals_that_are_no_numbers_are_refused(residuals):
    with pytest.raises(InputError, match="residuals"):
        residual_test(residuals, 1.0)


def test_small_units_do_not_vanish():
    noise = 1e-200 * np.random.default_rng(4).normal(size=500)
    assert residual_test(noise, 1e-200).holds


# --- The noise of a real release ---


class Watched(PrivateLogisticRegression):
    """Keeps what noise was added, and may add noise of another budget."""

    planted = 1.0

    def _noisy(self, exact, release, generator):
        noisy = replace(release, rho=self.planted * release.rho).draw(exact, generator)
        self.seen.append(noisy - exact)
        return noisy


@pytest.mark.parametrize("mechanism", ["noisy-descent", "output-perturbation"])
@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
def test_the_noise_of_a_release_is_the_stated_one_and_less_is_found(mechanism):
    """640 numbers of the operating system. Right noise fails with probability 1e-4; wrong noise is 9 standard
    errors beyond."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 15)), rng.integers(2, size=60)
    planted = {}
    for share in (1.0, 2.0):  # twice the budget is σ/√2
        model = Watched(epsilon=1.0, delta=1e-5, x_bound=3.0, classes=[0, 1], n_steps=40)
        model.set_params(mechanism=mechanism)
        model.planted, model.seen = share, []
        for _ in range(1 if mechanism == "noisy-descent" else 40):
            model.fit(X, y)
        planted[share] = residual_test(model.seen, model.sigma_, confidence=0.9999)
        assert planted[share].n_residuals == 640
    assert planted[1.0].holds
    assert not planted[2.0].holds
    assert planted[2.0].sigma_estimate < planted[2.0].sigma


# --- Many runs ---


def said_in(plan, codes, *, seed):
    """Return how far each run leans towards the answer of the canary."""
    rows = default_bounds(2.0).rows(np.full((2, 1), 9.0))
    found = simulate_descents(
        rows,
        np.array(codes, dtype=np.intp),
        [plan],
        n_runs=40_000,
        generator=np.random.default_rng(seed),
    )
    return found[0, :, :, 0].sum(axis=1)


@pytest.mark.parametrize(("planted", "is_right"), [(1.0, True), (2.0, False)])
def test_many_runs_find_half_the_noise_and_no_breach_of_the_right_one(planted, is_right):
    """One of two records changes its answer. 99.99 % confidence; a factor of two is 20 standard errors."""
    plan = DescentPlan(2, 2, 1, 2.0, "answer", 0.5, 2)
    claimed = epsilon_of_rho(plan.rho, 1e-5)
    used = replace(plan, rho=planted**2 * plan.rho)
    threshold = float(np.median(said_in(used, [1, 1], seed=0)))
    hits = int((said_in(used, [1, 1], seed=1) > threshold).sum())
    alarms = int((said_in(used, [0, 1], seed=2) > threshold).sum())
    bound = many_runs_bound(
        hits, 40_000, alarms, 40_000, delta=1e-5, confidence=0.9999, gaussian=True
    )
    assert (bound.epsilon_lower_bound <= claimed) is is_right
    # The attack is no weak one: it sees most of what there is.
    assert bound.epsilon_lower_bound > 0.7 * claimed

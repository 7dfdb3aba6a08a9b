"""Ceilings of true alarms: against riskcal, against all tests that exist, and against attackers who know everything."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import (
    from_gaussian_mechanism,
    from_laplace_mechanism,
    from_privacy_parameters,
    from_randomized_response,
)
from riskcal import analysis
from scipy.optimize import linprog

from epsilens.channels import RandomizedResponse
from epsilens.document.decision import MechanismCell
from epsilens.errors import InputError
from epsilens.mechanisms import (
    approximate_tpr,
    gaussian_tpr,
    mechanism_class,
    pld_tpr,
    randomised_response_tpr,
    zcdp_tpr,
)
from epsilens.mechanisms.ceilings import CEILING_RATES, sampled_tpr
from epsilens.models.privacy_accounting import (
    attack_ceiling,
    calibrate_noise,
    sampled_advantage,
    sampled_deltas,
)

RATES = (0.001, 0.01, 0.3)


@pytest.mark.parametrize("fpr", RATES)
def test_normal_noise(fpr):
    for mu in (0.01, 0.268, 1.0, 3.0, 9.0):
        exact = 1.0 - float(analysis.get_beta_from_gdp(mu, fpr))
        assert gaussian_tpr(mu, fpr) == pytest.approx(exact, abs=1e-12)
        # From the distribution of the loss: rounded up, never down.
        found = pld_tpr(from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3), fpr)
        assert exact - 1e-9 <= found <= exact + 2e-3


@pytest.mark.parametrize("fpr", RATES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_epsilon_and_delta(epsilon, fpr):
    for delta in (0.0, 1e-6, 0.05):
        found = approximate_tpr(epsilon, delta, fpr)
        exact = 1.0 - float(analysis.get_beta_from_adp(epsilon, delta, fpr))
        assert found == pytest.approx(exact, abs=1e-12)
        pair = from_privacy_parameters(DifferentialPrivacyParameters(epsilon, delta))
        assert pld_tpr(pair, fpr) == pytest.approx(found, abs=1e-3)
    assert approximate_tpr(epsilon, 0.0, fpr, advantage=1e-4) == pytest.approx(fpr + 1e-4)


@pytest.mark.parametrize("fpr", RATES)
def test_a_privacy_loss_distribution(fpr):
    for scale in (0.3, 1.0, 4.0):
        distribution = from_laplace_mechanism(scale, value_discretization_interval=1e-3)
        theirs = 1.0 - float(analysis.get_beta_from_pld(distribution, fpr))
        # Theirs is the exact curve of the rounded distribution; ours may lie on a grid of ε above it.
        assert theirs - 1e-6 <= pld_tpr(distribution, fpr) <= theirs + 2e-3


def best_test(rows, fpr):
    """Return the power of the best test of two rows of a channel, by linear programming."""
    first, second = rows
    found = linprog(-first, A_ub=second[None], b_ub=[fpr], bounds=[(0, 1)] * len(first))
    return -found.fun


@pytest.mark.parametrize("fpr", RATES)
def test_randomised_response_reaches_its_ceiling(fpr):
    """The best of all tests of the reports of two answers, one column and several."""
    for columns in (
        [(2, 1.0)],
        [(5, 0.7)],
        [(10, 4.0)],
        [(2, 1.0), (3, 0.5)],
        [(2, 2.0), (2, 2.0), (4, 1.0)],
    ):
        channels = [RandomizedResponse(k, epsilon).matrix for k, epsilon in columns]
        rows = [channels[0][:2]]
        joint = rows[0]
        for matrix in channels[1:]:
            joint = np.stack([np.outer(joint[side], matrix[side]).ravel() for side in (0, 1)])
        found = randomised_response_tpr(columns, fpr)
        assert found == pytest.approx(best_test(joint, fpr), abs=1e-7)
        # No pair of answers is told apart better than one that differs in every column.
        sizes = [range(k) for k, _ in columns]
        for other in itertools.islice(itertools.product(*sizes), 12):
            row = np.ones(1)
            for matrix, answer in zip(channels, other, strict=True):
                row = np.outer(row, matrix[answer]).ravel()
            assert best_test((joint[0], row), fpr) <= found + 1e-7
        assert found <= approximate_tpr(sum(epsilon for _, epsilon in columns), 0.0, fpr) + 1e-12


@pytest.mark.parametrize("k", [2, 4])
def test_randomised_response_by_its_loss_distribution(k):
    for epsilon in (0.5, 3.0):
        noise = k / (math.exp(epsilon) + k - 1.0)
        pair = from_randomized_response(noise, k, value_discretization_interval=1e-4)
        for fpr in RATES:
            found = randomised_response_tpr([(k, epsilon)], fpr)
            assert found <= pld_tpr(pair, fpr) + 1e-12
            assert found == pytest.approx(pld_tpr(pair, fpr), abs=1e-3)
            # For two answers riskcal 1.5.1 does not interpolate below the probability of a lie.
            if k > 2:
                theirs = 1.0 - float(analysis.get_beta_from_pld(pair, fpr))
                assert found == pytest.approx(theirs, abs=1e-3)
            # The three lines of the closed form.
            lift = (math.exp(epsilon) - 1) / (math.exp(epsilon) + k - 1)
            lines = (math.exp(epsilon) * fpr, fpr + lift, 1 - math.exp(-epsilon) * (1 - fpr))
            assert found == pytest.approx(min(lines), abs=1e-12)


def test_no_randomisation_and_very_many_columns():
    assert randomised_response_tpr([(3, math.inf)], 0.01) == pytest.approx(1.0)
    assert randomised_response_tpr([(2, 0.01 + 0.001 * n) for n in range(40)], 0.01) < 0.05
    with pytest.raises(InputError, match="at least one column"):
        randomised_response_tpr([], 0.01)


@pytest.mark.parametrize("fpr", RATES)
def test_zero_concentrated_privacy(fpr):
    """Never below normal noise of the same budget, nor below what is proved with all orders; near the latter."""
    for rho in (0.001, 0.03, 0.5, 8.0):
        ours = zcdp_tpr(rho, fpr)
        theirs = 1.0 - float(analysis.get_beta_from_zcdp(rho, fpr))
        assert gaussian_tpr(math.sqrt(2.0 * rho), fpr) <= ours <= 1.0
        assert ours == pytest.approx(theirs, abs=5e-3)


def test_runs_of_dp_sgd():
    plan = calibrate_noise(1.0, delta=1e-5, sampling_probability=0.05, n_steps=100)
    for fpr in RATES:
        added, replaced = (sampled_tpr(plan, fpr, is_replaced=whom) for whom in (False, True))
        assert fpr < added < replaced < 1.0
        # The largest gain over all rates is the advantage, so none is above it.
        assert added - fpr <= 2 * attack_ceiling(plan) - 1 + 1e-9
        assert replaced - fpr <= sampled_advantage(plan) + 1e-9
        # At most as much as two changes of a record in a row.
        assert replaced <= approximate_tpr(2.0, 4e-5, fpr)
    # Each δ by itself, on a fine grid of ε.
    grid = np.linspace(0.0, 6.0, 3001)
    deltas = sampled_deltas(plan, is_replaced=True)(grid)
    slow = min(approximate_tpr(e, d, 0.01) for e, d in zip(grid[1:], deltas[1:], strict=True))
    assert sampled_tpr(plan, 0.01, is_replaced=True) == pytest.approx(slow, abs=1e-5)
    assert sampled_tpr(dataclasses.replace(plan, noise_multiplier=0.0), 0.01, is_replaced=True) == 1


def test_without_sampling_dp_sgd_is_normal_noise_about_a_record_that_counts_twice():
    """The accountant doubles the sensitivity of a replaced record itself; it must not be doubled again."""
    plan = calibrate_noise(1.0, delta=1e-5, sampling_probability=1.0, n_steps=10)
    mu = math.sqrt(10) / plan.noise_multiplier
    for fpr in (0.001, 0.01):
        for is_replaced, shift in ((False, mu), (True, 2 * mu)):
            found = sampled_tpr(plan, fpr, is_replaced=is_replaced)
            assert gaussian_tpr(shift, fpr) - 1e-9 <= found
            assert found == pytest.approx(gaussian_tpr(shift, fpr), rel=0.01)


@pytest.mark.parametrize(
    ("name", "is_gaussian"),
    [
        ("noisy-descent", True),
        ("output-perturbation", True),
        ("dp-ebm", True),
        ("dp-sgd", False),
        ("synthetic-aim", False),
    ],
)
def test_every_mechanism_states_its_ceilings(name, is_gaussian, small_task):
    task = small_task(400)
    for epsilon in (0.5, 4.0):
        for protects in ("answer", "record"):
            plan = mechanism_class(name).plan(task, epsilon=epsilon, delta=1e-5, protects=protects)
            assert (plan.mu is not None) == is_gaussian
            for fpr in CEILING_RATES.values():
                found = plan.tpr_ceiling(fpr)
                assert fpr < found <= fpr + plan.advantage + 1e-9
                if is_gaussian:
                    assert found == pytest.approx(1 - analysis.get_beta_from_gdp(plan.mu, fpr))


def test_the_fields_are_those_of_the_documents():
    assert set(CEILING_RATES) <= set(MechanismCell.model_fields)
    with pytest.raises(InputError):
        gaussian_tpr(1.0, 0.0)
    with pytest.raises(InputError):
        gaussian_tpr(-1.0, 0.01)

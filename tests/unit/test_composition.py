# SPDX-License-Identifier: Apache-2.0
"""Several releases together, against riskcal and against exact finite sums."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from epsilens.channels import RandomizedResponse
from epsilens.document import EarlierRelease
from epsilens.mechanisms import gaussian_advantage, joint_advantage
from epsilens.mechanisms._composition import compose
from epsilens.models.gaussian_release import epsilon_of_rho, rho_of_epsilon


def gaussian(epsilon: float, delta: float = 1e-6) -> EarlierRelease:
    mu = math.sqrt(2.0 * rho_of_epsilon(epsilon, delta))
    return EarlierRelease(
        receipt="g", mechanism="noisy-descent", epsilon=epsilon, delta=delta, mu=mu
    )


def response(epsilon: float, k: int) -> EarlierRelease:
    return EarlierRelease(
        receipt="r", mechanism="randomised-response", epsilon=epsilon, delta=0.0, n_categories=k
    )


def test_gaussian_releases_add_up_exactly():
    parts = [gaussian(0.5), gaussian(1.0), gaussian(0.3, 1e-7)]
    mu = math.sqrt(sum(part.mu**2 for part in parts))
    total = compose(parts)
    assert total.n_releases == 3
    assert total.delta == pytest.approx(2.1e-6, rel=1e-12)
    assert total.epsilon == epsilon_of_rho(mu**2 / 2.0, total.delta)
    assert total.epsilon < 1.8  # the sum of all ε
    assert total.advantage == pytest.approx(gaussian_advantage(mu), abs=1e-15)
    assert compose([gaussian(1.0)]).epsilon <= 1.0


@pytest.mark.parametrize(
    ("k", "epsilons"), [(2, (0.5, 1.0)), (5, (1.0, 1.0)), (3, (0.2, 0.7, 1.5))]
)
def test_randomised_response_adds_up_to_the_distance_of_the_product(k, epsilons):
    matrices = [RandomizedResponse(k=k, epsilon=epsilon).matrix for epsilon in epsilons]
    rows = [
        np.array([math.prod(one) for one in itertools.product(*(m[answer] for m in matrices))])
        for answer in (0, 1)
    ]
    exact = 0.5 * float(np.abs(rows[0] - rows[1]).sum())
    found = compose([response(epsilon, k) for epsilon in epsilons])
    # Losses are rounded up to a grid of 1e-4, once for each release.
    assert exact - 1e-9 <= found.advantage <= exact + 1e-4 * len(epsilons)
    assert found.delta == 0.0
    assert found.epsilon == pytest.approx(sum(epsilons), rel=1e-12)


def test_mixed_releases_are_those_of_a_direct_computation_and_of_riskcal():
    one, other = gaussian(1.0), response(0.5, 4)
    found = compose([one, other])
    fine = 1e-5
    direct = privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / one.mu, value_discretization_interval=fine
    ).compose(
        privacy_loss_distribution.from_randomized_response(
            4 / (math.exp(0.5) + 3), 4, value_discretization_interval=fine
        )
    )
    assert found.epsilon == pytest.approx(direct.get_epsilon_for_delta(1e-6), abs=5e-4)
    assert found.epsilon >= direct.get_epsilon_for_delta(1e-6) - 1e-9
    from riskcal.analysis import get_beta_from_pld

    # Advantage: the largest 1 − α − β of the trade-off curve.
    alphas = np.linspace(0.0, 1.0, 20_001)
    riskcal = float((1.0 - alphas - get_beta_from_pld(direct, alphas)).max())
    assert found.advantage == pytest.approx(riskcal, abs=2e-4)
    assert found.advantage <= joint_advantage([gaussian_advantage(one.mu), 1.0]) + 1e-12
    product = joint_advantage(
        [gaussian_advantage(one.mu), RandomizedResponse(k=4, epsilon=0.5).advantage]
    )
    assert found.advantage < product


def test_a_release_of_which_only_epsilon_and_delta_are_known_counts_at_its_worst():
    known = EarlierRelease(receipt="a", mechanism="dp-sgd", epsilon=1.0, delta=1e-6)
    total = compose([gaussian(1.0), known])
    assert compose([gaussian(1.0), gaussian(1.0)]).epsilon < total.epsilon <= 2.0
    assert total.delta == pytest.approx(2e-6)


@pytest.mark.parametrize("epsilon", [math.inf, 1000.0])
def test_releases_that_protect_nobody_are_added_up_without_a_distribution(epsilon):
    total = compose([gaussian(1.0), response(epsilon, 2)])
    assert total.epsilon >= epsilon
    assert total.advantage == pytest.approx(1.0)

"""Advantages against an independent library, against sums, and against attackers who know everything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import (
    from_gaussian_mechanism,
    from_laplace_mechanism,
)
from riskcal import analysis

from epsilens.channels import RandomizedResponse
from epsilens.errors import InputError
from epsilens.mechanisms import (
    answer_ceiling,
    approximate_advantage,
    gaussian_advantage,
    guess_ceiling,
    inference_ceiling,
    joint_advantage,
    pld_advantage,
    replaced_advantage,
    zcdp_advantage,
)


@pytest.mark.parametrize("mu", [0.01, 0.268, 1.0, 3.0, 9.0])
def test_normal_noise(mu):
    assert gaussian_advantage(mu) == pytest.approx(analysis.get_advantage_from_gdp(mu), abs=1e-12)
    # Rounded up on a grid of losses, never down.
    found = pld_advantage(from_gaussian_mechanism(1.0 / mu, value_discretization_interval=1e-4))
    assert gaussian_advantage(mu) - 1e-9 <= found <= gaussian_advantage(mu) + 1e-3


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_a_privacy_loss_distribution(scale):
    distribution = from_laplace_mechanism(scale)
    assert pld_advantage(distribution) == pytest.approx(
        analysis.get_advantage_from_pld(distribution), abs=1e-9
    )
    assert pld_advantage(distribution) == pytest.approx(-math.expm1(-0.5 / scale), abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.05])
def test_epsilon_and_delta(epsilon, delta):
    assert approximate_advantage(epsilon, delta) == pytest.approx(
        analysis.get_advantage_from_adp(epsilon, delta), abs=1e-12
    )
    if not delta:
        assert approximate_advantage(epsilon, 0.0) == pytest.approx(
            RandomizedResponse(2, epsilon).advantage
        )


@pytest.mark.parametrize("rho", [0.001, 0.03, 0.5, 2.0, 8.0])
def test_zero_concentrated_privacy(rho):
    """Never below what is proved with all orders, which is never below normal noise of the same budget."""
    ours = zcdp_advantage(rho)
    assert ours >= analysis.get_advantage_from_zcdp(rho) - 1e-6
    assert ours >= gaussian_advantage(math.sqrt(2.0 * rho))
    assert ours <= math.sqrt(rho / 2.0)  # Pinsker
    # It is attained by the pair of coins that the proof names.
    p, q = (1.0 + ours) / 2.0, (1.0 - ours) / 2.0
    entropy = p * math.log(p / q) + q * math.log(q / p)
    assert entropy == pytest.approx(rho, rel=1e-6)


def test_what_is_accounted_for_added_records_is_doubled():
    """Of a sum with sensitivity 1, adding moves it by 1, replacing by 2: distances add up."""
    for sigma in (0.5, 2.0, 8.0):
        added, replaced = gaussian_advantage(1.0 / sigma), gaussian_advantage(2.0 / sigma)
        assert replaced <= replaced_advantage(added) + 1e-15
    assert replaced_advantage(0.9) == 1.0


def test_several_releases_together():
    one, other = RandomizedResponse(2, 1.0), RandomizedResponse(3, 2.0)
    joint = np.abs(
        np.outer(one.matrix[0], other.matrix[0]) - np.outer(one.matrix[1], other.matrix[1])
    )
    assert joint.sum() / 2.0 <= joint_advantage([one.advantage, other.advantage])


def test_no_attacker_passes_the_ceiling():
    """Random channels and priors: the best guess, person by person, against b + (1 − b)·advantage."""
    rng = np.random.default_rng(0)
    closest = 0.0
    for _ in range(4000):
        k = int(rng.integers(2, 6))
        rows = rng.dirichlet(np.full(int(rng.integers(2, 7)), rng.choice([0.2, 1.0, 5.0])), size=k)
        prior = rng.dirichlet(np.ones(k))
        right = float((prior[:, None] * rows).max(axis=0).sum())
        share = 0.5 * np.abs(rows[:, None] - rows[None]).sum(axis=2).max()
        ceiling = guess_ceiling(float(prior.max()), min(float(share), 1.0))
        assert right <= ceiling + 1e-12
        closest = max(closest, right / ceiling)
    assert closest > 0.995


def test_the_ceiling_is_never_higher_than_by_epsilon_alone():
    for epsilon in (0.1, 1.0, 4.0):
        for k in (2, 3, 10):
            channel = RandomizedResponse(k, epsilon)
            for b in np.linspace(0.01, 1.0, 25):
                found = answer_ceiling(float(b), epsilon=epsilon, advantage=channel.advantage)
                assert found <= inference_ceiling(float(b), epsilon)
                assert found <= guess_ceiling(float(b), channel.advantage)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan])
def test_what_is_no_share_is_refused(wrong):
    with pytest.raises(InputError):
        replaced_advantage(wrong)
    with pytest.raises(InputError):
        guess_ceiling(0.5, wrong)

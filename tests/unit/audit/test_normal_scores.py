# SPDX-License-Identifier: Apache-2.0
"""The audit that takes scores to be normal: how often it errs, where it is refused, and how far it reaches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from epsilens.audit import (
    GaussianSum,
    InnerProduct,
    OneRunAudit,
    draw_inclusion,
    gaussian_delta,
    gaussian_epsilon,
    one_run_bound,
)
from epsilens.audit.normal_scores import normal_mu_bound
from epsilens.errors import ApproximationWarning, InputError

DELTA = 1e-6


def of_a_sum(epsilon, seed, *, m=250, d=1000, score=None, **more):
    """Return coins and scores of one run of a noisy sum in random directions."""
    rng = np.random.default_rng([seed, m, d])
    mechanism = GaussianSum(
        epsilon, DELTA, dimension=d, generator=np.random.default_rng([seed, 1]), **more
    )
    canaries = mechanism.canaries(m, rng)
    included = draw_inclusion(m, rng)
    output = mechanism(canaries.dataset(included))
    return included, (score or mechanism.score())(output, canaries)


def bound(included, scores, *, delta=DELTA):
    """Return the bound, or None where the method is refused."""
    try:
        mu = normal_mu_bound(included, scores, level=0.05)
    except InputError:
        return None
    return gaussian_epsilon(mu, delta)


@pytest.mark.slow
@pytest.mark.parametrize("score", [None, InnerProduct()], ids=["mmse", "inner product"])
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 8.0])
def test_it_is_above_the_truth_in_five_of_a_hundred_audits_at_most(epsilon, score):
    n = 200  # benchmarks/audit_coverage.py does the same with 1,000 and more canaries
    found = [bound(*of_a_sum(epsilon, seed, score=score)) for seed in range(n)]
    above = [one for one in found if one is not None and one > epsilon]
    assert len(above) <= 0.05 * n + 2.0 * math.sqrt(0.05 * 0.95 * n)
    assert found.count(None) <= 0.05 * n


def test_many_canaries_in_few_dimensions_stay_below_the_truth():
    """Scores that depend on each other cost strength: every canary disturbs all others."""
    found = [bound(*of_a_sum(3.0, seed, m=500, d=20)) for seed in range(60)]
    assert max(one for one in found if one is not None) < 3.0


@pytest.mark.parametrize(("nominal", "truth", "least"), [(8.0, 7.87, 6.5), (16.0, 18.31, 13.0)])
@pytest.mark.slow
def test_the_points_of_the_homework(nominal, truth, least):
    """A thousand canaries in ten thousand dimensions, the noise as printed: means of four audits."""
    found = [
        one_run_bound(
            *of_a_sum(nominal, seed, m=1000, d=10_000, noise="printed"),
            delta=DELTA,
            method="gaussian-scores",
        ).epsilon_lower_bound
        for seed in range(4)
    ]
    assert least < np.mean(found) < truth


def laplace(included, rng):
    """Pure ε = 3 by Laplace noise, a direction for each canary: its tails are no normal ones."""
    return included + rng.laplace(scale=1.0 / 3.0, size=included.size)


def uniform(included, rng):
    return included + rng.uniform(-1.0, 1.0, size=included.size)


def answers(included, rng):
    truth = rng.random(included.size) < 0.95
    return np.where(truth == included, 1.0, -1.0)


def two_levels(included, rng):
    """Every canary has much or little noise of its own."""
    return included + np.where(rng.random(included.size) < 0.5, 0.2, 1.0) * rng.normal(
        size=included.size
    )


@pytest.mark.parametrize("channel", [laplace, uniform, answers, two_levels])
def test_scores_that_are_not_normal_are_refused(channel):
    rng = np.random.default_rng(0)
    for _ in range(50):
        included = rng.random(1000) < 0.5
        assert bound(included, channel(included, rng)) is None


def test_a_level_that_is_drawn_once_for_all_canaries_breaks_a_named_assumption():
    """One run shows one level. The mixture leaks nearly as much as its worst level, and not quite."""
    rng = np.random.default_rng(0)
    shifts = (1.0, 2.5)

    def delta_of(epsilon):
        return 0.5 * sum(gaussian_delta(mu, epsilon) for mu in shifts)

    low, high = 0.0, 40.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if delta_of(middle) > DELTA else (low, middle)
    found = []
    for _ in range(400):
        included = rng.random(1000) < 0.5
        mu = shifts[int(rng.random() < 0.5)]
        found.append(bound(included, mu * included + rng.normal(size=1000)))
    above = sum(one is not None and one > high for one in found)
    assert 0.05 < above / 400 < 0.12
    found = one_run_bound(
        included, 2.0 * included + rng.normal(size=1000), delta=DELTA, method="gaussian-scores"
    )
    assert "one noise level" in found.assumptions


@pytest.mark.parametrize("spreads", [(1.0, 1.4), (1.4, 1.0)])
def test_the_larger_spread_is_a_lower_bound(spreads):
    """The δ of two normal laws is at least that of the same distance in the larger of their spreads."""
    a, b = spreads
    at = np.linspace(-12.0, 12.0, 40_001)
    for epsilon in (0.5, 2.0, 5.0):
        inside, outside = norm(2.0, a), norm(0.0, b)
        events = np.concatenate(
            [
                inside.sf(at) - math.exp(epsilon) * outside.sf(at),
                outside.cdf(at) - math.exp(epsilon) * inside.cdf(at),
            ]
        )
        assert events.max() >= gaussian_delta(2.0 / 1.4, epsilon)
    rng = np.random.default_rng(1)
    included = rng.random(4000) < 0.5
    scores = np.where(included, 2.0 + a * rng.normal(size=4000), b * rng.normal(size=4000))
    assert normal_mu_bound(included, scores, level=0.05) < 2.0 / 1.4


def test_the_quick_bound_is_the_one_of_simulated_laws():
    """The noncentral t against its definition: at the bound, as much is seen in one of twenty runs."""
    rng = np.random.default_rng(5)
    included = rng.random(240) < 0.5
    scores = 1.5 * included + rng.normal(size=240)
    found = normal_mu_bound(included, scores, level=0.05)

    def distance(values):
        inside, outside = values[..., included], values[..., ~included]
        spread = np.sqrt(
            ((included.sum() - 1) * inside.var(axis=-1, ddof=1))
            + ((~included).sum() - 1) * outside.var(axis=-1, ddof=1)
        ) / math.sqrt(238)
        return (inside.mean(axis=-1) - outside.mean(axis=-1)) / spread

    runs = distance(found * included + rng.normal(size=(40_000, 240)))
    share = float(np.mean(runs >= distance(scores)))
    assert share == pytest.approx(0.05, abs=4.0 * math.sqrt(0.05 * 0.95 / 40_000))


def test_nothing_is_proved_by_scores_that_tell_nothing():
    rng = np.random.default_rng(3)
    included = rng.random(400) < 0.5
    assert normal_mu_bound(included, -1.0 * included + rng.normal(size=400), level=0.05) == 0.0
    assert normal_mu_bound(included, np.full(400, 5.0) + rng.normal(size=400), level=1e-6) == 0.0


def test_what_does_not_fit_is_refused_in_one_line():
    rng = np.random.default_rng(4)
    included = np.arange(150) % 2 == 0
    scores = rng.normal(size=150)
    with (
        pytest.warns(ApproximationWarning, match="half"),
        pytest.raises(InputError, match="fewer than 100 canaries"),
    ):
        one_run_bound(included, scores, delta=DELTA, method="gaussian-scores")
    with pytest.raises(InputError, match="delta"):
        one_run_bound(included, scores, method="gaussian-scores")
    audit = OneRunAudit(GaussianSum(4.0, DELTA, dimension=600), canaries=400)
    audit.method, audit.selection = "gaussian-scores", "path"
    with pytest.raises(InputError, match="makes no guesses"):
        audit.run(random_state=0)
    audit.selection = None
    result = audit.run(random_state=0)
    assert result.bound.assumptions == ["normal scores", "independent scores", "one noise level"]
    assert [note.code for note in result.notes] == ["normal-scores-assumed"]
    assert 0.0 < result.epsilon_lower_bound < 4.0

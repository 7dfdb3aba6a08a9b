from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from epsilens.channels import RandomizedResponse
from epsilens.influence import summarise_group
from epsilens.influence.label_noise import (
    FEW_CHANGES,
    MANY_CHANGES,
    _bernoulli_places,
    draw_along,
    draw_runs,
    flip_probability,
    root_of,
)
from epsilens.models import Design, LogisticLoss, Problem, SoftmaxLoss, SquaredLoss

N_DRAWS = 20_000


@pytest.fixture(scope="module", params=["binary", "four values", "three classes"])
def case(request):
    rng = np.random.default_rng(20)
    n = 5000
    values, loss = {
        "binary": (np.array([0.0, 1.0]), LogisticLoss()),
        "four values": (np.array([0.0, 1.0, 2.0, 5.0]), SquaredLoss()),
        "three classes": (np.arange(3.0), SoftmaxLoss(3)),
    }[request.param]
    design = Design.from_features(rng.normal(size=(n, 2)))
    problem = Problem(design, rng.uniform(0.5, 2.0, n), loss, np.full(3, 0.01))
    mask = rng.random(n) < 0.8
    codes = rng.integers(0, len(values), n)
    noise = summarise_group(problem, codes, loss.statistic(values), mask)
    channels = [RandomizedResponse(len(values), epsilon).matrix for epsilon in (0.2, 4.0, 6.0)]
    runs = draw_runs(problem, noise, channels, n_draws=N_DRAWS, seed=np.random.SeedSequence(21))
    return noise, channels, runs


def test_few_changes_are_drawn_and_many_are_normal(case):
    noise, channels, runs = case
    few = {
        e
        for e, P in enumerate(channels)
        if noise.evenness * noise.expected_changes(P) < MANY_CHANGES
        or noise.expected_changes(P) < FEW_CHANGES
    }
    assert set(runs.drawn) == few == {1, 2}
    assert runs.n_draws == N_DRAWS


def test_both_kinds_have_the_mean_and_covariance_of_the_channel(case):
    noise, channels, runs = case
    for e, P in enumerate(channels):
        C, drawn = noise.covariance(P), runs.deviations(e)
        root, standard = runs.factors(e)
        np.testing.assert_allclose(root @ standard, drawn, atol=1e-6 * np.sqrt(C.max()))
        # Five standard errors of a mean; of a covariance with the excess of rare events.
        spread = np.sqrt(np.diag(C))
        np.testing.assert_array_less(np.abs(drawn.mean(axis=1)), 5 * spread / np.sqrt(N_DRAWS))
        error = np.abs(np.cov(drawn) - C) / np.outer(spread, spread)
        excess = 3.0 / max(noise.evenness * noise.expected_changes(P), 1.0)
        np.testing.assert_array_less(error, 5 * np.sqrt((2 + 20 * excess) / N_DRAWS))


def test_a_drawn_run_is_a_sum_over_independent_records(case):
    """Against really flipping every label of the group, run by run."""
    noise, channels, _ = case
    P = channels[2]
    k = len(P)
    rng = np.random.default_rng(22)
    members = np.flatnonzero(noise.mask)
    truth = noise.codes[members]
    totals = []
    for _ in range(1500):
        u = rng.random(len(members))
        report = (u[:, None] > np.cumsum(P[truth], axis=1)).sum(axis=1).clip(max=k - 1)
        totals.append(float((noise.statistics[report] - noise.statistics[truth])[:, 0].sum()))
    # With all features at 1 and weights 1 the first coordinate counts the moves of the statistic.
    problem = Problem(
        Design.plain(np.ones((len(noise.mask), 1))),
        np.ones(len(noise.mask)),
        {1: LogisticLoss(), 3: SoftmaxLoss(3)}[noise.statistics.shape[1]],
        np.zeros(1),
    )
    plain = summarise_group(problem, noise.codes, noise.statistics, noise.mask)
    drawn = draw_runs(problem, plain, [P], n_draws=1500, seed=np.random.SeedSequence(23))
    assert 0 in drawn.drawn
    sums = (drawn.deviations(0)[0] + plain.shift(P)[0]) * problem.n_rows
    assert kstest(np.round(sums), totals).pvalue > 1e-3


def test_what_changes_at_one_epsilon_changes_at_every_smaller_one(case):
    noise, channels, runs = case
    apart = runs.deviations(1) + noise.shift(channels[1])[:, None]
    further = runs.deviations(2) + noise.shift(channels[2])[:, None]
    assert np.corrcoef(apart[0], further[0])[0, 1] > 0.2


def test_the_same_seed_gives_the_same_runs(case):
    noise, channels, _ = case
    design = Design.from_features(np.random.default_rng(1).normal(size=(len(noise.mask), 2)))
    problem = Problem(design, np.ones(len(noise.mask)), SquaredLoss(), np.zeros(3))
    if noise.statistics.shape[1] > 1:
        problem = Problem(design, problem.weights, SoftmaxLoss(3), np.zeros(3))
    one, other = (
        draw_runs(problem, noise, channels, n_draws=30, seed=np.random.SeedSequence(4))
        for _ in range(2)
    )
    for e in range(3):
        np.testing.assert_array_equal(one.deviations(e), other.deviations(e))


def test_an_uneven_channel_is_drawn_label_by_label():
    rng = np.random.default_rng(24)
    problem = Problem(
        Design.from_features(rng.normal(size=(3000, 2))),
        np.ones(3000),
        LogisticLoss(),
        np.zeros(3),
    )
    noise = summarise_group(
        problem, rng.integers(0, 2, 3000), np.array([[0.0], [1.0]]), np.ones(3000, dtype=bool)
    )
    P = np.array([[0.6, 0.4], [0.2, 0.8]])
    assert flip_probability(P) is None
    runs = draw_runs(problem, noise, [P], n_draws=4000, seed=np.random.SeedSequence(2))
    C = noise.covariance(P)
    # Five standard errors of a variance over 4,000 draws.
    np.testing.assert_allclose(
        runs.deviations(0).var(axis=1), np.diag(C), rtol=5 * np.sqrt(2 / 4000)
    )


def test_the_root_of_a_singular_covariance_has_its_rank():
    A = np.random.default_rng(25).normal(size=(6, 2)) * 1e-9
    root = root_of(A @ A.T)
    assert root.shape == (6, 2)
    np.testing.assert_allclose(root @ root.T, A @ A.T, rtol=1e-9, atol=1e-32)
    assert root_of(np.zeros((3, 3))).shape == (3, 0)


@pytest.mark.parametrize("probability", [0.001, 0.3, 1.0])
def test_places_of_successes_are_those_of_independent_trials(probability):
    rng = np.random.default_rng(26)
    n = 50_000
    places = _bernoulli_places(rng, n, probability)
    assert len(np.unique(places)) == len(places)
    assert places.min() >= 0
    assert places.max() < n
    # Five standard errors of a binomial count, in each half.
    for part in (places < n // 2, places >= n // 2):
        error = 5 * np.sqrt(n / 2 * probability * (1 - probability)) + 1e-9
        assert abs(part.sum() - n / 2 * probability) <= error


def test_along_a_direction_runs_follow_the_same_law(case):
    """Mean and variance of v·δ, and the same distribution as whole runs projected on v."""
    noise, channels, _ = case
    rng = np.random.default_rng(27)
    n = len(noise.mask)
    K = noise.statistics.shape[1]
    problem = Problem(
        Design.from_features(rng.normal(size=(n, 2))),
        rng.uniform(0.5, 2.0, n),
        SoftmaxLoss(3) if K == 3 else SquaredLoss(),
        np.zeros(3),
    )
    own = summarise_group(problem, noise.codes, noise.statistics, noise.mask)
    v = rng.normal(size=3 * K)
    seed = np.random.SeedSequence(28)
    along = draw_along(problem, own, channels, v, n_draws=4000, seed=seed)
    whole = draw_runs(problem, own, channels, n_draws=4000, seed=np.random.SeedSequence(29))
    assert along.shape == (3, 4000)
    for e, P in enumerate(channels):
        variance = float(v @ own.covariance(P) @ v)
        # Five standard errors over 4,000 draws; rare events have heavier tails.
        assert abs(along[e].mean()) < 5 * np.sqrt(variance / 4000)
        assert along[e].var() == pytest.approx(variance, rel=5 * np.sqrt(4 / 4000))
        assert kstest(along[e], v @ whole.deviations(e)).pvalue > 1e-3

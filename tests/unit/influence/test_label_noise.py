from __future__ import annotations

import numpy as np
import pytest

from epsilens.channels import RandomizedResponse
from epsilens.influence import draw_linear_noise, summarise_group
from epsilens.influence.label_noise import draw_changes
from epsilens.models import Design, LogisticLoss, Problem, SoftmaxLoss, SquaredLoss


@pytest.fixture(scope="module", params=["binary", "four values", "three classes"])
def case(request):
    rng = np.random.default_rng(10)
    n = 80
    values, loss = {
        "binary": (np.array([0.0, 1.0]), LogisticLoss()),
        "four values": (np.array([0.0, 1.0, 2.0, 5.0]), SquaredLoss()),
        "three classes": (np.arange(3.0), SoftmaxLoss(3)),
    }[request.param]
    design = Design.from_features(rng.normal(size=(n, 3)))
    problem = Problem(design, rng.uniform(0.5, 2.0, n), loss, np.full(4, 0.01))
    codes = rng.integers(0, len(values), n)
    mask = rng.random(n) < 0.6
    return problem, codes, values, mask


def test_moments_equal_the_sums_over_records(case):
    problem, codes, values, mask = case
    statistics = problem.loss.statistic(values)
    noise = summarise_group(problem, codes, statistics, mask)
    P = RandomizedResponse(len(values), 0.7).matrix
    X, w, n = problem.design.matrix, problem.weights, problem.n_rows
    size = 4 * problem.loss.n_outputs
    shift, covariance = np.zeros(size), np.zeros((size, size))
    for i in np.flatnonzero(mask):
        row = P[codes[i]]
        expected = row @ statistics
        centred = statistics - expected
        variance = (row[:, None] * centred).T @ centred
        shift += w[i] * np.kron(expected - statistics[codes[i]], X[i]) / n
        covariance += w[i] ** 2 * np.kron(variance, np.outer(X[i], X[i])) / n**2
    np.testing.assert_allclose(noise.shift(P), shift, atol=1e-14)
    np.testing.assert_allclose(noise.covariance(P), covariance, atol=1e-16)
    assert noise.expected_changes(P) == pytest.approx(mask.sum() * (1 - P[0, 0]))


def test_drawn_noise_has_the_mean_and_covariance_of_the_channel(case):
    problem, codes, values, mask = case
    noise = summarise_group(problem, codes, problem.loss.statistic(values), mask)
    channels = [RandomizedResponse(len(values), epsilon).matrix for epsilon in (0.3, 2.0)]
    n_draws = 20_000
    runs = draw_linear_noise(
        problem, noise, channels, n_draws=n_draws, seed=np.random.SeedSequence(0)
    )
    assert runs.shape == (2, 4 * problem.loss.n_outputs, n_draws)
    for P, drawn in zip(channels, runs, strict=True):
        C = noise.covariance(P)
        # Five standard errors of a mean and of a variance over 20,000 draws.
        np.testing.assert_array_less(np.abs(drawn.mean(axis=1)), 5 * np.sqrt(np.diag(C) / n_draws))
        scale = np.sqrt(np.outer(np.diag(C), np.diag(C)))
        np.testing.assert_array_less(
            np.abs(np.cov(drawn.astype(float)) - C) / scale, 5 * np.sqrt(2 / n_draws)
        )


def test_a_direction_is_the_projection_of_the_whole(case):
    problem, codes, values, mask = case
    noise = summarise_group(problem, codes, problem.loss.statistic(values), mask)
    channels = [RandomizedResponse(len(values), 1.0).matrix]
    seed = np.random.SeedSequence(3)
    whole = draw_linear_noise(problem, noise, channels, n_draws=50, seed=seed)
    v = np.resize([1.0, -2.0, 0.5, 3.0, 0.7], 4 * problem.loss.n_outputs)
    seed = np.random.SeedSequence(3)
    along = draw_linear_noise(problem, noise, channels, n_draws=50, seed=seed, direction=v)
    np.testing.assert_allclose(along[0, 0], v @ whole[0], atol=1e-6)


def test_no_noise_at_infinite_epsilon(case):
    problem, codes, values, mask = case
    noise = summarise_group(problem, codes, problem.loss.statistic(values), mask)
    P = RandomizedResponse(len(values), np.inf).matrix
    np.testing.assert_array_equal(noise.shift(P), 0.0)
    np.testing.assert_array_equal(noise.covariance(P), 0.0)
    runs = draw_linear_noise(problem, noise, [P], n_draws=30, seed=np.random.SeedSequence(1))
    np.testing.assert_array_equal(runs, 0.0)


@pytest.mark.parametrize("epsilon", [42.0, 50.0, 100.0, 800.0])
def test_a_lie_that_never_happens_is_not_drawn(epsilon):
    lies = np.array([RandomizedResponse(2, epsilon).matrix[0, 1]])
    changes = draw_changes(
        10_000, 2, lies, highest=0.02, n_draws=400, seed=np.random.SeedSequence(0)
    )
    assert len(changes.record) == 0

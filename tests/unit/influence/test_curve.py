"""A group's curve against every Hessian and every noise term taken at the place itself."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.influence import Evaluation, noise_terms_at, summarise_group
from epsilens.influence.baseline import TrainedModel
from epsilens.influence.curve import lobatto, trace
from epsilens.models import (
    Design,
    LogisticLoss,
    Problem,
    SoftmaxLoss,
    SquaredLoss,
    factorise,
    minimise,
)


def channel_at(t, k):
    return np.eye(k) + t * (1.0 - k * np.eye(k))


@pytest.fixture(scope="module", params=["logistic", "three classes", "squared"])
def case(request):
    rng = np.random.default_rng(40)
    n, m, p = 1500, 300, 3
    X, X_test = rng.normal(size=(n, p)), rng.normal(size=(m, p))
    k = 3 if request.param == "three classes" else 2
    B = rng.normal(size=(p, k)) * 1.5
    y, y_test = ((Z @ B + rng.gumbel(size=(len(Z), k))).argmax(axis=1) for Z in (X, X_test))
    loss = {
        "logistic": LogisticLoss(),
        "three classes": SoftmaxLoss(3),
        "squared": SquaredLoss(),
    }[request.param]
    design = Design.from_features(X)
    problem = Problem(design, rng.uniform(0.5, 2.0, n), loss, np.array([0.01] * p + [0.0]))
    test = Design.from_features(X_test, like=design)
    evaluation = Evaluation(test, y_test.astype(float), np.full(m, 1 / m), loss, True)
    linear = problem.linear_term(loss.statistic(y.astype(float)))
    theta = minimise(problem, linear[:, None], np.zeros((problem.n_parameters, 1))).theta[:, 0]
    ground = TrainedModel(
        problem=problem,
        evaluation=evaluation,
        label=None,
        class_weight=None,
        theta=theta,
        linear=linear,
        curvature=factorise(problem.hessian(theta)),
        outcomes=evaluation.outcomes(theta),
        coefficients=theta,
        intercept=theta,
        is_classifier=True,
        notes=(),
    )
    masks = [rng.random(n) < 0.1, np.ones(n, dtype=bool)]
    statistics = loss.statistic(np.arange(float(k)))
    noises = [summarise_group(problem, y, statistics, mask) for mask in masks]
    largest_t = 0.98 / k
    curves = trace(ground, noises, largest_t)
    return ground, noises, curves, k, largest_t


@pytest.mark.parametrize("share", [1e-4, 0.07, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("group", [0, 1])
def test_between_the_nodes_the_curve_equals_the_cell_itself(case, group, share):
    ground, noises, curves, k, largest_t = case
    t, curve, problem = share * largest_t, curves[group], ground.problem
    P = channel_at(t, k)
    start = curve.starts(np.array([t]))
    solution = minimise(
        problem, (ground.linear + noises[group].shift(P))[:, None], start, tolerance=1e-10
    )
    theta = solution.theta[:, 0]
    H = problem.hessian(theta)
    moved = np.sqrt((theta - ground.theta) @ H @ (theta - ground.theta))
    missed = np.sqrt((start[:, 0] - theta) @ H @ (start[:, 0] - theta))
    assert missed <= 0.01 * moved + 1e-8
    np.testing.assert_allclose(curve.hessian(t), H, atol=5e-3 * np.abs(H).max())
    (terms,) = noise_terms_at(
        problem,
        ground.evaluation,
        theta[:, None],
        [factorise(H)],
        [noises[group].covariance(P)],
    )
    bias = -0.5 * factorise(curve.hessian(t)).solve(curve.third(t))
    scale = np.abs(terms.bias).max()
    np.testing.assert_allclose(bias, terms.bias, atol=0.02 * scale + 1e-15)
    (spread,) = curve.noise(np.array([t])).spreads(ground.evaluation.design)
    sigma = factorise(H).sandwich(noises[group].covariance(P))
    expected = ground.evaluation.design.quadratic(sigma)
    # It decides in which cells runs are solved to check the rest, and enters no number; it is the least
    # smooth of all.
    np.testing.assert_allclose(spread, expected, atol=0.25 * np.abs(expected).max())


def test_a_large_group_gets_more_nodes_than_a_small_one(case):
    ground, _, (small, large), _, _ = case
    assert len(small.nodes) <= len(large.nodes)
    assert len(large.nodes) > 3 or ground.problem.is_quadratic


@pytest.mark.parametrize("n", [2, 4, 8])
def test_the_points_nest(n):
    np.testing.assert_allclose(lobatto(2 * n)[::2], lobatto(n), atol=1e-15)

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from epsilens.errors import EstimateNotTrustworthyError
from epsilens.models import (
    Design,
    LogisticLoss,
    Problem,
    SoftmaxLoss,
    SquaredLoss,
    factorise,
    minimise,
)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 4))
    design = Design.from_features(X)
    penalty = np.array([0.01] * 4 + [0.0])
    return Problem(design, rng.uniform(0.5, 2.0, 400), LogisticLoss(), penalty)


@pytest.fixture(scope="module")
def labels():
    return (np.random.default_rng(5).random((400, 12)) < 0.4).astype(float)


def test_gradient_and_hessian_agree_with_finite_differences(problem, labels):
    theta = np.random.default_rng(6).normal(size=5)
    linear = problem.linear_term(labels[:, [0]])
    h = 1e-6  # central differences: rounding 1e-16/h and error h² both near 1e-10
    gradient = problem.gradient(theta[:, None], linear[:, None])[:, 0]
    numeric = [
        (problem.objective(theta + h * e, linear) - problem.objective(theta - h * e, linear))
        / (2 * h)
        for e in np.eye(5)
    ]
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)
    stretched = np.array(
        [
            problem.gradient((theta + h * e)[:, None], linear[:, None])[:, 0]
            - problem.gradient((theta - h * e)[:, None], linear[:, None])[:, 0]
            for e in np.eye(5)
        ]
    )
    np.testing.assert_allclose(problem.hessian(theta), stretched / (2 * h), atol=1e-8)


def test_many_problems_side_by_side_equal_each_alone(problem, labels):
    linear = problem.linear_term(labels[:, None, :])
    start = np.zeros((5, 12))
    together = minimise(problem, linear, start, clusters=np.zeros(12, dtype=np.intp))
    assert together.converged.all()
    assert together.gradient_norm.max() <= 1e-8
    for j in range(12):
        alone = minimise(problem, linear[:, [j]], start[:, [j]])
        np.testing.assert_allclose(together.theta[:, j], alone.theta[:, 0], atol=1e-7)


def test_the_minimum_is_the_one_a_general_optimiser_finds(problem, labels):
    linear = problem.linear_term(labels[:, [0]])
    slow = minimize(
        problem.objective,
        np.zeros(5),
        args=(linear,),
        jac=lambda theta, b: problem.gradient(theta[:, None], b[:, None])[:, 0],
        tol=1e-12,
    )
    fast = minimise(problem, linear[:, None], np.zeros((5, 1)))
    np.testing.assert_allclose(fast.theta[:, 0], slow.x, atol=1e-6)


def test_a_start_far_away_is_brought_back(problem, labels):
    linear = problem.linear_term(labels[:, [0]])[:, None]
    near = minimise(problem, linear, np.zeros((5, 1)))
    far = minimise(problem, linear, np.full((5, 1), 30.0))
    assert far.converged.all()
    np.testing.assert_allclose(far.theta, near.theta, atol=1e-7)


def test_one_step_is_exact_for_squared_loss(problem, labels):
    squared = Problem(problem.design, problem.weights, SquaredLoss(), problem.penalty)
    linear = squared.linear_term(2 * labels[:, None, :])
    solution = minimise(squared, linear, np.zeros((5, 12)), clusters=np.zeros(12, dtype=np.intp))
    assert solution.converged.all()
    assert solution.n_gradients <= 36


def test_a_flat_objective_is_reported_not_inverted():
    with pytest.raises(EstimateNotTrustworthyError, match="regularisation"):
        factorise(np.zeros((2, 2)))
    with pytest.raises(EstimateNotTrustworthyError, match="not finite"):
        factorise(np.full((2, 2), np.nan))


def test_solving_with_a_factor():
    rng = np.random.default_rng(7)
    half = rng.normal(size=(6, 4))
    H = half.T @ half + np.eye(4)
    curvature = factorise(H)
    M = half.T @ half
    inverse = np.linalg.inv(H)
    np.testing.assert_allclose(curvature.sandwich(M), inverse @ M @ inverse, atol=1e-12)
    # LAPACK estimates the 1-norm condition from below, by a small factor at most.
    true = np.linalg.cond(H, 1)
    assert true / 10 <= curvature.condition <= true * 1.001


def test_softmax_gradient_and_hessian_agree_with_finite_differences():
    rng = np.random.default_rng(8)
    design = Design.from_features(rng.normal(size=(60, 2)))
    problem = Problem(design, rng.uniform(0.5, 2, 60), SoftmaxLoss(3), np.array([0.1, 0.1, 0.0]))
    theta = rng.normal(size=9)
    linear = problem.linear_term(problem.loss.statistic(rng.integers(0, 3, 60).astype(float)))
    h = 1e-6
    steps = h * np.eye(9)
    numeric = [
        (problem.objective(theta + e, linear) - problem.objective(theta - e, linear)) / (2 * h)
        for e in steps
    ]

    def gradient(at):
        return problem.gradient(at[:, None], linear[:, None])[:, 0]

    np.testing.assert_allclose(gradient(theta), numeric, atol=1e-8)
    bent = np.array([gradient(theta + e) - gradient(theta - e) for e in steps]) / (2 * h)
    np.testing.assert_allclose(problem.hessian(theta), bent, atol=1e-8)
    solution = minimise(problem, linear[:, None], np.zeros((9, 1)))
    assert solution.converged.all()
    # The mean over the classes is held at zero, where an l2 penalty has its optimum anyway.
    np.testing.assert_allclose(solution.theta.reshape(3, 3).mean(axis=0), 0.0, atol=1e-8)


def test_a_bad_hessian_to_start_with_is_found_out(problem, labels):
    """A curvature too small by far overshoots at every step: it must be refreshed, not cut for ever."""
    linear = problem.linear_term(labels[:, [0]])[:, None]
    good = minimise(problem, linear, np.zeros((5, 1)))
    for factor in (1e-4, 0.05, 0.4, 30.0):
        bad = factorise(factor * problem.hessian(np.zeros(5)))
        found = minimise(problem, linear, np.zeros((5, 1)), curvatures=(bad,), max_iterations=60)
        assert found.converged.all()
        np.testing.assert_allclose(found.theta, good.theta, atol=1e-7)


def test_a_flat_start_and_a_steep_end_are_searched_between():
    """Almost separable: a secant alone goes a hundredth of the way, two hundred times."""
    rng = np.random.default_rng(22)
    X = 3 * rng.standard_normal((30, 2))
    y = (X[:, 0] + rng.logistic(size=30) > 0).astype(float)
    problem = Problem(
        Design.from_features(X), np.ones(30), LogisticLoss(), np.array([1e-4, 1e-4, 0])
    )
    linear = problem.linear_term(y[:, None])[:, None]
    for start in (np.zeros(3), np.array([26.0, 1.4, -0.4]), np.array([-60.0, 80.0, 5.0])):
        found = minimise(problem, linear, start[:, None], tolerance=1e-9)
        assert found.converged.all()
        assert found.n_gradients < 60


def test_one_record_with_huge_values_does_not_hold_up_the_others():
    rng = np.random.default_rng(13)
    X = 3 * rng.standard_normal((30, 2))
    X[0] *= 2000
    y = (X[:, 0] + rng.logistic(size=30) > 0).astype(float)
    scaled = Design.from_features(X)
    problem = Problem(scaled, np.ones(30), LogisticLoss(), np.r_[1 / 30 / scaled.scale[:2] ** 2, 0])
    found = minimise(problem, problem.linear_term(y[:, None])[:, None], np.zeros((3, 1)))
    assert found.converged.all()
    assert found.n_gradients < 60

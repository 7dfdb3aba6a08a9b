# SPDX-License-Identifier: Apache-2.0
"""Minima close to a point whose Hessian is known, against Newton's method."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.models import Design, LogisticLoss, Problem, SoftmaxLoss, factorise, minimise
from epsilens.models.solver import minimise_nearby


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)])
@pytest.mark.parametrize("size", [0.01, 0.3])
def test_the_minima_are_those_of_newtons_method(loss, size):
    rng = np.random.default_rng(0)
    design = Design.from_features(rng.normal(size=(120, 4)))
    problem = Problem(design, np.ones(120), loss, np.full(5, 0.02))
    y = rng.integers(0, max(loss.n_outputs, 2), 120).astype(float)
    linear = problem.linear_term(loss.statistic(y))[:, None]
    centre = minimise(problem, linear, np.zeros((problem.n_parameters, 1))).theta
    # Moved as labels would move it: inside what labels can reach, so that there is a minimum.
    other = problem.linear_term(loss.statistic(rng.permutation(y)))[:, None]
    shares = size * rng.random(30)
    linears = (1 - shares) * linear + shares * other
    theta, converged = minimise_nearby(
        problem,
        linears,
        np.repeat(centre, 30, axis=1),
        factorise(problem.hessian(centre[:, 0])),
        decrement_tolerance=1e-14,
    )
    assert converged.all()
    expected = minimise(problem, linears, np.repeat(centre, 30, axis=1)).theta
    np.testing.assert_allclose(theta, expected, atol=1e-5)


def test_a_problem_without_a_minimum_is_marked_and_stops_nothing():
    X = np.array([[-1.0], [1.0], [2.0]])
    problem = Problem(Design.plain(X), np.ones(3), LogisticLoss(), np.zeros(1))
    # Labels that the feature separates: without a penalty the loss falls for ever.
    separable = problem.linear_term(np.array([[0.0], [1.0], [1.0]]))
    plain = problem.linear_term(np.array([[1.0], [0.0], [1.0]]))
    theta, converged = minimise_nearby(
        problem,
        np.column_stack([plain, separable]),
        np.zeros((1, 2)),
        factorise(problem.hessian(np.zeros(1))),
        decrement_tolerance=1e-12,
    )
    assert converged[0]
    assert np.isfinite(theta[0, 0])

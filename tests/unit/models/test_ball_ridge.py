"""The ball-constrained solver against slow, obvious twins."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from epsilens.models.ball_ridge import (
    _judge,
    _spectrum,
    least_penalty,
    minimise_in_ball,
    minimise_quadratic_in_ball,
)


def projected_gradient(X, y, penalty, radius, steps=20_000):
    """The slow twin: walk downhill and step back into the ball."""
    H = X.T @ X + penalty * np.eye(X.shape[1])
    b, theta = X.T @ y, np.zeros(X.shape[1])
    rate = 1 / np.linalg.eigvalsh(H)[-1]
    for _ in range(steps):
        theta = theta - rate * (H @ theta - b)
        theta = theta * min(1.0, radius / max(np.linalg.norm(theta), 1e-300))
    return theta


@pytest.mark.parametrize("radius", [0.05, 0.5, 1.0, 100.0])
@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_agrees_with_projected_gradient(penalty, radius):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30) + 2
    found = minimise_in_ball(X, y, penalty=penalty, radius=radius)
    # 20,000 steps at a condition number below 1,000: converged to rounding.
    assert found.theta == pytest.approx(projected_gradient(X, y, penalty, radius), abs=1e-12)
    assert (found.multiplier > 0) == (np.linalg.norm(found.theta) > radius * (1 - 1e-9))
    assert np.linalg.norm(found.theta) <= radius


def exact_in_one_dimension(x, y, penalty, radius):
    x, y = [Fraction(v) for v in x], [Fraction(v) for v in y]
    free = sum(a * b for a, b in zip(x, y, strict=True)) / (sum(a * a for a in x) + penalty)
    return max(-Fraction(radius), min(Fraction(radius), free))


@pytest.mark.parametrize("penalty", [2.0**-20, 0.25, 64.0])
@pytest.mark.parametrize("radius", [0.1, 1000.0])
@pytest.mark.parametrize("n", [1, 50, 3000])
def test_the_error_bound_holds_in_exact_arithmetic(n, radius, penalty):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal(n), rng.standard_normal(n)
    found = minimise_in_ball(x[:, None], y, penalty=penalty, radius=radius)
    exact = exact_in_one_dimension(x, y, Fraction(penalty), radius)
    assert abs(Fraction(found.theta[0]) - exact) <= Fraction(found.error_upper_bound)
    # And it says something: rounding of n terms of size 1, over the penalty.
    assert found.error_upper_bound <= 1e-16 * (n + 10) / penalty + 1e-13


def test_the_error_bound_covers_what_a_minimiser_lacks_to_the_ball():
    """Rounding leaves θ a little inside: here a hundredth, on rows where that turns it far around."""
    X, y, penalty = np.diag([30.0, 0.3]), np.array([20.0, 40.0]), 0.01
    inner, outer = (minimise_in_ball(X, y, penalty=penalty, radius=r) for r in (0.99, 1.0))
    lengths = np.linalg.norm(X, axis=1)
    trace = float(lengths @ lengths)
    found, _ = _judge(
        X,
        y,
        inner.theta,
        lengths,
        _spectrum(X.T @ X, X.T @ y),
        penalty,
        inner.multiplier,
        1.0,
        trace,
    )
    distance = np.linalg.norm(inner.theta - outer.theta)
    assert 0.01 < distance <= found.error_upper_bound
    assert found.error_upper_bound <= 0.0101 * np.sqrt(1 + trace / penalty)


def test_nothing_to_learn_gives_zero():
    found = minimise_in_ball(np.zeros((3, 2)), np.ones(3), penalty=1.0, radius=1.0)
    assert found.theta.tolist() == [0.0, 0.0]
    assert found.error_upper_bound < 1e-15


def test_a_noisy_matrix_that_is_not_positive_is_still_solved():
    A = np.diag([-5.0, 2.0])
    theta = minimise_quadratic_in_ball(A, np.array([1.0, 1.0]), penalty=1.0, radius=10.0)
    assert theta == pytest.approx([1.0, 1 / 3])


def test_no_number_is_printed():
    found = minimise_in_ball(np.ones((3, 1)), np.full(3, 0.7321), penalty=1.0, radius=1.0)
    assert "0.5" not in repr(found)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), [(300, 3), (30_000, 50), (1_000_000, 4)])
@pytest.mark.parametrize("kind", ["line", "decay", "same"])
def test_the_least_penalty_keeps_the_allowance_on_ill_conditioned_rows(n, p, kind):
    rng = np.random.default_rng(0)
    X = {
        "line": lambda: np.outer(rng.choice([-1.0, 1.0], n), np.r_[1.0, np.full(p - 1, 1e-5)]),
        "decay": lambda: rng.standard_normal((n, p)) * 10.0 ** -np.linspace(0, 9, p),
        "same": lambda: np.ones((n, p)),
    }[kind]()
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + 1e-14)
    y = np.clip(X @ rng.standard_normal(p), -1.0, 1.0)
    penalty = max(1e-6, least_penalty(n, p, x_bound=1.0, allowance=1e-5))
    # M/(2√λ) with M = 2: the diameter of the ball, where it is smaller, asks for no accuracy.
    furthest = 1.0 / np.sqrt(penalty)
    found = minimise_in_ball(X, y, penalty=penalty, radius=1.0)
    # A tenth of what it may be: the margin that the decision speaks of.
    assert found.error_upper_bound <= 0.1 * 0.5e-5 * furthest

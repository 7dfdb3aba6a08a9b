"""Stochastic estimation: reproducible, honest about its error, and never silently wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

from epsilens.errors import ApproximationWarning, InputError
from epsilens.influence import HessianOperator, StochasticEstimation
from epsilens.influence.stochastic_estimation import _Sampling
from epsilens.models import Design, LogisticLoss, Problem


def operator_of(X) -> HessianOperator:
    n, p = X.shape
    theta = 0.3 * np.random.default_rng(8).normal(size=p)
    return HessianOperator(
        Problem(Design.plain(X), np.ones(n), LogisticLoss(), np.full(p, 0.01)), theta
    )


@pytest.fixture(scope="module")
def operator():
    return operator_of(np.random.default_rng(3).normal(size=(400, 5)))


ETA = np.array([1.0, -2.0, 0.5, 0.3, 1.2])
GAMMA = np.array([0.3, 0.4, -1.0, 0.8, -0.2])


def test_the_same_seed_gives_the_same_digits(operator):
    one, same, other = (
        StochasticEstimation(random_state=seed).solve(operator, ETA) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.vector, same.vector)
    assert (one.vector != other.vector).any()


@pytest.mark.slow
def test_the_standard_error_covers_the_truth(operator):
    """120 seeds at 95 %: fewer than 104 has a chance of 1e-4 (binomial)."""
    truth = GAMMA @ np.linalg.solve(operator.problem.hessian(operator.theta), ETA)
    n_repeats, inside = 4, 0
    for seed in range(120):
        solver = StochasticEstimation(0.1, batch_size=20, n_repeats=n_repeats, random_state=seed)
        found = solver.solve(operator, ETA)
        half = stdtrit(n_repeats - 1, 0.975) * found.standard_error(GAMMA)
        inside += abs(GAMMA @ found.vector - truth) <= half
    assert inside >= 104


def test_rounds_go_on_until_the_true_residual_is_small(operator):
    passes = []
    for tolerance in (1e-1, 1e-4, 1e-8):
        found = StochasticEstimation(tolerance).solve(operator, ETA)
        true = np.linalg.norm(ETA - operator.product(found.vector)) / np.linalg.norm(ETA)
        assert found.relative_residual == pytest.approx(true, rel=1e-6)
        assert true <= tolerance
        passes.append(found.n_passes)
    assert passes[0] < passes[1] < passes[2] <= 500


def test_a_budget_that_runs_out_is_said():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 5))
    X[:, 1] = X[:, 0] + 1e-4 * rng.normal(size=400)
    operator = operator_of(X)
    object.__setattr__(operator.problem, "penalty", np.zeros(5))
    with pytest.warns(ApproximationWarning, match="used its 100 passes .* Raise `max_passes`"):
        found = StochasticEstimation(max_passes=100).solve(operator, ETA)
    assert not found.converged
    assert found.relative_residual > 1e-4
    assert found.n_passes <= 100
    assert np.isfinite(found.vector).all()


def test_a_round_that_blows_up_is_discarded(operator, monkeypatch):
    monkeypatch.setattr(StochasticEstimation, "_scale", lambda *_: 1e-3)
    found = StochasticEstimation(max_passes=1000).solve(operator, ETA)
    assert found.converged  # the scale was doubled until the recursion shrank


def test_a_batch_of_everybody_and_a_single_record_work(operator):
    assert StochasticEstimation(batch_size=10_000).solve(operator, ETA).converged
    assert StochasticEstimation(batch_size=1).solve(operator, ETA).converged
    one = operator_of(np.ones((1, 1)))
    found = StochasticEstimation().solve(one, np.ones(1))
    assert found.vector[0] == pytest.approx(1.0 / one.product(np.ones(1))[0], rel=1e-3)


def test_drawing_by_share_is_right_on_average():
    shares = np.array([0.0, 1.0, 100.0])
    sampling = _Sampling.of(shares)
    rows, weights = sampling.draw(np.random.default_rng(0), 200_000)
    values = np.array([5.0, -1.0, 2.0])
    drawn = weights * values[rows]
    # Within 5 standard errors of the plain mean.
    error = drawn.std() / np.sqrt(len(rows))
    assert abs(drawn.mean() - values.mean()) < 5 * error
    assert sampling.largest <= 2 * shares.mean() + 1e-12
    np.testing.assert_allclose(_Sampling.of(np.zeros(3)).weights, 1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tolerance": 1.0}, "`tolerance` must lie between 0 and 1"),
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"n_repeats": 1}, "`n_repeats` must be at least 2"),
        ({"random_state": -1}, "`random_state` must be at least 0"),
        ({"max_passes": 5}, "`max_passes` must be at least 27 for 4 repeats, got 5"),
    ],
)
def test_bad_settings_are_refused_in_one_line(arguments, words):
    with pytest.raises(InputError, match=words) as caught:
        StochasticEstimation(**arguments)
    assert "\n" not in str(caught.value)

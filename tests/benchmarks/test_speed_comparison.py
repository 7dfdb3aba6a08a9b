# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "peers"))

import numpy as np
import pytest
import with_epsilens
from exchange import Problem
from with_scikit_learn import chosen_cells, refit

from timing import Ratio, ratio, relative_difference, slope
from whatif_speed import converged, gaussian


@pytest.fixture(scope="module")
def problem() -> Problem:
    rng = np.random.default_rng(0)
    X, y = gaussian(500, 4, rng)
    return Problem(
        X=X[:400],
        y=y[:400],
        X_test=X[400:],
        y_test=y[400:],
        groups=rng.random((10, 400)) < np.linspace(0.05, 0.5, 10)[:, None],
        epsilon=np.linspace(0.1, 6, 30),
        penalty=1 / 400,
        theta=converged(X[:400], y[:400], 1 / 400),
    )


def loss(problem: Problem, theta: np.ndarray) -> float:
    s = problem.X_test @ theta
    return float(np.mean(np.log1p(np.exp(s)) - problem.y_test * s))


def slow_change(problem: Problem, group: int, cell: int) -> float:
    """The obvious way: labels replaced by their expectation, and Newton from nothing."""
    q = problem.flip_probability[cell]
    soft = np.where(problem.groups[group], problem.y * (1 - q) + (1 - problem.y) * q, problem.y)
    moved = converged(problem.X, soft, problem.penalty)
    return loss(problem, moved) - loss(problem, problem.theta)


def test_a_ratio_is_a_geometric_mean_with_its_error() -> None:
    found = ratio([2.0, 8.0], [1.0, 1.0])
    assert found.value == pytest.approx(4.0)
    # The logs are ln 2 and ln 8: mean ln 4, standard error ln 2.
    assert found.standard_error == pytest.approx(4.0 * np.log(2.0))
    assert str(found) == "4.00 ± 2.77"


def test_a_machine_that_slows_down_does_not_touch_a_ratio() -> None:
    slower = np.array([1.0, 1.7, 3.0])
    found = ratio(6.0 * slower, 2.0 * slower)
    assert found.value == pytest.approx(3.0)
    assert found.standard_error == pytest.approx(0.0, abs=1e-12)


def test_one_turn_has_no_standard_error() -> None:
    assert ratio([3.0], [1.5]) == Ratio(pytest.approx(2.0), None)
    assert str(ratio([3.0], [1.5])) == "2.00"


def test_the_slope_of_a_power_is_its_exponent() -> None:
    sizes = np.array([10.0, 20.0, 40.0, 80.0])
    found = slope(sizes, 3.0 * sizes**1.7)
    assert found.value == pytest.approx(1.7)
    assert found.standard_error == pytest.approx(0.0, abs=1e-12)
    assert slope([1.0, 2.0], [1.0, 8.0]).standard_error is None


def test_the_error_of_a_slope_is_that_of_the_line() -> None:
    # Logs 0, 1, 2 against 0, 1 + 3/10, 2: slope 1, residuals (-1, 2, -1)/10, 6/100 over 1 and Sxx = 2.
    found = slope(np.exp([0.0, 1.0, 2.0]), np.exp([0.0, 1.3, 2.0]))
    assert found.value == pytest.approx(1.0)
    assert found.standard_error == pytest.approx(np.sqrt(0.03))


def test_differences_are_relative_to_the_largest_value() -> None:
    reference = np.array([[10.0, 1.0]])
    assert relative_difference(np.array([[10.0, 1.1]]), reference) == pytest.approx(0.01)
    assert relative_difference(np.array([[9.0, np.nan]]), reference) == pytest.approx(0.1)
    assert np.isnan(relative_difference(np.full((1, 2), np.nan), reference))


def test_sampled_refits_take_every_epsilon_once() -> None:
    cells = chosen_cells("sampled", 10, 30)
    assert all(len(row) == 3 for row in cells)
    assert sorted(cell for row in cells for cell in row) == list(range(30))


def test_warm_refits_walk_from_large_epsilon_to_small() -> None:
    cells = chosen_cells("warm", 10, 30)
    assert cells[4] == list(range(29, -1, -1))
    assert sum(len(row) for row in cells) == 30


@pytest.mark.parametrize("kind", ["sampled", "warm"])
def test_refits_with_weights_are_refits_to_expected_labels(problem: Problem, kind: str) -> None:
    values = refit(problem, kind=kind, solver="newton-cholesky", tolerance=1e-10)
    for group, cell in np.argwhere(np.isfinite(values)):
        # scikit-learn's gradient of 1e-10 leaves far less than 1e-9 of the loss.
        assert values[group, cell] == pytest.approx(slow_change(problem, group, cell), abs=1e-9)


def test_our_program_computes_first_order(problem: Problem) -> None:
    mean = 1 / (1 + np.exp(-problem.X @ problem.theta))
    hessian = (problem.X.T * (mean * (1 - mean))) @ problem.X / 400 + problem.penalty * np.eye(4)
    s = 1 / (1 + np.exp(-problem.X_test @ problem.theta)) - problem.y_test
    v = np.linalg.solve(hessian, problem.X_test.T @ s / len(s))
    flipped_minus_own = (2 * problem.y - 1)[:, None] * problem.X
    expected = problem.cells(-flipped_minus_own @ v / 400)
    found = with_epsilens.point_table(with_epsilens.trained(problem))
    # Ours stops training at a gradient of 1e-9.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    again = with_epsilens.point_table_and_training(with_epsilens.untrained(problem))
    np.testing.assert_allclose(again, found, rtol=1e-12)


def test_our_solver_alone_gives_what_refits_give(problem: Problem) -> None:
    found = with_epsilens.exact_solver(with_epsilens.trained(problem))
    for group, cell in ((0, 29), (5, 10), (9, 0)):
        # A gradient of 1e-8 leaves about its square of the training loss, 1e-8 of the test loss.
        assert found[group, cell] == pytest.approx(slow_change(problem, group, cell), abs=1e-7)

"""The formulas of the sensitivity, and the suggested penalty."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.ridge import balanced_alpha, ridge_sensitivity

UNIT = {"x_bound": 1.0, "y_bound": 1.0, "coef_bound": 1.0}


@pytest.mark.parametrize(
    ("alpha", "shrinks"), [(0.01, 100.0), (0.1, 10.0), (0.5, 2.8284), (1.0, 2.0)]
)
def test_the_tight_bound_shrinks_the_noise(alpha, shrinks):
    tight = ridge_sensitivity(**UNIT, alpha=alpha)
    paper = ridge_sensitivity(**UNIT, alpha=alpha, bound="paper")
    assert paper / tight == pytest.approx(shrinks, rel=1e-4)
    assert paper == pytest.approx(2.0 / alpha)


@pytest.mark.parametrize("x_bound", [0.2, 1.0, 7.0])
@pytest.mark.parametrize("alpha", [0.04, 1.0, 30.0])
def test_it_is_the_maximum_of_what_the_inequalities_allow(alpha, x_bound):
    # λ‖Δ‖² + s² ≤ M|s| and |s| ≤ R‖Δ‖: the longest Δ over a grid of s.
    M = x_bound * 2.0 + 3.0
    s = np.linspace(0, M, 2_000_001)[1:-1]
    length = np.sqrt((M * s - s**2) / alpha)
    slow = min(length[s <= x_bound * length].max(), 2 * 2.0)
    fast = ridge_sensitivity(x_bound=x_bound, y_bound=3.0, coef_bound=2.0, alpha=alpha)
    # The grid is M/2,000,000 wide and the edge of what is allowed lies between two of its points.
    assert fast == pytest.approx(slow, rel=1e-4)


def test_both_branches_meet():
    below = ridge_sensitivity(**UNIT, alpha=1.0 - 1e-12)
    above = ridge_sensitivity(**UNIT, alpha=1.0 + 1e-12)
    assert below == pytest.approx(above)


@pytest.mark.parametrize("alpha", [1.0, 4.0, 50.0])
def test_replacing_doubles(alpha):
    assert ridge_sensitivity(**UNIT, alpha=alpha, adjacency="replace-one") == 2 * ridge_sensitivity(
        **UNIT, alpha=alpha
    )


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_nothing_moves_further_than_the_diameter_of_the_ball(adjacency):
    settings = {**UNIT, "coef_bound": 3.0, "adjacency": adjacency}
    assert ridge_sensitivity(**settings, alpha=1e-4) == 6.0
    # P3's bound stays as it is printed.
    n_changes = 2 if adjacency == "replace-one" else 1
    paper = ridge_sensitivity(**settings, alpha=1e-4, bound="paper")
    assert paper == pytest.approx(n_changes * 4.0 / 1e-4)


@pytest.mark.parametrize("name", ["x_bound", "y_bound", "coef_bound", "alpha"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_bounds_must_be_positive_numbers(name, value):
    with pytest.raises(InputError, match=f"`{name}` must be finite and greater than 0"):
        ridge_sensitivity(**{**UNIT, "alpha": 1.0, name: value})


@pytest.mark.parametrize("n_records", [1, 100, 10**6])
@pytest.mark.parametrize("rho", [0.01, 1.0, 1000.0])
def test_the_suggested_penalty_is_the_best_of_a_fine_grid(rho, n_records):
    bounds = {"x_bound": 1.5, "y_bound": 2.0, "coef_bound": 0.7}

    def worst(alpha):
        # Δ without the ball's diameter: (R, M) = (1.5, 3.05).
        furthest = 3.05 / (2 * math.sqrt(alpha)) if alpha <= 2.25 else 4.575 / (alpha + 2.25)
        return furthest**2 * 1.5**2 / (2 * rho) + alpha * 0.7**2 / n_records

    chosen = balanced_alpha(n_records=n_records, rho=rho, **bounds)
    assert worst(chosen) <= min(map(worst, np.geomspace(1e-6, 1e8, 5001))) * (1 + 1e-9)

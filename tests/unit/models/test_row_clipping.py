"""Rows held within their bound."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from epsilens.models.ridge_bounds import RidgeBounds, clip_rows, row_norms


def test_no_clipped_row_is_outside_in_exact_arithmetic():
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy((300, 5)) * 10.0 ** rng.integers(-5, 300, size=(300, 1))
    X[0] = 1.7e308
    clipped = clip_rows(X, 0.7)
    with np.errstate(over="ignore"):
        touched = np.any(clipped != X, axis=1)
    assert touched.sum() > 250
    for row in clipped[touched]:
        assert sum(Fraction(v) ** 2 for v in row) <= Fraction(0.7) ** 2


def test_short_rows_are_untouched_and_long_ones_keep_their_direction():
    X = np.array([[0.1, -0.2], [0.0, 0.0], [30.0, -40.0]])
    clipped = clip_rows(X, 1.0)
    assert np.array_equal(clipped[:2], X[:2])
    assert clipped[2] == pytest.approx([0.6, -0.8])


def test_lengths_of_huge_and_tiny_rows():
    assert row_norms(np.array([[3e-200, 4e-200], [3e300, 4e300]])) == pytest.approx(
        [5e-200, 5e300], rel=1e-15
    )


def test_the_constant_column_leaves_room():
    bounds = RidgeBounds(x_bound=2.0, y_bound=1.0, coef_bound=1.0, constant=1.0)
    rows = bounds.rows(np.array([[100.0, 0.0], [0.5, 0.0]]))
    assert rows == pytest.approx(np.array([[np.sqrt(3), 0.0, 1.0], [0.5, 0.0, 1.0]]))
    assert np.all(np.linalg.norm(rows, axis=1) <= 2.0 * (1 + 1e-15))
    assert bounds.targets(np.array([-3.0, 0.2, 1e300])).tolist() == [-1.0, 0.2, 1.0]

# SPDX-License-Identifier: Apache-2.0
"""Laws of what a budget costs."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.errors import PrivacyLeakWarning


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 12.0), st.integers(1, 20))
def test_a_groups_first_order_influence_is_the_sum_of_its_points(study, seed, epsilon, n_points):
    """Each point asked about as a group of its own; the table of all points says the same."""
    chosen = np.random.default_rng(seed).permutation(600)[:n_points]
    masks = np.zeros((n_points + 1, 600), dtype=bool)
    masks[np.arange(n_points), chosen] = True
    masks[-1] = masks[:-1].any(axis=0)
    groups = {f"{number}": mask for number, mask in enumerate(masks)}
    with warnings.catch_warnings():
        # A few people who all gave the same answer: they come up now and then, and are warned of.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        cells = study.estimate(
            epsilon=epsilon, groups=groups, method="influence", n_draws=20
        ).document.cells
    *points, whole = (cell.loss_change for cell in cells)
    assert sum(points) == pytest.approx(whole, rel=1e-9, abs=1e-15)
    q = 1 / (1 + math.exp(epsilon))
    table = study.point_table()
    assert points == pytest.approx((q * table.contributions[chosen]).tolist(), rel=1e-9, abs=1e-15)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 12.0), st.integers(2, 5))
def test_a_groups_first_order_influence_is_the_sum_of_its_parts(study, seed, epsilon, n_parts):
    table = study.point_table()
    q = 1 / (1 + math.exp(epsilon))
    part = np.random.default_rng(seed).integers(0, n_parts, 600)
    whole = table.change(np.ones(600, dtype=bool), q)
    assert sum(table.change(part == k, q) for k in range(n_parts)) == pytest.approx(
        whole, abs=1e-14
    )


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_renaming_the_classes_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 3))
    y = rng.random(150) < 1 / (1 + np.exp(-X[:, 0]))
    y[:2] = [True, False]
    answers = []
    for labels in (y.astype(int), 1 - y.astype(int)):
        study = WhatIf(LogisticRegression()).fit(X[:100], labels[:100], X[100:], labels[100:])
        cell = study.estimate(
            epsilon=1.0, method="exact", categories={"label": [0, 1]}
        ).document.cells[0]
        answers.append((cell.loss_change, cell.accuracy_change))
    # Drawn runs are kept in single precision.
    assert answers[0] == pytest.approx(answers[1], abs=1e-7)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1), st.permutations(range(3)))
def test_relabelling_several_classes_permutes_their_coefficients_and_moves_no_cost(seed, order):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(180, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(180, 3)), axis=1)
    y[:6] = [0, 0, 1, 1, 2, 2]
    found = []
    for labels in (y, np.array(order)[y]):
        study = WhatIf(LogisticRegression()).fit(X[:120], labels[:120], X[120:], labels[120:])
        (cell,) = study.estimate(
            epsilon=1.0, method="exact", categories={"label": [0, 1, 2]}
        ).document.cells
        found.append(
            (
                study.coef_,
                study.intercept_,
                cell,
                study.point_table(categories={"label": [0, 1, 2]}).contributions,
            )
        )
    (coef, intercept, cell, points), (renamed, moved, other, same) = found
    # Both optima are found to a gradient of 1e-9.
    np.testing.assert_allclose(renamed[list(order)], coef, atol=1e-6)
    np.testing.assert_allclose(moved[list(order)], intercept, atol=1e-6)
    # Renamed, other reports are drawn: both are means over 400 runs of one law, five standard errors apart at
    # most; that of accuracy moves in a width of about one.
    width = cell.loss_change_high - cell.loss_change_low
    assert other.loss_change == pytest.approx(cell.loss_change, abs=0.1 * width)
    assert other.accuracy_change == pytest.approx(cell.accuracy_change, abs=0.05)
    np.testing.assert_allclose(same, points, atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["influence", "newton", "exact"]))
def test_an_infinite_epsilon_costs_nothing(study, seed, method):
    mask = np.random.default_rng(seed).random(600) < 0.3
    (cell,) = study.estimate(epsilon=math.inf, groups={"some": mask}, method=method).document.cells
    assert cell.loss_change == cell.loss_change_low == cell.loss_change_high == 0.0
    assert cell.accuracy_change == 0.0


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0.01, 30.0), min_size=1, max_size=4, unique=True))
def test_a_cell_does_not_depend_on_the_rest_of_the_grid(study, grid):
    together = study.estimate(epsilon=grid, method="exact").document.cells
    for cell in together:
        alone = study.estimate(epsilon=cell.epsilon, method="exact").document.cells[0]
        # Both are minimised to a gradient of 1e-8.
        assert cell.loss_change == pytest.approx(alone.loss_change, abs=1e-8)
        assert cell.trusted == alone.trusted

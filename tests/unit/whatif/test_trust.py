# SPDX-License-Identifier: Apache-2.0
"""Trust in an estimate does not hang on the unit in which a number was written down."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from epsilens import WhatIf

N = 300


def ages(seed=1):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.normal(size=N), "s": rng.integers(0, 2, N)})
    return X, X["x"] + X["s"] + rng.normal(size=N)


def cell(X, y, *, protect, values, method):
    study = WhatIf(Ridge()).fit(X[:200], y[:200], X[200:], y[200:])
    return study.estimate(
        protect=[protect], epsilon=1.0, categories={protect: values}, method=method, random_state=0
    ).document.cells[0]


@pytest.mark.parametrize("method", ["influence", "newton", "exact"])
def test_features_of_a_number_in_any_unit(method):
    X, y = ages()
    years, days = (
        cell(X, unit * y, protect="s", values=[0, 1], method=method) for unit in (1.0, 365.0)
    )
    assert days.loss_change == pytest.approx(365.0**2 * years.loss_change, rel=1e-6)
    assert days.trusted == years.trusted
    assert years.trusted or method == "influence"


@pytest.mark.parametrize("method", ["newton", "exact"])
def test_labels_that_are_few_numbers_in_any_unit(method):
    X, y = ages()
    few = pd.Series(np.digitize(y, [-1.0, 0.0, 1.0]), name="few")
    answers = [
        cell(
            X,
            (unit * few).astype(int),
            protect="few",
            values=[0, unit, 2 * unit, 3 * unit],
            method=method,
        )
        for unit in (1, 1000)
    ]
    assert answers[1].loss_change == pytest.approx(1e6 * answers[0].loss_change, rel=1e-6)
    assert [answer.trusted for answer in answers] == [True, True]


@pytest.mark.parametrize("offset", [1e7, 1e9])
@pytest.mark.parametrize("protect", ["s", "few"])
def test_a_number_far_from_zero_has_the_same_interval(protect, offset):
    """As dates in seconds have: in single precision nothing of their differences would be left."""
    X, y = ages()
    few = pd.Series(np.digitize(y, [-1.0, 0.0, 1.0]), name="few")
    near, far = (
        cell(
            X,
            few + int(add),
            protect=protect,
            values=[0, 1] if protect == "s" else [int(add) + j for j in range(4)],
            method="exact",
        )
        for add in (0.0, offset)
    )
    assert near.loss_change_high > near.loss_change_low
    for name in ("loss_change", "loss_change_low", "loss_change_high"):
        assert getattr(far, name) == pytest.approx(getattr(near, name), rel=1e-2)
    assert far.trusted
    assert near.trusted


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_features_of_a_very_small_or_large_number(unit):
    """The solver's tolerance is in the unit of the label, which features leave inside the objective."""
    X, y = ages()
    plain, other = (
        cell(X, factor * y, protect="s", values=[0, 1], method="exact") for factor in (1.0, unit)
    )
    assert other.loss_change == pytest.approx(unit**2 * plain.loss_change, rel=1e-6)
    assert other.trusted


def few_rows(n_rows, epsilon):
    X, y = ages()
    X = X.assign(**{f"x{j}": np.random.default_rng(j).normal(size=N) for j in range(8)})
    study = WhatIf(Ridge(alpha=1e-6)).fit(X[:n_rows], y[:n_rows], X[200:], y[200:])
    return study, {
        "protect": ["s"],
        "epsilon": epsilon,
        "categories": {"s": [0, 1]},
        "random_state": 0,
    }


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_where_every_run_shakes_the_hessian_runs_are_solved(epsilon):
    """Eleven coefficients from fourteen rows: no expansion holds, and the interval is right all the same."""
    study, asked = few_rows(14, epsilon)
    found = study.estimate(**asked, method="exact").document.cells[0]
    real = study.retrain(**asked, repeats=400).draws()["loss_change"]
    assert found.trusted
    inside = (real >= found.loss_change_low) & (real <= found.loss_change_high)
    assert 0.83 <= inside.mean() <= 0.97
    assert not study.estimate(**asked, method="newton").document.cells[0].trusted


def test_and_one_that_it_hardly_shakes_is_and_rightly():
    study, asked = few_rows(60, 1.0)
    found = study.estimate(**asked, method="exact").document.cells[0]
    real = study.retrain(**asked, repeats=400).draws()["loss_change"]
    assert found.trusted
    inside = (real >= found.loss_change_low) & (real <= found.loss_change_high)
    assert 0.83 <= inside.mean() <= 0.97


def test_a_perfect_fit_of_which_few_records_are_changed_is_believed():
    X, _ = ages()
    y = pd.Series(X["x"] + X["s"], name="y")
    group = np.zeros(200, dtype=bool)
    group[:5] = True
    study = WhatIf(Ridge(alpha=1e-9)).fit(X[:200], y[:200], X[200:], y[200:])
    asked = {
        "protect": ["s"],
        "epsilon": 1.0,
        "categories": {"s": [0, 1]},
        "groups": {"five": group},
        "random_state": 0,
    }
    found = study.estimate(**asked, method="exact").document.cells[0]
    assert found.trusted
    real = study.retrain(**asked, repeats=400).draws()["loss_change"]
    assert found.loss_change == pytest.approx(real.mean(), rel=0.1)


@pytest.mark.parametrize(("n_rows", "trusted"), [(8, False), (200, True)])
def test_first_order_of_labels_takes_a_parabola_for_a_line(n_rows, trusted):
    X, y = ages()
    few = pd.Series(np.digitize(y, [-1.0, 0.0, 1.0]), name="few")
    study = WhatIf(Ridge(alpha=1e-3)).fit(X[:n_rows], few[:n_rows], X[200:], few[200:])
    asked = {
        "protect": ["few"],
        "epsilon": 2.0 if n_rows == 8 else 6.0,
        "categories": {"few": [0, 1, 2, 3]},
        "random_state": 0,
    }
    found = study.estimate(**asked, method="influence").document.cells[0]
    assert found.trusted is trusted

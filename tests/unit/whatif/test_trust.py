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


def test_noise_as_large_as_the_residuals_is_not_believed():
    X, y = ages()
    X = X.assign(**{f"x{j}": np.random.default_rng(j).normal(size=N) for j in range(8)})
    study = WhatIf(Ridge(alpha=1e-6)).fit(X[:14], y[:14], X[200:], y[200:])
    found = study.estimate(protect=["s"], epsilon=3.0, categories={"s": [0, 1]}, random_state=0)
    assert not found.document.cells[0].trusted

# SPDX-License-Identifier: Apache-2.0
"""What is no model, or no data, is refused at once, in words that say what to give instead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epsilens import WhatIf
from epsilens.errors import InputError, InputTypeError
from epsilens.masking import MaskStudy
from epsilens.risk import AttackStudy

N = 60
X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2)), columns=["a", "b"])
Y = pd.Series(np.arange(N) % 2, name="y")
WHO = pd.Series(np.arange(N) % 5, name="who")
SEARCH = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)


def fit_mask(estimator: object, train: slice, test: slice, X: pd.DataFrame = X) -> object:
    return MaskStudy(estimator).fit(X[train], Y[train], WHO[train], X[test], Y[test], WHO[test])


def fit_whatif(estimator: object, train: slice, test: slice, X: pd.DataFrame = X) -> object:
    return WhatIf(estimator).fit(X[train], Y[train], X[test], Y[test])


def fit_attack(estimator: object, train: slice, test: slice, X: pd.DataFrame = X) -> object:
    return AttackStudy(estimator).fit(X[train], Y[train], X[test], Y[test])


FITS = [fit_mask, fit_whatif, fit_attack]
ALL, NONE = slice(None), slice(0)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (LogisticRegression, "got the class LogisticRegression. Call it: `LogisticRegression()`"),
        (SEARCH, "got GridSearchCV, which tries many. Fit the search, and give its `best_est"),
        (make_pipeline(StandardScaler(), SEARCH), "give its `best_estimator_`"),
    ],
)
def test_a_class_and_a_search_are_no_model(
    fit: Callable[..., object], estimator: object, words: str
) -> None:
    with pytest.raises(InputTypeError) as refused:
        fit(estimator, ALL, ALL)
    assert words in str(refused.value)


def test_what_a_search_has_found_is_a_model() -> None:
    fit_whatif(SEARCH.fit(X, Y).best_estimator_, ALL, ALL)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("train", "test", "what"), [(NONE, ALL, "training"), (ALL, NONE, "test")])
def test_data_without_rows_are_called_so(
    fit: Callable[..., object], scaled: bool, train: slice, test: slice, what: str
) -> None:
    model = LogisticRegression()
    with pytest.raises(InputError, match=f"the {what} data must have at least one row, got 0"):
        fit(make_pipeline(StandardScaler(), model) if scaled else model, train, test)


@pytest.mark.parametrize("fit", FITS)
def test_data_without_columns_are_called_so(fit: Callable[..., object]) -> None:
    with pytest.raises(InputError, match="the training data must have at least one column, got 0"):
        fit(LogisticRegression(), ALL, ALL, X[[]])

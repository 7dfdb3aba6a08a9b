"""Attacks on the membership of regressions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from epsilens.errors import InputError
from epsilens.risk import ShadowEnsemble, scores_from_residuals

pytestmark = pytest.mark.filterwarnings("ignore:.*too few models")


def table(n: int = 80, width: int = 5) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, width)), columns=[f"x{j}" for j in range(width)])
    return X, X["x0"].to_numpy() + rng.normal(size=n)


def test_scores_are_distances_in_units_of_the_usual_one():
    scores = scores_from_residuals([[0.0, 3.0], [1.0, 2.0]], [1.0, 0.0])
    np.testing.assert_allclose(scores, [[-1 / 1.5, -2.0], [0.0, -2 / 1.5]])
    assert not scores_from_residuals([[1.0, 2.0]], [1.0, 2.0]).any()
    with pytest.raises(InputError, match="one row of predictions"):
        scores_from_residuals([[1.0, 2.0]], [1.0])
    with pytest.raises(InputError, match="must be finite"):
        scores_from_residuals([[np.nan]], [1.0])


def test_models_are_those_of_scikit_learn_on_their_own_halves():
    X, y = table()
    estimator = make_pipeline(StandardScaler(), Ridge(alpha=2.0))
    ensemble = ShadowEnsemble(estimator, n_models=6, random_state=3).fit(X, y)
    predictions = np.array(
        [clone(estimator).fit(X[seen], y[seen]).predict(X) for seen in ensemble.membership_]
    )
    np.testing.assert_allclose(
        ensemble.scores_, scores_from_residuals(predictions, y), rtol=1e-5, atol=1e-6
    )
    for model, seen in enumerate(ensemble.membership_):
        outside = y[~seen]
        share = (
            1
            - ((outside - predictions[model][~seen]) ** 2).sum()
            / ((outside - outside.mean()) ** 2).sum()
        )
        assert ensemble.accuracy_[model] == pytest.approx(share)


def test_a_tree_that_learns_by_heart_is_seen_through_and_a_line_is_not():
    X, y = table(120)
    tree = ShadowEnsemble(DecisionTreeRegressor(random_state=0), n_models=40).fit(X, y)
    line = ShadowEnsemble(LinearRegression(), n_models=40).fit(X[["x0"]], y)
    for method in (None, "auto", "bavaria", "rmia"):
        assert tree.attack(method=method).auc > 0.85
        assert line.attack(method=method).auc < 0.56
    assert tree.attack(online=True).asr_max_p_value < 0.01


def test_a_seed_repeats_models_that_draw():
    X, y = table(60)
    estimator = DecisionTreeRegressor(splitter="random")
    first, second, other = (
        ShadowEnsemble(estimator, n_models=4, random_state=seed).fit(X, y).scores_
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_what_a_regression_cannot_have_is_said(tmp_path):
    X, y = table(40)
    with pytest.raises(InputError, match="not kept"):
        ShadowEnsemble(Ridge(), n_models=4, checkpoint=tmp_path).fit(X, y)
    with pytest.raises(InputError, match="as many records"):
        ShadowEnsemble(Ridge(), n_models=4).fit(X, y[:-1])
    ensemble = ShadowEnsemble(Ridge(), n_models=8).fit(X, y)
    with pytest.raises(InputError, match="left out"):
        ensemble.attack(method="rmia", online=True)

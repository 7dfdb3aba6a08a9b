from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
)
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

from epsilens import WhatIf
from epsilens.errors import ApproximationWarning, InputError
from epsilens.models.scikit_learn import read_specification

TIGHT = {"tol": 1e-12, "max_iter": 10_000}


def weights(n):
    return np.random.default_rng(8).uniform(0.2, 3.0, n)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(solver="newton-cholesky", **TIGHT),
        LogisticRegression(C=0.03, solver="newton-cholesky", **TIGHT),
        LogisticRegression(C=np.inf, solver="lbfgs", **TIGHT),
        LogisticRegression(fit_intercept=False, solver="newton-cholesky", **TIGHT),
        LogisticRegression(C=0.1, solver="liblinear", **TIGHT),
        LogisticRegression(C=0.1, solver="liblinear", intercept_scaling=3.0, **TIGHT),
    ],
    ids=["plain", "strong", "none", "no-intercept", "liblinear", "liblinear-scaled"],
)
def test_our_optimum_is_that_of_a_converged_classifier(survey, pipeline, model, weighted):
    weight = weights(len(survey.X)) if weighted else None
    name = model.__class__.__name__.lower()
    theirs = pipeline(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        theirs.fit(survey.X, survey.y, **{f"{name}__sample_weight": weight})
    ours = WhatIf(pipeline(model)).fit(
        survey.X, survey.y, survey.X_test, survey.y_test, sample_weight=weight
    )
    expected = log_loss(survey.y_test, theirs.predict_proba(survey.X_test)[:, 1])
    assert ours.baseline_.outcomes.loss == pytest.approx(expected, abs=1e-8)
    accuracy = theirs.score(survey.X_test, survey.y_test)
    assert ours.baseline_.outcomes.accuracy == pytest.approx(accuracy, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "model",
    [
        Ridge(alpha=3.0, solver="cholesky"),
        Ridge(alpha=3.0, fit_intercept=False, solver="cholesky"),
        LinearRegression(),
    ],
    ids=["ridge", "ridge-no-intercept", "linear"],
)
def test_our_optimum_is_that_of_a_regression(survey, pipeline, model, weighted):
    weight = weights(len(survey.X)) if weighted else None
    y = (survey.y == "yes").astype(float)
    y_test = (survey.y_test == "yes").astype(float)
    name = model.__class__.__name__.lower()
    theirs = pipeline(model).fit(survey.X, y, **{f"{name}__sample_weight": weight})
    ours = WhatIf(pipeline(model)).fit(survey.X, y, survey.X_test, y_test, sample_weight=weight)
    expected = mean_squared_error(y_test, theirs.predict(survey.X_test))
    assert ours.baseline_.outcomes.loss == pytest.approx(expected, abs=1e-8)
    assert ours.baseline_.outcomes.accuracy is None
    assert ours.baseline_.outcomes.auc is None


def test_full_dummies_without_a_penalty_have_the_shortest_coefficients(survey, pipeline):
    y = (survey.y == "yes").astype(float)
    model = pipeline(LinearRegression(fit_intercept=False))
    ours = WhatIf(model).fit(survey.X, y, survey.X_test, y[: len(survey.X_test)])
    assert ours.baseline_.problem.design.n_columns == 6
    with_intercept = pipeline(LinearRegression())
    study = WhatIf(with_intercept).fit(survey.X, y, survey.X_test, y[: len(survey.X_test)])
    assert study.baseline_.problem.design.n_columns == 6
    assert len(study.coef_) == 6
    features = with_intercept[:-1].fit(survey.X).transform(survey.X)
    wide = np.column_stack([features, np.ones(len(y))])
    shortest = np.linalg.lstsq(wide, y.to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(np.r_[study.coef_, study.intercept_], shortest, atol=1e-8)


def test_a_fit_that_stopped_early_is_polished_and_said(survey, pipeline):
    loose = pipeline(LogisticRegression(tol=0.3)).fit(survey.X, survey.y)
    tight = pipeline(LogisticRegression(solver="newton-cholesky", **TIGHT)).fit(survey.X, survey.y)
    with pytest.warns(ApproximationWarning, match="not converged"):
        study = WhatIf(loose).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    expected = log_loss(survey.y_test, tight.predict_proba(survey.X_test)[:, 1])
    assert study.baseline_.outcomes.loss == pytest.approx(expected, abs=1e-8)
    assert any("not converged" in note for note in study.baseline_.notes)
    # The user's own estimator is left alone.
    assert loose[-1].tol == 0.3


def test_transformers_of_a_fitted_pipeline_are_frozen(survey, pipeline):
    other = survey.X.assign(age=survey.X["age"] * 2)
    fitted = pipeline(LogisticRegression(solver="newton-cholesky", **TIGHT)).fit(other, survey.y)
    mean = fitted[0].named_transformers_["standardscaler"].mean_.copy()
    with pytest.warns(ApproximationWarning, match="not converged"):
        WhatIf(fitted).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    np.testing.assert_array_equal(fitted[0].named_transformers_["standardscaler"].mean_, mean)


def test_a_polars_frame_goes_through_the_pipeline(survey, pipeline):
    ours = WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    theirs = WhatIf(pipeline()).fit(
        pl.from_pandas(survey.X),
        pl.from_pandas(survey.y),
        pl.from_pandas(survey.X_test),
        pl.from_pandas(survey.y_test),
    )
    assert theirs.baseline_.outcomes.loss == pytest.approx(ours.baseline_.outcomes.loss, abs=1e-12)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RandomForestClassifier(), "got RandomForestClassifier"),
        (Lasso(), "got Lasso"),
        (LogisticRegressionCV(), "got LogisticRegressionCV"),
        (LogisticRegression(l1_ratio=0.5, solver="saga"), "l2 penalty or none"),
        (LogisticRegression(class_weight="balanced"), "class_weight"),
        (Ridge(positive=True), "positive=False"),
        (Ridge(alpha=-1.0), "at least 0"),
        (LogisticRegression(C=0.0), "greater than 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_not_supported_is_refused_with_the_reason(model, words):
    with pytest.raises(InputError, match=words):
        read_specification(model)


@pytest.mark.parametrize(
    "transformer",
    [
        make_column_transformer((TargetEncoder(), ["region"])),
        make_pipeline(make_column_transformer((OneHotEncoder(), ["region"])), SelectKBest(k=2)),
    ],
    ids=["TargetEncoder", "SelectKBest"],
)
def test_transformers_that_look_at_the_label_are_refused(survey, transformer):
    model = make_pipeline(transformer, LogisticRegression())
    with pytest.raises(InputError, match="looks at the label"):
        WhatIf(model).fit(survey.X, survey.y, survey.X_test, survey.y_test)


def test_messages_of_other_libraries_are_withheld(survey):
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["region"])), LogisticRegression()
    )
    strange = survey.X_test.assign(region="SECRET")
    with pytest.raises(InputError, match="withheld") as caught:
        WhatIf(model).fit(survey.X, survey.y, strange, survey.y_test)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_text_without_an_encoder_is_named(survey):
    with pytest.raises(InputError, match="column 'region' is not"):
        WhatIf(LogisticRegression()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


def test_missing_features_are_refused(survey):
    holes = survey.X[["age"]].assign(age=np.nan)
    with pytest.raises(InputError, match="missing"):
        WhatIf(LogisticRegression()).fit(holes, survey.y, survey.X_test[["age"]], survey.y_test)


def test_scaling_inside_the_pipeline_does_not_matter_to_the_solver(survey):
    columns = ["age", "income", "children"]
    raw = LogisticRegression(C=np.inf)
    scaled = make_pipeline(StandardScaler(), LogisticRegression(C=np.inf))
    losses = [
        WhatIf(model)
        .fit(survey.X[columns], survey.y, survey.X_test[columns], survey.y_test)
        .baseline_.outcomes.loss
        for model in (raw, scaled)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)

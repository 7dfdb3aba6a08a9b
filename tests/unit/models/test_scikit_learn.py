from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
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
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SGDClassifier,
)
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

from epsilens import WhatIf
from epsilens.errors import ApproximationWarning, InputError
from epsilens.models.scikit_learn import read_specification

# What scikit-learn from 1.8 wants to be said, and 1.6 does not know.
NEW_ATTRIBUTES = (
    {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    if "use_legacy_attributes" in LogisticRegressionCV().get_params()
    else {}
)
# Where `penalty` is not yet deprecated, a mixture must be asked for by its name.
MIXED = {"penalty": "elasticnet"} if LogisticRegression().penalty == "l2" else {}
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
        LogisticRegression(class_weight={"yes": 3.0}, solver="newton-cholesky", **TIGHT),
        LogisticRegression(class_weight="balanced", solver="newton-cholesky", **TIGHT),
        LogisticRegression(C=0.1, solver="liblinear", intercept_scaling=3.0, **TIGHT),
    ],
    ids=[
        "plain",
        "strong",
        "none",
        "no-intercept",
        "liblinear",
        "class-weight",
        "balanced",
        "liblinear-scaled",
    ],
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


def test_sgd_is_logistic_regression_with_a_mean_penalty(survey, pipeline):
    n = len(survey.X)
    weight = weights(n)
    by_sgd = WhatIf(pipeline(SGDClassifier(loss="log_loss", alpha=0.01))).fit(
        survey.X, survey.y, survey.X_test, survey.y_test, weight
    )
    equal = WhatIf(pipeline(LogisticRegression(C=1 / (0.01 * n)))).fit(
        survey.X, survey.y, survey.X_test, survey.y_test, weight
    )
    assert by_sgd.baseline_.outcomes.loss == pytest.approx(equal.baseline_.outcomes.loss, abs=1e-12)
    fitted = pipeline(
        SGDClassifier(loss="log_loss", alpha=0.01, max_iter=5000, tol=None, average=True)
    ).fit(survey.X, survey.y)
    # Averaged stochastic gradients come this close, and no closer, to their own optimum.
    study = WhatIf(pipeline(SGDClassifier(loss="log_loss", alpha=0.01))).fit(
        survey.X, survey.y, survey.X_test, survey.y_test
    )
    p = fitted.predict_proba(survey.X_test)[:, 1]
    assert study.baseline_.outcomes.loss == pytest.approx(log_loss(survey.y_test, p), abs=1e-3)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"yes": 2.0}])
def test_ridge_classifier_is_squared_loss_on_plus_and_minus_one(survey, pipeline, class_weight):
    model = RidgeClassifier(alpha=2.0, class_weight=class_weight, solver="cholesky")
    weight = weights(len(survey.X))
    study = WhatIf(pipeline(model)).fit(survey.X, survey.y, survey.X_test, survey.y_test, weight)
    theirs = pipeline(clone(model)).fit(survey.X, survey.y, ridgeclassifier__sample_weight=weight)
    s = theirs.decision_function(survey.X_test)
    signs = np.where(survey.y_test == "yes", 1.0, -1.0)
    assert study.baseline_.outcomes.loss == pytest.approx(np.mean((s - signs) ** 2), abs=1e-8)
    accuracy = theirs.score(survey.X_test, survey.y_test)
    assert study.baseline_.outcomes.accuracy == pytest.approx(accuracy, abs=1e-12)
    assert study.baseline_.outcomes.auc is not None
    assert study.estimate(epsilon=1.0).document.cells[0].trusted
    with pytest.raises(InputError, match="one against the rest"):
        WhatIf(RidgeClassifier()).fit(
            survey.X[["age"]], survey.X["region"], survey.X_test[["age"]], survey.X_test["region"]
        )


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize(
    "search",
    [
        LogisticRegressionCV(
            Cs=[0.01, 0.3],
            cv=3,
            scoring="neg_log_loss",
            solver="newton-cholesky",
            **NEW_ATTRIBUTES,
            **TIGHT,
        ),
        RidgeCV(alphas=[0.5, 50.0]),
        RidgeClassifierCV(alphas=[0.5, 50.0]),
    ],
    ids=lambda search: type(search).__name__,
)
def test_a_search_keeps_the_penalty_it_chose(survey, pipeline, search, fitted):
    y, y_test = survey.y, survey.y_test
    if isinstance(search, RidgeCV):
        y, y_test = (y == "yes").astype(float), (y_test == "yes").astype(float)
    model = pipeline(clone(search))
    theirs = pipeline(clone(search)).fit(survey.X, y)
    if fitted:
        model.fit(survey.X, y)
    study = WhatIf(model).fit(survey.X, y, survey.X_test, y_test)
    np.testing.assert_allclose(study.coef_, np.ravel(theirs[-1].coef_), atol=1e-5)
    assert any("cross-validation" in note.text for note in study.baseline_.notes)


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_our_optimum_is_that_of_several_classes(survey, C, class_weight):
    columns = ["age", "income", "children"]
    scaler = StandardScaler().fit(survey.X[columns])
    X, X_test = scaler.transform(survey.X[columns]), scaler.transform(survey.X_test[columns])
    y, y_test = survey.X["region"], survey.X_test["region"]
    model = LogisticRegression(C=C, class_weight=class_weight, **TIGHT)
    study = WhatIf(model).fit(X, y, X_test, y_test)
    p = clone(model).fit(X, y).predict_proba(X_test)
    assert study.baseline_.outcomes.loss == pytest.approx(log_loss(y_test, p), abs=1e-7)


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


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_full_dummies_without_a_penalty_are_as_in_scikit_learn(survey, pipeline, fit_intercept):
    y, y_test = (survey.y == "yes").astype(float), (survey.y_test == "yes").astype(float)
    model = pipeline(LinearRegression(fit_intercept=fit_intercept))
    study = WhatIf(model).fit(survey.X, y, survey.X_test, y_test)
    assert study.baseline_.problem.design.n_columns == 6
    theirs = pipeline(LinearRegression(fit_intercept=fit_intercept)).fit(survey.X, y)
    np.testing.assert_allclose(study.coef_, theirs[-1].coef_, atol=1e-8)
    np.testing.assert_allclose(study.intercept_, theirs[-1].intercept_, atol=1e-8)


def test_dependent_columns_predict_by_the_shortest_coefficients():
    """Equal in training, not in the test: only the shortest coefficients say what to predict."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=200)
    X, X_test = np.column_stack([x, x, rng.normal(size=200)]), rng.normal(size=(100, 3))
    y, y_test = np.round(x + rng.normal(size=200)), np.round(rng.normal(size=100))
    study = WhatIf(LinearRegression()).fit(X, y, X_test, y_test)
    theirs = LinearRegression().fit(X, y)
    np.testing.assert_allclose(study.coef_, theirs.coef_, atol=1e-10)
    expected = mean_squared_error(y_test, theirs.predict(X_test))
    assert study.baseline_.outcomes.loss == pytest.approx(expected, abs=1e-9)
    wide = rng.normal(size=(60, 80))
    study = WhatIf(LinearRegression()).fit(wide, y[:60], wide[::-1] + 1, y[:60])
    theirs = LinearRegression().fit(wide, y[:60])
    expected = mean_squared_error(y[:60], theirs.predict(wide[::-1] + 1))
    assert study.baseline_.outcomes.loss == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    "unit",
    [1e-7, 1e-4, 1.0, 1e6],
)
@pytest.mark.parametrize("offset", [0.0, 1.7e9])
def test_units_and_offsets_of_features_do_not_matter(unit, offset):
    if offset / unit > 1e12:
        return  # the feature itself has no digits left
    rng = np.random.default_rng(10)
    X = rng.normal(size=(1000, 3))
    y = (rng.random(1000) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    X[:, 2] = X[:, 2] * unit + offset
    for model in (
        LogisticRegression(solver="newton-cholesky", **TIGHT),
        Ridge(solver="svd"),
        LinearRegression(),
    ):
        study = WhatIf(model).fit(X[:700], y[:700], X[700:], y[700:])
        assert study.baseline_.problem.design.n_columns == 4
        # scikit-learn itself loses digits to a large offset: give it the centred feature.
        centred = X - X[:700].mean(axis=0)
        if isinstance(model, LinearRegression):
            centred /= X[:700].std(axis=0)  # it cuts small singular values off
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = clone(model).fit(centred[:700], y[:700])
        if isinstance(model, LogisticRegression):
            expected = log_loss(y[700:], theirs.predict_proba(centred[700:])[:, 1])
        else:
            expected = mean_squared_error(y[700:], theirs.predict(centred[700:]))
        assert study.baseline_.outcomes.loss == pytest.approx(expected, abs=1e-7)
        assert study.estimate(epsilon=1.0, categories={"label": [0, 1]}).document.cells[0].trusted


@pytest.mark.parametrize(("factor", "shift"), [(1, 1000), (200, 0), (1e4, 0), (1, 1e6), (1e-4, 0)])
def test_units_and_offsets_of_labels_do_not_matter(survey, factor, shift):
    columns = ["age", "income"]
    X, X_test = survey.X[columns], survey.X_test[columns]
    scores, scores_test = survey.X["children"], survey.X_test["children"]
    changes = []
    for a, b in ((1, 0), (factor, shift)):
        y, y_test = (a * scores + b).astype("category"), a * scores_test + b
        study = WhatIf(LinearRegression()).fit(X, y, X_test, y_test)
        changes.append(study.estimate(epsilon=1.0).document.cells[0].loss_change / a**2)
    assert changes[1] == pytest.approx(changes[0], rel=1e-6)


@pytest.mark.parametrize("factor", [1e-10, 1e8])
def test_the_unit_of_the_weights_does_not_matter_without_penalty(survey, pipeline, factor):
    weight = weights(len(survey.X))
    losses = []
    for given in (weight, factor * weight):
        study = WhatIf(pipeline(LogisticRegression(C=np.inf))).fit(
            survey.X, survey.y, survey.X_test, survey.y_test, given
        )
        cell = study.estimate(epsilon=1.0).document.cells[0]
        losses.append((study.baseline_.outcomes.loss, cell.loss_change))
    assert losses[1] == pytest.approx(losses[0], abs=1e-9)


def test_a_fit_that_stopped_early_is_polished_and_said(survey, pipeline):
    loose = pipeline(LogisticRegression(tol=0.3)).fit(survey.X, survey.y)
    tight = pipeline(LogisticRegression(solver="newton-cholesky", **TIGHT)).fit(survey.X, survey.y)
    with pytest.warns(ApproximationWarning, match="not converged"):
        study = WhatIf(loose).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    expected = log_loss(survey.y_test, tight.predict_proba(survey.X_test)[:, 1])
    assert study.baseline_.outcomes.loss == pytest.approx(expected, abs=1e-8)
    assert any("not converged" in note.text for note in study.baseline_.notes)
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
        (RidgeClassifier(positive=True), "positive=False"),
        (SGDClassifier(), "log_loss"),
        (SGDClassifier(loss="log_loss", penalty="l1"), "l2 penalty or none"),
        (LogisticRegression(l1_ratio=0.5, solver="saga", **MIXED), "l2 penalty or none"),
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
@pytest.mark.filterwarnings("ignore:LogisticRegression is not deterministic")
def test_a_pipeline_that_looks_at_the_label_is_trained_again_as_a_whole(survey, transformer):
    model = make_pipeline(transformer, LogisticRegression())
    study = WhatIf(model).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    result = study.estimate(epsilon=[0.5, 4.0], repeats=2)
    assert {cell.method for cell in result.document.cells} == {"curve"}
    with pytest.raises(InputError, match="looks at the label"):
        study.estimate(epsilon=1.0, method="exact")


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

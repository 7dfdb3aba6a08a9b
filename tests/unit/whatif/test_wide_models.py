# SPDX-License-Identifier: Apache-2.0
"""Wide models: the same answers without a matrix of parameters × parameters, and nothing made dense."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from epsilens import WhatIf
from epsilens.errors import InputError
from epsilens.influence import wide
from epsilens.models import Design, Problem
from epsilens.valuation import leave_one_out
from epsilens.whatif import cells, wide_method

GRID = [0.5, 2.0, np.inf]
FEW, MANY = (60, 40, 10), (700, 500, 40)


def sparse_people(n: int = 1800, n_classes: int = 2, sizes: tuple[int, ...] = FEW):
    """One-hot rows of three columns of categories, and a label that depends on them."""
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, size, n) for size in sizes])
    places = codes + np.r_[0, np.cumsum(sizes)[:-1]]
    X = scipy.sparse.csr_array(
        (np.ones(places.size), places.ravel(), np.arange(0, places.size + 1, len(sizes))),
        shape=(n, sum(sizes)),
    )
    effects = np.random.default_rng(1).normal(size=(sum(sizes), n_classes))
    score = effects[places].sum(axis=1) + rng.gumbel(size=(n, n_classes))
    labels = pd.Categorical(score.argmax(axis=1), categories=range(n_classes))
    return X, pd.Series(labels, name="ill")


def studied(model, n_classes: int = 2, sizes: tuple[int, ...] = FEW) -> WhatIf:
    X, y = sparse_people(n_classes=n_classes, sizes=sizes)
    return WhatIf(model).fit(X[:1200], y[:1200], X[1200:], y[1200:].reset_index(drop=True))


@pytest.fixture
def narrow_limit(monkeypatch):
    """Take everything beyond 100 parameters for wide; say how to go back."""
    monkeypatch.setattr(wide, "MOST_FACTORISED", 100)
    return monkeypatch


MODELS = {
    "logistic": (LogisticRegression(C=0.3), 2),
    "softmax": (LogisticRegression(C=0.1), 3),
    "ridge": (Ridge(alpha=3.0), 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_without_a_matrix_the_answers_are_the_same(name, narrow_limit):
    model, n_classes = MODELS[name]
    wide_study = studied(model, n_classes)
    narrow_limit.setattr(wide, "MOST_FACTORISED", 5000)
    narrow_study = studied(model, n_classes)
    assert any("too many for a matrix" in note.text for note in wide_study.baseline_.notes)
    # Both are converged to a gradient of 1e-9.
    np.testing.assert_allclose(wide_study.coef_, narrow_study.coef_, atol=1e-6)
    exact = wide_study.baseline_.curvature.condition / narrow_study.baseline_.curvature.condition
    assert 0.01 < exact < 100  # an estimate from below in the 2-norm, against one in the 1-norm
    groups = {"half": np.arange(1200) < 600, "all": np.ones(1200, dtype=bool)}
    question = {"epsilon": GRID, "groups": groups}
    rungs = ("influence", "exact")
    expected = {
        rung: narrow_study.estimate(**question, method=rung, n_draws=100).to_frame()
        for rung in rungs
    }
    table = narrow_study.point_table().contributions
    narrow_limit.setattr(wide, "MOST_FACTORISED", 100)
    first = wide_study.estimate(**question, method="influence", n_draws=100)
    settings = first.document.provenance.settings["inverse_hessian"]
    assert settings["solver"] == "cg"
    size = np.abs(expected["influence"]["loss_change"]).max()
    error = np.abs(first.to_frame()["loss_change"] - expected["influence"]["loss_change"]).max()
    # The stated error, and what is left of the two baselines.
    assert error <= 2 * settings["loss_change_error"] + 1e-7 * size
    np.testing.assert_allclose(
        wide_study.point_table().contributions, table, atol=1e-6 * np.abs(table).max()
    )
    found = wide_study.estimate(**question, method="exact", n_draws=100).to_frame()
    # Means over 100 drawn runs in place of a trace: within 5 % of the interval's width.
    width = expected["exact"]["loss_change_high"] - expected["exact"]["loss_change_low"]
    apart = np.abs(found["loss_change"] - expected["exact"]["loss_change"])
    assert (apart <= 0.05 * width).all()
    # Means over 100 drawn runs, of other draws: within half a standard deviation of a run.
    if found["accuracy_change"].notna().all():
        intervals = pd.DataFrame(
            wide_study.estimate(**question, method="exact", n_draws=100).to_dict()["intervals"]
        )
        of_accuracy = intervals[intervals["outcome"] == "accuracy"]
        spread = (of_accuracy["high"] - of_accuracy["low"]).to_numpy() / 3.3
        apart = np.abs(found["accuracy_change"] - expected["exact"]["accuracy_change"]).to_numpy()
        assert (apart <= 0.5 * spread + 1e-6).all()
    ends = found["loss_change_high"] - found["loss_change_low"]
    # A quantile of 100 draws is known to a fifth of a standard deviation.
    np.testing.assert_allclose(ends, width, rtol=0.35)


def test_nothing_is_made_dense_and_no_matrix_is_formed(monkeypatch):
    monkeypatch.setattr(wide, "MOST_FACTORISED", 1000)  # sparse rows are wide from there on too

    def refuse(*_, **__):
        raise AssertionError("made dense")

    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    monkeypatch.setattr(Problem, "hessian", refuse)
    monkeypatch.setattr(Design, "gram", refuse)
    monkeypatch.setattr(Design, "quadratic", refuse)
    study = studied(LogisticRegression(C=0.3), sizes=MANY)
    for method in ("influence", "paper", "newton", "exact"):
        result = study.estimate(epsilon=[1.0], method=method, n_draws=20)
        assert result.to_frame()["method"].tolist() == [method]
    stochastic = study.estimate(
        epsilon=[1.0], method="influence", inverse_hessian="stochastic", n_draws=20
    )
    assert stochastic.document.provenance.settings["inverse_hessian"]["converged"]
    # Exact is within the spread of the mean of really training again.
    truth = study.retrain(epsilon=[1.0], repeats=12)
    runs = truth.draws()["loss_change"]
    assert abs(result.to_frame()["loss_change"][0] - runs.mean()) < 4 * runs.std() / np.sqrt(12)
    assert study.estimate(epsilon=[1.0], seconds=1e-9).to_frame()["method"][0] == "influence"
    assert study.estimate(epsilon=[1.0], seconds=1e9).to_frame()["method"][0] == "exact"


def test_what_needs_a_matrix_is_refused_in_one_line(narrow_limit):
    study = studied(LogisticRegression())
    with pytest.raises(InputError, match=r"inverse_hessian='cholesky' needs a matrix .* Use 'cg'"):
        study.estimate(epsilon=1.0, method="influence", inverse_hessian="cholesky")
    asked = {"epsilon": 1.0, "correction": "forward"}
    with pytest.raises(InputError, match="method='exact' for features, a correction"):
        study.estimate(method="exact", **asked)
    with pytest.raises(InputError, match="retraining with features, a correction"):
        study.retrain(repeats=2, **asked)
    assert study.estimate(n_draws=20, **asked).to_frame()["method"][0] == "influence"
    X, y = sparse_people()
    with pytest.raises(InputError, match="a model without a penalty needs a matrix"):
        studied(LinearRegression())
    with pytest.raises(InputError, match="this needs a matrix"):
        leave_one_out(LogisticRegression(), X[:400], y[:400], X[400:500], y[400:500])


def test_a_feature_of_a_wide_table_can_be_protected_to_first_order(narrow_limit):
    rng = np.random.default_rng(0)
    n = 900
    X = pd.DataFrame(
        {
            "village": pd.Categorical(rng.integers(0, 300, n).astype(str)),
            "sex": pd.Categorical(rng.choice(["m", "f"], n)),
        }
    )
    score = (X["sex"] == "f") * 1.0 + (X["village"].cat.codes % 7) / 7
    y = pd.Series(pd.Categorical(rng.random(n) < 1 / (1 + np.exp(1 - score))), name="ill")
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["village", "sex"]))
    model = make_pipeline(encode, LogisticRegression(C=0.1))
    data = (X[:600], y[:600], X[600:], y[600:])
    question = {"protect": ["sex", "ill"], "epsilon": [1.0], "method": "influence"}
    found = WhatIf(model).fit(*data).estimate(**question).to_frame()
    narrow_limit.setattr(wide, "MOST_FACTORISED", 5000)
    expected = WhatIf(model).fit(*data).estimate(**question).to_frame()
    assert found["loss_change"][0] == pytest.approx(expected["loss_change"][0], rel=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_the_mean_over_drawn_runs_has_a_standard_error(name, narrow_limit):
    model, n_classes = MODELS[name]
    study = studied(model, n_classes)
    said: dict[str, list[float]] = {"parts": [], "mean": []}

    def spy(cell, shape):
        said["mean"].append(cell.quadratic.second_order)
        return cells.finish_cell(cell, shape)

    def spy_on_terms(*given):
        terms = mean_terms(*given)
        said["parts"].append(terms.mean())
        return terms

    mean_terms = wide_method._mean_terms
    narrow_limit.setattr(wide_method, "finish_cell", spy)
    narrow_limit.setattr(wide_method, "_mean_terms", spy_on_terms)
    answers = [
        study.estimate(epsilon=[1.0], method="newton", n_draws=20, random_state=seed)
        for seed in range(16)
    ]
    # Run by run or all together: the same part, but for single precision and the systems' tolerances.
    np.testing.assert_allclose(said["parts"], said["mean"], rtol=1e-3)
    changes = [answer.to_frame()["loss_change"][0] for answer in answers]
    stated = [
        answer.document.provenance.settings["inverse_hessian"]["loss_change_standard_error"]
        for answer in answers
    ]
    # Other seeds move nothing but the draws; a spread over 16 is known to a fifth.
    assert np.std(changes, ddof=1) == pytest.approx(np.sqrt(np.mean(np.square(stated))), rel=0.6)
    assert any("Monte-Carlo standard error" in line for line in answers[0].document.warnings)


def test_as_many_runs_are_recorded_as_were_drawn(narrow_limit):
    study = studied(LogisticRegression(C=0.3))
    for asked, drawn in ((400, 100), (30, 30)):
        result = study.estimate(epsilon=[2.0, np.inf], method="exact", n_draws=asked)
        assert result.document.provenance.settings["n_draws"] == drawn
        assert [len(runs) for runs in result.loss_draws] == [drawn, drawn]


def test_newton_that_stops_too_early_is_not_believed(narrow_limit):
    study = studied(LogisticRegression(C=0.3))
    question = {"epsilon": [0.5], "method": "newton", "n_draws": 30}
    assert study.estimate(**question).to_frame()["trusted"].tolist() == [True]

    def half_way(problem, theta, *rest):
        return 0.5 * (theta[:, None] + newton_steps(problem, theta, *rest))

    newton_steps = wide_method.newton_steps
    narrow_limit.setattr(wide_method, "newton_steps", half_way)
    assert study.estimate(**question).to_frame()["trusted"].tolist() == [False]

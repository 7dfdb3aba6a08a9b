"""PrivateLogisticRegression: what it fits, what it reports, what it refuses and what it warns of."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens.errors import BudgetExceededError, InputError, PrivacyLeakWarning
from epsilens.models.gaussian_release import FITS, epsilon_of_rho
from epsilens.models.private_logistic import balanced_penalty, default_bounds, penalised_minimum
from epsilens.private import PrivateLogisticRegression

MODEL = {"epsilon": 1.0, "delta": 1e-5, "x_bound": 3.0, "n_steps": 6}
OUTPUT = {"mechanism": "output-perturbation"}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    scores = X @ [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 0.0]] + rng.gumbel(size=(400, 3))
    return X, scores.argmax(axis=1)


def private(**settings):
    return PrivateLogisticRegression(**{**MODEL, **settings})


def quietly(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return model.fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("settings", [OUTPUT | {"alpha": 5.0}, {"n_steps": 4000}])
def test_almost_without_noise_it_is_scikit_learn_s_model_of_clipped_rows(
    table, settings, n_classes
):
    X, y = table
    y = np.minimum(y, n_classes - 1)
    model = quietly(private(epsilon=1e8, random_state=0, **settings), X, y)
    bounds = default_bounds(3.0)
    plain = LogisticRegression(
        C=1 / settings.get("alpha", 1e-6), fit_intercept=False, tol=1e-10, max_iter=5000
    ).fit(bounds.rows(X), y)
    chances = plain.predict_proba(bounds.rows(X))
    assert model.predict_proba(X) == pytest.approx(chances, abs=2e-3)
    assert (model.predict(X) == plain.predict(bounds.rows(X))).mean() > 0.99
    assert np.exp(model.predict_log_proba(X)) == pytest.approx(model.predict_proba(X))


@pytest.mark.parametrize("k", [1, 3])
def test_the_penalised_minimum_is_where_the_gradient_vanishes(table, k):
    X, y = table
    y = np.minimum(y, 1) if k == 1 else y
    rows = default_bounds(3.0).rows(X)
    found = penalised_minimum(rows, y, k, penalty=2.0, x_bound=3.0)
    plain = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(rows, y)
    assert pytest.approx(plain.coef_, abs=1e-6) == found.T


def test_features_are_clipped_in_fit_and_in_predict(table):
    X, y = table
    model = quietly(private(random_state=0), X, y)
    far = np.array([[3.0, -4.0, 12.0]]) * 1e200
    at_the_bound = far / np.linalg.norm(far / 1e200) / 1e200 * model.bounds_.feature_bound
    assert model.decision_function(far) == pytest.approx(model.decision_function(at_the_bound))
    again = quietly(private(random_state=0), np.where(np.arange(400)[:, None] == 7, far, X), y)
    same = quietly(
        private(random_state=0), np.where(np.arange(400)[:, None] == 7, at_the_bound, X), y
    )
    assert again.coef_ == pytest.approx(same.coef_)


@pytest.mark.parametrize("settings", [{}, OUTPUT])
@pytest.mark.parametrize("protects", ["answer", "record"])
def test_what_is_reported(table, settings, protects):
    X, y = table
    model = quietly(private(protects=protects, **settings), X, y)
    assert model.epsilon_ == 1.0
    assert epsilon_of_rho(model.rho_, 1e-5) == pytest.approx(1.0)
    assert model.mu_ == pytest.approx(0.268, abs=1e-3)
    assert model.advantage_ == pytest.approx(0.1066, abs=1e-4)
    steps = 1 if settings else 6
    assert model.sigma_ == pytest.approx(model.sensitivity_ * np.sqrt(steps) / model.mu_)
    receipt = model.receipt_
    assert json.loads(json.dumps(receipt)) == receipt
    assert receipt["protects"] == protects
    assert receipt["neighbours"] == "replace-one"
    assert receipt["simulated"] is False
    assert ("n_steps" in receipt) is not bool(settings)
    assert model.coef_.shape == (3, 3)
    assert model.intercept_.shape == (3,)


def test_noise_and_sensitivity_do_not_depend_on_the_data(table):
    X, y = table
    for settings in ({}, OUTPUT):
        one, other = (
            quietly(private(classes=[0, 1, 2], **settings), rows, labels)
            for rows, labels in ((X, y), (1e9 * X, np.zeros_like(y)))
        )
        assert one.receipt_ == other.receipt_


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": None}, "`epsilon` must be given"),
        ({"delta": None}, "`epsilon` must come with `delta`"),
        ({"epsilon": 0.0}, "`epsilon`"),
        ({"delta": 1.0}, "`delta`"),
        ({"x_bound": None}, "`x_bound` must be given"),
        ({"x_bound": -1.0}, "`x_bound`"),
        ({"x_bound": 1e31}, "`x_bound`"),
        ({"protects": "people"}, "`protects`"),
        ({"mechanism": "output"}, "`mechanism`"),
        ({"n_steps": 0}, "`n_steps`"),
        ({"alpha": 0.0}, "`alpha`"),
        ({"alpha": 1e-12, **OUTPUT}, "`alpha` must be larger for so many records"),
        ({"intercept_constant": 3.0}, "`intercept_constant` must be below x_bound"),
        ({"max_total_rho": -1.0}, "`max_total_rho`"),
        ({"classes": [0]}, "`classes` must be at least two different labels"),
        ({"classes": [0, 1, 1]}, "`classes`"),
        ({"classes": [0, 1]}, "must be among the 2 classes"),
    ],
)
def test_what_is_refused_in_one_line(table, settings, words):
    with pytest.raises(InputError, match=words) as refused:
        quietly(private(**settings), *table)
    assert "\n" not in str(refused.value)


def test_labels_of_one_class_are_refused_unless_all_are_declared(table):
    X, _ = table
    with pytest.raises(InputError, match="one class"):
        private().fit(X, np.ones(400, dtype=int))
    model = quietly(private(classes=["no", "yes"]), X, np.full(400, "no"))
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) <= {"no", "yes"}


def test_numbers_are_no_classes(table):
    X, _ = table
    with pytest.raises(InputError, match="Unknown label type: continuous"):
        private().fit(X, X[:, 0])


def warned(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert {one.filename for one in caught} <= {__file__}
    return {one.message.code for one in caught}


def test_leaks_are_warned_of_at_the_line_of_the_user(table):
    X, y = table
    FITS.clear()
    declared = {"classes": [0, 1, 2]}
    assert warned(private(**declared), X, y) == set()
    assert warned(private(**declared), X, y) == {"released-before"}
    assert warned(private(random_state=0, **declared), X, y) == {"simulated"}
    assert warned(private(random_state=0), X, y) == {"simulated", "observed-classes"}
    read = private(x_bound=None, bounds_from_data=True, random_state=0, **declared)
    assert warned(read, X, y) == {"simulated", "bounds-from-data"}


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("settings", [{}, {"fit_intercept": False}, {"intercept_constant": 0.5}])
def test_a_bound_off_the_data_clips_nobody(table, scale, settings):
    X, y = table
    read = private(x_bound=None, bounds_from_data=True, random_state=0, **settings)
    model = quietly(read, scale * X, y)
    longest = np.linalg.norm(scale * X, axis=1).max()
    assert longest <= model.bounds_.feature_bound <= 1.2 * longest


def test_a_bound_off_absurd_data_is_refused_without_a_number(table):
    X, y = table
    read = private(x_bound=None, bounds_from_data=True, random_state=0)
    with pytest.raises(InputError, match="read off the data") as refused:
        quietly(read, 1e200 * X, y)
    assert "e+200" not in str(refused.value)


def test_a_fit_beyond_the_total_is_refused_and_not_counted(table):
    X, y = table
    FITS.clear()
    model = private(classes=[0, 1, 2], max_total_rho=0.05)
    assert model.fit(X, y).total_rho_ == model.rho_
    with pytest.raises(BudgetExceededError, match=r"`max_total_rho` = 0\.05"):
        model.fit(X, y)
    # Labels in words are the same records.
    with pytest.raises(BudgetExceededError):
        private(classes=["a", "b", "c"], max_total_rho=0.05).fit(X, np.array(list("abc"))[y])


def test_a_seed_is_a_simulation_that_repeats(table):
    first, second = (quietly(private(random_state=3), *table) for _ in range(2))
    assert first.simulated_
    assert first.receipt_["simulated"] is True
    assert first.total_rho_ is None
    assert first.coef_.tolist() == second.coef_.tolist()


def test_frames_are_taken(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = quietly(private(), frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("x_bound", [1e-30, 1e30])
@pytest.mark.parametrize("settings", [{}, OUTPUT])
def test_the_corners_of_what_is_allowed_are_fitted(table, x_bound, settings):
    X, y = table
    model = quietly(private(x_bound=x_bound, random_state=0, **settings), X * x_bound, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_the_balanced_penalty_is_where_the_two_costs_are_least():
    alpha = balanced_penalty(1000, 3.0, "record", rho=0.1)

    def worst(penalty):
        return (6.0 / penalty) ** 2 / 0.2 * 9.0 / 8.0 + penalty * (8.0 / 3.0) ** 2 / 2000.0

    assert worst(alpha) < min(worst(0.99 * alpha), worst(1.01 * alpha))

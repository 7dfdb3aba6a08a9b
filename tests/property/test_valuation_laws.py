from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from epsilens.valuation import Appraisal, batch_correction, leave_one_out

SEEDS = st.integers(0, 2**32 - 1)


def draw(seed, *, n=80, m=50, p=3, kind="numbers"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + m, p))
    s = X @ rng.normal(size=p)
    if kind == "numbers":
        y = s + rng.normal(size=n + m)
    else:
        y = (rng.random(n + m) < 1 / (1 + np.exp(-s))).astype(int)
        y[:4] = [0, 0, 1, 1]
    return X[:n], y[:n], X[n:], y[n:]


def scale_of(scores):
    return np.abs(scores).max()


@settings(max_examples=10)
@given(SEEDS, st.sampled_from(["numbers", "classes"]))
def test_first_order_adds_up_to_nothing_without_a_penalty(seed, kind):
    data = draw(seed, kind=kind, n=200)
    model = LinearRegression() if kind == "numbers" else LogisticRegression(C=np.inf)
    scores = leave_one_out(model, *data, method="first-order")
    # The gradient at the optimum is zero to 1e-9 or better.
    assert abs(scores.mean()) <= 1e-9 * scale_of(scores)


@settings(max_examples=10)
@given(SEEDS, st.sampled_from(["numbers", "classes"]), st.floats(0.1, 30.0))
def test_with_a_penalty_the_mean_is_what_the_penalty_pulls(seed, kind, strength):
    data = draw(seed, kind=kind)
    model = Ridge(strength) if kind == "numbers" else LogisticRegression(C=1 / strength)
    appraisal = Appraisal.of(model, *data)
    base = appraisal.baseline
    eta = base.evaluation.gradient(base.theta)
    pull = base.problem.penalise(base.theta)
    expected = -eta @ base.curvature.solve(pull) / base.problem.n_rows
    scores = appraisal.leave_one_out(method="first-order")
    assert scores.mean() == pytest.approx(expected, abs=1e-8 * scale_of(scores))


@settings(max_examples=8)
@given(SEEDS)
def test_exact_scores_are_positive_on_average_where_theory_says_so(seed):
    """λ = 0, n ≫ d, training and test records alike: a record helps, on average."""
    data = draw(seed, n=1000, m=4000)
    scores = leave_one_out(LinearRegression(), *data)
    assert scores.mean() > 0


@settings(max_examples=6)
@given(SEEDS, st.sampled_from(["first-order", "second-order", "newton", "exact"]))
def test_renaming_two_classes_changes_no_score(seed, method):
    X, y, X_test, y_test = draw(seed, kind="classes")
    there = leave_one_out(LogisticRegression(), X, y, X_test, y_test, method=method)
    back = leave_one_out(LogisticRegression(), X, 1 - y, X_test, 1 - y_test, method=method)
    # Both are within 1e-7 of the largest score of the same truth.
    assert np.abs(there - back).max() <= 2e-7 * scale_of(there)


@settings(max_examples=6)
@given(SEEDS)
def test_renaming_several_classes_changes_no_score(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(120, 3)), axis=1)
    y[:6] = [0, 0, 1, 1, 2, 2]
    renamed = np.array(["c", "a", "b"])[y]
    there = leave_one_out(LogisticRegression(), X[:70], y[:70], X[70:], y[70:])
    back = leave_one_out(LogisticRegression(), X[:70], renamed[:70], X[70:], renamed[70:])
    assert np.abs(there - back).max() <= 2e-7 * scale_of(there)


@settings(max_examples=8)
@given(SEEDS, st.permutations(range(40)))
def test_scores_follow_their_records(seed, order):
    X, y, X_test, y_test = draw(seed, n=40)
    rows = np.array(order)
    scores = leave_one_out(Ridge(), X, y, X_test, y_test)
    shuffled = leave_one_out(Ridge(), X[rows], y[rows], X_test, y_test)
    assert np.abs(shuffled - scores[rows]).max() <= 1e-11 * scale_of(scores)


@settings(max_examples=8)
@given(SEEDS, st.floats(0.01, 100.0), st.floats(-50.0, 50.0))
def test_units_of_a_feature_do_not_matter_without_a_penalty(seed, unit, origin):
    X, y, X_test, y_test = draw(seed)
    scores = leave_one_out(LinearRegression(), X, y, X_test, y_test)
    moved = leave_one_out(LinearRegression(), X * unit + origin, y, X_test * unit + origin, y_test)
    # An origin of 50 units of 0.01 costs four digits.
    assert np.abs(moved - scores).max() <= 1e-9 * scale_of(scores)


@given(st.floats(1, 1e6), st.floats(1, 1e5), st.integers(1, 1000))
def test_a_batch_is_worth_less_than_the_sum_of_its_records(q, b, k):
    assert batch_correction(q, b, k) > 1
    assert batch_correction(q, b, k + 1) < batch_correction(q, b, k)
    assert batch_correction(2 * q, 2 * b, k) == pytest.approx(batch_correction(q, b, k))

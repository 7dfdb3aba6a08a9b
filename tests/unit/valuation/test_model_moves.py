# SPDX-License-Identifier: Apache-2.0
"""Moves of the model against the local scores, against refits, and against their obvious twins."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.models import LogisticLoss, SoftmaxLoss, SquaredLoss
from epsilens.valuation import (
    ModelForProvider,
    Yardstick,
    add_one,
    batch_move,
    item_moves,
    leave_one_out,
)


def labelled(n: int, seed: int, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 2.0, 0.5]
    scores = np.outer(X @ [1.0, -0.5, 1.0], np.arange(n_classes))
    return X, (scores + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


def with_intercept(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, np.ones(len(X))])


def model_of(estimator, X, y, loss, shrink) -> ModelForProvider:
    """θ and H of a fitted scikit-learn model whose whole penalty stays as it is."""
    estimator = estimator.fit(X, y)
    coefficients = np.atleast_2d(estimator.coef_)
    theta = np.column_stack([coefficients, np.atleast_1d(estimator.intercept_)]).ravel()
    wide = with_intercept(X)
    s = wide @ theta.reshape(-1, wide.shape[1]).T
    curvature = loss.curvature(s)
    hessian = np.einsum("nkl,ni,nj->kilj", curvature, wide, wide).reshape(len(theta), -1) / len(y)
    n_outputs = loss.n_outputs
    own = np.tile([shrink] * 3 + [1e-9 if n_outputs > 1 else 0.0], n_outputs) / len(y)
    return ModelForProvider(theta, np.linalg.inv(hessian + np.diag(own)), len(y))


TRAIN, OFFER, TEST = labelled(300, 1), labelled(40, 2), labelled(200, 3)


@pytest.mark.parametrize("method", ["first-order", "second-order", "newton"])
@pytest.mark.parametrize("change", ["add", "remove"])
def test_logistic_scores_are_those_of_the_local_methods(method, change):
    loss = LogisticLoss()
    estimator = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000)
    model = model_of(estimator, *TRAIN, loss, shrink=1.0)
    stick = Yardstick.of(model.for_tester(), with_intercept(TEST[0]), TEST[1], loss)
    records = OFFER if change == "add" else TRAIN
    moves = item_moves(
        model, with_intercept(records[0]), records[1], loss, change=change, method=method
    )
    if method == "first-order":
        # The local first order is linear in the test loss too.
        scores = (-1 if change == "add" else 1) * (moves @ stick.gradient)
    else:
        scores = stick.worth(moves, change=change)
    if change == "add":
        local = add_one(estimator, *TRAIN, *OFFER, *TEST, method=method)
    else:
        local = leave_one_out(estimator, *TRAIN, *TEST, method=method)
    # Two fits, each converged to about 1e-10, of scores of about 1e-3.
    assert np.abs(scores - local).max() <= 1e-6 * np.abs(local).max()


def test_scores_are_close_to_refits_and_rank_the_items_alike():
    loss = LogisticLoss()
    estimator = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000)
    model = model_of(estimator, *TRAIN, loss, shrink=1.0)
    stick = Yardstick.of(model.for_tester(), with_intercept(TEST[0]), TEST[1], loss)
    X, y = with_intercept(OFFER[0]), OFFER[1]
    exact = add_one(estimator, *TRAIN, *OFFER, *TEST)
    errors = {
        method: np.abs(stick.worth(item_moves(model, X, y, loss, method=method)) - exact).mean()
        for method in ("first-order", "second-order", "newton")
    }
    # First order leaves out the leverage; what all leave out, third derivatives, is as large here.
    assert errors["second-order"] < 0.6 * errors["first-order"]
    assert errors["newton"] < 0.6 * errors["first-order"]
    scores = stick.worth(item_moves(model, X, y, loss))
    agree = np.mean(np.sign(scores[:, None] - scores) == np.sign(exact[:, None] - exact))
    assert agree > 0.99
    assert np.array_equal(np.sign(scores), np.sign(exact))


def test_a_square_is_exact():
    loss, rng = SquaredLoss(), np.random.default_rng(5)
    (X, _), (X_offer, _), (X_test, _) = TRAIN, OFFER, TEST
    y, y_offer, y_test = (
        Z @ [1.0, 0.5, -1.0] + rng.normal(size=len(Z)) for Z in (X, X_offer, X_test)
    )
    model = model_of(Ridge(alpha=2.0), X, y, loss, shrink=2.0 * 2.0)
    stick = Yardstick.of(model.for_tester(), with_intercept(X_test), y_test, loss)
    moves = item_moves(model, with_intercept(X_offer), y_offer, loss)
    exact = add_one(Ridge(alpha=2.0), X, y, X_offer, y_offer, X_test, y_test)
    assert stick.worth(moves) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("method", ["second-order", "newton"])
@pytest.mark.parametrize(("change", "sign"), [("add", 1), ("remove", -1)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_move_is_what_its_formula_says_penalty_and_classes_included(
    method, change, sign, n_classes
):
    loss = LogisticLoss() if n_classes == 2 else SoftmaxLoss(3)
    X, y = labelled(12, 7, n_classes)
    rng, p = np.random.default_rng(0), 3 * loss.n_outputs
    theta, root, own = rng.normal(size=p), rng.normal(size=(p, p)), rng.uniform(0.1, 1.0, p)
    hessian = root @ root.T + np.eye(p)
    model = ModelForProvider(theta, np.linalg.inv(hessian), 50, own)

    def sums(X, y):
        s = X @ theta.reshape(-1, 3).T
        gradient = np.einsum("nk,ni->ki", loss.slope(s.copy(), y), X).ravel()
        curvature = np.einsum("nkl,ni,nj->kilj", loss.curvature(s), X, X).reshape(p, p)
        return gradient + len(y) * own * theta, curvature + len(y) * np.diag(own)

    def move(gradient, curvature):
        whole = 50 * hessian
        if method == "newton":
            return -sign * np.linalg.solve(whole + sign * curvature, gradient)
        step = np.linalg.solve(whole, gradient)
        return -sign * (step - sign * np.linalg.solve(whole, curvature @ step))

    options = {"change": change, "method": method}
    items = item_moves(model, X, y, loss, **options)
    for j in range(len(y)):
        assert items[j] == pytest.approx(move(*sums(X[j : j + 1], y[j : j + 1])), rel=1e-9)
    assert batch_move(model, X, y, loss, **options) == pytest.approx(move(*sums(X, y)), rel=1e-9)


def test_what_cannot_be_moved_by_is_refused_in_a_line():
    loss = LogisticLoss()
    model = ModelForProvider(np.zeros(1), np.array([[1.0]]), n_records=1)
    with pytest.raises(EstimateNotTrustworthyError, match="no finite optimum"):
        item_moves(model, np.array([[2.0]]), np.ones(1), loss, change="remove")
    with pytest.raises(EstimateNotTrustworthyError, match="no finite optimum"):
        batch_move(model, np.array([[2.0]]), np.ones(1), loss, change="remove")
    with pytest.raises(InputError, match="records of 1 columns"):
        item_moves(model, np.ones((2, 2)), np.ones(2), loss)
    with pytest.raises(InputError, match="finite numbers"):
        item_moves(model, np.array([[np.nan]]), np.ones(1), loss)
    with pytest.raises(InputError, match="codes from 0 to 1, but 1 of 2"):
        item_moves(model, np.ones((2, 1)), np.array([1.0, 2.0]), loss)
    with pytest.raises(InputError, match="`change` must be one of"):
        item_moves(model, np.ones((1, 1)), np.ones(1), loss, change="swap")
    with pytest.raises(InputError, match="2 × 2 finite numbers"):
        ModelForProvider(np.zeros(2), np.eye(3), 5)
    with pytest.raises(InputError, match="positive definite"):
        ModelForProvider(np.zeros(2), -np.eye(2), 5)

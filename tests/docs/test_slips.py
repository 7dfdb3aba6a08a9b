# SPDX-License-Identifier: Apache-2.0
"""What docs/concepts/slips.md says and no test of a room shows: counterexamples, by brute force."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.channels import RandomizedResponse
from epsilens.models import LogisticLoss
from epsilens.valuation import ModelForProvider, batch_correction, item_moves, smallest_batch

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
TRUTH = np.array([0.3, 1.2])


def corrected_minimiser(chosen) -> np.ndarray:
    """Minimise the forward-corrected loss of a whole population; `chosen(x, y)` is the share randomised."""
    channel = RandomizedResponse(2, 1.0).matrix
    x = np.linspace(-2, 2, 41)
    yes = expit(TRUTH[0] + TRUTH[1] * x)

    def loss(theta: np.ndarray) -> float:
        h = expit(theta[0] + theta[1] * x)
        told = np.stack([1 - h, h])  # what the model says of each label, and of each report
        reported = channel.T @ told
        total = 0.0
        for y, share in ((0, 1 - yes), (1, yes)):
            part = chosen(x, y)
            kept = -np.log(told[y])
            randomised = -(channel[y] @ np.log(reported))
            total += np.sum(share * (part * randomised + (1 - part) * kept))
        return total

    return minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x


def test_theorem_1_of_p1_needs_a_group_that_does_not_depend_on_the_label():
    by_chance = corrected_minimiser(lambda x, y: np.full_like(x, 0.3))
    by_feature = corrected_minimiser(lambda x, y: (x > 0).astype(float))
    by_label = corrected_minimiser(lambda x, y: np.full_like(x, float(y == 1)))
    assert by_chance == pytest.approx(TRUTH, abs=1e-4)
    assert by_feature == pytest.approx(TRUTH, abs=1e-4)
    assert np.linalg.norm(by_label - TRUTH) > 1


def test_the_sum_in_eq_14_of_p1_is_an_expectation_only_with_its_minus_sign():
    """Three classes, everything written out, against `method="paper"`."""
    rng = np.random.default_rng(4)
    names = np.array(["a", "b", "c"])
    X, X_test = rng.normal(size=(200, 2)), rng.normal(size=(150, 2))
    y, y_test = ((rng.normal(size=(len(part), 3)) + part @ np.array([[1, 0, -1], [0, 1, 0]])).argmax(1)
                 for part in (X, X_test))  # fmt: skip
    model = LogisticRegression(C=0.5, tol=1e-12, max_iter=10_000).fit(X, names[y])
    kind = pd.CategoricalDtype(names)
    study = WhatIf(model).fit(
        X, pd.Series(names[y], dtype=kind), X_test, pd.Series(names[y_test], dtype=kind)
    )
    found = study.estimate(epsilon=1.0, method="paper").document.cells[0].loss_change

    def rows(part):
        return np.column_stack([part, np.ones(len(part))])

    def chances(part):
        s = part @ np.column_stack([model.coef_, model.intercept_]).T
        return np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)

    def gradients(part, h, labels):
        return np.einsum("nk,ni->nki", h - np.eye(3)[labels], part).reshape(len(part), -1)

    A, A_test = rows(X), rows(X_test)
    h = chances(A)
    spread = np.einsum("nk,kl->nkl", h, np.eye(3)) - np.einsum("nk,nl->nkl", h, h)
    hessian = np.einsum("nkl,ni,nj->kilj", spread, A, A).reshape(9, 9) / 200
    hessian += np.diag([1.0, 1.0, 0.0] * 3) / (0.5 * 200)
    v = np.linalg.pinv(hessian) @ gradients(A_test, chances(A_test), y_test).mean(axis=0)
    true, loss = gradients(A, h, y), -np.log(h)
    difference = product = expected = 0.0
    channel = RandomizedResponse(3, 1.0).matrix
    for c in range(3):
        each, other = gradients(A, h, np.full(200, c)), c != y
        expected += channel[y, c] @ (each @ v)
        difference += channel[0, 1] * np.sum(((each - true) @ v)[other])
        own = loss[np.arange(200), y]
        product += channel[0, 1] * np.sum((own * (each @ v) + loss[:, c] * (true @ v))[other])
    assert difference == pytest.approx(expected - np.sum(true @ v), rel=1e-9)
    assert found == pytest.approx(-difference / 200, rel=1e-5)
    assert abs(product - difference) > 0.5 * abs(difference)


def test_first_order_is_far_off_where_the_decision_says_so():
    """docs/decisions/first-order-is-not-the-default.md: more than seventy times, 30 % of the men."""
    rows = json.loads((RESULTS / "whatif-adult.json").read_text())["rows"]
    far = [r for r in rows if r["group"] == "30.00%" and r["block"].startswith("men")]
    assert len(far) == 2
    for row in far:
        assert row["error"]["influence"] > 70 * row["error"]["exact"]


def test_first_order_had_the_wrong_sign_where_it_was_measured():
    rows = json.loads((RESULTS / "whatif-pubcov.json").read_text())["rows"]
    (row,) = [r for r in rows if (r["block"], r["group"]) == ("labels", "30.00%")]
    found = {way: row["curve"][way][0] for way in ("retrained", "paper", "exact")}
    error = row["curve"]["retrained_standard_error"][0]
    assert row["curve"]["epsilon"][0] < 0.01
    assert found["paper"] < 0 < found["retrained"] - 10 * error
    assert found["exact"] == pytest.approx(found["retrained"], abs=5 * error)


def test_two_outputs_taken_one_by_one_move_twice_too_far():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    p = expit(X @ rng.normal(size=3))
    gradient = X.T @ (
        p - (rng.random(50) < 0.5)
    )  # of the second output; the first has its negative
    one_logit = (X * (p * (1 - p))[:, None]).T @ X
    right = np.linalg.solve(one_logit, gradient)
    both = np.block([[one_logit, -one_logit], [-one_logit, one_logit]])
    assert np.linalg.matrix_rank(both) == 3
    first, second = np.split(np.linalg.pinv(both) @ np.concatenate([-gradient, gradient]), 2)
    np.testing.assert_allclose(second - first, right, rtol=1e-8)
    alone = np.linalg.solve(one_logit, gradient)
    np.testing.assert_allclose(alone - (-alone), 2 * right, rtol=1e-12)


def test_lemma_1_of_p3_means_the_inverse():
    A = np.diag([2.0, 1.0])
    u = np.array([1.0, 0.0])
    as_printed, right = np.array([-0.5, 0.0]), np.array([-2.0, 0.0])
    assert as_printed @ A @ u == -1
    assert np.linalg.matrix_rank(A + np.outer(u, as_printed)) == 2
    assert right @ np.linalg.solve(A, u) == -1
    assert np.linalg.matrix_rank(A + np.outer(u, right)) == 1


def test_the_score_of_p3_has_mean_zero_for_a_canary_that_is_out():
    canaries = (
        np.eye(3)[:, :2] + 0.0
    )  # two directions that are at right angles, and one of length 0
    scores = {
        coins: canaries @ (np.array(coins) @ canaries)
        for coins in itertools.product((0, 1), repeat=3)
    }
    for i in (0, 1):
        means = [
            np.mean([s[i] for coins, s in scores.items() if coins[i] == bit]) for bit in (0, 1)
        ]
        assert means == [0.0, 1.0]


@pytest.mark.parametrize(("q", "b", "k"), [(500, 30, 1), (500, 100, 3), (20, 300, 5)])
def test_the_fall_across_a_batch_is_not_what_p4_prints(q, b, k):
    before, after = q + (k - 1) * b, q + k * b
    fall = q**2 / before**2 - q**2 / after**2
    right, printed = 2 * q + (2 * k - 1) * b, (2 * q + (k - 1) * b) ** 2
    assert fall == pytest.approx(b * q**2 * right / (before * after) ** 2, rel=1e-12)
    assert fall < 0.5 * b * q**2 * printed / (before * after) ** 2
    assert 2 * b * q**2 / before**3 / fall == pytest.approx(batch_correction(q, b, k), rel=1e-12)


@pytest.mark.parametrize("method", ["first-order", "second-order", "newton"])
def test_one_move_gives_the_record_away_to_whoever_knows_the_hessian(method):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(40, 3)), np.ones(40)])
    theta = rng.normal(size=4)
    p = expit(X @ theta)
    hessian = (X * (p * (1 - p))[:, None]).T @ X / 40 + 0.01 * np.eye(4)
    model = ModelForProvider(theta, np.linalg.inv(hessian), 40)
    offered, answers = X[:5] + np.array([0.5, -0.5, 0.25, 0.0]), np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    for record, move in zip(
        offered, item_moves(model, offered, answers, LogisticLoss(), method=method), strict=True
    ):
        direction = hessian @ move
        np.testing.assert_allclose(direction / direction[-1], record, rtol=1e-6)


def test_sums_of_squares_give_rows_of_two_answers_away():
    rows = list(itertools.product((0, 1), repeat=2))
    for n in range(smallest_batch(2), 8):
        seen = {}
        for batch in itertools.combinations_with_replacement(rows, n):
            X = np.array(batch)
            seen.setdefault((X.T @ X).tobytes(), set()).add(tuple(sorted(batch)))
        assert all(len(batches) == 1 for batches in seen.values())
        assert len(seen) == math.comb(n + 3, 3)

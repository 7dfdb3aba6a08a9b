# SPDX-License-Identifier: Apache-2.0
"""One number for a whole batch: who refuses what, and what the number is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from epsilens.errors import InputError
from epsilens.models import SquaredLoss
from epsilens.valuation import (
    AnswerBook,
    ModelForProvider,
    Yardstick,
    answer_batch,
    offer_batch,
    round_scores,
    smallest_batch,
)

LOSS = SquaredLoss()


@pytest.fixture
def parties(tmp_path):
    """A ridge model without intercept, whose batches have an exact answer."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=260)
    mine, theirs, test = slice(0, 100), slice(100, 160), slice(160, 260)
    estimator = Ridge(alpha=3.0, fit_intercept=False)
    theta = estimator.fit(X[mine], y[mine]).coef_
    hessian = 2 * (X[mine].T @ X[mine] + 3.0 * np.eye(4)) / 100
    model = ModelForProvider(theta, np.linalg.inv(hessian), 100)
    stick = Yardstick.of(model.for_tester(), X[test], y[test], LOSS)
    both = np.r_[0:160]
    after = Ridge(alpha=3.0, fit_intercept=False).fit(X[both], y[both]).coef_
    fall = np.mean((X[test] @ theta - y[test]) ** 2) - np.mean((X[test] @ after - y[test]) ** 2)
    book = AnswerBook(tmp_path / "answers.sqlite", n_parameters=4, limit=2)
    return model, stick, book, X[theirs], y[theirs], fall


def test_the_score_of_a_batch_is_the_fall_of_the_test_loss(parties):
    model, stick, book, X, y, fall = parties
    options = {"provider": "A", "answers": book}
    message = offer_batch(model, X, y, LOSS)
    found = answer_batch(model.for_tester(), stick, message, **options)
    assert found.scores == pytest.approx([fall], abs=found.resolution)
    # As printed, P4's series is off by the square of the batch's share of the records, here 60 of 160.
    printed = stick.worth(offer_batch(model, X, y, LOSS, method="second-order").move[None])
    assert abs(printed[0] - fall) > 0.05 * abs(fall)
    assert book.given_to("A") == 1
    harmful = offer_batch(model, X, -y, LOSS)
    assert answer_batch(model.for_tester(), stick, harmful, **options).scores[0] < 0
    with pytest.raises(InputError, match="may get 2 scores"):
        answer_batch(model.for_tester(), stick, offer_batch(model, 2 * X, y, LOSS), **options)


def test_a_batch_that_could_be_solved_for_is_refused_at_the_provider(parties):
    model, _, _, X, y, _ = parties
    for p in (1, 2, 30, 60):
        assert smallest_batch(p) == p + 1  # n > d(d + 2)/(d + 1)
    assert smallest_batch(6, n_outputs=3) == 17  # 48 equations, three unknowns a record
    with pytest.raises(InputError, match="at least 5 records for a model of 4 numbers, got 4"):
        offer_batch(model, X[:4], y[:4], LOSS)
    assert offer_batch(model, X[:5], y[:5], LOSS).move.shape == (4,)


def test_a_tester_refuses_what_is_no_move_of_this_model(parties):
    model, stick, book, X, y, _ = parties
    message = offer_batch(model, X, y, LOSS)

    def answer(changed):
        answer_batch(model.for_tester(), stick, changed, provider="A", answers=book)

    with pytest.raises(InputError, match="`move` must be finite"):
        replace(message, move=np.full(4, np.nan))
    with pytest.raises(InputError, match="`move` must be 4 numbers, got 3"):
        answer(replace(message, move=np.zeros(3)))
    with pytest.raises(InputError, match="far beyond"):
        answer(replace(message, move=np.full(4, 1e9)))
    with pytest.raises(InputError, match="present version of the model"):
        answer(replace(message, model="another"))
    assert book.given_to("A") == 0


def test_rounding_keeps_digits_of_the_largest_at_any_size():
    rng = np.random.default_rng(0)
    for size in (1e-300, 1e-9, 1.0, 1e12):
        values = size * rng.normal(size=50)
        rounded = round_scores(values)
        assert 1e-6 <= rounded.resolution / np.abs(values).max() <= 1e-5
        above = round_scores(values, error=4e-7)
        assert 4e-6 <= above.resolution / np.abs(values).max() <= 1e-5
        assert np.abs(above.scores - values).max() <= 0.5 * above.resolution * (1 + 1e-9)
        assert np.abs(rounded.scores - values).max() <= 0.51 * rounded.resolution
    assert round_scores(np.zeros(3)).scores.tolist() == [0.0, 0.0, 0.0]
    assert round_scores(np.array([0.123, 9.0]), resolution=0.25).scores.tolist() == [0.0, 9.0]

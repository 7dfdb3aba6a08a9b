"""Scores of the attack: finite where probabilities are not, and equal to the definition."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.errors import InputError, InputTypeError
from epsilens.risk import scores_from_logits, scores_from_margins


def slow_score(logits, label):
    odds = np.exp(logits.astype(np.longdouble))
    p = odds[label] / odds.sum()
    return float(np.log(p / (1 - p)))


def test_softmax_scores_are_the_log_odds_of_the_label():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(3, 5, 4)), rng.integers(0, 4, size=5)
    expected = [[slow_score(row, y) for row, y in zip(one, labels, strict=True)] for one in logits]
    np.testing.assert_allclose(scores_from_logits(logits, labels), expected, rtol=1e-10)


def test_margins_and_two_logits_agree():
    rng = np.random.default_rng(1)
    margins, labels = rng.normal(size=(2, 6)), rng.integers(0, 2, size=6)
    logits = np.stack([np.zeros_like(margins), margins], axis=-1)
    np.testing.assert_allclose(
        scores_from_margins(margins, labels), scores_from_logits(logits, labels), rtol=1e-14
    )


@pytest.mark.parametrize("size", [1000.0, -1000.0])
def test_huge_logits_stay_finite(size):
    logits = np.array([[size, 0.0, 0.0], [0.0, size, size]])
    found = scores_from_logits(logits, [0, 0])
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(size - np.log(2.0))
    assert np.isfinite(scores_from_margins([[size]], [1])).all()


def test_a_constant_on_all_logits_changes_nothing():
    logits = np.array([[1.0, 2.0, 4.0]])
    assert scores_from_logits(logits + 512.0, [2]) == pytest.approx(scores_from_logits(logits, [2]))


def test_regression_is_refused():
    with pytest.raises(InputTypeError, match="regression"):
        scores_from_margins(np.zeros((2, 3)), [0.1, 0.2, 0.3])


def test_bad_logits_are_refused_without_their_values():
    with pytest.raises(InputError, match="1 of 2 are not") as caught:
        scores_from_margins([[np.inf, 123.456]], [0, 1])
    assert "123" not in str(caught.value)
    with pytest.raises(InputError, match="n_records, n_classes"):
        scores_from_logits(np.zeros((2, 3)), [0, 1, 0])
    with pytest.raises(InputError, match="one entry per record"):
        scores_from_margins(np.zeros((2, 3)), [0, 1])
    with pytest.raises(InputError, match="1 of 2 lie outside"):
        scores_from_logits(np.zeros((2, 3)), [0, 3])
    with pytest.raises(InputTypeError, match="array of numbers"):
        scores_from_margins([["a"]], [1])

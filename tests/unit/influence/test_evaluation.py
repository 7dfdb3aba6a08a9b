from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from epsilens.influence.evaluation import (
    Evaluation,
    area_under_curve,
    areas_of,
)
from epsilens.models import Design, LogisticLoss, SoftmaxLoss, SquaredLoss


@pytest.fixture(scope="module", params=["plain", "weighted"])
def evaluation(request):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(500, 3))
    y = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    w = np.ones(500) if request.param == "plain" else rng.uniform(0.1, 4, 500)
    design = Design.plain(X)
    return Evaluation(design, y, w / w.sum(), LogisticLoss(), True)


def test_outcomes_equal_those_of_scikit_learn(evaluation):
    theta = np.array([0.8, -0.2, 0.1])
    s = evaluation.design.matrix @ theta
    outcomes = evaluation.outcomes(theta)
    w = evaluation.weights
    p = 1 / (1 + np.exp(-s))
    assert outcomes.loss == pytest.approx(log_loss(evaluation.y, p, sample_weight=w))
    assert outcomes.accuracy == pytest.approx(accuracy_score(evaluation.y, s > 0, sample_weight=w))
    assert outcomes.auc == pytest.approx(roc_auc_score(evaluation.y, s, sample_weight=w))
    np.testing.assert_allclose(evaluation.losses(theta[:, None]), outcomes.loss)


def test_several_classes_equal_scikit_learn(evaluation):
    rng = np.random.default_rng(14)
    y = rng.integers(0, 3, 500).astype(float)
    several = Evaluation(evaluation.design, y, evaluation.weights, SoftmaxLoss(3), True)
    theta = rng.normal(size=9)
    s = evaluation.design.matrix @ theta.reshape(3, 3).T
    p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
    outcomes, w = several.outcomes(theta), evaluation.weights
    assert outcomes.loss == pytest.approx(log_loss(y, p, sample_weight=w))
    accuracy = accuracy_score(y, p.argmax(axis=1), sample_weight=w)
    assert outcomes.accuracy == pytest.approx(accuracy)
    areas = [roc_auc_score(y == k, p[:, k], sample_weight=w) for k in range(3)]
    assert outcomes.auc == pytest.approx(np.mean(areas))
    moves = rng.normal(scale=0.1, size=(9, 12))
    drawn = several.drawn(theta, moves.astype(np.float32), n_auc_draws=5)
    alone = [several.outcomes(theta + moves[:, d]) for d in range(12)]
    np.testing.assert_allclose(drawn.loss, [o.loss for o in alone], atol=2e-8)
    np.testing.assert_allclose(drawn.accuracy, [o.accuracy for o in alone], atol=5e-3)
    np.testing.assert_allclose(drawn.auc, [o.auc for o in alone[:5]], atol=1e-4)


def test_ties_count_half():
    scores = np.array([1.0, 1.0, 2.0, 0.0])
    positive = np.array([True, False, True, False])
    assert area_under_curve(scores, positive, np.ones(4)) == pytest.approx(
        roc_auc_score(positive, scores)
    )
    assert area_under_curve(scores, np.zeros(4, dtype=bool), np.ones(4)) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_many_columns_of_tied_scores_equal_scikit_learn(weighted):
    rng = np.random.default_rng(15)
    scores = rng.integers(-2, 3, size=(200, 6)).astype(np.float32) / 2
    scores[:, 0] = 0.0
    scores[:50, 1] = -0.0
    positive = rng.random(200) < 0.4
    weights = rng.uniform(0.5, 2, 200) if weighted else np.full(200, 1 / 200)
    areas = areas_of(scores[:, None, :], positive.astype(float), weights)
    expected = [roc_auc_score(positive, column, sample_weight=weights) for column in scores.T]
    np.testing.assert_allclose(areas, expected, atol=1e-12)


def test_draws_in_single_precision_equal_one_by_one_in_double(evaluation):
    theta = np.array([0.8, -0.2, 0.1])
    moves = np.random.default_rng(13).normal(scale=0.1, size=(3, 40))
    drawn = evaluation.drawn(theta, moves.astype(np.float32), n_auc_draws=10)
    alone = [evaluation.outcomes(theta + moves[:, d]) for d in range(40)]
    # Rounding of 1e-7 in single logits, averaged over 500 records.
    np.testing.assert_allclose(drawn.loss, [o.loss for o in alone], atol=1e-8)
    np.testing.assert_allclose(drawn.accuracy, [o.accuracy for o in alone], atol=5e-3)
    assert len(drawn.auc) == 10
    np.testing.assert_allclose(drawn.auc, [o.auc for o in alone[:10]], atol=1e-4)


def test_a_regression_has_no_accuracy(evaluation):
    regression = Evaluation(
        evaluation.design, evaluation.y, evaluation.weights, SquaredLoss(), False
    )
    theta = np.array([0.1, 0.2, 0.3])
    outcomes = regression.outcomes(theta)
    assert outcomes.accuracy is None
    assert outcomes.auc is None
    error = (evaluation.design.matrix @ theta - evaluation.y) ** 2
    assert outcomes.loss == pytest.approx(evaluation.weights @ error)


def test_the_gradient_agrees_with_finite_differences(evaluation):
    theta = np.array([0.8, -0.2, 0.1])
    h = 1e-6
    numeric = [
        (evaluation.outcomes(theta + h * e).loss - evaluation.outcomes(theta - h * e).loss)
        / (2 * h)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(evaluation.gradient(theta), numeric, atol=1e-8)


@pytest.mark.parametrize("m", [10, 1500])
def test_areas_of_runs_that_differ_far_in_size(m):
    """The first of them may lie in a small part of where the others lie."""
    rng = np.random.default_rng(0)
    y = (np.arange(m) % 3 == 0).astype(float)
    sizes = np.r_[0.01, np.geomspace(0.1, 50.0, 11)]
    scores = (y[:, None] + rng.normal(size=(m, 12))) * sizes
    binned = areas_of(scores[:, None, :].astype(np.float32), y, np.full(m, 1 / m))
    exact = [area_under_curve(column, y > 0.5, np.full(m, 1 / m)) for column in scores.T]
    np.testing.assert_allclose(binned, exact, atol=2e-2 if m > 1000 else 1e-6)

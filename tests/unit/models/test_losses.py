from __future__ import annotations

import numpy as np
import pytest

from epsilens.models import LogisticLoss, SoftmaxLoss, SquaredLoss

LOSSES = [LogisticLoss(), SquaredLoss(), SoftmaxLoss(4)]
LABELS = {"logistic": (0.0, 1.0), "squared": (-2.0, 0.5, 3.0), "softmax": (0.0, 3.0)}


def predictors(loss):
    return np.random.default_rng(0).normal(scale=2.5, size=(30, loss.n_outputs))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_derivatives_agree_with_finite_differences(loss):
    h = 1e-5  # central differences: error h² times the next derivative, about 1e-10
    s = predictors(loss)
    spread = np.random.default_rng(1).normal(size=(30, loss.n_outputs, loss.n_outputs))
    spread = spread + np.swapaxes(spread, 1, 2)
    steps = h * np.eye(loss.n_outputs)
    for label in LABELS[loss.name]:
        y = np.full(len(s), label)
        for k, step in enumerate(steps):
            numeric = (loss.value(s + step, y) - loss.value(s - step, y)) / (2 * h)
            np.testing.assert_allclose(loss.slope(s, y)[:, k], numeric, atol=1e-8)
            numeric = (loss.slope(s + step, y) - loss.slope(s - step, y)) / (2 * h)
            np.testing.assert_allclose(loss.curvature(s)[:, :, k], numeric, atol=1e-8)
            bent = (loss.curvature(s + step) - loss.curvature(s - step)) / (2 * h)
            contracted = np.einsum("nlm,nlm->n", bent, spread)
            np.testing.assert_allclose(loss.third(s, spread)[:, k], contracted, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_slope_is_the_mean_less_the_statistic(loss):
    s = predictors(loss)
    y = np.ones(len(s))
    np.testing.assert_allclose(loss.slope(s, y), loss.mean(s) - loss.statistic(y))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_many_columns_equal_each_alone(loss):
    rng = np.random.default_rng(2)
    s = rng.normal(size=(20, loss.n_outputs, 5))
    y = np.ones(20)
    for b in range(5):
        np.testing.assert_allclose(loss.value(s, y)[:, b], loss.value(s[:, :, b], y))
        np.testing.assert_allclose(loss.mean(s)[:, :, b], loss.mean(s[:, :, b]))
        np.testing.assert_allclose(loss.slope(s, y)[:, :, b], loss.slope(s[:, :, b], y))


def test_logistic_keeps_its_digits_far_out():
    loss = LogisticLoss()
    far = np.array([[-800.0], [800.0]])
    np.testing.assert_array_equal(loss.value(far, np.array([0.0, 1.0])), [0.0, 0.0])
    np.testing.assert_array_equal(loss.value(far, np.array([1.0, 0.0])), [800.0, 800.0])
    tail = np.array([[40.0]])
    np.testing.assert_allclose(loss.curvature(tail)[0, 0, 0], np.exp(-40.0), rtol=1e-12)
    third = loss.third(tail, np.ones((1, 1, 1)))
    np.testing.assert_allclose(third, -np.exp(-40.0), rtol=1e-12)


def test_softmax_keeps_its_digits_far_out():
    loss = SoftmaxLoss(3)
    far = np.array([[900.0, 0.0, -900.0]])
    np.testing.assert_array_equal(loss.value(far, np.array([0.0])), [0.0])
    np.testing.assert_array_equal(loss.value(far, np.array([2.0])), [1800.0])
    np.testing.assert_allclose(loss.mean(far).sum(), 1.0)


def test_two_classes_by_softmax_are_the_logistic_loss():
    s = np.linspace(-5, 5, 11)
    y = (np.arange(11) % 2).astype(float)
    pair = np.column_stack([-s / 2, s / 2])
    np.testing.assert_allclose(
        SoftmaxLoss(2).value(pair, y), LogisticLoss().value(s[:, None], y), atol=1e-14
    )

from __future__ import annotations

import numpy as np
import pytest

from epsilens.models import LogisticLoss, SquaredLoss

S = np.linspace(-6, 6, 25)
LABELS = {"logistic": (0.0, 1.0), "squared": (-2.0, 0.5, 3.0)}


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss()], ids=lambda loss: loss.name)
def test_derivatives_agree_with_finite_differences(loss):
    h = 1e-5  # central differences: error h² times the next derivative, about 1e-10
    for label in LABELS[loss.name]:
        y = np.full_like(S, label)
        numeric = (loss.value(S + h, y) - loss.value(S - h, y)) / (2 * h)
        np.testing.assert_allclose(loss.slope(S, y), numeric, atol=1e-8)
        numeric = (loss.slope(S + h, y) - loss.slope(S - h, y)) / (2 * h)
        np.testing.assert_allclose(loss.curvature(S), numeric, atol=1e-8)
        numeric = (loss.curvature(S + h) - loss.curvature(S - h)) / (2 * h)
        np.testing.assert_allclose(loss.third(S), numeric, atol=1e-8)


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss()], ids=lambda loss: loss.name)
def test_the_slope_is_the_mean_less_the_statistic(loss):
    y = np.full_like(S, 1.0)
    np.testing.assert_allclose(loss.slope(S, y), loss.mean(S) - loss.statistic(y))


def test_logistic_keeps_its_digits_far_out():
    loss = LogisticLoss()
    far = np.array([-800.0, 800.0])
    np.testing.assert_array_equal(loss.value(far, np.array([0.0, 1.0])), [0.0, 0.0])
    np.testing.assert_array_equal(loss.value(far, np.array([1.0, 0.0])), [800.0, 800.0])
    tail = np.array([40.0])
    np.testing.assert_allclose(loss.curvature(tail), np.exp(-40.0), rtol=1e-12)
    np.testing.assert_allclose(loss.third(tail), -np.exp(-40.0), rtol=1e-12)

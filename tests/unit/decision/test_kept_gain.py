# SPDX-License-Identifier: Apache-2.0
"""Where no limit is given, a tenth of what the model gains over guessing may be lost."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from epsilens.decision.kept_gain import kept_gain


class Answers:
    y_train = pd.Series(["a"] * 3 + ["b"])
    y_test = pd.Series(["a", "b"])
    sample_weight = None
    sample_weight_test = None
    label_categories = ("a", "b")


class WeightedAnswers(Answers):
    sample_weight = np.array([1.0, 1.0, 1.0, 9.0])
    sample_weight_test = np.array([1.0, 3.0])


class Numbers:
    y_train = pd.Series([1.0, 2.0, 3.0])
    y_test = pd.Series([2.0, 6.0])
    sample_weight = None
    sample_weight_test = None
    label_categories = ()


class WeightedNumbers(Numbers):
    sample_weight = np.array([2.0, 1.0, 1.0])
    sample_weight_test = np.array([3.0, 1.0])


@pytest.mark.parametrize(
    ("data", "guessed"),
    [
        (Answers, -(math.log(0.75) + math.log(0.25)) / 2),
        (WeightedAnswers, -(math.log(0.25) + 3 * math.log(0.75)) / 4),
        (Numbers, (0.0 + 16.0) / 2),
        (WeightedNumbers, (3 * 0.25**2 + 4.25**2) / 4),
    ],
)
def test_the_gain_is_the_distance_to_guessing(data: type, guessed: float) -> None:
    # Three significant digits are kept.
    assert kept_gain(data, 0.1) == pytest.approx(0.1 * (guessed - 0.1), rel=5e-3)


@pytest.mark.parametrize("loss", [None, 2.0, math.nan])
def test_a_model_that_guesses_no_better_gains_nothing(loss: float | None) -> None:
    assert kept_gain(Answers, loss) is None

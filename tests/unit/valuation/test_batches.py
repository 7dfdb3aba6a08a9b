from __future__ import annotations

import numpy as np
import pytest

from epsilens.errors import InputError, InputTypeError
from epsilens.valuation import batch_correction, correct_batch


@pytest.mark.parametrize("q", [20, 100, 500])
@pytest.mark.parametrize("b", [1, 30, 300])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_the_factor_is_the_slope_over_the_fall(q, b, k):
    """P4 section 5 from its own R(x), not from the closed form that has a slip on the way."""

    def risk(x):
        return q**2 / (q + x) ** 2

    start, step = (k - 1) * b, 1e-4
    slope = (risk(start - step) - risk(start + step)) / (2 * step)
    fall = risk(start) - risk(k * b)
    # A central difference of step 1e-4 is good to 1e-6 here.
    assert batch_correction(q, b, k) == pytest.approx(b * slope / fall, rel=1e-6)


def test_batches_of_one_hardly_need_it():
    assert batch_correction(500, 1, 1) == pytest.approx(1.003, abs=1e-3)
    assert batch_correction(500, 300, 1) > batch_correction(500, 100, 1) > 1


def test_the_formula_as_printed():
    q, b, k = 500, 100, 3
    printed = 2 * (q + k * b) ** 2 / ((q + (k - 1) * b) * (2 * q + (2 * k - 1) * b))
    assert batch_correction(q, b, k) == pytest.approx(printed, rel=1e-15)


def test_corrected_scores_add_up():
    scores = np.linspace(-0.001, 0.004, 50)
    batch = correct_batch(scores, q=200, k=2, loss_decrease=0.05)
    assert batch.expected_factor == batch_correction(200, 50, 2)
    assert batch.corrected.sum() * batch.expected_factor == pytest.approx(scores.sum())
    assert batch.measured_factor == pytest.approx(scores.sum() / 0.05)
    assert batch.corrected_by_measurement.sum() == pytest.approx(0.05)


@pytest.mark.parametrize("fall", [None, 0.0])
def test_without_a_fall_nothing_is_measured(fall):
    batch = correct_batch(np.ones(10), q=200, loss_decrease=fall)
    assert batch.measured_factor is None
    assert batch.corrected_by_measurement is None


@pytest.mark.parametrize(("score", "fall"), [(0.001, -0.05), (-0.001, 0.05)])
def test_a_measurement_never_turns_help_into_harm(score, fall):
    batch = correct_batch(np.full(10, score), q=200, loss_decrease=fall)
    assert batch.measured_factor is None
    assert batch.corrected_by_measurement is None


def test_arguments_are_checked():
    with pytest.raises(InputError, match="`q` must be finite and greater than 0"):
        batch_correction(0, 10, 1)
    with pytest.raises(InputTypeError, match="`k` must be a whole number"):
        batch_correction(10, 10, 1.5)
    with pytest.raises(InputError, match="`k` must be at least 1"):
        batch_correction(10, 10, 0)
    with pytest.raises(InputError, match="`scores` must be finite"):
        correct_batch(np.array([1.0, np.nan]), q=10)
    with pytest.raises(InputError, match="`loss_decrease` must be a finite number"):
        correct_batch(np.ones(3), q=10, loss_decrease=np.inf)

from __future__ import annotations

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.valuation import share_payment


def test_only_helpful_records_are_paid_and_in_proportion():
    scores = np.array([0.2, -0.5, 0.0, 0.6])
    paid = share_payment(scores, 80.0)
    assert paid == pytest.approx([20.0, 0.0, 0.0, 60.0])


def test_nobody_is_paid_for_harm():
    assert share_payment(np.array([-1.0, 0.0]), 5.0).tolist() == [0.0, 0.0]


def test_arguments_are_checked():
    with pytest.raises(InputError, match="`amount` must be finite and greater than 0"):
        share_payment(np.ones(2), 0)
    with pytest.raises(InputError, match="`scores` must be finite"):
        share_payment(np.array([np.nan]), 1.0)

# SPDX-License-Identifier: Apache-2.0
"""What the noise of a run does to test records, against sums over pairs of classes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from epsilens.influence import contrast_variance


def test_the_variance_of_a_logit_is_the_largest_over_pairs_of_classes():
    root = np.random.default_rng(0).normal(size=(7, 4, 3))
    spread = root @ root.transpose(0, 2, 1)
    expected = [
        max((one[k] - one[m]) @ (one[k] - one[m]) for k, m in combinations(range(4), 2))
        for one in root
    ]
    assert contrast_variance(spread).tolist() == pytest.approx(expected)


def test_classes_that_move_together_leave_every_logit_alone():
    together = np.ones((1, 3, 3))
    assert contrast_variance(together).tolist() == [0.0]

# SPDX-License-Identifier: Apache-2.0
"""Two neighbouring tables, many runs: what is proved is what there is, and errors of a factor are found."""

from __future__ import annotations

import math

import numpy as np

from epsilens.audit.many_runs import told_apart


def test_two_tables_are_told_apart_as_far_as_they_differ():
    """A shift of 0.5 in one of three numbers: total variation 0.197; by chance above it in 1 of 10,000."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 8000, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
    exact = math.erf(0.5 / math.sqrt(8))
    found = told_apart(first, second + np.array([0.5, 0.0, 0.0]), confidence=0.9999)
    assert 0.5 * exact < found.advantage_lower_bound <= exact
    alike = told_apart(first, second, confidence=0.9999)
    assert (alike.advantage_lower_bound, alike.epsilon_lower_bound) == (0.0, 0.0)
    assert told_apart(np.zeros((40, 2)), np.zeros((40, 2))).advantage_lower_bound == 0.0


def test_noise_of_half_the_size_is_found():
    """Sold as μ = 0.25 and released with twice that."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 8000, 1))
    claimed = math.erf(0.25 / math.sqrt(8))
    assert told_apart(first, second + 0.5, confidence=0.9999).advantage_lower_bound > claimed
    assert told_apart(first, second + 0.25, confidence=0.9999).advantage_lower_bound <= claimed

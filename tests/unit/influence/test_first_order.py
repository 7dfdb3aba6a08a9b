# SPDX-License-Identifier: Apache-2.0
"""The noise of a run as a handful of draws shows it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from epsilens.influence import Cholesky, Evaluation, FirstOrder, HessianOperator
from epsilens.models import Design, Problem, SquaredLoss


def test_probed_noise_stands_at_the_upper_end_of_what_the_draws_say():
    loss = SquaredLoss()
    problem = Problem(Design.plain(np.eye(1)), np.ones(1), loss, np.zeros(1))  # H = 2
    first = FirstOrder.of(HessianOperator(problem, np.zeros(1)), Cholesky(), np.ones(1))
    tested = Evaluation(
        Design.plain(np.array([[3.0], [1.0]])),
        np.zeros(2),
        np.full(2, 0.5),
        loss,
        is_classifier=False,
    )
    draws = np.array([[2.0, -2.0, 4.0, 1.0]])
    (spread,), converged = first.probed_spreads(tested, [draws])
    assert converged
    moved = np.array([[3.0], [1.0]]) * draws / 2
    sizes = (moved**2).mean(axis=0)  # over the two test records
    upper = sizes.mean() + stats.t.ppf(0.95, 3) * sizes.std(ddof=1) / np.sqrt(4)
    assert spread[:, 0, 0].mean() == pytest.approx(upper)
    # One factor for all records: which of them is noisier stays as it was drawn.
    assert spread[0, 0, 0] / spread[1, 0, 0] == pytest.approx(9.0)

# SPDX-License-Identifier: Apache-2.0
"""How a cell is put together from the model's outcomes and the runs that were drawn."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.influence import Outcomes
from epsilens.whatif.cells import assemble, ends, unchanged

BEFORE = Outcomes(loss=0.5, accuracy=0.8, auc=None, loss_gap=0.1)
HERE = Outcomes(loss=0.53, accuracy=0.75, auc=None, loss_gap=0.3)


def cell(**change):
    given = {
        "mean_change": 0.01,
        "loss_runs": np.linspace(-0.1, 0.1, 19),
        "intervals": {},
        "converged": True,
        "condition": 10.0,
        "logit_noise": 0.1,
        "wild_loss": 0.0,
    }
    return assemble(group_index=0, epsilon_index=2, before=BEFORE, here=HERE, **(given | change))


def test_a_new_run_falls_between_the_ends_nine_times_in_ten():
    # Of 20 runs in any order the last is outside the 19 others twice in twenty times.
    assert ends(np.arange(19.0)[::-1]) == (0.0, 18.0)
    assert ends(np.arange(1.0, 40.0)) == pytest.approx((2.0, 38.0))


def test_a_cell_adds_what_the_noise_costs_on_average():
    found = cell()
    assert found.loss_change == pytest.approx(0.53 - 0.5 + 0.01)
    assert (found.loss_low, found.loss_high) == pytest.approx((-0.1, 0.1))
    assert found.changes == pytest.approx(
        {"accuracy": -0.05, "auc": None, "loss_gap": 0.2, "accuracy_gap": None}
    )
    assert found.trusted


@pytest.mark.parametrize("doubt", ["omitted", "wild_loss"])
def test_trust_bears_no_more_than_half_of_the_interval(doubt):
    assert cell(**{doubt: 0.099}).trusted
    assert not cell(**{doubt: 0.101}).trusted


def test_where_nothing_is_randomised_nothing_changes():
    found = unchanged(BEFORE, group_index=1, epsilon_index=0, n_draws=5)
    assert found.loss_change == found.loss_low == found.loss_high == 0.0
    assert found.intervals == {"accuracy": (0.0, 0.0), "loss_gap": (0.0, 0.0)}
    assert found.loss_runs.tolist() == [0.0] * 5

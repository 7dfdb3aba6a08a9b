# SPDX-License-Identifier: Apache-2.0
"""The axis on which a curve is interpolated: outcomes are smooth in the probability that an answer is kept."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from epsilens.channels import RandomizedResponse
from epsilens.whatif.curve import FIRST_NODES, curve_axis, interpolate


def asked(epsilons, k=2):
    return SimpleNamespace(
        epsilons=epsilons,
        mixed=(),
        is_mapping=False,
        feature_channels=(),
        label_is_protected=True,
        label_channels=[RandomizedResponse(k, epsilon) for epsilon in epsilons],
    )


@pytest.mark.parametrize("k", [2, 6])
@pytest.mark.parametrize("power", [1.0, 1.5])
def test_a_cost_that_is_smooth_in_the_share_of_changed_answers_is_met_between_five_nodes(k, power):
    grid = np.geomspace(0.1, 10.0, 30)
    x = curve_axis(asked(list(grid), k))
    cost = (1.0 - x) ** power
    nodes = np.linspace(0, 29, FIRST_NODES).round().astype(int)
    found = interpolate(x, {int(e): float(cost[e]) for e in nodes})
    # In log ε the same nodes are off by 2 to 7 % of the range.
    assert np.abs(found - cost).max() < 0.008


def test_places_differ_where_no_answer_changes_any_more():
    x = curve_axis(asked([1.0, 40.0, 50.0, 700.0, math.inf]))
    assert len(x) == 4
    assert (np.diff(x) > 0).all()
    assert np.isfinite(interpolate(x, {0: 1.0, 1: 0.0, 3: 0.0})).all()

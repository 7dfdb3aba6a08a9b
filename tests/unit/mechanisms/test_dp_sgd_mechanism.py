# SPDX-License-Identifier: Apache-2.0
"""DP-SGD as a mechanism: settings that see no data, an advantage about a replaced record."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epsilens.mechanisms.dp_sgd import DPSGD
from epsilens.mechanisms.protocol import Task
from epsilens.models.privacy_accounting import attack_ceiling


@pytest.fixture(scope="module")
def task(small_task) -> Task:
    return small_task(800)


def test_the_settings_look_at_the_number_of_records_alone(task):
    other = dataclasses.replace(task, X=100.0 * task.X, y=1 - task.y)
    first, second = (
        DPSGD.plan(one, epsilon=1.0, delta=1e-5, protects="record") for one in (task, other)
    )
    assert first == second


def test_the_advantage_is_about_a_replaced_record(task):
    plan = DPSGD.plan(task, epsilon=1.0, delta=1e-5, protects="record")
    added = 2 * attack_ceiling(plan.settings.calibration(plan.n_records)) - 1
    assert added < plan.advantage <= 2 * added


def test_a_larger_budget_costs_less_and_runs_are_repeatable(task):
    plans = [
        DPSGD.plan(task, epsilon=epsilon, delta=1e-5, protects="record") for epsilon in (0.2, 8.0)
    ]
    found = DPSGD.preview(task, plans, n_runs=19, generator=np.random.default_rng(0))
    again = DPSGD.preview(task, plans, n_runs=19, generator=np.random.default_rng(0))
    assert [one.cell for one in found] == [one.cell for one in again]
    private, loose = (one.cell for one in found)
    assert private.loss_change > loose.loss_change_high
    assert loose.loss_change_low < loose.loss_change < loose.loss_change_high < 0.1
    assert private.advantage < loose.advantage


def test_shadow_models_learn_from_their_members_alone(task):
    """Labels of nobody's records change no prediction."""
    members = np.random.default_rng(1).random((len(task.y), 4)) < 0.5
    members[:100] = False
    other = task.y.copy()
    other[:100] = 1 - other[:100]
    plan = DPSGD.plan(task, epsilon=4.0, delta=1e-5, protects="record")
    first, second = (
        next(
            DPSGD.simulate(
                dataclasses.replace(task, y=y),
                [plan],
                n_runs=4,
                generator=np.random.default_rng(0),
                members=members,
            )
        ).probabilities("train")
        for y in (task.y, other)
    )
    assert first.shape == (800, 2, 4)
    np.testing.assert_array_equal(first, second)

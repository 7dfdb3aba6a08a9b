# SPDX-License-Identifier: Apache-2.0
"""Budgets between the usual ones: for fast mechanisms alone, and without changing the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from epsilens.decision import others
from epsilens.decision.others import BUDGETS, Comparison, preview_others
from epsilens.decision.question import read_limits
from epsilens.document.decision import BETWEEN
from epsilens.mechanisms.noisy_descent import NoisyDescent
from epsilens.mechanisms.protocol import Task

NAMES = ("noisy-descent", "output-perturbation")


def previews(task: Task, *, budgets: tuple[float, ...] | None = None) -> dict[str, dict]:
    """Return the loss of every run, by mechanism and budget."""
    comparison = Comparison.read(
        trust="curator", protects="answer", mechanisms=NAMES, is_local=False
    )
    found, _ = preview_others(
        task,
        comparison,
        read_limits(max_advantage=0.05),
        baseline_high=0.7,
        budgets=budgets,
        delta=1e-5,
        seconds=0.0,
        seed=3,
    )
    return {
        one.curve.mechanism: {run.cell.epsilon: run.changes["loss"] for run in one.previews}
        for one in found
    }


def test_fast_mechanisms_have_more_budgets_and_the_same_numbers_at_the_usual_ones(
    small_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = small_task(400)
    every = previews(task)
    monkeypatch.setattr(others, "_SECONDS_BETWEEN", 0.0)
    usual = previews(task)
    for name in NAMES:
        assert set(BUDGETS) < set(usual[name])
        assert len(usual[name]) == len(BUDGETS) + 1  # the one that meets the limit on the attack
        assert list(every[name]) == sorted({*usual[name], *BETWEEN})
        assert all(np.array_equal(every[name][at], usual[name][at]) for at in usual[name])


def test_budgets_that_were_asked_for_and_slow_mechanisms_stay_alone(
    small_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = small_task(200)
    assert list(previews(task, budgets=(0.5, 1.0))["noisy-descent"]) == [0.5, 1.0]
    monkeypatch.setattr(NoisyDescent, "is_slow", True)
    assert list(previews(task)["noisy-descent"]) == list(BUDGETS)

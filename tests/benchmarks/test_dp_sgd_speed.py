# SPDX-License-Identifier: Apache-2.0
"""The speed of DP-SGD ensembles: everybody trains the same, and the table says what was measured."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("opacus")

import dp_sgd_speed as script

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Full backward hook is firing|Secure RNG:UserWarning"),
]


def pairs():
    """Everybody on the smallest task; the first two contestants on the others too."""
    logistic, *others = script.tasks(5)
    names = list(script.CONTESTANTS)
    found = [(logistic, name) for name in names]
    return found + [(task, name) for task in others for name in names[:2]]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "name"), [pytest.param(task, name, id=f"{name}-{task.name}") for task, name in pairs()]
)
def test_everybody_learns(task, name):
    members = task.halves(2, 0)
    logits = script.CONTESTANTS[name](task, members, 0)
    assert logits.shape == (2, len(task.X), task.network.n_outputs)
    accuracy = task.accuracy(logits, members)
    # Five epochs with noise: well above chance, one in two or ten.
    assert np.mean(accuracy) > (0.65 if task.name == "logistic" else 0.5)


def test_the_table_judges_by_the_fastest_way():
    task = script.tasks(1)[0]
    rows = script.compare(task, turns=2, n_ours=4, n_theirs=2, seed=0)
    assert [row["who"] for row in rows] == list(script.CONTESTANTS)
    assert [row["models"] for row in rows] == [8, 4, 4, 4]
    for row, times in zip(rows, (1.0, 40.0, 29.0, 50.0), strict=True):
        row["times_ours"] = times
    rest = [{**row, "task": name} for row in rows for name in script.BARS if name != "logistic"]
    about = {
        "plan": {"n_steps": 15, "expected_batch": 64},
        "n_records": 1797,
        "noise_multiplier": 1.0,
        "epsilon_pld": 7.99,
        "epsilon_rdp": 8.8,
        "turns": 2,
        "cores": 1,
    }
    text = script.markdown(rows + rest, [script.many(task, 3, 0)], about)
    ghost = "Opacus, no loader, ghost clipping"
    assert f"| logistic | {ghost} | 29.0 | 30 | no |" in text
    assert f"| 64-128-10 network | {ghost} | 29.0 | 8 | yes |" in text
    assert "| logistic | 3 | 0." in text


def test_one_core_is_given_back():
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no affinity here")
    before = os.sched_getaffinity(0)
    with script.one_core() as n_cores:
        assert n_cores == len(before)
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before

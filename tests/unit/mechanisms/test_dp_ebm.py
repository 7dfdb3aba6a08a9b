# SPDX-License-Identifier: Apache-2.0
"""Private additive models of trees: noise as we account for it, nothing learnt but from members."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.mechanisms._advantage import gaussian_advantage
from epsilens.mechanisms._columns import PublicColumn
from epsilens.mechanisms._release import Training
from epsilens.mechanisms.dp_ebm import DPEBM
from epsilens.mechanisms.protocol import Task
from epsilens.models.table_encoder import CategoryColumn, NumberColumn


@pytest.fixture(scope="module")
def task(small_task) -> Task:
    return small_task(800)


def test_the_noise_is_what_the_advantage_rests_on(task):
    plan = DPEBM.plan(task, epsilon=1.0, delta=1e-5, protects="record")
    columns = PublicColumn.all_of(task)
    X = np.column_stack([column.places(task.table) for column in columns])
    model = plan.fit(columns, X, task.y, seed=0)
    counts, trees = plan.mus
    # Within a column a record counts once, and its gradient is at most 1, times the step of 0.2.
    assert model.noise_scale_binning_ == pytest.approx(math.sqrt(2) / counts, rel=1e-6)
    assert model.noise_scale_boosting_ == pytest.approx(0.2 * math.sqrt(2 * 100) / trees, rel=1e-6)


def test_an_answer_gains_an_attacker_less_than_a_record(task):
    answer, record = (
        DPEBM.plan(task, epsilon=1.0, delta=1e-5, protects=protects)
        for protects in ("answer", "record")
    )
    counts, trees = answer.mus
    assert answer.advantage == gaussian_advantage(trees)
    assert record.advantage == pytest.approx(
        gaussian_advantage(math.hypot(2**0.5 * counts, 2 * trees))
    )
    # A protected column that is no label is a replaced record.
    other = dataclasses.replace(task, protected=("ill", "age"))
    again = DPEBM.plan(other, epsilon=1.0, delta=1e-5, protects="answer")
    assert again.advantage == record.advantage


def test_previews_are_few_repeatable_runs(task):
    plans = [DPEBM.plan(task, epsilon=8.0, delta=1e-5, protects="record")]
    first, second = (
        DPEBM.preview(task, plans, generator=np.random.default_rng(0))[0] for _ in range(2)
    )
    assert len(first.changes["loss"]) == 5
    np.testing.assert_array_equal(first.changes["loss"], second.changes["loss"])
    assert first.cell.loss_change_low < first.cell.loss_change < 0.15


def test_shadow_models_learn_from_their_members_alone(task):
    members = np.ones((800, 1), dtype=bool)
    members[:200] = False
    y = task.y.copy()
    y[:200] = 1 - y[:200]
    plans = [DPEBM.plan(task, epsilon=8.0, delta=1e-5, protects="record")]
    first, second = (
        next(
            DPEBM.simulate(
                one, plans, n_runs=1, generator=np.random.default_rng(0), members=members
            )
        ).probabilities("train")
        for one in (task, dataclasses.replace(task, y=y))
    )
    np.testing.assert_array_equal(first, second)


def test_three_classes_are_refused(task):
    assert DPEBM.refusal(task) is None
    assert "two classes" in DPEBM.refusal(dataclasses.replace(task, n_classes=3))


def test_columns_are_cut_by_what_is_declared(task):
    age, colour = PublicColumn.all_of(task)
    assert (age.low, age.high, colour.categories) == (18.0, 90.0, ("blue", "green", "red"))
    table = task.table.iloc[:4].assign(
        age=[17.0, 18.0, np.nan, 200.0], colour=["red", "blue", None, "pink"]
    )
    assert age.places(table).tolist() == [18.0, 18.0, 54.0, 90.0]
    assert age.bins(table, 16).tolist() == [0, 0, 8, 15]
    assert colour.bins(table, 16).tolist() == colour.places(table).tolist() == [2, 0, 0, 0]
    assert colour.values(np.array([2, 0]), 16).tolist() == ["red", "blue"]
    learnt = PublicColumn.all_of(dataclasses.replace(task, table=table, declared=None))[1]
    assert learnt.categories == ("blue", "pink", "red", None)
    assert learnt.bins(table, 16).tolist() == [2, 0, 3, 1]
    assert age.values(np.array([0, 15]), 16).tolist() == [20.25, 87.75]


def training(n_yes: int = 100, **changes: object) -> Training:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": random.integers(20, 80, 200), "colour": random.choice(["blue", "red"], 200)}
    )
    columns = (
        NumberColumn.of_range("age", 20.0, 80.0),
        CategoryColumn("colour", ("blue", "green", "red")),
    )
    settings = {"unit": "answer", "epsilon": 1.0, "delta": 1e-5, "x_bound": None, "n_steps": 1}
    return Training(
        frame=frame,
        columns=columns,
        y=(np.arange(200) < n_yes).astype(np.intp),
        n_classes=2,
        progress=lambda *_: None,
        **(settings | {"seed": None} | changes),
    )


def test_a_released_model_predicts_as_the_library_does(monkeypatch):
    fitted, before = [], DPEBM.fit
    monkeypatch.setattr(DPEBM, "fit", lambda *a, **n: fitted.append(before(*a, **n)) or fitted[-1])
    with pytest.warns(PrivacyLeakWarning, match="floating-point noise"):
        found, whole = DPEBM.release(training()), DPEBM.release(training(unit="record"))
    table = pd.DataFrame(
        {
            "age": [None, "old", -5, 1e300, *range(20, 81)],
            "colour": ["red", None, "x", "green", *["blue"] * 61],
        }
    )
    places = found.encoder.transform(table)
    cuts = [cut for column in found.model.cuts_ for cut in column]
    # Also at the very cuts.
    edges = np.column_stack([np.array(cuts), np.resize([0.0, 1.0, 2.0], len(cuts))])
    for rows in (places, edges):
        ours, theirs = found.model.predict_proba(rows), fitted[0].predict_proba(rows)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    assert found.mu == pytest.approx(DPEBM(1.0, 1e-5, "answer", True).mus[1])
    assert whole.advantage == DPEBM(1.0, 1e-5, "record").advantage > found.advantage


@pytest.mark.parametrize("n_yes", [0, 1, 200])
def test_a_table_with_one_class_is_not_told_apart(n_yes):
    with pytest.warns(PrivacyLeakWarning, match="simulation"):
        found = DPEBM.release(training(n_yes, seed=1))
    assert found.model.predict_proba(np.array([[50.0, 0.0]])).shape == (1, 2)
    assert np.isfinite(found.model.intercept_).all()


def test_a_budget_that_the_library_cannot_account_for_is_refused():
    with pytest.raises(InputError, match="must be larger"):
        DPEBM(10.0, 1e-15, "answer")._require_noise(
            type("Model", (), {"noise_scale_binning_": 1e9, "noise_scale_boosting_": 1e-9}), 2
        )
    with pytest.raises(InputError, match="epsilon"):
        DPEBM.release(training(epsilon=1e4))

"""The curve of a group against its slow twin, every cell by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from epsilens import WhatIf
from epsilens.influence.question import Question
from epsilens.whatif import cells as whatif_cells
from epsilens.whatif import methods
from epsilens.whatif.methods import as_question, suits_a_curve

GRID = np.r_[np.geomspace(0.05, 8.0, 11), np.inf]


@pytest.fixture(scope="module", params=["two classes", "three classes", "a score"])
def case(request, survey, pipeline):
    columns = ["age", "income", "children"]
    X, X_test = survey.X, survey.X_test
    if request.param == "two classes":
        study = WhatIf(pipeline()).fit(X, survey.y, X_test, survey.y_test)
    elif request.param == "three classes":
        study = WhatIf(LogisticRegression()).fit(
            X[columns], X["region"].astype("category"), X_test[columns], X_test["region"]
        )
    else:
        study = WhatIf(Ridge()).fit(
            X[columns[:2]],
            X["children"].astype("category"),
            X_test[columns[:2]],
            X_test["children"],
        )
    groups = {"some": np.random.default_rng(6).random(600) < 0.5, "age >= 40": "age >= 40"}
    asked, baseline = study._ask(
        Question(GRID, groups=groups, dependent_groups="warn"), study.baseline_
    )
    return baseline, as_question(asked, corrected=False, n_draws=400, seed=0)


def cells_of(baseline, question):
    return methods.compute_cells(baseline, question, "exact")


@pytest.mark.parametrize("part", [1e12, 0.0], ids=["all draws in full", "some draws in full"])
def test_the_curve_equals_every_cell_by_itself(case, monkeypatch, part):
    baseline, question = case
    monkeypatch.setattr(methods, "_LEAST_WORK", 0.0)
    assert suits_a_curve(baseline, question)
    monkeypatch.setattr(whatif_cells, "_FULL_WORK", part)
    fast = cells_of(baseline, question)
    monkeypatch.setattr(methods, "suits_a_curve", lambda *_: False)
    slow = cells_of(baseline, question)
    assert len(fast) == len(slow) == 2 * len(GRID)
    for one, other in zip(fast, slow, strict=True):
        width = other.loss_high - other.loss_low
        assert abs(one.loss_change - other.loss_change) <= 0.01 * width
        assert one.trusted == other.trusted
        assert one.intervals.keys() == other.intervals.keys()
        assert abs(one.loss_low - other.loss_low) <= 0.05 * width
        assert abs(one.loss_high - other.loss_high) <= 0.05 * width
        # The same runs in both. Where only some draws and cells are taken in full, the other outcomes
        # come from 100 draws instead of 400 and from between two cells; an accuracy moves in steps of 1/200.
        for name, (low, high) in other.intervals.items():
            limit = (0.02 if part else 0.3) * (high - low) + 2 / 200
            assert one.intervals[name] == pytest.approx((low, high), abs=limit)
            assert one.changes[name] == pytest.approx(other.changes[name], abs=limit / 2)


def test_the_answer_at_an_epsilon_does_not_depend_on_the_others(case, monkeypatch):
    baseline, question = case
    together = cells_of(baseline, question)
    for least_work in (0.0, 1e9):
        monkeypatch.setattr(methods, "_LEAST_WORK", least_work)
        for e in (2, 6, 9):
            alone = cells_of(baseline, _only(question, e))
            for cell in alone:
                beside = together[cell.group_index * len(GRID) + e]
                assert cell.trusted == beside.trusted
                width = cell.loss_high - cell.loss_low
                for name in ("loss_change", "loss_low", "loss_high"):
                    assert abs(getattr(cell, name) - getattr(beside, name)) <= 0.05 * width


def test_a_small_table_has_no_curve(case):
    baseline, question = case
    assert not suits_a_curve(baseline, question)


def test_few_budgets_are_answered_one_by_one(case, monkeypatch):
    baseline, question = case
    monkeypatch.setattr(methods, "_LEAST_WORK", 0.0)
    few = _few(question, 3)
    assert not suits_a_curve(baseline, few)


def _few(question, n):
    return _part(question, slice(0, n))


def _only(question, e):
    return _part(question, slice(e, e + 1))


def _part(question, cells):
    return replace(
        question,
        label_channels=question.label_channels[cells],
        joints=question.joints[cells],
        flip_probabilities=question.flip_probabilities[cells],
    )


def test_a_group_whose_curve_is_lost_is_still_answered(case, monkeypatch):
    baseline, question = case
    monkeypatch.setattr(methods, "_LEAST_WORK", 0.0)
    monkeypatch.setattr(methods, "answer_by_curve", lambda b, q, groups: [None] * len(groups))
    cells = cells_of(baseline, question)
    assert [(cell.group_index, cell.epsilon_index) for cell in cells] == [
        (g, e) for g in range(2) for e in range(len(GRID))
    ]

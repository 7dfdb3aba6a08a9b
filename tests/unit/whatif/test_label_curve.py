"""The curve of a group against its slow twin, every cell by itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from epsilens import WhatIf
from epsilens.whatif import label_curve, label_ladder
from epsilens.whatif.asking import as_question
from epsilens.whatif.label_curve import suits_a_curve

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
    asked, baseline = study._ask(None, GRID, groups, None, "warn")
    return baseline, as_question(asked, corrected=False, n_draws=400, seed=0)


def cells_of(baseline, question):
    cells = label_ladder.climb_labels(baseline, question, "exact", None)
    return sorted(cells, key=lambda cell: (cell.group_index, cell.epsilon_index))


@pytest.mark.parametrize("part", [1e12, 0.0], ids=["all draws in full", "some draws in full"])
def test_the_curve_equals_every_cell_by_itself(case, monkeypatch, part):
    baseline, question = case
    assert suits_a_curve(baseline, question)
    monkeypatch.setattr(label_curve, "_FULL_WORK", part)
    fast = cells_of(baseline, question)
    monkeypatch.setattr(label_ladder, "suits_a_curve", lambda *_: False)
    slow = cells_of(baseline, question)
    assert len(fast) == len(slow) == 2 * len(GRID)
    for one, other in zip(fast, slow, strict=True):
        width = other.loss_high - other.loss_low
        assert abs(one.loss_change - other.loss_change) <= 0.01 * width
        assert one.trusted == other.trusted
        assert one.changes == pytest.approx(other.changes, abs=1e-6)
        assert one.intervals.keys() == other.intervals.keys()
        # The same normal numbers in both. Where only some draws and cells are taken in full, the other
        # ends come from 100 draws instead of 400 and from between two cells.
        tolerance = 0.01 if part else 0.1
        assert abs(one.loss_low - other.loss_low) <= tolerance * width
        assert abs(one.loss_high - other.loss_high) <= tolerance * width
        for name, (low, high) in other.intervals.items():
            limit = (0.02 if part else 0.5) * (high - low) + 2 / 200
            assert one.intervals[name] == pytest.approx((low, high), abs=limit)


def test_few_budgets_are_answered_one_by_one(case):
    baseline, question = case
    few = _few(question, 3)
    assert not suits_a_curve(baseline, few)


def _few(question, n):
    from dataclasses import replace

    return replace(
        question,
        label_channels=question.label_channels[:n],
        joints=question.joints[:n],
        lie_probabilities=question.lie_probabilities[:n],
    )


def test_a_group_whose_curve_is_lost_is_still_answered(case, monkeypatch):
    baseline, question = case
    monkeypatch.setattr(
        label_ladder, "answer_by_curve", lambda b, q, groups, seeds: [None] * len(groups)
    )
    cells = cells_of(baseline, question)
    assert [(cell.group_index, cell.epsilon_index) for cell in cells] == [
        (g, e) for g in range(2) for e in range(len(GRID))
    ]

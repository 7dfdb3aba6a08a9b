# SPDX-License-Identifier: Apache-2.0
"""Costs that failed their check are measured before a decision rests on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.decision import decide
from epsilens.document.wording import cost_type
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.risk import AttackStudy, RiskCurve
from epsilens.whatif import LossChangeEstimate
from epsilens.whatif.answer import FEWEST_REPEATS, measure_untrusted

QUESTION = {"protect": "smokes", "epsilon": [0.15, 0.5, 1.0, 2.0, 4.0]}


@pytest.fixture(scope="module")
def data() -> tuple[object, ...]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=800), "income": rng.normal(size=800)})
    y = pd.Series(rng.random(800) < 1 / (1 + np.exp(-X["age"])), name="smokes").astype("category")
    return X[:600], y[:600], X[600:], y[600:]


@pytest.fixture(scope="module")
def cost(data) -> LossChangeEstimate:
    """First order only: nearly all of its checks fail."""
    return WhatIf(LogisticRegression()).fit(*data).estimate(**QUESTION, method="influence")


@pytest.fixture(scope="module")
def risk(data) -> RiskCurve:
    with pytest.warns(UserWarning, match="too few models"):
        return AttackStudy(LogisticRegression()).fit(*data).estimate(**QUESTION, shadow_models=20)


def methods(decision) -> dict[float, str]:
    return {cell.epsilon: cell.method for cell in decision.document.cost.cells if cell.trusted}


def test_untrusted_costs_that_could_decide_are_trained_again(cost, risk):
    assert [cell.trusted for cell in cost.document.cells] == [False] * 4 + [True]
    without = decide(cost, risk, max_loss_increase=0.05, seconds=0)
    assert without.recommendation.epsilon == 4.0
    decision = decide(cost, risk, max_loss_increase=0.05)
    found = decision.recommendation
    # From the largest ε down to the first that costs too much; below nothing changes.
    assert methods(decision) == {0.5: "retrain", 1.0: "retrain", 2.0: "retrain", 4.0: "influence"}
    assert (found.epsilon, found.holds) == (1.0, True)
    assert decision.at(0.5).loss_increase > 0.05 >= decision.at(1.0).loss_increase
    assert "(measured)" in found.sentence
    assert decision.document.number_types["max_loss_increase"] == "measured"
    document = decision.document.cost
    kinds = {cell.epsilon: cost_type(document, cell) for cell in document.cells}
    assert (kinds[1.0], kinds[4.0]) == ("measured", "estimated")
    assert "at ε = 0.5, 1, 2: the cost there is measured" in " ".join(document.warnings)
    assert f"training again {FEWEST_REPEATS} times" in " ".join(document.warnings)
    assert "1 of 5 estimates failed" in " ".join(document.warnings)
    assert "4 of 5" not in " ".join(document.warnings)


def test_they_are_those_of_retrain(cost, risk, data):
    decision = decide(cost, risk, max_loss_increase=0.05)
    truth = WhatIf(LogisticRegression()).fit(*data).retrain(**QUESTION, repeats=FEWEST_REPEATS)
    for place, cell in enumerate(decision.document.cost.cells):
        if cell.method == "retrain":
            assert cell == truth.document.cells[place]


def test_the_cost_at_the_chosen_budget_is_measured_where_only_the_attack_is_limited(cost, risk):
    decision = decide(cost, risk, max_advantage=0.1)
    assert methods(decision) == {0.15: "retrain", 4.0: "influence"}
    assert "What it costs is not known" not in decision.recommendation.sentence
    # By default the end of the curve that costs nothing is looked for too.
    default = decide(cost, risk)
    assert methods(default) == {
        0.15: "retrain",
        2.0: "retrain",
        4.0: "influence",
        **methods(default),
    }
    assert default.recommendation.no_cost_from is not None


def test_a_confidence_that_needs_more_runs_gets_them(cost, risk):
    decision = decide(cost, risk, max_loss_increase=0.05, confidence=0.95)
    assert decision.document.cost.provenance.settings["repeats"] == 40
    assert decision.recommendation.epsilon == 1.0


def test_what_cannot_be_trained_is_left_as_it_was(cost, risk):
    def refuse(**_: object) -> LossChangeEstimate:
        raise EstimateNotTrustworthyError("a randomised run has records of one class only")

    for hopeless in (replace(cost, again=refuse), replace(cost, again=None)):
        decision = decide(hopeless, risk, max_loss_increase=0.05)
        assert decision.document.cost == cost.document
        assert decision.recommendation.epsilon == 4.0


@pytest.mark.parametrize(("first", "calls"), [(0.0, 2), (2.0, 1)])
def test_time_that_runs_out_ends_the_training(cost, risk, monkeypatch, first, calls):
    """The clock is ours: one run takes `first` seconds, and 20 seconds pass before the second block."""
    now, seen, told = [0.0], [], []
    monkeypatch.setattr("epsilens.whatif.answer.time.monotonic", lambda: now[0])

    def slow(*, repeats, progress=None, **_: object) -> object:
        seen.append(repeats)
        now[0] += first
        if repeats > 1:
            now[0] += 20.0
            progress(4, repeats, "retrain")
            raise AssertionError("it went on")
        return None

    decision = decide(
        replace(cost, again=slow),
        risk,
        max_loss_increase=0.05,
        progress=lambda *said: told.append(said),
    )
    assert decision.document.cost == cost.document
    # What would take too long as far as one run can tell is not begun.
    assert seen == [1, FEWEST_REPEATS][:calls]
    assert len(told) == calls - 1


def test_the_page_measures_all_of_them_from_the_largest_down(cost):
    found = measure_untrusted(cost, seconds=60)
    assert [cell.method for cell in found.document.cells] == ["retrain"] * 4 + ["influence"]
    assert all(cell.trusted for cell in found.document.cells)
    assert "failed their own check:" not in " ".join(found.document.warnings)

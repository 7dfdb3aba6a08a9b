"""What a study leads to where limits are missing, zero, or only one."""

from __future__ import annotations

from types import ModuleType

import pytest

from epsilens.app.conclusions import decide_on, furthest_of
from epsilens.document import to_dict


@pytest.fixture
def task(build: ModuleType) -> dict[str, object]:
    return {
        "cost": to_dict(build.make_whatif(epsilons=[0.5, 1.0, 2.0])),
        "risk": to_dict(build.make_risk(epsilons=[0.5, 1.0, 2.0])),
        "limits": {},
        "kept_gain": 0.02,
        "is_preview": False,
    }


def test_without_a_limit_most_of_the_gain_is_kept_and_that_is_said(task) -> None:
    document = decide_on(task)
    assert document.recommendation.max_loss_increase == 0.02
    assert "keeps 90 %" in document.warnings[0]


def test_a_model_without_any_gain_gets_an_example_that_is_called_so(task) -> None:
    document = decide_on({**task, "kept_gain": None})
    assert document.recommendation.max_loss_increase == 0.01
    assert "stands as an example" in document.warnings[0]


def test_a_limit_of_zero_is_a_limit(task) -> None:
    assert decide_on(
        {**task, "limits": {"max_loss_increase": 0.0}}
    ).recommendation.max_loss_increase == (0.0)


def test_a_limit_on_the_attack_alone_brings_none_on_the_loss(task) -> None:
    alone = {**task, "limits": {"max_attack_rate": 0.9}}
    assert decide_on(alone).recommendation.rule == "max_attack_rate"
    assert furthest_of({**alone, "risk": None})[1] is None


def test_a_preview_says_that_it_is_one(task) -> None:
    cost, _ = furthest_of({**task, "risk": None, "is_preview": True})
    assert cost.warnings[0].startswith("this is a preview at 3 budgets, with rough ranges.")


def test_a_preview_recommends_no_budget_that_failed_its_checks(task, build) -> None:
    failed = to_dict(build.make_whatif(epsilons=[0.5, 1.0, 2.0], untrusted_below=99.0))
    asked = {**task, "cost": failed, "risk": None, "is_preview": True}
    assert furthest_of({**asked, "limits": {"max_loss_increase": 9.0}})[1] is None


def test_an_attack_of_other_data_leaves_the_cost_to_be_shown(task, build) -> None:
    other = build.make_risk(epsilons=[0.5, 1.0, 2.0])
    baseline = other.baseline.model_copy(update={"loss": 0.6})
    risk = to_dict(other.model_copy(update={"baseline": baseline}))
    shown, chosen = furthest_of({**task, "risk": risk})
    assert shown.kind == "whatif"
    assert "models differ" in " ".join(shown.warnings)
    assert chosen["max_loss_increase"] == 0.02

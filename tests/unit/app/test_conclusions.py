"""What a study leads to where limits are missing, zero, or only one."""

from __future__ import annotations

from types import ModuleType

import pytest

from epsilens.app.pictures import decide_on, latest_of
from epsilens.document import to_dict


@pytest.fixture
def task(build: ModuleType) -> dict[str, object]:
    return {
        "cost": to_dict(build.make_whatif(epsilons=[0.5, 1.0, 2.0])),
        "risk": to_dict(build.make_risk(epsilons=[0.5, 1.0, 2.0])),
        "limits": {},
        "is_preview": False,
    }


def test_without_a_limit_the_default_holds_and_is_named(task, build) -> None:
    grid = [0.1, 0.15, 0.5, 2.0]
    asked = {
        **task,
        "cost": to_dict(build.make_whatif(epsilons=grid)),
        "risk": to_dict(build.make_risk(epsilons=grid)),
    }
    chosen = decide_on(asked).recommendation
    assert (chosen.epsilon, chosen.max_advantage, chosen.is_default) == (0.15, 0.1, True)
    assert chosen.max_loss_increase is None
    assert "our default limit, an advantage of at most 0.1; you gave none" in chosen.details[0]
    assert "(proven; our default limit)" in chosen.sentence
    # Without the attack there is no advantage to decide by.
    assert latest_of({**asked, "risk": None})[1] is None


def test_a_study_of_an_earlier_version_says_that_it_compares_nothing_else(task) -> None:
    document = decide_on(task)
    assert not document.is_comparison
    assert [note.code for note in document.notes].count("asked-before") == 1


def test_a_limit_on_the_advantage_is_the_study_s_own(task) -> None:
    chosen = decide_on({**task, "limits": {"max_advantage": 0.5}}).recommendation
    assert (chosen.epsilon, chosen.rule, chosen.is_default) == (1.0, "max_advantage", False)


def test_a_limit_of_zero_is_a_limit(task) -> None:
    assert decide_on(
        {**task, "limits": {"max_loss_increase": 0.0}}
    ).recommendation.max_loss_increase == (0.0)


def test_a_limit_on_the_attack_alone_brings_none_on_the_loss(task) -> None:
    alone = {**task, "limits": {"max_attack_rate": 0.9}}
    assert decide_on(alone).recommendation.rule == "max_attack_rate"
    assert latest_of({**alone, "risk": None})[1] is None


def test_a_preview_says_that_it_is_one(task) -> None:
    cost, _ = latest_of({**task, "risk": None, "is_preview": True})
    assert cost.warnings[0].startswith("this is a preview at 3 budgets, with rough ranges.")


def test_a_preview_recommends_no_budget_that_failed_its_checks(task, build) -> None:
    failed = to_dict(build.make_whatif(epsilons=[0.5, 1.0, 2.0], untrusted_below=99.0))
    asked = {**task, "cost": failed, "risk": None, "is_preview": True}
    assert latest_of({**asked, "limits": {"max_loss_increase": 9.0}})[1] is None


def test_an_attack_of_other_data_leaves_the_cost_to_be_shown(task, build) -> None:
    other = build.make_risk(epsilons=[0.5, 1.0, 2.0])
    baseline = other.baseline.model_copy(update={"loss": 0.6})
    risk = to_dict(other.model_copy(update={"baseline": baseline}))
    shown, chosen = latest_of({**task, "risk": risk, "limits": {"max_loss_increase": 0.02}})
    assert shown.kind == "whatif"
    assert "models differ" in " ".join(shown.warnings)
    assert chosen["max_loss_increase"] == 0.02

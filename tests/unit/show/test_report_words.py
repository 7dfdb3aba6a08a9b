# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from epsilens.document import load_document
from epsilens.document.clauses import ceiling_note, face_value_text, proof_text
from epsilens.document.sentences import (
    assessment_paragraph,
    decision_sentence,
    holder_text,
    odds_text,
)
from epsilens.errors import InputError
from epsilens.show import write_report
from epsilens.show.report_data import OTHERS, cell_data, group_data, risk_at, unprotected
from epsilens.show.risk import outside_lines


def embedded(path: Path, name: str) -> Any:
    text = path.read_text(encoding="utf-8")
    start = text.index(f'id="{name}">') + len(f'id="{name}">')
    return json.loads(text[start : text.index("</script>", start)])


def at(document: Any, epsilon: float) -> tuple[Any, Any]:
    cell = next(cell for cell in document.cost.cells if cell.epsilon == epsilon)
    return cell, risk_at(document, cell)


@pytest.fixture(scope="module")
def decision(build: ModuleType) -> Any:
    return build.make_decision(groups=["all", "women"], epsilons=[0.5, 1.0, 2.0, 20.0])


def test_the_answer_is_one_sentence_with_the_kind_of_every_number(decision: Any) -> None:
    said = decision_sentence(decision, *at(decision, 1.0))
    assert "(measured; 9 in 10 releases: " in said
    assert said.endswith("%).")
    for words in (
        "at ε = 1 would raise the test loss",
        "(estimated;",
        "From everybody else's data an attacker guesses up to 73.0% of the answers",
        "(proven given that baseline)",
    ):
        assert words in said
    assert said.index("(estimated") < said.index("(proven") < said.index("(measured;")


def test_a_ceiling_of_everything_proves_nothing(decision: Any) -> None:
    assert "Nothing is proven to stay hidden" in decision_sentence(decision, *at(decision, 20.0))


def test_what_was_not_measured_is_not_claimed(decision: Any) -> None:
    cell, risk = at(decision, 1.0)
    assert "not measured there" in decision_sentence(decision, cell, None)
    assert "was not measured" in assessment_paragraph(decision, cell, None)
    bare = risk.model_copy(update={"answer_inference_ceiling": None})
    assert "proven" not in decision_sentence(decision, cell, bare)


def test_failed_checks_are_said(build: ModuleType) -> None:
    document = build.make_decision(untrusted_below=20.0, epsilons=[0.5, 1.0])
    sentence = decision_sentence(document, *at(document, 1.0))
    assert sentence.startswith("No estimate at ε = 1: one run may move the predictions too far")
    # What an attacker gets does not depend on the estimate.
    assert "guesses" in sentence


def test_the_odds_are_rounded_up() -> None:
    for epsilon in (0.1, 0.5, 1.0, 3.0, 10.0, 20.0):
        assert float(odds_text(epsilon).replace(",", "")) >= math.exp(epsilon) * (1 - 1e-9)
    assert odds_text(0.0) == "1"
    assert odds_text(math.inf) == "more than a million million"


def test_the_paragraph_has_all_that_an_assessment_asks_for(decision: Any) -> None:
    epsilon = decision.recommendation.epsilon
    said = assessment_paragraph(decision, *at(decision, epsilon), data="survey.csv")
    for words in (
        "4,774 records of survey.csv",
        "randomised response",
        f"ε = {epsilon:g}",
        f"by a factor of at most {odds_text(epsilon)} (proven). This comes on top of what everything else says",
        "with the person's own randomised answer at most",
        "An attacker who sees only the published model and all other columns guesses",
        "the most exposed of 4,774 records is recognised",
        "Cost: Randomising the answer “affair” of everyone at ε = ",
        f"Reason for this budget: {decision.recommendation.sentence}",
        "This remains.",
        "not private themselves",
        f"epsilens {decision.provenance.version}, seed 0",
        "256 attacked models",
    ):
        assert words in said
    assert "\n" not in said
    other = next(cell.epsilon for cell in decision.cost.cells if cell.epsilon != epsilon)
    assert "Reason for this budget" not in assessment_paragraph(decision, *at(decision, other))


def test_several_answers_are_spoken_of_in_the_plural(build: ModuleType) -> None:
    settings = {"protect": ["affair", "age"]}
    document = build.make_decision(epsilons=[1.0, 2.0])
    document = document.model_copy(
        update={
            "cost": build.make_whatif(epsilons=[1.0, 2.0], settings=settings),
            "risk": build.make_risk(epsilons=[1.0, 2.0], protect=["affair", "age"]),
        }
    )
    cell, risk = at(document, 1.0)
    assert (
        "guesses the protected answers, all of them at once, of up to 73.0% of the people. With their "
        "own randomised answers it is at most"
    ) in decision_sentence(document, cell, risk)
    assert "are replaced by randomised response" in assessment_paragraph(document, cell, risk)


def test_what_is_not_protected_names_guessing_and_membership(decision: Any) -> None:
    _, risk = at(decision, 1.0)
    said = dict(unprotected("the answer “affair”", attacks=decision.risk, risk=risk))
    assert "that much no ε can hide" in said["What can be guessed without the answer."]
    assert (
        "At ε = 1, of people outside the training data the attack guesses"
        in said["What can be guessed without the answer."]
    )
    assert "there is no ceiling" in said["Being in the data at all."]
    assert "chance alone reaches 63.3%" in said["Being in the data at all."]
    assert "Being in the data at all." not in dict(unprotected("the answer “affair”"))


def test_only_everybody_has_an_attack(decision: Any) -> None:
    everyone, women = group_data(decision, {})
    assert everyone["risk_titles"][:1] == ["reader guesses"]
    assert women["risk_titles"] == []
    assert all(cell["risk"] is not None for cell in everyone["cells"])
    assert all(cell["risk"] is None for cell in women["cells"])
    assert all("paragraph" in cell for cell in everyone["cells"])


def test_numbers_for_comparing_are_not_rounded(decision: Any) -> None:
    cell, risk = at(decision, 1.0)
    shown = cell_data(decision, cell)
    assert shown["high"] == cell.loss_change_high
    assert shown["risk"]["ceiling_value"] == risk.answer_inference_ceiling
    assert shown["risk"]["high_value"] == risk.answer_inference_high


def test_the_page_of_a_decision_is_whole(decision: Any, tmp_path: Path) -> None:
    path = write_report(
        decision, tmp_path / "r.html", question={"data": "survey.csv"}, command="epsilens decide"
    )
    text = path.read_text(encoding="utf-8")
    for words in (
        "<title>What a privacy budget costs and what it buys</title>",
        "Randomise <bdi>the answer “affair”</bdi> of",
        "become guessable</option>",
        "For a data-protection impact assessment",
        "What is spent adds up",
        '<code><span class="whole">epsilens</span> <span class="whole">decide</span></code>',
        "<h3>Attacks on randomised response</h3>"
        if decision.mechanisms
        else "<h3>The attacks</h3>",
        "<h3>The decision</h3>",
        "ceiling (proven)",
        "Calibrating Practical Privacy Risks",
    ):
        assert words in text
    assert load_document(embedded(path, "document")) == decision
    data = embedded(path, "page-data")
    assert data["others"] == [[low, high] for _, low, high, _ in OTHERS]
    assert data["recommended"] == decision.recommendation.epsilon


@pytest.mark.parametrize(
    ("settings", "is_ticked"),
    [
        ({"measured": True}, True),
        ({"measured": False}, False),
        ({}, False),
        # What documents of an earlier version say.
        ({"proven_only": False}, True),
        ({"proven_only": True}, False),
    ],
)
def test_the_page_holds_limits_against_what_the_document_asked_for(
    build: ModuleType, tmp_path: Path, settings: dict[str, bool], *, is_ticked: bool
) -> None:
    document = build.make_decision()
    origin = document.provenance.model_copy(update={"settings": settings})
    document = document.model_copy(update={"provenance": origin})
    text = write_report(document, tmp_path / "r.html").read_text("utf-8")
    assert ('id="measured" checked' in text) is is_ticked


def test_a_confidence_above_what_was_simulated_is_said(build: ModuleType, tmp_path: Path) -> None:
    document = build.make_decision()
    strict = document.recommendation.model_copy(update={"confidence": 0.98})
    text = write_report(
        document.model_copy(update={"recommendation": strict}), tmp_path / "r.html"
    ).read_text("utf-8")
    assert "The recommendation is 99 % sure of each limit" in text
    assert 'id="measured" checked' not in text


def test_a_decision_brings_its_own_recommendation(decision: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be left out for a decision"):
        write_report(decision, tmp_path / "r.html", recommendation={"epsilon": 1.0})
    women = [cell for cell in decision.cost.cells if cell.group == "women"]
    cost = decision.cost.model_copy(update={"cells": women})
    with pytest.raises(InputError, match="the cost of everybody"):
        write_report(decision.model_copy(update={"cost": cost}), tmp_path / "r.html")


def test_the_odds_are_of_the_persons_own_answer(decision: Any) -> None:
    said = assessment_paragraph(decision, *at(decision, 1.0))
    assert "what is released changes the odds" not in said
    assert (
        "A person's own randomised answer changes the odds between any two of their possible answers "
        "by a factor of at most 2.72 (proven). This comes on top of what everything else says of them, "
        "other people's answers included. It holds as long as other people's answers do not depend on "
        "theirs."
    ) in said


@pytest.mark.parametrize("epsilon", [30.0, math.inf])
def test_odds_without_a_use_are_said_in_english(build: ModuleType, epsilon: float) -> None:
    document = build.make_decision(epsilons=[1.0, epsilon])
    said = assessment_paragraph(document, *at(document, epsilon))
    assert "at most more" not in said
    assert ("Nothing is randomised" in said) is math.isinf(epsilon)
    assert ("e to the power of 30 at most, more than a million million" in said) is (
        epsilon == 30.0
    )
    assert "nothing is proven to stay hidden" in said.lower()


def test_the_attacker_is_named(decision: Any) -> None:
    cell, risk = at(decision, 1.0)
    who = "n attacker who sees only the published model and all other columns"
    assert who in decision_sentence(decision, cell, risk)
    assert who in assessment_paragraph(decision, cell, risk)


def test_a_ceiling_has_its_condition_or_is_called_nothing(decision: Any) -> None:
    assert proof_text(at(decision, 1.0)[1]) == (
        "from everybody else's data an attacker guesses up to 73.0% of the answers; with the person's "
        "own randomised answer at most 85.5% (proven given that baseline)"
    )
    said = proof_text(at(decision, 20.0)[1])
    assert said == "nothing is proven to stay hidden (the ceiling is 100.0%)"
    assert "Nothing is proven to stay hidden" in assessment_paragraph(decision, *at(decision, 20.0))


def test_the_fact_on_a_single_answer_counts_the_possible_answers(
    build: ModuleType, decision: Any
) -> None:
    cell, risk = at(decision, 1.0)
    for n_answers, share in (([2], math.e / (1 + math.e)), ([5], math.e / (4 + math.e))):
        told = decision.risk.model_copy(update={"n_answers": n_answers})
        said = cell_data(decision.model_copy(update={"risk": told}), cell)
        assert said["face_value"] == (
            f"Taking a randomised answer at face value is right {100 * share:.1f}% of the time."
        )
    several = build.make_risk(epsilons=[1.0], protect=["sex", "income"], n_answers=[2, 3])
    assert face_value_text(several, several.cells[0]).endswith(
        "73.1% of the time for “sex”; 57.6% of the time for “income”."
    )
    many = build.make_risk(epsilons=[1.0], protect=list("abcd"), n_answers=[2, 3, 4, 5])
    assert face_value_text(many, many.cells[0]).endswith("is right up to 73.1% of the time.")
    # Documents of an earlier version do not say how many answers there are.
    unknown = decision.risk.model_copy(update={"n_answers": []})
    assert cell_data(decision.model_copy(update={"risk": unknown}), cell)["face_value"] is None
    assert "randomised answer at most" in holder_text(cell, risk)


def test_each_column_has_its_own_budget(build: ModuleType) -> None:
    budgets = {"sex": 2.0, "income": 0.5}
    settings = {"mechanism": "rr", "protect": list(budgets), "epsilon": budgets}
    risk = build.make_risk(
        epsilons=[None], protect=list(budgets), n_answers=[2, 2], settings=settings
    )
    assert face_value_text(risk, risk.cells[0]).endswith(
        "88.1% of the time for “sex”; 62.2% of the time for “income”."
    )


def test_what_is_shown_large_is_what_the_recommendation_says(
    build: ModuleType, tmp_path: Path
) -> None:
    """A budget within a limit on the attack alone is the answer, though its cost failed its check."""
    grid = [0.1, 0.15, 1.0, 2.0]
    document = build.make_decision(
        max_loss_increase=None, max_attack_rate=None, epsilons=grid, untrusted_below=0.5
    )
    assert document.recommendation.holds
    assert document.recommendation.epsilon == 0.15
    text = write_report(document, tmp_path / "r.html").read_text("utf-8").split("<script")[0]
    assert '<span id="verdict" hidden></span>' in text
    assert 'for="slider number">0.15<' in text
    assert 'id="recommended">' in text
    assert "What it costs is not known" in text
    assert "Taking a randomised answer at face value is right 53.7% of the time." in text


def test_nothing_is_shown_large_where_the_runs_are_too_few(
    build: ModuleType, tmp_path: Path
) -> None:
    document = build.make_decision(epsilons=[0.5, 1.0, 2.0])
    unsure = document.recommendation.model_copy(update={"holds": False})
    text = write_report(
        document.model_copy(update={"recommendation": unsure}), tmp_path / "r.html"
    ).read_text("utf-8")
    assert '<span id="verdict">no ε</span>' in text
    assert "No recommendation" in text


def test_all_answers_at_once_wherever_a_rate_stands(build: ModuleType) -> None:
    names = ["affair", "age"]
    document = build.make_decision(epsilons=[1.0, 2.0])
    document = document.model_copy(
        update={
            "cost": build.make_whatif(epsilons=[1.0, 2.0], settings={"protect": names}),
            "risk": build.make_risk(epsilons=[1.0, 2.0, math.inf], protect=names),
        }
    )
    cell, risk = at(document, 1.0)
    assert "at once of 69.8% of the people" in decision_sentence(document, cell, risk)
    assert "at once of 69.8% of the people" in assessment_paragraph(document, cell, risk)
    said = dict(unprotected("the answers", attacks=document.risk, risk=risk))
    assert "guesses all answers at once for" in said["What can be guessed without the answer."]
    everyone = group_data(document, {})[0]
    assert everyone["risk_titles"][0] == "reader guesses, all at once"
    assert "all answers at once" in outside_lines(document.risk)[0]
    assert "all of them at once" in ceiling_note(document.risk)


def test_the_paragraph_tells_failed_checks_and_a_limit_that_nobody_set(build: ModuleType) -> None:
    document = build.make_decision(untrusted_below=20.0, epsilons=[0.5, 1.0, 2.0])
    failed = assessment_paragraph(document, *at(document, 1.0))
    assert "Cost: No estimate at ε = 1" in failed
    document = build.make_decision(epsilons=[0.5, 1.0, 2.0])
    chosen = at(document, document.recommendation.epsilon)
    assert "default" not in assessment_paragraph(document, *chosen)
    assert "No estimate" not in assessment_paragraph(document, *chosen)
    default = build.make_decision(max_loss_increase=None, max_attack_rate=None)
    chosen = at(default, default.recommendation.epsilon)
    assert "our default limit, an advantage of at most 0.1; you gave none" in assessment_paragraph(
        default, *chosen
    )


def test_no_budget_that_nobody_recommends_is_shown_large(build: ModuleType, tmp_path: Path) -> None:
    for choices, said in (
        ({"max_attack_rate": 0.5}, '<span id="verdict">no ε</span>'),
        ({"epsilons": [1.0, math.inf], "max_loss_increase": 1e-6}, 'for="slider number">∞<'),
    ):
        document = build.make_decision(**choices)
        text = write_report(document, tmp_path / "r.html").read_text("utf-8").split("<script")[0]
        assert said in text
        assert "ε = inf" not in text

# SPDX-License-Identifier: Apache-2.0
"""What a comparison of mechanisms says where a careless sentence would mislead."""

from __future__ import annotations

import pytest

from epsilens.decision.rules import with_membership
from epsilens.document import MechanismCell, RiskCell, example_document, view
from epsilens.document.sentences import protection_sentence
from epsilens.show.report_data import unprotected

MOST_WORDS = 50


def test_all_answers_at_once_are_not_taken_for_single_ones(build):
    """b is small where three answers must all be guessed: each of them is guessed far more often."""
    document = build.make_comparison(protect=["affair", "smokes", "income"])
    said = [
        *document.recommendation.details,
        *(
            text
            for _, text in unprotected("x", attacks=document.risk, chosen=document.recommendation)
        ),
    ]
    told = [text for text in said if "an attacker guesses" in text]
    assert len(told) >= 2
    assert all("of the people" in text and "of the answers" not in text for text in told)
    assert any("A single answer is guessed more often." in text for text in told)


def test_an_attack_limit_below_what_others_give_away_is_explained(build):
    document = build.make_comparison(max_attack_rate=0.7)
    chosen = document.recommendation
    assert (chosen.epsilon, chosen.holds) == (None, False)
    assert chosen.sentence == (
        "No release keeps the attack limit of 70.0%. From the rest of the data an attacker guesses up to 73.0% "
        "of the answers (measured). Raise the limit, or limit what becomes guessable."
    )


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            {"max_accuracy_loss": 0.9, "max_advantage": 0.001},
            "meets both limits. Within the cost limit noisy gradient descent at ε = ",
        ),
        (
            {"max_accuracy_loss": 0.0001, "max_advantage": 0.001},
            "meets both limits. Within the cost limit randomised response at ε = ",
        ),
        (
            {"max_advantage": 0.0001},
            "meets the limit. Noisy gradient descent at ε = 0.1 gives away ",
        ),
    ],
)
def test_what_comes_nearest_says_in_which_way_it_misses(build, limits, said):
    sentence = build.make_comparison(**limits).recommendation.sentence
    assert sentence.startswith("No mechanism that was compared ")
    assert said in sentence
    assert "gives away the least: an advantage of at most " in sentence
    assert len(sentence.split()) <= MOST_WORDS


def test_a_bound_that_bounds_nothing_is_not_called_proven(build):
    cell = MechanismCell(
        epsilon=9.0, advantage=0.99997, loss_change=0.0, accuracy_change=0.0, method="exact"
    )
    sentence = protection_sentence("randomised-response", cell, named="ε = 9", kind="estimated")
    assert "Nothing is proven to stay hidden." in sentence
    assert "(proven" not in sentence
    document = build.make_comparison(max_accuracy_loss=0.0001, trust="nobody", epsilons=[0.1, 12.0])
    (gain,) = [row for row in view(document).facts if row.key == "gain"]
    assert document.recommendation.epsilon == 12.0
    assert (gain.text, gain.kind) == ("Nothing is proven to stay hidden", None)


def test_what_meets_no_limit_is_not_second_best(build):
    document = build.make_comparison(max_accuracy_loss=0.9, max_advantage=0.12)
    second = document.alternatives[0]
    assert document.recommendation.holds
    assert (view(document).runner_up is None) == (second.epsilon is None or not second.holds)


@pytest.mark.parametrize("mechanism", ["randomised-response", "noisy-descent"])
def test_a_leak_of_another_model_is_not_said_of_the_recommended_one(build, mechanism):
    """Models of the kind that was asked for were attacked, not the linear one that a curator would publish."""
    cell = RiskCell(epsilon=8.0, mechanism="rr", asr_mean=0.9, asr_mean_lower_bound=0.88)
    risk = example_document("risk", cells=[cell])
    found = build.make_comparison().recommendation.model_copy(update={"mechanism": mechanism})
    told = with_membership(found, risk)
    if mechanism == "noisy-descent":
        assert told.sentence == found.sentence
        assert told.details[-2].startswith("The model that was asked for gives away")
    else:
        assert told.sentence.startswith("This model gives away who was in its training data")

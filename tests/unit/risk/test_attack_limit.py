# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from types import ModuleType

import pytest

from epsilens.document import RiskCell
from epsilens.errors import InputError
from epsilens.risk.result import choose_epsilon


def cells(*numbers: tuple[float, float | None, float | None]) -> list[RiskCell]:
    return [
        RiskCell(
            epsilon=epsilon,
            mechanism="rr",
            answer_inference_rate=0.5,
            answer_inference_low=0.4,
            answer_inference_high=high,
            answer_inference_baseline=0.5,
            answer_inference_ceiling=ceiling,
        )
        for epsilon, high, ceiling in numbers
    ]


def test_the_largest_budget_that_is_proven(build: ModuleType) -> None:
    document = build.make_risk(cells=cells((0.5, 0.79, 0.62), (1.0, 0.9, 0.731), (2.0, 0.9, 0.88)))
    choice = choose_epsilon(document, max_attack_rate=0.8)
    assert (choice.epsilon, choice.holds, choice.rests_on) == (1.0, True, "proven")
    assert "(proven given its baseline: the ceiling there is 73.1%)" in choice.sentence


def test_what_was_measured_counts_by_its_upper_end_only(build: ModuleType) -> None:
    document = build.make_risk(cells=cells((0.5, 0.55, 0.62), (1.0, 0.58, 0.731), (2.0, 0.7, 0.88)))
    choice = choose_epsilon(document, max_attack_rate=0.65, measured=True)
    assert (choice.epsilon, choice.rests_on) == (1.0, "measured")
    assert "19 in 20 releases show at most 58.0%" in choice.sentence
    assert "A better attack may exist" in choice.sentence
    assert "is proven only up to ε = 0.5 (ceiling 62.0%)" in choice.sentence
    # The measured rate itself, 50 %, meets nothing.
    assert not choose_epsilon(document, max_attack_rate=0.52, measured=True).holds
    # Unless it is asked for, what was measured decides nothing.
    usual = choose_epsilon(document, max_attack_rate=0.65)
    assert (usual.epsilon, usual.rests_on) == (0.5, "proven")


def test_measured_and_proven_nowhere(build: ModuleType) -> None:
    document = build.make_risk(cells=cells((0.5, 0.55, 0.62)))
    choice = choose_epsilon(document, max_attack_rate=0.6, measured=True)
    assert "is proven at no ε of the grid" in choice.sentence
    assert not choose_epsilon(document, max_attack_rate=0.6).holds


def test_the_luckiest_of_many_is_not_picked(build: ModuleType) -> None:
    document = build.make_risk(cells=cells((0.5, 0.61, 0.7), (1.0, 0.59, 0.8), (2.0, 0.7, 0.9)))
    choice = choose_epsilon(document, max_attack_rate=0.6, measured=True)
    assert (choice.epsilon, choice.holds, choice.rests_on) == (None, False, None)
    assert choice.sentence == (
        "No ε of the grid keeps guesses of the answer within 60%; at the smallest, ε = 0.5, the "
        "proven ceiling is 70.0% (everybody else's data give away up to 50.0%) and 19 in 20 releases "
        "show at most 61.0%."
    )


def test_what_is_not_known_meets_nothing(build: ModuleType) -> None:
    document = build.make_risk(cells=cells((0.5, None, None)))
    assert choose_epsilon(document, max_attack_rate=0.99).holds is False
    assert choose_epsilon(build.make_risk(cells=[]), max_attack_rate=0.9).holds is False


def test_noisy_training_is_judged_by_its_ceiling_alone(build: ModuleType) -> None:
    document = build.make_risk(mechanism="dpsgd")
    choice = choose_epsilon(document, max_attack_rate=0.7)
    assert choice.epsilon == pytest.approx(0.774, abs=1e-3)
    assert choice.sentence.startswith("Up to ε = 0.774 no membership attack can exceed 70% (proven")
    refused = choose_epsilon(document, max_attack_rate=0.51)
    assert refused.sentence.startswith("No ε of the grid keeps membership attacks within 51%")


@pytest.mark.parametrize("rate", [0.0, 1.0, 80, -0.1, math.nan])
def test_a_rate_is_a_share(build: ModuleType, rate: float) -> None:
    with pytest.raises(InputError, match="max_attack_rate"):
        choose_epsilon(build.make_risk(), max_attack_rate=rate)

# SPDX-License-Identifier: Apache-2.0
"""The picture of a decision in a terminal."""

from __future__ import annotations

import io
import math
from types import ModuleType

import pytest
from rich.console import Console

from epsilens.document import DecisionDocument, MechanismCurve, view
from epsilens.document.decision import MechanismCell
from epsilens.show import decision_lines
from epsilens.show.picture import decision_picture


def compared(document: DecisionDocument) -> DecisionDocument:
    """Return a decision with a second mechanism, which is the recommended one."""
    cells = [
        MechanismCell(
            epsilon=epsilon,
            delta=1e-5,
            advantage=math.tanh(epsilon / 8),
            loss_change=0.01 / epsilon,
            accuracy_change=-0.02 / epsilon,
            method="simulation",
        )
        for epsilon in (0.25, 0.5, 1.0, 4.0)
    ]
    curve = MechanismCurve(
        mechanism="noisy-descent", trust="curator", protects="answer", cells=cells
    )
    changes = {"mechanism": "noisy-descent", "trust": "curator", "epsilon": 0.5, "holds": True}
    changes |= {"max_advantage": 0.1, "max_loss_increase": None, "max_attack_rate": None}
    changes |= {"rests_on": "proven"}
    chosen = document.recommendation.model_copy(update=changes)
    mechanisms = [*document.mechanisms, curve]
    return document.model_copy(update={"recommendation": chosen, "mechanisms": mechanisms})


def test_several_mechanisms_have_a_letter_each(build: ModuleType) -> None:
    text = decision_picture(compared(build.make_decision(epsilons=[0.5, 1.0, 2.0, 4.0])))
    assert text == EXPECTED.strip("\n")


EXPECTED = """
 more mistakes in 1,000 (estimated)
         │            N··       ┊ limit
         │         ε = 0.5 ●    ┊           R
     +30 │                 ·····┊·                       R
         │                      ┊·N·······
     +10 │                      ┊        ··········
         │                      ┊                 ·······N            R
         │                      ┊
       0 │                      ┊                                             R
         └──────────────────────────────────────────────────────────────────────
          0      1    3         10       20     30         50         75     100
          % guessable at most, of the answers the rest do not give away (proven)
 ● recommended  N noisy gradient descent  R randomised response
"""


def test_without_utf_8_every_character_is_plain(build: ModuleType) -> None:
    for document in (build.make_decision(), compared(build.make_decision())):
        text = decision_picture(document, is_plain=True)
        assert text.isascii()
        assert "* recommended" in text
        # Only the signs differ.
        assert text.count("\n") == decision_picture(document).count("\n")
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    console = Console(file=stream, width=80)
    assert console.options.ascii_only


@pytest.mark.parametrize("width", [40, 53, 80, 200])
def test_a_picture_is_no_wider_than_the_terminal_or_80_columns(
    build: ModuleType, width: int
) -> None:
    for document in (build.make_decision(), compared(build.make_decision())):
        lines = decision_picture(document, width=width).splitlines()
        assert 12 <= len(lines) <= (14 if width >= 80 else 17)
        assert max(map(len, lines)) <= min(width, 80)
        assert all(line.startswith(" ") for line in lines)


def test_a_terminal_that_is_too_narrow_has_the_words_alone(build: ModuleType) -> None:
    document = build.make_decision()
    assert decision_picture(document, width=39) == ""
    lines = [line.plain for line in decision_lines(document, width=39, is_plain=False)]
    assert lines == [
        document.recommendation.sentence,
        *(fact.sentence for fact in view(document).facts),
    ]


def test_one_mechanism_is_drawn_over_its_budgets_with_the_ceiling(build: ModuleType) -> None:
    document = build.make_decision(epsilons=[0.5, 1.0, 2.0, 4.0], max_attack_rate=0.95)
    text = decision_picture(document)
    assert document.recommendation.epsilon == 2.0
    assert text.startswith(" increase of the test loss (estimated)\n")
    lines = text.splitlines()
    budgets, ceilings = (line.split() for line in lines[10:12])
    assert budgets == ["ε", "0.5", "1", "2", "4"]
    assert ceilings[0] == "ceiling"
    assert len(ceilings) == 5
    assert "guessed at most (proven given other data)" in text
    assert "● ε = 2" in text
    assert sum("╌╌" in line and line.endswith("limit") for line in lines) == 1
    assert sum("┊" in line for line in lines) == 8


def test_without_accuracy_the_loss_is_drawn_and_told(build: ModuleType) -> None:
    document = build.make_decision(
        regression=True, max_loss_increase=None, max_attack_rate=None, max_advantage=0.5
    )
    assert "increase of the test loss" in decision_picture(document).splitlines()[0]
    cost = view(document).facts[0]
    assert cost.text.startswith("The test loss changes by +")
    assert cost.unit == "squared error"


def test_a_limit_that_is_met_by_what_was_measured_is_not_drawn(build: ModuleType) -> None:
    document = build.make_decision(epsilons=[0.5, 1.0, 2.0, 4.0])
    assert document.recommendation.rests_on == "measured"
    assert "┊" not in decision_picture(document)


def test_nothing_is_recommended_and_nothing_is_marked(build: ModuleType) -> None:
    document = build.make_decision(max_attack_rate=0.5)
    assert document.recommendation.epsilon is None
    assert view(document).facts == ()
    assert "recommended" not in decision_picture(document)


def test_a_decision_without_costs_has_no_picture(build: ModuleType) -> None:
    document = build.make_decision()
    assert decision_picture(document.model_copy(update={"mechanisms": []})) == ""

# SPDX-License-Identifier: Apache-2.0
"""One progress of a decision about a model that is trained again."""

from __future__ import annotations

import pytest

from epsilens.decision.progress import DecisionProgress
from epsilens.whatif.curve import FIRST_STEP, NEXT_STEP


@pytest.mark.parametrize("n_rounds", [1, 2, 3, 4])
@pytest.mark.parametrize("training", [0.5, 1.0])
@pytest.mark.parametrize("guessed", [0.6, 1.0, 1.7])
@pytest.mark.parametrize("attack", [45.0, 60.0, 75.0])
def test_after_a_tenth_of_the_time_what_is_left_is_right_within_a_third(
    n_rounds, training, guessed, attack
):
    now, said = 0.0, []
    told = DecisionProgress(
        lambda done, total, what: said.append((done, total, what)),
        round_seconds=5 * training * guessed,
        curve_seconds=40.0,
        attack_seconds=60.0,
        clock=lambda: now,
    )
    steps = [(FIRST_STEP, 26, training)]
    steps += [(NEXT_STEP, 5, training)] * n_rounds
    steps += [("attack", 24, attack / 24), ("compare", 1, 2.0), ("noisy-descent", 1, 5.0)]
    for what, total, each in steps:
        for done in range(1, total + 1):
            now += each
            told(done, total, what)
    passed = [done for done, _, _ in said]
    assert passed == sorted(passed)
    assert all(done <= total and what == "decide" for done, total, what in said)
    after = [(1000 * now - done, total - done) for done, total, _ in said if done >= 100 * now]
    true, expected = after[0]
    assert expected == pytest.approx(true, rel=1 / 3)
    # In the middle too.
    true, expected = after[len(after) // 2]
    assert expected == pytest.approx(true, rel=0.5)

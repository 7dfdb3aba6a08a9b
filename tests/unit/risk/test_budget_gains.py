from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from epsilens.document import RelaxedEpsilon
from epsilens.masking import MaskedRisk
from epsilens.risk.equivalent import budget_gains
from epsilens.show import relaxed_sentence

GRID = (1.0, 2.0, 4.0)


def bounded(low, rate, high):
    return SimpleNamespace(asr_max=rate, asr_max_lower_bound=low, asr_max_upper_bound=high)


EXPOSED = (bounded(0.70, 0.75, 0.80), bounded(0.80, 0.85, 0.90), bounded(0.90, 0.95, 0.99))
SPARED = (bounded(0.50, 0.54, 0.60), bounded(0.50, 0.55, 0.61), bounded(0.52, 0.56, 0.62))


def risk_of(**attacks):
    risk = MaskedRisk(GRID, attacks, {})
    return risk.equivalent("chosen", measure="asr_max"), risk.gains("chosen", measure="asr_max")


@pytest.mark.parametrize(
    ("every", "masked", "word"), [(EXPOSED, SPARED, "larger"), (SPARED, EXPOSED, "smaller")]
)
def test_bounds_apart_at_every_budget_are_no_noise(every, masked, word):
    found, gains = risk_of(none=every, chosen=masked)
    assert [(one.low, one.high) for one in found] == [(None, None)] * 3
    assert gains == [word] * 3


def test_the_interval_and_the_word_agree():
    found, gains = risk_of(none=EXPOSED, chosen=EXPOSED)
    assert gains == ["within the noise"] * 3
    assert all(one.low <= one.epsilon <= one.high for one in found)


@pytest.mark.parametrize(
    ("shift", "word"), [(-0.1, "larger"), (0.1, "smaller"), (0.0, "within the noise")]
)
def test_a_single_budget_is_judged_by_the_difference_of_each_model(monkeypatch, shift, word):
    """The models differ far more among themselves than by the shift: only paired is it seen."""
    rng = np.random.default_rng(0)
    here = rng.normal(0.6, 0.3, size=(1, 100))
    rates = {"here": here, "there": here + shift + 0.01 * rng.choice([-1, 1], size=(1, 100))}
    monkeypatch.setattr(
        "epsilens.risk.equivalent.model_accuracies", lambda attacks: rates[attacks[0].name]
    )
    attacks = {name: [SimpleNamespace(name=name, confidence=0.95)] for name in rates}
    gains = budget_gains(attacks["here"], attacks["there"], measure="balanced_accuracy")
    assert gains == [word]


def test_a_gain_beyond_the_grid_is_said_in_words():
    found, gains = risk_of(none=EXPOSED, chosen=SPARED)
    said = relaxed_sentence(
        [
            RelaxedEpsilon(masking="chosen", measure="asr_max", gain=gain, **one.model_dump())
            for one, gain in zip(found, gains, strict=True)
        ]
    )
    assert said.startswith(
        "Without the masked features even ε = 4 exposes the most exposed record less"
    )
    assert "the grid ends there: at the same ε less is exposed" in said

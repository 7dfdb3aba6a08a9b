from __future__ import annotations

import pytest

from epsilens.document import MaskDocument, MaskOutcome, Provenance, RelaxedEpsilon, view
from epsilens.show import document_table, relaxed_sentence


def outcome(masking, utility, identity):
    return MaskOutcome(
        masking=masking,
        n_masked=0 if masking == "none" else 1,
        utility_accuracy=utility,
        utility_error=0.01,
        utility_change_error=0.01,
        identity_accuracy=identity,
        identity_error=0.01,
        identity_change_error=0.01,
    )


def made(**changes):
    settings = {
        "provenance": Provenance(method="shap"),
        "kept": ["speed"],
        "masked": ["gait"],
        "alpha": 0.2,
        "utility_kept": 0.97,
        "privacy_kept": 0.4,
        "solver": "exact",
        "outcomes": [
            outcome("none", 0.8, 0.9),
            outcome("random", 0.7, 0.6),
            outcome("chosen", 0.79, 0.3),
        ],
    }
    return MaskDocument(**(settings | changes))


def relaxed(**changes):
    settings = {"masking": "chosen", "measure": "asr_max", "epsilon": 1.0, "equivalent": 3.9}
    return RelaxedEpsilon(**(settings | {"low": 2.0, "high": 8.0, "gain": "larger"} | changes))


def test_what_goes_and_what_that_does():
    first, second, control, last = view(made(relaxed=[relaxed()])).sentences
    assert first.startswith("Mask gait (1 of 2 features): 97.0% of the importance for the task")
    assert "from 80.0% to 79.0% of the test records (within two standard errors)" in second
    assert second.endswith("recognising people from 90.0% to 30.0%.")
    assert control.startswith("As many features masked at random leave 70.0% at the task and 60.0%")
    assert last.startswith("Without the masked features ε = 3.9 (2 to 8) exposes the most exposed")
    assert document_table(made()).row_count == 3
    nothing = {"kept": ["gait", "speed"], "masked": []}
    assert view(made(**nothing)).sentences[0].startswith("No feature needs")
    few = view(made(**nothing, n_explained=4)).sentences[0]
    assert few.startswith("Too few records to judge: only 4 were explained")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "by more than the noise of the attack explains. That is measured with this attack"),
        ({"gain": "within the noise", "low": 0.5}, "so nothing speaks for a larger ε."),
        ({"gain": "smaller", "high": 0.5, "low": 0.2}, "the exposure is larger, not smaller."),
        ({"equivalent": None, "low": 8.0}, "even ε = 1 exposes the most exposed record less than"),
        (
            {"equivalent": None, "low": 0.5, "gain": "within the noise"},
            "No ε that was tried exposes the most exposed record",
        ),
        ({"measure": "balanced_accuracy"}, "exposes the mean record as much as ε = 1 does"),
    ],
)
def test_a_gain_is_called_what_it_is(changes, words):
    assert words in relaxed_sentence([relaxed(**changes)])


def test_an_attack_to_which_every_budget_is_alike_cannot_tell():
    noise = {"gain": "within the noise", "low": 1.0, "high": 8.0}
    found = [relaxed(**noise), relaxed(epsilon=8.0, **noise)]
    assert relaxed_sentence(found).endswith(
        "this attack cannot tell, for every ε that was tried is within its noise."
    )

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

from epsilens.document.wording import protected_text, typical_cell
from epsilens.show import cell_sentence, whatif_sentence


@dataclass(frozen=True)
class Choice:
    epsilon: float | None
    holds: bool
    sentence: str


def test_the_answer_names_budget_cost_interval_and_its_kind(build: ModuleType) -> None:
    text = whatif_sentence(build.make_whatif(epsilons=[0.5, 1.0, 2.0]))
    assert text == (
        "Randomising the answer “affair” of everyone at ε = 1 would raise the test loss by 0.0448 "
        "nats, from 0.5432 (estimated; 9 in 10 real runs: +0.0204 to +0.0693). It would change "
        "the accuracy of 72.4% by −3.1 to −2.0 percentage points."
    )


def test_a_measurement_is_told_in_the_past(build: ModuleType) -> None:
    text = whatif_sentence(build.make_whatif(groups=["women"], epsilons=[1.0], method="retrain"))
    assert "of the group “women” at ε = 1 raised the test loss by" in text
    assert "(measured; 9 in 10 of the runs:" in text
    assert "). It changed the accuracy of 72.4% by" in text


def test_no_visible_change_is_said_so(build: ModuleType) -> None:
    text = whatif_sentence(build.make_whatif(epsilons=[math.inf]))
    assert "at ε = ∞ would leave the test loss as it is, at 0.5432 nats" in text
    assert text.endswith("). It would leave the accuracy at 72.4%.")


def test_an_improvement_is_a_lower_loss(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[1.0])
    cell = document.cells[0].model_copy(
        update={"loss_change": -0.01, "loss_change_low": None, "accuracy_change": 0.02}
    )
    text = cell_sentence(document.model_copy(update={"intervals": []}), cell)
    assert "would lower the test loss by 0.0100 nats, from 0.5432 (estimated)" in text
    assert "raise the accuracy by 2.0 percentage points" in text


def test_an_untrusted_cell_says_so(build: ModuleType) -> None:
    text = whatif_sentence(build.make_whatif(epsilons=[1.0], untrusted_below=2.0))
    assert text == (
        "No estimate at ε = 1: one run may move the predictions too far for this method. The "
        "method `retrain` measures it."
    )


def test_a_missing_estimate_says_so(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[1.0])
    cell = document.cells[0].model_copy(update={"loss_change": None, "accuracy_change": None})
    assert "could not be estimated" in cell_sentence(document, cell)


def test_a_regression_has_no_accuracy_and_no_nats(build: ModuleType) -> None:
    text = whatif_sentence(build.make_whatif(epsilons=[1.0], regression=True, loss_scale=9000))
    assert "would raise the mean squared error on the test rows by 404, from 4,889" in text
    assert "accuracy" not in text
    assert "nats" not in text


def test_different_budgets_and_several_columns(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[None], settings={"protect": ["a", "b", "c"]})
    assert protected_text(document) == "the answers “a”, “b” and “c”"
    assert "at ε = 2 for a record" in whatif_sentence(document)
    cell = document.cells[0].model_copy(update={"epsilon": 1.0, "record_epsilon": 3.0})
    assert "at ε = 1 for each column (ε = 3 for a record)" in cell_sentence(document, cell)


def test_the_choice_speaks_first_and_its_budget_is_told(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[0.5, 1.0, 2.0])
    text = whatif_sentence(document, Choice(2.0, True, "Take 2."))
    assert text.startswith("Take 2. Randomising")
    assert "at ε = 2 would" in text
    assert whatif_sentence(document, Choice(None, False, "None will do.")) == "None will do."


def test_near_means_near_by_ratio(build: ModuleType) -> None:
    document = build.make_whatif(epsilons=[0.0, 0.4, 2.2, math.inf])
    assert typical_cell(document).epsilon == 2.2
    assert typical_cell(document, epsilon=math.inf).epsilon == math.inf
    assert typical_cell(document, group="absent").group == "all"


def test_without_cells_there_is_nothing_to_say(build: ModuleType) -> None:
    assert whatif_sentence(build.make_whatif(groups=[])) == "No budget was asked about."

# SPDX-License-Identifier: Apache-2.0
"""Studies side by side show the numbers that their reports show, rounded in the same way."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from epsilens.document import to_dict
from epsilens.show.comparison import comparison_texts
from epsilens.show.report_data import cell_data

NUMBERS: dict[str, Any] = {
    "n_train": 4774,
    "baseline_loss": 0.5432,
    "epsilon": 1.0,
    "loss_change": -0.00004,
    "loss_change_high": 0.012345,
    "answer_inference_high": 0.7301,
    "answer_inference_ceiling": 0.8731,
}


def test_what_nobody_can_exceed_is_rounded_up() -> None:
    shown = comparison_texts(NUMBERS)
    assert shown["answer_inference_ceiling"] == "87.4%"
    assert shown["answer_inference_high"] == "73.1%"
    assert comparison_texts({**NUMBERS, "answer_inference_ceiling": 0.9996})[
        "answer_inference_ceiling"
    ] == ("nothing is proven")


def test_the_numbers_are_those_of_the_report(build: ModuleType) -> None:
    document = build.make_decision()
    place = 7
    cost, risk = document.cost.cells[place], document.risk.cells[place]
    report = cell_data(document, cost)
    shown = comparison_texts(
        {
            "n_train": document.cost.baseline.n_train,
            "baseline_loss": document.cost.baseline.loss,
            **{
                name: to_dict(document)["cost"]["cells"][place][name]
                for name in ("epsilon", "loss_change", "loss_change_high")
            },
            "answer_inference_high": risk.answer_inference_high,
            "answer_inference_ceiling": risk.answer_inference_ceiling,
        }
    )
    assert shown["epsilon"] == report["epsilon"]
    assert shown["loss_change"] == report["loss"]
    assert shown["loss_change_high"] == report["release"]["loss"].rsplit(" ", 1)[1]
    assert shown["answer_inference_ceiling"] == report["risk"]["ceiling"]


def test_a_change_of_accuracy_is_told_in_mistakes() -> None:
    shown = comparison_texts({**NUMBERS, "accuracy_change": 0.0051, "accuracy_change_low": -0.002})
    assert (shown["mistakes"], shown["mistakes_high"]) == ("−5", "+2")


def test_what_is_not_known_is_a_dash() -> None:
    nothing = dict.fromkeys(NUMBERS)
    assert set(comparison_texts({**nothing, "n_train": 9}).values()) == {"9", "–"}
    assert comparison_texts({**NUMBERS, "epsilon": "inf"})["epsilon"] == "∞"

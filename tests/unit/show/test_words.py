# SPDX-License-Identifier: Apache-2.0
"""What a chart says of a line that lies outside its band."""

from __future__ import annotations

import math

from epsilens.document import (
    Baseline,
    OutcomeInterval,
    Provenance,
    WhatIfCell,
    WhatIfDocument,
)
from epsilens.document.wording import Outcome
from epsilens.show import cost_chart

PARTED = "Where line and band part, few runs come near the line."


def document(
    *,
    loss: tuple[float, float, float] = (0.02, 0.01, 0.03),
    accuracy: tuple[float, float, float] = (-0.02, -0.03, -0.01),
    method: str = "exact",
    budgets: tuple[float, ...] = (0.5, 1.0, 2.0),
) -> WhatIfDocument:
    """Build a what-if from (change, low, high) that are the same at each budget."""
    return WhatIfDocument(
        provenance=Provenance(method=method),
        baseline=Baseline(loss=0.5, accuracy=0.7, auc=0.7, n_train=75, n_test=25, n_parameters=3),
        cells=[
            WhatIfCell(
                group="all",
                epsilon=epsilon,
                record_epsilon=epsilon,
                method=method,
                loss_change=loss[0],
                loss_change_low=loss[1],
                loss_change_high=loss[2],
                accuracy_change=accuracy[0],
            )
            for epsilon in budgets
        ],
        intervals=[
            OutcomeInterval(
                group="all", epsilon=epsilon, outcome="accuracy", low=accuracy[1], high=accuracy[2]
            )
            for epsilon in budgets
        ],
    )


def subtitle(what: WhatIfDocument, outcome: Outcome) -> list[str]:
    lines: list[str] = cost_chart(what, outcome=outcome).to_dict()["title"]["subtitle"]
    return lines


def test_a_line_within_its_band_needs_no_words() -> None:
    for outcome in ("loss", "accuracy"):
        assert len(subtitle(document(), outcome)) == 1


def test_an_expected_model_that_loses_less_than_its_runs_is_explained() -> None:
    assert PARTED in subtitle(document(accuracy=(0.004, -0.03, -0.01)), "accuracy")


def test_no_cause_is_given_where_it_would_be_another() -> None:
    worse = document(accuracy=(-0.05, -0.03, -0.01))
    measured = document(accuracy=(0.004, -0.03, -0.01), method="retrain")
    loss = document(loss=(0.05, 0.01, 0.03))
    for lines in (
        subtitle(worse, "accuracy"),
        subtitle(measured, "accuracy"),
        subtitle(loss, "loss"),
    ):
        assert PARTED in lines


def test_one_budget_has_a_point_and_a_bar() -> None:
    one = document(accuracy=(0.004, -0.03, -0.01), budgets=(1.0,))
    assert PARTED.replace("line", "point").replace("band", "bar") in subtitle(one, "accuracy")


def test_what_nobody_can_see_is_not_said() -> None:
    assert len(subtitle(document(loss=(0.0300001, 0.01, 0.03)), "loss")) == 1


def test_an_end_that_is_infinite_is_no_band() -> None:
    lines = subtitle(document(loss=(0.02, 0.01, math.inf)), "loss")
    assert lines == ["Estimated, without training again."]

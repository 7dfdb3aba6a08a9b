# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from types import ModuleType

import pytest

from epsilens.document import wording as rounding
from epsilens.document.wording import loss_decimals


@pytest.mark.parametrize(
    ("scale", "decimals"), [(1.0, 4), (0.1, 5), (10.0, 3), (1e5, 0), (1e12, 0), (1e-12, 10)]
)
def test_decimals_follow_the_size_of_the_loss(
    build: ModuleType, scale: float, decimals: int
) -> None:
    assert loss_decimals(build.make_whatif(loss_scale=scale).baseline.loss) == decimals


def test_a_loss_of_nothing_has_four_decimals(build: ModuleType) -> None:
    document = build.make_whatif()
    for loss in (0.0, None, math.inf):
        start = document.baseline.model_copy(update={"loss": loss})
        assert loss_decimals(start.loss) == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.02144, "+0.0214"),
        (-0.02144, "−0.0214"),
        (0.00004, "0.0000"),
        (-0.00004, "0.0000"),
        (0.00006, "+0.0001"),
        (math.inf, "+∞"),
        (-math.inf, "−∞"),
        (None, "–"),
        (math.nan, "–"),
        (1234.5, "+1,234.5000"),
    ],
)
def test_changes_have_a_sign_unless_they_show_as_zero(value: float | None, text: str) -> None:
    assert rounding.change_text(value, decimals=4) == text


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (0.001, "0.001"),
        (0.00001, "1.0e-05"),
        (0.9236, "0.924"),
        (9.996, "10"),
        (99.96, "100"),
        (100.4, "100"),
        (0.0, "0"),
    ],
)
def test_budgets_have_three_digits(epsilon: float, text: str) -> None:
    assert rounding.epsilon_text(epsilon) == text


def test_nothing_is_a_dash() -> None:
    for write in (
        rounding.points_text,
        rounding.percent_text,
        rounding.loss_text,
        rounding.change_text,
        rounding.seconds_text,
    ):
        assert write(None) == rounding.NOTHING

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from epsilens.document import NUMBER_TYPE_MEANINGS, NUMBER_TYPES, Baseline, WhatIfCell
from epsilens.document.whatif import whatif_number_types


def cell(**changes: object) -> WhatIfCell:
    content = {"group": "all", "epsilon": 1.0, "record_epsilon": 1.0, "method": "exact"}
    return WhatIfCell.model_validate(content | {"loss_change": 0.1} | changes)


def test_every_type_of_number_has_a_meaning_of_one_line() -> None:
    types = {"proven", "proven given b", "measured", "estimated"}
    assert set(NUMBER_TYPES) == types == set(NUMBER_TYPE_MEANINGS)
    assert all(text.endswith(".") and "\n" not in text for text in NUMBER_TYPE_MEANINGS.values())


def test_nan_becomes_null() -> None:
    assert cell(loss_change=math.nan, accuracy_change=np.float64("nan")).loss_change is None
    assert cell(epsilon=math.nan).epsilon is None


@pytest.mark.parametrize("budget", [math.inf, "inf", np.inf])
def test_infinity_is_read_as_number_or_word(budget: object) -> None:
    read = cell(epsilon=budget, record_epsilon=budget)
    assert read.epsilon == math.inf
    assert read.model_dump(mode="json")["record_epsilon"] == "inf"


def test_minus_infinity_is_written_as_a_word() -> None:
    assert cell(loss_change=-math.inf).model_dump(mode="json")["loss_change"] == "-inf"


@pytest.mark.parametrize("budget", [-1.0, "-inf", "Infinity", "1", True, math.nan, None])
def test_a_budget_must_be_a_number_of_at_least_zero(budget: object) -> None:
    with pytest.raises(ValidationError):
        cell(record_epsilon=budget)


def test_numpy_scalars_become_plain_python() -> None:
    read = cell(epsilon=np.float32(0.5), loss_change=np.int64(1), trusted=np.bool_(False))
    assert type(read.epsilon) is float
    assert read.trusted is False
    start = Baseline(
        loss=0.5, accuracy=None, auc=None, n_train=np.int64(3), n_test=np.int32(2), n_parameters=1
    )
    assert type(start.n_train) is int


@pytest.mark.parametrize("count", [1.0, "3", True, -1, None])
def test_a_count_must_be_a_whole_number(count: object) -> None:
    with pytest.raises(ValidationError):
        Baseline(loss=1.0, accuracy=None, auc=None, n_train=count, n_test=1, n_parameters=1)


def test_costs_are_measured_only_when_models_were_trained_again() -> None:
    estimated, measured = whatif_number_types(retrained=False), whatif_number_types(retrained=True)
    changed = {name for name in estimated if estimated[name] != measured[name]}
    assert changed >= {"loss_change", "loss_change_low", "accuracy_gap_change"}
    assert changed.isdisjoint({"epsilon", "record_epsilon", "loss", "accuracy", "auc"})
    assert estimated["record_epsilon"] == "proven"
    assert set(WhatIfCell.model_fields) - set(estimated) == {
        "group",
        "method",
        "trusted",
        "number_type",
    }

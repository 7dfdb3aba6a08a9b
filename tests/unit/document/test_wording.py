# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import ModuleType

from epsilens.document.wording import cost_type, group_names, loss_unit


def test_retraining_is_a_measurement(build: ModuleType) -> None:
    assert cost_type(build.make_whatif(method="retrain")) == "measured"
    assert cost_type(build.make_whatif(method="newton")) == "estimated"


def test_without_a_stated_type_the_cells_decide(build: ModuleType) -> None:
    document = build.make_whatif(method="retrain")
    assert cost_type(document.model_copy(update={"number_types": {}})) == "measured"
    assert cost_type(document.model_copy(update={"number_types": {}, "cells": []})) == "estimated"


def test_units_of_the_loss(build: ModuleType) -> None:
    assert loss_unit(build.make_whatif()) == "nats"
    assert loss_unit(build.make_whatif(regression=True)) == "squared error"
    # A RidgeClassifier has an accuracy and still a squared loss.
    assert loss_unit(build.make_whatif(settings={"loss": "squared"})) == "squared error"
    assert loss_unit(build.make_whatif(settings={"loss": "logistic"})) == "nats"


def test_groups_keep_their_order(build: ModuleType) -> None:
    assert group_names(build.make_whatif(groups=["b", "a"], epsilons=[1.0, 2.0])) == ["b", "a"]

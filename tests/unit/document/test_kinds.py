# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import ModuleType
from typing import get_args

import pytest
from pydantic import ValidationError

import epsilens
from epsilens.document import (
    DocumentKind,
    InspectColumn,
    Note,
    Provenance,
    WhatIfCell,
    WhatIfDocument,
    to_dict,
)
from epsilens.document.kinds import MODELS

CELL_KEYS = [
    "group",
    "epsilon",
    "record_epsilon",
    "method",
    "loss_change",
    "loss_change_low",
    "loss_change_high",
    "accuracy_change",
    "auc_change",
    "loss_gap_change",
    "accuracy_gap_change",
    "trusted",
]


def test_every_kind_has_a_name_and_a_model() -> None:
    assert tuple(MODELS) == get_args(DocumentKind)


def test_a_whatif_has_exactly_the_promised_keys(build: ModuleType) -> None:
    content = to_dict(build.make_whatif())
    assert list(content)[:2] == ["epsilens_document", "kind"]
    assert set(content) == {
        "epsilens_document",
        "kind",
        "provenance",
        "notes",
        "warnings",
        "number_types",
        "baseline",
        "cells",
        "intervals",
    }
    assert list(content["cells"][0]) == CELL_KEYS
    assert list(content["provenance"]) == [
        "method",
        "settings",
        "seed",
        "simulated",
        "version",
        "schema_fingerprint",
        "seconds",
    ]
    assert list(content["baseline"]) == [
        "loss",
        "accuracy",
        "auc",
        "n_train",
        "n_test",
        "n_parameters",
    ]


def test_a_release_has_exactly_the_promised_keys(build: ModuleType) -> None:
    content = to_dict(build.make_release())
    own = {"columns", "epsilon", "record_epsilon", "rows", "simulated", "mechanism"}
    common = {"epsilens_document", "kind", "provenance", "notes", "warnings", "number_types"}
    assert set(content) == own | common


def test_a_federation_has_the_promised_keys(build: ModuleType) -> None:
    content = to_dict(build.make_federation(mode="as_printed"))
    assert content["kind"] == "federation"
    assert set(content["versions"][0]) == {
        *("version", "operation", "mode", "sites", "model_epsilon", "distance_to_previous"),
        *("predicted_error", "advice", "test_loss", "test_accuracy", "messages", "bytes"),
        *("seconds", "rung", "rounds", "reason", "model_record_epsilon", "converged"),
        "masked",
    }
    assert content["ledger"][3] == {
        "site": 1,
        "operation": "change",
        "mode": "as_printed",
        "epsilon": 1.0,
        "record_epsilon": 2.0,
        "total_epsilon": "inf",
        "private": False,
    }


def test_documents_cannot_be_changed(build: ModuleType) -> None:
    with pytest.raises(ValidationError):
        build.make_whatif().kind = "release"


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Provenance(method="exact", eps=1.0)


def test_an_interval_with_its_ends_swapped_is_refused() -> None:
    with pytest.raises(ValidationError, match="must not exceed"):
        WhatIfCell(
            group="all",
            epsilon=1.0,
            record_epsilon=1.0,
            method="exact",
            loss_change=0.0,
            loss_change_low=0.2,
            loss_change_high=0.1,
        )


def test_messages_never_carry_the_value() -> None:
    with pytest.raises(ValidationError) as caught:
        InspectColumn(
            name="x", kind="SECRET", n_distinct="SECRET", n_missing=0, protectable="SECRET"
        )
    assert "SECRET" not in str(caught.value)


def test_settings_become_plain_json() -> None:
    origin = Provenance(
        method="exact",
        settings={"epsilon": (0.1, float("inf"), float("nan")), "groups": {"b", "a"}},
    )
    assert origin.settings == {"epsilon": [0.1, "inf", None], "groups": ["a", "b"]}


def test_settings_of_an_odd_type_are_refused() -> None:
    with pytest.raises(ValidationError, match="settings must be made of"):
        Provenance(method="exact", settings={"when": object()})


def test_provenance_knows_the_version() -> None:
    assert Provenance(method="exact").version == epsilens.__version__


def test_categories_are_written_as_text() -> None:
    column = InspectColumn(
        name="n", kind="categorical", n_distinct=2, n_missing=0, protectable=True, categories=(1, 2)
    )
    assert column.categories == ["1", "2"]


def test_tuples_are_taken_for_lists(build: ModuleType) -> None:
    document = build.make_whatif()
    again = WhatIfDocument(
        provenance=document.provenance,
        notes=(Note("unclassified", "one"),),
        baseline=document.baseline,
        cells=tuple(document.cells),
    )
    assert again.warnings == ["one"]
    assert again.cells == document.cells

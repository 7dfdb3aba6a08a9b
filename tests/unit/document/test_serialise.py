# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from epsilens.document import json_schema, load_document, to_dict, to_json
from epsilens.errors import InputError, InputTypeError


@pytest.fixture
def documents(build: ModuleType) -> list:
    return [
        build.make_whatif(epsilons=[0.1, 1.0, math.inf], groups=["women", "men"]),
        build.make_whatif(epsilons=[None], regression=True),
        build.make_release(),
        build.make_inspect(),
        build.make_value(),
        build.make_risk(epsilons=[0.1, 1.0, math.inf]),
        build.make_risk(epsilons=[None], protect=["affair", "age"]),
        build.make_risk(mechanism="dpsgd"),
        build.make_federation(),
    ]


def test_every_way_of_loading_gives_the_document_back(documents: list, tmp_path: Path) -> None:
    for document in documents:
        path = tmp_path / "document.json"
        path.write_text(to_json(document), encoding="utf-8")
        assert load_document(to_json(document)) == document
        assert load_document(to_dict(document)) == document
        assert load_document(path) == document


def test_json_is_strict_and_infinity_is_a_word(documents: list) -> None:
    for document in documents:
        text = to_json(document, indent=None)
        assert "\n" not in text
        assert "NaN" not in text
        assert "Infinity" not in text
    assert '"epsilon": "inf"' in to_json(documents[0])


def test_the_json_schema_is_valid_and_accepts_what_is_written(documents: list) -> None:
    everything, accepts = json_schema(), jsonschema.Draft202012Validator
    kinds = {document.kind: json_schema(document.kind) for document in documents}
    for schema in (everything, *kinds.values()):
        accepts.check_schema(schema)
        assert schema["$schema"].endswith("2020-12/schema")
    for document in documents:
        content = json.loads(to_json(document))
        accepts(kinds[document.kind]).validate(content)
        accepts(everything).validate(content)


def test_the_json_schema_refuses_what_is_not_a_document(documents: list) -> None:
    content = to_dict(documents[0])
    for broken in (
        content | {"extra": 1},
        content | {"epsilens_document": 3},
        {name: value for name, value in content.items() if name != "cells"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, json_schema("whatif"), jsonschema.Draft202012Validator)


def test_every_field_of_the_schema_is_described() -> None:
    schema = json_schema()
    parts = list(schema["$defs"].items())
    assert {"WhatIfCell", "OutcomeInterval", "Baseline", "Provenance"} <= {
        name for name, _ in parts
    }
    for _, part in parts:
        assert part["description"]
        assert "Examples" not in part["description"]
        for field in part["properties"].values():
            assert field["description"]


def test_an_unknown_kind_of_schema_is_refused() -> None:
    with pytest.raises(InputError, match="`kind` must be one of whatif, release, inspect"):
        json_schema("poem")


def one_line(error: pytest.ExceptionInfo[InputError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    assert "SECRET" not in message
    return message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("SECRET", "no JSON"),
        ("[1]", "JSON object"),
        ('{"a": NaN}', "NaN or Infinity"),
        ("{}", "epsilens_document"),
        ('{"epsilens_document": true}', "epsilens_document"),
        (
            '{"epsilens_document": 1}',
            "one of whatif, release, inspect, value, audit, risk, decision, mask, federation, training, got none",
        ),
        ('{"epsilens_document": 1, "kind": "SECRET"}', "got another"),
        ('{"epsilens_document": 1, "kind": "whatif"}', "malformed document at `provenance`"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_malformed_documents_give_one_line(source: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_document(source)
    assert words in one_line(caught)


def test_the_message_names_the_place_and_not_the_value(documents: list) -> None:
    content = to_dict(documents[0])
    content["cells"][1]["loss_change"] = "SECRET"
    with pytest.raises(InputError) as caught:
        load_document(content)
    assert "malformed document at `cells.loss_change`" in one_line(caught)


def test_no_foreign_error_hangs_on_ours(documents: list) -> None:
    with pytest.raises(InputError) as caught:
        load_document(to_dict(documents[0]) | {"baseline": "SECRET"})
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_newer_document_says_which_epsilens_is_needed(documents: list) -> None:
    content = to_dict(documents[0]) | {"epsilens_document": 3}
    content["provenance"]["version"] = "9.1.0"
    with pytest.raises(InputError) as caught:
        load_document(content)
    assert "got 3. Install epsilens 9.1.0 or newer" in one_line(caught)


def test_an_odd_version_text_is_not_repeated(documents: list) -> None:
    content = to_dict(documents[0]) | {"epsilens_document": 3}
    content["provenance"]["version"] = "SECRET\n"
    with pytest.raises(InputError) as caught:
        load_document(content)
    assert "pip install --upgrade epsilens" in one_line(caught)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.json"):
        load_document(tmp_path / "absent.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match="not UTF-8"):
        load_document(tmp_path / "binary.json")


def test_a_source_of_another_type_is_refused() -> None:
    with pytest.raises(InputTypeError, match=r"pathlib\.Path"):
        load_document(3)

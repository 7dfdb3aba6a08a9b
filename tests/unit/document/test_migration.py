# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from epsilens.document import (
    DocumentKind,
    anonymise,
    example_document,
    load_document,
    migrate,
    migration,
    to_dict,
    to_json,
)
from epsilens.document.decision import joined_points
from epsilens.errors import InputError

VERSION_1 = sorted((Path(__file__).parent / "version1").glob("*.json"))
"""Documents of every kind as commands of version 1 printed them."""
ADDED = {"notes", "alternatives", "mechanisms", "group_cells"}


def numbers(content: object) -> list[float]:
    """Return all numbers of a document in their order, without its version."""
    if isinstance(content, dict):
        return [n for k, v in content.items() if k != "epsilens_document" for n in numbers(v)]
    if isinstance(content, list):
        return [number for item in content for number in numbers(item)]
    return [content] if isinstance(content, int | float) and not isinstance(content, bool) else []


def test_there_is_an_old_document_of_every_kind() -> None:
    kinds = {json.loads(path.read_text(encoding="utf-8"))["kind"] for path in VERSION_1}
    # A training is a kind that version 1 did not have.
    assert kinds == set(get_args(DocumentKind)) - {"training"}


@pytest.mark.parametrize("path", VERSION_1, ids=lambda path: path.stem)
def test_a_document_of_version_1_is_read(path: Path) -> None:
    old = json.loads(path.read_text(encoding="utf-8"))
    document = load_document(path)
    content = to_dict(document)
    assert content["epsilens_document"] == 2
    assert content["warnings"] == old["warnings"]
    assert [note["code"] for note in content["notes"]] == ["unclassified"] * len(old["warnings"])
    assert sorted(numbers({k: v for k, v in content.items() if k in old})) == pytest.approx(
        sorted([*numbers(old), *[0.0] * ("recommendation" in old)])
    )
    assert set(content) - set(old) <= ADDED
    assert load_document(to_json(document)) == document
    assert load_document(to_json(anonymise(document))).kind == document.kind


def test_a_decision_of_version_1_gets_its_mechanism() -> None:
    path = next(path for path in VERSION_1 if path.stem == "decision")
    document = load_document(path)
    chosen, (curve,) = document.recommendation, document.mechanisms
    assert (chosen.mechanism, chosen.trust, chosen.protects, chosen.delta) == (
        *("randomised-response", "nobody", "answer"),
        0.0,
    )
    assert document.alternatives == []
    assert curve.audit is None
    points = joined_points(document.cost, document.risk)
    assert [cell.epsilon for cell in curve.cells] == [point.epsilon for point in points]
    for cell, point in zip(curve.cells, points, strict=True):
        assert cell.loss_change_high == point.cost.loss_change_high
        assert cell.advantage == point.risk.advantage


def test_the_name_of_the_mechanism_says_whether_the_loss_was_corrected() -> None:
    path = next(path for path in VERSION_1 if path.stem == "decision")
    old = json.loads(path.read_text(encoding="utf-8"))
    old["cost"]["provenance"]["settings"]["correction"] = "forward"
    document = load_document(old)
    assert document.recommendation.mechanism == "randomised-response-corrected"
    assert document.mechanisms[0].mechanism == "randomised-response-corrected"


def test_a_malformed_old_decision_says_where() -> None:
    path = next(path for path in VERSION_1 if path.stem == "decision")
    old = json.loads(path.read_text(encoding="utf-8"))
    old["risk"]["cells"][0]["advantage"] = "SECRET"
    with pytest.raises(InputError, match=r"malformed document at `risk\.cells\.advantage`"):
        load_document(old)


@pytest.mark.parametrize("said", ["SECRET", [1], {"a": 1}])
def test_malformed_old_warnings_are_refused(said: object) -> None:
    old = {"epsilens_document": 1, "kind": "inspect", "warnings": said}
    with pytest.raises(InputError, match="malformed document at `notes`") as caught:
        load_document(old | {"provenance": {"method": "inspect"}, "rows": 1, "columns": []})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("kind", get_args(DocumentKind))
def test_saving_and_loading_an_example_is_the_identity(kind: DocumentKind) -> None:
    document = example_document(kind)
    assert load_document(to_json(document)) == document
    assert migrate(to_dict(document)) == to_dict(document)


def test_warnings_that_differ_from_the_notes_are_refused() -> None:
    content = to_dict(example_document("inspect"))
    with pytest.raises(InputError, match="warnings must be the texts of the notes"):
        load_document(content | {"warnings": ["another"]})


def test_the_current_version_stays_as_it_is(build: ModuleType) -> None:
    content = to_dict(build.make_whatif())
    migrated = migrate(content)
    assert migrated == content
    assert migrated is not content


def test_steps_are_taken_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "DOCUMENT_VERSION", 3)
    monkeypatch.setitem(migration.STEPS, 1, lambda content: content | {"path": ["one"]})
    monkeypatch.setitem(
        migration.STEPS, 2, lambda content: content | {"path": [*content["path"], "two"]}
    )
    old = {"epsilens_document": 1}
    assert migrate(old) == {"epsilens_document": 3, "path": ["one", "two"]}
    assert old == {"epsilens_document": 1}


def test_there_is_a_step_from_every_older_version() -> None:
    assert set(migration.STEPS) == set(range(1, migration.DOCUMENT_VERSION))


@pytest.mark.parametrize("version", [0, -1, 99])
def test_unknown_versions_are_refused(version: int) -> None:
    with pytest.raises(InputError, match=f"got {version}"):
        migrate({"epsilens_document": version})

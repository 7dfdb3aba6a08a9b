# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import ModuleType

import pytest

from epsilens.document import migrate, migration, to_dict
from epsilens.errors import InputError


def test_version_one_stays_as_it_is(build: ModuleType) -> None:
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

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from epsilens.data.atomic import replacing, write_text
from epsilens.errors import InputError


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_text("old", file)

    def interrupted() -> None:
        with replacing(file) as scratch:
            scratch.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert file.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_the_output_must_be_a_file_in_an_existing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a file"):
        write_text("x", tmp_path)
    with pytest.raises(InputError, match="folder must exist"):
        write_text("x", tmp_path / "no" / "x.txt")

# SPDX-License-Identifier: Apache-2.0
"""What is finished is kept; what belongs elsewhere is refused."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.models.passes import BlockStore

IDENTITY = {"seed": 3, "epsilon": math.inf, "hidden": (5, 6), "what": "scores"}
DATA = [np.arange(12.0).reshape(3, 4), np.array([True, False])]


def test_blocks_come_back(tmp_path: Path) -> None:
    store = BlockStore(tmp_path / "run", IDENTITY, data=DATA)
    assert store.done == frozenset()
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2])}
    store.write(4, arrays)
    again = BlockStore(tmp_path / "run", IDENTITY, data=DATA)
    assert again.done == {4} == store.done
    read = again.read(4)
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        assert (read[name] == array).all()


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    BlockStore(tmp_path / "run", IDENTITY).write(0, {"a": np.zeros(2)})
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    files = list((tmp_path / "run").iterdir())
    assert len(files) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_no_data_are_kept(tmp_path: Path) -> None:
    secret = np.array([[1234.5678]])
    BlockStore(tmp_path, IDENTITY, data=[secret])
    content = (tmp_path / "run.json").read_text()
    assert "1234.5" not in content
    assert secret.tobytes().hex() not in content
    BlockStore(tmp_path / "other", IDENTITY, data=[secret])
    # The same data have another digest elsewhere: nobody can tell by it that they are the same.
    assert (
        json.loads(content)["digest"]
        != json.loads((tmp_path / "other/run.json").read_text())["digest"]
    )


@pytest.mark.parametrize(
    ("identity", "data"),
    [
        ({**IDENTITY, "seed": 4}, DATA),
        ({**IDENTITY, "more": 1}, DATA),
        (IDENTITY, DATA[:1]),
        (IDENTITY, [DATA[0] + 1.0, DATA[1]]),
        (IDENTITY, [DATA[0].reshape(4, 3), DATA[1]]),
    ],
)
def test_another_run_is_refused_in_one_line(tmp_path: Path, identity: dict, data: list) -> None:
    BlockStore(tmp_path / "run", IDENTITY, data=DATA)
    with pytest.raises(InputError, match="'run' belongs to another run") as caught:
        BlockStore(tmp_path / "run", identity, data=data)
    assert "\n" not in str(caught.value)


def test_a_block_that_is_cut_short_is_not_done(tmp_path: Path) -> None:
    store = BlockStore(tmp_path, IDENTITY)
    for block in range(3):
        store.write(block, {"a": np.arange(1000.0)})
    whole = (tmp_path / "block-000001.npz").read_bytes()
    (tmp_path / "block-000001.npz").write_bytes(whole[:-700])
    damaged = bytearray((tmp_path / "block-000002.npz").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "block-000002.npz").write_bytes(damaged)
    (tmp_path / ".block-000003.npz.12.part").write_bytes(whole)
    again = BlockStore(tmp_path, IDENTITY)
    assert again.done == {0}
    again.write(1, {"a": np.arange(1000.0)})
    assert BlockStore(tmp_path, IDENTITY).done == {0, 1}


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("chapter 1")
    with pytest.raises(InputError, match="is not a checkpoint and is left alone"):
        BlockStore(tmp_path, IDENTITY)
    with pytest.raises(InputError, match="must be a folder"):
        BlockStore(tmp_path / "thesis.txt", IDENTITY)
    with pytest.raises(InputError, match="must be a folder"):
        BlockStore(tmp_path / "no" / "where", IDENTITY)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_kill_before_the_first_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".run.json.1a2b.part").write_text("{")
    BlockStore(tmp_path, IDENTITY).write(0, {"a": np.zeros(1)})
    assert BlockStore(tmp_path, IDENTITY).done == {0}


def test_without_a_folder_nothing_is_kept() -> None:
    store = BlockStore(None, IDENTITY, data=DATA)
    store.write(0, {"a": np.zeros(1)})
    assert store.done == frozenset()

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import stat
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


def test_a_symbolic_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    target = tmp_path / "results" / "may.json"
    link = tmp_path / "latest.json"
    link.symlink_to(target)
    for text in ("first", "second"):  # the target does not exist, and then it does
        write_text(text, link)
        assert link.is_symlink()
        assert target.read_text() == text
    assert [entry.name for entry in (tmp_path / "results").iterdir()] == ["may.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_what_is_no_ordinary_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    # A pipe of our own stands for devices too: a test that fails must not harm the machine.
    pipe, link = tmp_path / "pipe.json", tmp_path / "link.json"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(InputError, match="an ordinary file"):
            write_text("x", path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert link.is_symlink()


def test_a_link_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(InputError, match="form a circle"):
        write_text("x", tmp_path / "circle")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_a_new_file_follows_the_umask_and_a_replaced_one_keeps_its_permissions(
    tmp_path: Path,
) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    private = tmp_path / "private.json"
    private.touch(mode=0o600)
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "new.json") as scratch:
            assert mode(scratch) == 0o600  # until it is whole
        with replacing(private) as scratch:
            assert mode(scratch) == 0o600
    finally:
        os.umask(before)
    assert mode(tmp_path / "new.json") == 0o640
    assert mode(private) == 0o600


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 250 + ".json")
    write_text("x", file)
    assert file.read_text() == "x"


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_scratch_files_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    left = tmp_path / ".result.json.0123abcd.epsilens.part"
    others = [tmp_path / name for name in (".result.json.part", "result.0123abcd.epsilens.part")]
    for path in (left, *others):
        path.write_text("half")
    with replacing(tmp_path / "slow.json") as scratch:
        assert not left.exists()
        write_text("quick", tmp_path / "quick.json")
        assert scratch.exists()
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {
        "slow.json",
        "quick.json",
        *(path.name for path in others),
    }


def test_a_file_is_announced_when_it_is_whole_and_before_it_has_its_name(tmp_path: Path) -> None:
    file, seen = tmp_path / "result.json", []
    with replacing(file, announce=lambda: seen.append(file.exists())) as scratch:
        assert seen == []
        scratch.write_text("new")
    assert (seen, file.read_text()) == ([False], "new")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_a_private_file_is_for_its_owner_whatever_it_replaces(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.touch(mode=0o644)
    with replacing(file, private=True) as scratch:
        scratch.write_text("new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

# SPDX-License-Identifier: Apache-2.0
"""What the operating system refuses is one line and exit code 2, and nothing half-written stays."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from epsilens.cli import main
from epsilens.errors import InputError

resource = pytest.importorskip("resource")

RELEASE = ["--protect=smokes", "--epsilon=1", "--categories=smokes=no|yes"]
COST = ["--label=smokes", "--epsilon=1"]
RETRAIN = [*COST, "--method=retrain", "--repeats=2"]


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    rows = [
        f"{age},{answer}"
        for age, answer in zip(
            random.integers(20, 80, 120), random.choice(["no", "yes"], 120), strict=True
        )
    ]
    file = tmp_path / "survey.csv"
    file.write_text("\n".join(["age,smokes", *rows]) + "\n")
    return file


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line.startswith("Error: ")
    return line


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command",
    [["inspect"], ["inspect", "--json"], ["whatif", *COST, "--json"], ["--help"], ["--version"]],
)
def test_a_full_standard_output(
    command: list[str],
    survey: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed = command if command[0].startswith("-") else [command[0], str(survey), *command[1:]]
    with open("/dev/full", "w", encoding="utf-8") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", full)
        assert main(typed) == 2
    assert "standard output must be writable, but no space is left" in one_line(capsys)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_error_keeps_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["inspect", "nowhere.csv"]) == 2


@pytest.mark.parametrize(
    ("command", "out"),
    [
        (["inspect"], "out.json"),
        (["whatif", *COST], "out.csv"),
        (["whatif", *COST], "out.svg"),
        (["randomise", *RELEASE], "out.csv"),
        (["randomise", *RELEASE], "out.csv.gz"),
        (["randomise", *RELEASE], "out.parquet"),
    ],
)
def test_a_file_larger_than_allowed(
    command: list[str], out: str, survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with no_file_larger_than(10):
        assert main([command[0], str(survey), *command[1:], "--out", str(survey.parent / out)]) == 2
    assert f"'{out}' must be a file that can be written, but the file would be" in one_line(capsys)
    assert names(survey.parent) == {"survey.csv"}


def test_a_checkpoint_on_a_full_disk_goes_on_later(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["whatif", str(survey), *RETRAIN, "--checkpoint", str(tmp_path / "runs")]
    with no_file_larger_than(650):
        assert main(typed) == 2
    assert "the checkpoint 'runs' must be writable, but the file would" in one_line(capsys)
    assert main(typed) == 0
    with no_file_larger_than(10):
        assert main([*typed[:-1], str(tmp_path / "others")]) == 2
    assert names(tmp_path) == {"survey.csv", "runs"}


@pytest.mark.parametrize("length", [300, 245])
def test_a_name_that_is_too_long(
    length: int, survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The shorter one has room for the table, not for its receipt.
    out = tmp_path / ("x" * length + ".csv")
    assert main(["randomise", str(survey), *RELEASE, "--out", str(out)]) == 2
    assert "but the name is too long. Choose a shorter name." in one_line(capsys)
    assert main(["inspect", "y" * length * 2]) == 2
    one_line(capsys)
    assert names(tmp_path) == {"survey.csv"}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EMFILE, errno.EDQUOT, None])
def test_a_folder_that_takes_no_file(
    number: int | None,
    survey: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = os.open

    def refused(path: str | Path, flags: int, *arguments: int, **options: int) -> int:
        if flags & os.O_CREAT and ".epsilens.part" in str(path):
            raise OSError(number, "what the system says", str(path)) if number else OSError
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refused)
    assert main(["inspect", str(survey), "--out", str(tmp_path / "out.json")]) == 2
    line = one_line(capsys)
    assert "'out.json' must be a file that can be written, but " in line
    assert ".part" not in line
    assert names(tmp_path) == {"survey.csv"}


def test_what_a_library_cannot_open_is_named_without_its_text(
    survey: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTEMPTY, "a secret answer", "/somewhere/else.bin")

    monkeypatch.setattr("epsilens.data.read_table", refused)
    assert main(["inspect", str(survey)]) == 2
    line = one_line(capsys)
    assert "'else.bin' must be readable and writable" in line
    assert "secret" not in line


def test_too_many_open_files_from_the_start() -> None:
    # Standard streams, the interpreter's own and no more.
    program = "import resource, sys; from epsilens.cli import main; "
    program += "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "inspect", "survey.csv"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "Error: every file must be readable and writable, but too many files are open. "
        "Raise the limit with `ulimit -n`.\n"
    )


def test_checkpoints_are_for_their_owner(survey: Path, tmp_path: Path) -> None:
    file, folder = tmp_path / "runs", tmp_path / "attacks"
    before = os.umask(0o022)
    try:
        typed = ["whatif", str(survey), *RETRAIN, "--quiet", "--checkpoint"]
        assert main([*typed, str(file)]) == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o644)  # as earlier versions have left it
        assert main([*typed, str(file)]) == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        attack = ["risk", str(survey), *COST, "--shadow-models=20", "--quiet", "--checkpoint"]
        assert main([*attack, str(folder)]) == 0
    finally:
        os.umask(before)
    for path in [folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_a_message_never_quotes_what_is_not_a_name() -> None:
    from epsilens.errors import system_refusal

    error = system_refusal(OSError("could not write 'HIV+'"), must="be writable")
    assert isinstance(error, InputError)
    assert "HIV" not in str(error)
    refused = system_refusal(OSError(errno.ECONNREFUSED, "x"), must="be writable")
    assert "file" not in str(refused)

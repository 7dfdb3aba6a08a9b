# SPDX-License-Identifier: Apache-2.0
"""Bad input ends with exit code 2 and one line on standard error that holds no value."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epsilens.data
from epsilens.cli import main
from epsilens.errors import (
    EstimateNotTrustworthyError,
    InputError,
    MissingExtraError,
    PrivacyLeakWarning,
)

SECRET = "HIV-positive-7731"
PROGRAM = [sys.executable, "-c", "import sys; from epsilens.cli import main; sys.exit(main())"]


def assert_one_line(captured: object, words: str) -> None:
    out, err = captured  # type: ignore[misc]
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert words in err
    assert SECRET not in err
    assert "Traceback" not in err


BAD_FILES: dict[str, tuple[str, bytes, list[str], str]] = {
    "no bytes": ("a.csv", b"", [], "is empty"),
    "no rows": ("a.csv", b"age,sex\n", [], "got 0 rows"),
    "duplicate column names": ("a.csv", f"a,a\n1,{SECRET}\n".encode(), [], "more than once"),
    "empty column name": ("a.csv", f"a,,c\n1,{SECRET},2\n".encode(), [], "must have a name"),
    "ragged": ("a.csv", f"a,b\n1,{SECRET},2\n".encode(), [], "more or fewer"),
    "no header": ("a.csv", f"{SECRET},1\n{SECRET},1\n".encode(), [], "looks like a record"),
    "wrong delimiter": (
        "a.csv",
        f"a;b\n1;{SECRET}\n".encode(),
        ["--delimiter", ","],
        "--delimiter ';'",
    ),
    "wrong encoding": ("a.csv", b"a,b\n\xe9,1\n", ["--encoding", "utf-8"], "some bytes are not"),
    "unknown encoding": ("a.csv", b"a,b\n1,2\n", ["--encoding", "x"], "Python knows"),
    "binary junk": ("a.csv", bytes(range(256)) * 9, [], "binary data"),
    "workbook": ("a.xlsx", b"PK\x03\x04" + SECRET.encode(), [], "Excel"),
    "half a gzip": ("a.csv.gz", gzip.compress(SECRET.encode() * 99)[:40], [], "cut short"),
    "half a parquet": ("a.parquet", b"PAR1" + SECRET.encode(), [], "cut short"),
    "unknown column": ("a.csv", b"age,sex\n1,F\n", ["--categorical", "agee"], "Did you mean"),
    "bad bins": ("a.csv", b"age,sex\n1,F\n", ["--bins", "age"], "COL=10"),
    "no such folder": ("a.csv", b"age,sex\n1,F\n", ["--out", "no/where.json"], "must exist"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_inspect(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, content, options, words = BAD_FILES[case]
    (tmp_path / name).write_bytes(content)
    assert main(["inspect", str(tmp_path / name), *options]) == 2
    assert_one_line(capsys.readouterr(), words)


def test_files_that_are_not_there_or_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["inspect", str(tmp_path / "no.csv")]) == 2
    assert_one_line(capsys.readouterr(), "Check the path")
    assert main(["inspect", str(tmp_path)]) == 2
    assert_one_line(capsys.readouterr(), "parquet")

    def refused(self: Path) -> bytes:
        raise PermissionError(13, "denied", SECRET)

    monkeypatch.setattr(Path, "read_bytes", refused)
    assert main(["inspect", str(tmp_path / "no.csv")]) == 2
    assert_one_line(capsys.readouterr(), "Check its permissions")


@pytest.mark.parametrize("error", [InputError, MissingExtraError, EstimateNotTrustworthyError])
def test_each_of_our_errors_is_one_line(
    error: type[Exception], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("what was expected,\n what came")

    monkeypatch.setattr(epsilens.data, "read_table", fail)
    assert main(["inspect", "a.csv"]) == 2
    assert_one_line(capsys.readouterr(), "Error: what was expected, what came")


def test_our_warnings_are_one_line_each_and_shown_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    read = epsilens.data.read_table

    def warn(*arguments: object, **options: object) -> object:
        for _ in range(2):
            warnings.warn("the domain was\nobserved", PrivacyLeakWarning, stacklevel=1)
        return read(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(epsilens.data, "read_table", warn)
    assert main(["inspect", str(tmp_path / "a.csv"), "--json"]) == 0
    assert capsys.readouterr().err == "Warning: the domain was observed\n"


def test_a_mistake_of_ours_shows_its_traceback_but_no_variables(tmp_path: Path) -> None:
    code = (
        "import sys, epsilens.data\n"
        "def broken(*a, **k):\n"
        "    record = '-'.join(['HIV', 'positive', '7731'])\n"
        "    raise RuntimeError('a mistake')\n"
        "epsilens.data.read_table = broken\n"
        "from epsilens.cli import main\n"
        "sys.exit(main(['inspect', 'a.csv']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "a mistake" in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_control_c_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    pipe = tmp_path / "data.csv"
    os.mkfifo(pipe)
    out = tmp_path / "out.json"
    process = subprocess.Popen(
        [*PROGRAM, "inspect", str(pipe), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Opening for writing waits until the program has opened the pipe and is reading.
    with pipe.open("wb"):
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output == ""
    assert errors.splitlines() == ["Interrupted: nothing half-written was left behind."]
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.csv"]


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, "inspect", str(tmp_path / "a.csv"), "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode != 0


def survey(folder: Path, name: str = "survey.csv", **columns: object) -> str:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": generator.normal(size=80),
            "job": np.resize(["nurse", "clerk", "cook"], 80),
            "smokes": generator.choice(["no", "yes"], 80),
        }
    ).assign(**columns)
    frame.to_csv(folder / name, index=False)
    return str(folder / name)


BAD_TABLES: dict[str, tuple[dict[str, object], list[str], str]] = {
    "missing values": ({"age": [None] * 10 + [1.5, 2.5] * 35}, [], "10 of 80"),
    "one class": ({"smokes": SECRET}, [], "got 1"),
    "many classes": ({"smokes": ["a", "b", "c", SECRET] * 20}, [], "--positive"),
    "all constant": ({"age": 1, "job": SECRET}, [], "left to learn from"),
    "empty group": ({}, ["--group", "old=age > 99"], "'old' is empty"),
    "bad expression": ({}, ["--group", "age >"], "not valid"),
    "unknown column": ({}, ["--drop", "jobs"], "Did you mean 'job'"),
    "negative weight": ({"w": [-1.5] + [1] * 79}, ["--weight", "w"], "1 of 80"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_whatif(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns, options, words = BAD_TABLES[case]
    data = survey(tmp_path, **columns)
    command = ["whatif", data, "--label", "smokes", "--protect", "smokes", "--epsilon", "1"]
    assert main([*command, *options]) == 2
    assert_one_line(capsys.readouterr(), words)


def test_whatif_with_unseen_categories_in_the_test_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = survey(tmp_path)
    test = survey(tmp_path, "test.csv", job=["nurse"] * 79 + [SECRET])
    command = ["whatif", data, "--label", "smokes", "--protect", "smokes", "--epsilon", "1"]
    assert main([*command, "--test", test]) == 2
    assert_one_line(capsys.readouterr(), "1 rows have 1 others")

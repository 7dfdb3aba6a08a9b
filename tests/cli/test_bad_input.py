# SPDX-License-Identifier: Apache-2.0
"""Bad input ends with exit code 2 and one line on standard error that holds no value."""

from __future__ import annotations

import gzip
import io
import json
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
    ApproximationWarning,
    EstimateNotTrustworthyError,
    InputError,
    MissingExtraError,
    PrivacyLeakWarning,
    setting,
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
    "no such folder": ("a.csv", b"age,sex\n1,F\n", ["--out", "no/where.json"], "that exists"),
    "a folder to write": ("a.csv", b"age,sex\n1,F\n", ["--out", "."], "must be a file"),
    "a million bins": ("a.csv", b"age,sex\n1,F\n", ["--bins", "age=0:9:1000000"], "at most 1000"),
    "bins too wide": (
        "a.csv",
        b"age,sex\n1,F\n",
        ["--bins", "age=-1e308:1e308:3"],
        "too far apart",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_inspect(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, content, options, words = BAD_FILES[case]
    (tmp_path / name).write_bytes(content)
    assert main(["inspect", str(tmp_path / name), *options]) == 2
    assert_one_line(capsys.readouterr(), words)


def test_another_file_that_is_not_there_is_called_by_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    data = [str(tmp_path / "a.csv"), "--label", "sex"]
    for command, option in (
        (["whatif", *data], "--test"),
        (["decide", *data], "--test"),
        (["value", "local", *data], "--candidates"),
        (["risk", *data], "--compare"),
    ):
        assert main([*command, option, str(tmp_path / "no.csv")]) == 2
        assert_one_line(capsys.readouterr(), f"Error: `{option}` must be a file that exists")


@pytest.mark.parametrize(
    "group", ["age <", "old=age", "age == 'x", "", "age=3", "age == 'x'", "sex == 1"]
)
def test_a_group_that_cannot_be_read_is_called_by_its_option(
    group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{20 + i},{'FM'[i % 2]},{'ny'[i % 3 == 0]}\n" for i in range(30))
    (tmp_path / "a.csv").write_text("age,sex,smokes\n" + rows)
    command = ["whatif", str(tmp_path / "a.csv"), "--label", "smokes", "--group", group]
    assert main(command) == 2
    assert_one_line(capsys.readouterr(), "Error: `--group` must ")


def test_files_that_are_not_there_or_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["inspect", str(tmp_path / "no.csv")]) == 2
    assert_one_line(capsys.readouterr(), "Check the path")
    assert main(["inspect", str(tmp_path)]) == 2
    assert_one_line(capsys.readouterr(), "parquet")
    # A variable that is not set: not the folder that one stands in.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.parquet").write_bytes(b"PAR1")
    for command in (["inspect", ""], ["whatif", "", "--label", "smokes"]):
        assert main(command) == 2
        assert_one_line(capsys.readouterr(), "must be a file that exists, got ''")

    def refused(self: Path) -> bytes:
        raise PermissionError(13, "denied", SECRET)

    (tmp_path / "there.csv").touch()
    monkeypatch.setattr(Path, "read_bytes", refused)
    assert main(["inspect", str(tmp_path / "there.csv")]) == 2
    assert_one_line(capsys.readouterr(), "Check its permissions")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_pipe_is_not_replaced_by_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, pipe = survey(tmp_path), tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for command in (["inspect", data], ["whatif", data, "--label", "smokes", "--epsilon", "1"]):
        assert main([*command, "--out", str(pipe)]) == 2
        assert_one_line(capsys.readouterr(), "an ordinary file")
        assert pipe.is_fifo()


@pytest.mark.parametrize("error", [InputError, MissingExtraError, EstimateNotTrustworthyError])
def test_each_of_our_errors_is_one_line(
    error: type[Exception],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("what was expected,\n what came")

    monkeypatch.setattr(epsilens.data, "read_table", fail)
    (tmp_path / "a.csv").touch()
    assert main(["inspect", str(tmp_path / "a.csv")]) == 2
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


def warning_reader(*what: Warning) -> object:
    read = epsilens.data.read_table

    def warn(*arguments: object, **options: object) -> object:
        for warning in what:
            warnings.warn(warning, stacklevel=1)
        return read(*arguments, **options)  # type: ignore[arg-type]

    return warn


def test_of_two_warnings_that_differ_in_their_advice_one_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["whatif", survey(tmp_path), "--label", "smokes", "--epsilon", "1"]
    assert main([*command, "--protect", "age", "--bins", "age=3"]) == 0
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == 1
    assert "or by bins with bounds" in err
    assert "domain of 'age'" not in out


def test_warnings_of_other_libraries_which_may_quote_data_are_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    reader = warning_reader(RuntimeWarning(SECRET), FutureWarning(SECRET))
    monkeypatch.setattr(epsilens.data, "read_table", reader)
    assert main(["inspect", str(tmp_path / "a.csv"), "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_command_that_fails_says_why_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = warning_reader(ApproximationWarning("less certain"), RuntimeWarning(SECRET))
    monkeypatch.setattr(epsilens.data, "read_table", reader)
    assert main(["inspect", str(tmp_path / "no.csv")]) == 2
    assert_one_line(capsys.readouterr(), "Error: the data must be a file that exists")


def test_warnings_are_translated_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    reader = warning_reader(PrivacyLeakWarning(f"Declare it with {setting('categories')}."))
    monkeypatch.setattr(epsilens.data, "read_table", reader)
    assert main(["inspect", str(tmp_path / "a.csv"), "--json"]) == 0
    assert capsys.readouterr().err == "Warning: Declare it with `--categories`.\n"


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
    (tmp_path / "a.csv").touch()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
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


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_program_that_is_told_to_end_removes_its_scratch_file(
    name: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    program = (
        "import os, signal, sys, epsilens.data\n"
        "def write(text, path):\n"
        "    with epsilens.data.replacing(path) as scratch:\n"
        "        scratch.write_text(text[:10])\n"
        f"        os.kill(os.getpid(), signal.{name})\n"
        "epsilens.data.write_text = write\n"
        "from epsilens.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    data, out = str(tmp_path / "a.csv"), str(tmp_path / "out.json")
    done = subprocess.run(
        [sys.executable, "-c", program, "inspect", data, "--out", out],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stderr == "Stopped: nothing half-written was left behind.\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_signals_are_as_they_were_after_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_encoding_without_our_signs_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = survey(tmp_path)
    command = ["whatif", data, "--label", "smokes", "--epsilon", "0.1,inf", "--positive", "yes"]

    def in_a_process(encoding: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*PROGRAM, *command],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            capture_output=True,
            encoding=encoding,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def in_this_one(encoding: str) -> tuple[int, str, str]:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
        with monkeypatch.context() as patch:
            for name, stream in zip(("stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            code = main(command)
        for stream in streams:
            stream.flush()
        out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)
        return code, out, err

    for run, encoding in ((in_a_process, "cp1252"), (in_this_one, "ascii")):
        code, out, err = run(encoding)
        assert (code, err) == (0, "")
        assert "epsilon = 0.1" in " ".join(out.split())
        # A minus must not become a question mark.
        assert "?" not in out


def test_json_is_utf8_whatever_the_terminal_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ζ,y\n1,F\n2,M\n", encoding="utf-8")
    done = subprocess.run(
        [*PROGRAM, "inspect", str(tmp_path / "a.csv"), "--json"],
        env={**os.environ, "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout.decode("utf-8"))["columns"][0]["name"] == "ζ"


@pytest.mark.skipif(sys.platform in {"darwin", "win32"}, reason="file names are UTF-8 there")
def test_a_file_name_that_is_no_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = os.fsencode(survey(tmp_path))
    odd = data.replace(b"survey", b"caf\xe9")
    os.rename(data, odd)
    options = ["--label", "smokes", "--epsilon", "1,2", "--positive", "yes"]
    out = tmp_path / "report.html"
    done = subprocess.run([*PROGRAM, "inspect", odd], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    # As Python decodes what it is called with.
    name = os.fsdecode(odd)
    for command in (["inspect", name, "--json"], ["whatif", name, *options]):
        assert main([*command, "--out", str(out)]) == 0
        assert capsys.readouterr().err == ""
    assert "caf?.csv" in out.read_text(encoding="utf-8")
    assert main(["whatif", name, *options, "--group", os.fsdecode(b"caf\xe9=age > 0")]) == 2
    assert capsys.readouterr().err.startswith("Error: `--group` must be text")


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
    assert done.returncode == 141


def test_no_standard_output_at_all_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys; sys.stdout = None; from epsilens.cli import main; sys.exit(main())",
            *("inspect", str(tmp_path / "a.csv")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


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
    "many classes": ({"smokes": [f"{SECRET}{i // 2}" for i in range(80)]}, [], "--positive"),
    "all constant": ({"age": 1, "job": SECRET}, [], "left to learn from"),
    "empty group": ({}, ["--group", "old=age > 99"], "'old' is empty"),
    "bad expression": ({}, ["--group", "age >"], "not valid"),
    "unknown column": ({}, ["--drop", "jobs"], "Did you mean 'job'"),
    "negative weight": ({"w": [-1.5] + [1] * 79}, ["--weight", "w"], "1 of 80"),
    "nothing like it": ({}, ["--drop", "nope"], "The columns are: age, job, smokes"),
    "group of the answer": (
        {},
        ["--group", 'smokes == "yes"'],
        "or add `--allow-dependent-groups` to look anyway",
    ),
    "protected number": ({}, ["--protect", "age"], "--bins age=LOW:HIGH:10"),
    "epsilon zero": ({}, ["--epsilon", "0"], "Use `inf` for no privacy"),
    "limit": ({}, ["--max-loss-increase", "nan"], "`--max-loss-increase` must be a finite number"),
    "checkpoint nowhere": (
        {},
        ["--method", "retrain", "--checkpoint", "no/where"],
        "the output folder must exist",
    ),
    "checkpoint on a folder": ({}, ["--method", "retrain", "--checkpoint", "."], "cannot be read"),
    "repeats": ({}, ["--method", "retrain", "--repeats", "1000000000"], "--repeats"),
    "no repeats": ({}, ["--repeats", "0"], "--repeats"),
    "a million bins": ({}, ["--bins", "age=0:9:1000000"], "at most 1000"),
    "many numbers": ({"smokes": range(80)}, [], "`epsilens whatif` and `epsilens value local`"),
    "protected identifier": (
        {"id": [f"{SECRET}{i}" for i in range(80)]},
        ["--protect", "id"],
        "got 'id', which is left out: every value differs, as in an identifier",
    ),
    "protected and dropped": (
        {},
        ["--protect", "job", "--drop", "job"],
        "column 'job' is named in `--drop` and cannot be named in `--protect` too",
    ),
    "text without quotation marks": ({}, ["--group", "job == cook"], "Put text in quotation marks"),
    "budget of a column that is not protected": (
        {},
        ["--epsilon", "job=1"],
        "must name a protected column, got 'job'",
    ),
    "misspelt answers": ({}, ["--categories", "smokes=No|Yes"], "Check the spelling"),
    "regularisation": ({}, ["--regularisation", "0"], "`--regularisation` must be"),
    "mechanism": ({}, ["--mechanism", "oue"], "`--mechanism oue`"),
    "misspelt option": ({}, ["--jsom"], "Did you mean '--json'? See"),
}


def test_a_misspelt_command_is_suggested_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatfi"]) == 2
    assert_one_line(captured := capsys.readouterr(), "'whatfi'. Did you mean 'whatif'? See")
    assert captured.err.count("Did you mean") == 1


@pytest.mark.parametrize("case", BAD_TABLES)
def test_whatif(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns, options, words = BAD_TABLES[case]
    data = survey(tmp_path, **columns)
    command = ["whatif", data, "--label", "smokes", "--protect", "smokes", "--epsilon", "1"]
    assert main([*command, *options]) == 2
    assert_one_line(capsys.readouterr(), words)


@pytest.mark.parametrize("size", [1e20, 1e200, 1e300])
@pytest.mark.parametrize("command", ["whatif", "value local"])
def test_test_rows_that_no_training_row_is_like(
    command: str, size: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ages = np.random.default_rng(1).normal(size=80)
    ages[3] = size
    data, test = survey(tmp_path), survey(tmp_path, "test.csv", age=ages)
    assert main([*command.split(), data, "--label", "smokes", "--test", test]) == 2
    assert_one_line(
        capsys.readouterr(), "the test data must hold numbers like those of the training"
    )


def test_a_limit_is_checked_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epsilens.data, "read_table", None)
    (tmp_path / "a.csv").touch()
    command = ["whatif", str(tmp_path / "a.csv"), "--label", "y", "--max-loss-increase", "inf"]
    assert main(command) == 2
    assert_one_line(capsys.readouterr(), "finite")


def test_a_checkpoint_of_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = survey(tmp_path)
    before = Path(data).read_bytes()
    command = ["whatif", data, "--label", "smokes", "--epsilon", "1", "--method", "retrain"]
    assert main([*command, "--checkpoint", data]) == 2
    assert_one_line(capsys.readouterr(), "is not a checkpoint")
    assert Path(data).read_bytes() == before


@pytest.mark.parametrize("name", ["survey.csv", "test.csv", "link.csv", "hard.csv", "folder/r.csv"])
@pytest.mark.parametrize("command", ["inspect", "whatif"])
def test_what_was_read_is_never_written(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, test = survey(tmp_path), survey(tmp_path, "test.csv")
    (tmp_path / "link.csv").symlink_to(data)
    (tmp_path / "hard.csv").hardlink_to(data)
    (tmp_path / "folder").mkdir()
    pd.read_csv(data).to_parquet(tmp_path / "folder" / "part.parquet")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    if name.startswith("folder"):
        data = str(tmp_path / "folder")
    options = ["--label", "smokes", "--epsilon", "1", "--test", test]
    if command == "inspect":
        options = []
        data = test if name == "test.csv" else data
    assert main([command, data, *options, "--out", str(tmp_path / name)]) == 2
    assert_one_line(capsys.readouterr(), "Choose another")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_standard_input_is_not_written_either(tmp_path: Path) -> None:
    data = Path(survey(tmp_path))
    before = data.read_bytes()
    with data.open("rb") as stream:
        done = subprocess.run(
            [*PROGRAM, "inspect", "-", "--out", str(data)],
            stdin=stream,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "another file than the data" in done.stderr
    assert data.read_bytes() == before


def test_whatif_with_unseen_categories_in_the_test_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = survey(tmp_path)
    test = survey(tmp_path, "test.csv", job=["nurse"] * 79 + [SECRET])
    command = ["whatif", data, "--label", "smokes", "--protect", "smokes", "--epsilon", "1"]
    assert main([*command, "--test", test]) == 2
    assert_one_line(capsys.readouterr(), "1 rows have 1 others")


@pytest.mark.parametrize("command", [["decide"], ["risk", "--epsilon=1"], ["value", "local"]])
def test_a_model_too_wide_for_memory_is_refused_before_it_is_trained(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("epsilens.models.scikit_learn.MOST_FACTORISED", 20)
    monkeypatch.setattr("sklearn.linear_model.LogisticRegression.fit", None)
    places = [f"{SECRET} {row % 40}" for row in range(200)]
    answers = ["no", "yes", "yes", "no", "no"] * 40
    path = tmp_path / "survey.csv"
    pd.DataFrame({"place": places, "smokes": answers}).to_csv(path, index=False)
    assert main([*command, str(path), "--label", "smokes"]) == 2
    assert_one_line(capsys.readouterr(), "Leave out the widest columns with `--drop`")

# SPDX-License-Identifier: Apache-2.0
"""A release on the disk: killed at any call no receipt understates it, and no other file is harmed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epsilens.channels.ledger import LEDGER_FILE
from epsilens.cli import main
from epsilens.cli.release_files import is_pending
from epsilens.document import ReleaseDocument, load_document

OPTIONS = ("--protect=smokes", "--categories=smokes=no|yes", "--quiet")


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [f"{person * 29 % 47},{('no', 'yes', 'no')[person % 3]}" for person in range(60)]
    (folder / "survey.csv").write_text("\n".join(["age,smokes", *rows]) + "\n")
    return folder / "survey.csv"


def run(*arguments: object) -> int:
    return main(["randomise", *map(str, arguments)])


def receipt(out: Path) -> ReleaseDocument:
    found = load_document(out.with_name(f"{out.name}.receipt.json"))
    assert isinstance(found, ReleaseDocument)
    return found


RELEASE = """
import os, shutil, signal, sqlite3, sys
from pathlib import Path
import pandas as pd
from epsilens.channels import Budget
from epsilens.channels.ledger import LEDGER_FILE
from epsilens.cli.release_files import PlannedRelease, receipt_of, write_release
from epsilens.data import read_table, write_table
from epsilens.document import Provenance, ReleaseDocument, load_document

folder = Path(sys.argv[1])
(folder / "data.csv").touch()

def release(out, epsilon):
    # The table says what it has spent, so that it can be compared with the receipt beside it.
    truth = pd.DataFrame({"smokes": ["no", "yes"] * 5})
    planned = PlannedRelease.of(str(folder / "data.csv"), truth, Budget({"smokes": epsilon}), limit=None)
    document = ReleaseDocument(provenance=Provenance(method="test"), columns=["smokes"],
        epsilon={"smokes": epsilon}, record_epsilon=epsilon, rows=10, simulated=False, mechanism="test")
    table = pd.DataFrame({"spent": [epsilon] * 10})
    write_release(lambda announce: write_table(table, out, announce=announce), document,
        out=out, planned=planned, force=True)

def entries():
    connection = sqlite3.connect(folder / LEDGER_FILE)
    count = connection.execute("SELECT COUNT(*) FROM spent WHERE epsilon = 30").fetchone()[0]
    connection.close()
    return count

def check(out, entries_before, is_first):
    # What must hold whenever a release of ε = 30 is killed; then the next run cleans up.
    spent = float(read_table(out).frame["spent"].iloc[0]) if out.exists() else 0.0
    assert out.exists() or is_first
    assert spent < 30.0 or entries() == entries_before + 1
    stated = None
    if out.exists() or receipt_of(out).exists():
        stated = load_document(receipt_of(out))
        assert stated.epsilon["smokes"] >= spent, (stated.epsilon, spent)
        assert stated.record_epsilon >= spent
    for path in out.parent.iterdir():
        # Others may read the table for the instant before its renaming, when its receipt is there.
        is_table = path.name.endswith(".part") and "receipt" not in path.name
        if is_table and path.stat().st_mode & 0o777 != 0o600:
            assert stated is not None and stated.epsilon["smokes"] >= 30.0
    release(out, 1.0)
    assert load_document(receipt_of(out)).epsilon == {"smokes": 1.0}
    assert {path.name for path in out.parent.iterdir()} == {"out.csv", "out.csv.receipt.json"}

def place(name, is_first):
    # A folder with an earlier release of ε = 0.5, or none.
    earlier = folder / "earlier"
    if not earlier.exists():
        earlier.mkdir()
        release(earlier / "out.csv", 0.5)
    (folder / name).mkdir()
    for file in () if is_first else earlier.iterdir():
        shutil.copy(file, folder / name)
    return folder / name / "out.csv"
"""

# The same of a model, whose receipt is another document.
TRAINING = RELEASE
for was, now in (
    ("out.csv.receipt", "out.receipt"),
    ("out.csv", "out.json"),
    ('stated.epsilon["smokes"]', "stated.epsilon"),
    ("stated.record_epsilon >= spent", "stated.total.epsilon >= spent"),
    ('.epsilon == {"smokes": 1.0}', ".epsilon == 1.0"),
    ('float(read_table(out).frame["spent"].iloc[0])', "float(out.read_text())"),
):
    assert was in TRAINING
    TRAINING = TRAINING.replace(was, now)
TRAINING += """
from epsilens.data import replacing
from epsilens.document import example_document

def release(out, epsilon):
    truth = pd.DataFrame({"smokes": ["no", "yes"] * 5})
    planned = PlannedRelease.of(str(folder / "data.csv"), truth, Budget({"smokes": epsilon}), limit=None)
    document = example_document("training", epsilon=epsilon,
        total={"epsilon": epsilon, "delta": 1e-6, "advantage": 0.1, "n_releases": 1})
    def write(announce):
        with replacing(out, announce=announce) as scratch:
            scratch.write_text(str(epsilon))
    write_release(write, document, out=out, planned=planned, force=True)
"""

KILLED_BY_ITSELF = """
# Calls that only look are left out: the disk is the same before and after them.
CHANGES = {"open", "write", "flush", "close", "fsync", "chmod", "replace", "unlink", "execute", "executemany"}

def changes_the_disk(function):
    owner = type(getattr(function, "__self__", None)).__module__
    ours = function.__module__ in ("posix", "_io", "io") or owner in ("_io", "sqlite3")
    return ours and function.__name__ in CHANGES

def kill_at(number):
    calls = 0
    def count(frame, event, function):
        nonlocal calls
        if event == "c_call" and changes_the_disk(function):
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(count)

for is_first in (True, False):
    for number in range(1, 1000):
        out = place(f"{is_first}-{number}", is_first)
        before = entries()
        child = os.fork()
        if child == 0:
            kill_at(number)
            release(out, 30.0)
            sys.setprofile(None)
            os._exit(0)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        check(out, before, is_first)
        if not killed:
            print(number)
            break
"""

KILLED_BY_STRACE = """
import subprocess
SYSTEM_CALLS = ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "rename", "chmod", "fchmod", "unlink")
done = 0
for call in SYSTEM_CALLS:
    for number in range(1, 1000):
        out = place(f"{call}-{number}", False)
        before = entries()
        traced = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}",
            "-e", f"inject={call}:signal=KILL:when={number}"]
        program = (folder / "release.py").read_text() + "release(Path(sys.argv[2]), 30.0)"
        python = [sys.executable, "-B", "-W", "ignore", "-c", program, str(folder), str(out)]
        ended = subprocess.run([*traced, *python], capture_output=True)
        check(out, before, False)
        if ended.returncode == 0:
            break
        done += 1
print(done)
"""


def run_kills(program: str, release: str = RELEASE) -> list[int]:
    # In memory where there is such a folder: every step waits for the disk.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        (Path(folder) / "release.py").write_text(release)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", release + program, folder],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "release",
    [
        pytest.param(RELEASE, id="table"),
        pytest.param(TRAINING, id="model", marks=pytest.mark.nightly),
    ],
)
def test_killed_at_any_call_the_receipt_states_at_least_what_was_spent(release: str) -> None:
    first, forced = run_kills(KILLED_BY_ITSELF, release)
    assert min(first, forced) > 30  # calls that were killed at


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_killed_at_any_system_call_the_receipt_states_at_least_what_was_spent() -> None:
    (killed,) = run_kills(KILLED_BY_STRACE)
    assert killed > 20


@pytest.mark.parametrize("forced", [False, True])
def test_a_table_that_cannot_take_its_place_changes_nothing(
    forced: bool,
    survey: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "released.csv"
    if forced:
        assert run(survey, *OPTIONS, "--epsilon=0.5", "--out", out) == 0
        capsys.readouterr()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    replaced = os.replace

    def refused(source: str | Path, target: str | Path) -> None:
        if Path(target).name == "released.csv":
            raise PermissionError(1, "no", str(source))
        replaced(source, target)

    monkeypatch.setattr(os, "replace", refused)
    assert run(survey, *OPTIONS, "--epsilon=9", "--out", out, "--force") == 2
    assert "'released.csv' must be a file that can be written, but" in capsys.readouterr().err
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


def test_a_signal_right_after_the_renaming_leaves_a_receipt_that_covers_both(
    survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "released.csv"
    assert run(survey, *OPTIONS, "--epsilon=0.5", "--out", out) == 0
    replaced = os.replace

    def interrupted(source: str | Path, target: str | Path) -> None:
        replaced(source, target)
        if Path(target).name == "released.csv":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", interrupted)
        assert run(survey, *OPTIONS, "--epsilon=9", "--out", out, "--force") == 130
    assert is_pending(tmp_path / "released.csv.receipt.json")
    assert (receipt(out).epsilon, receipt(out).record_epsilon) == ({"smokes": 9.5}, 9.5)
    assert run(survey, *OPTIONS, "--epsilon=1", "--out", out, "--force") == 0
    assert receipt(out).epsilon == {"smokes": 1.0}
    assert not is_pending(tmp_path / "released.csv.receipt.json")


def test_nothing_is_known_of_a_table_without_a_receipt(
    survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, seen = tmp_path / "released.csv", []
    out.write_text("smokes\nyes\n")
    monkeypatch.setattr(
        "epsilens.data.write_text", lambda text, _: seen.append(json.loads(text)["epsilon"])
    )
    assert run(survey, *OPTIONS, "--epsilon=1", "--out", out, "--force") == 0
    assert seen == [{"smokes": "inf"}, {"smokes": 1.0}]


def test_a_release_that_was_stopped_before_its_table_appeared_needs_no_force(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    assert run(survey, *OPTIONS, "--epsilon=0.5", "--out", out) == 0
    out.unlink()
    assert run(survey, *OPTIONS, "--epsilon=0.5", "--out", out) == 2
    path = tmp_path / "released.csv.receipt.json"
    content = json.loads(path.read_text())
    content["provenance"]["settings"]["pending"] = True
    path.write_text(json.dumps(content))
    assert run(survey, *OPTIONS, "--epsilon=0.5", "--out", out) == 0


def test_the_data_are_never_replaced_by_any_of_their_names(
    survey: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = survey.read_bytes()
    (tmp_path / "soft.csv").symlink_to(survey)
    os.link(survey, tmp_path / "hard.csv")
    (tmp_path / "out.csv.receipt.json").symlink_to(survey)
    (tmp_path / "twice.csv").touch()
    (tmp_path / "twice.csv.receipt.json").symlink_to(tmp_path / "twice.csv")
    monkeypatch.chdir(tmp_path)
    options = (*OPTIONS, "--epsilon=1", "--force", "--out")
    for out in ("soft.csv", "hard.csv", "data/../data/survey.csv", "out.csv", "twice.csv"):
        assert run(survey, *options, out) == 2
        assert "`--out` must be another file than the " in capsys.readouterr().err
    # Through a pipe no name is known, and a filter may have changed what comes.
    filtered = b"".join(before.splitlines(keepends=True)[:40])
    for name, content in (("-", before), ("/dev/fd/{}", before), ("-", filtered)):
        read, write = os.pipe()
        os.write(write, content)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as pipe, monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", pipe)
            assert run(name.format(read), *options, survey) == 2
        assert "has the columns of the data and no receipt" in capsys.readouterr().err
    assert survey.read_bytes() == before
    (tmp_path / "backup.csv").write_bytes(before)
    assert run(survey, *options, "backup.csv") == 2
    assert (tmp_path / "backup.csv").read_bytes() == before


def test_the_receipt_stands_beside_the_table_and_not_beside_its_alias(
    survey: Path, tmp_path: Path
) -> None:
    table, alias = tmp_path / "released.csv", tmp_path / "alias.csv"
    assert run(survey, *OPTIONS, "--epsilon=0.1", "--out", table) == 0
    alias.symlink_to(table)
    assert run(survey, *OPTIONS, "--epsilon=30", "--out", alias, "--force") == 0
    assert receipt(table).epsilon == {"smokes": 30.0}
    assert not alias.with_name("alias.csv.receipt.json").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_of_two_releases_to_one_name_at_once_one_is_refused(
    survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import epsilens.cli.release_files as files

    out, before = tmp_path / "released.csv", files.write_release

    def after_another(*arguments: Any, **named: Any) -> None:
        # Both have found the name free; the other is first to write.
        monkeypatch.setattr(files, "write_release", before)
        assert run(survey, *OPTIONS, "--epsilon=30", "--out", out) == 0
        before(*arguments, **named)

    monkeypatch.setattr(files, "write_release", after_another)
    assert run(survey, *OPTIONS, "--epsilon=0.1", "--out", out) == 2
    assert receipt(out).epsilon == {"smokes": 30.0}


def test_tables_that_share_a_running_number_are_not_the_same_records(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    for name in ("one", "two"):
        answers = random.choice(["no", "yes"], 60)
        frame = pd.DataFrame({"nr": range(1, 61), "smokes": answers})
        frame.to_csv(survey.with_name(f"{name}.csv"), index=False)
        options = (*OPTIONS, "--drop=nr", "--epsilon=1", "--budget=1.5")
        assert (
            run(survey.with_name(f"{name}.csv"), *options, "--out", tmp_path / f"{name}.out.csv")
            == 0
        )
    assert capsys.readouterr().err == ""


def test_another_column_of_the_same_records_is_added_up(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(survey, *OPTIONS, "--epsilon=1", "--out", tmp_path / "a.csv") == 0
    ages = ("--protect=age", "--bins=age=0:50:2", "--quiet", "--epsilon=1")
    assert run(survey, *ages, "--out", tmp_path / "b.csv") == 0
    assert "Over all releases a record has spent ε = 2." in capsys.readouterr().err


def test_a_second_release_of_the_same_answers_is_added_up(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(survey, *OPTIONS, "--epsilon=0.5", "--out", tmp_path / "a.csv") == 0
    assert capsys.readouterr().err == ""
    ledger = survey.parent / LEDGER_FILE
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600
    # A simulation is no release.
    assert run(survey, *OPTIONS, "--epsilon=9", "--seed=1", "--out", tmp_path / "s.csv") == 0
    assert "add up" not in capsys.readouterr().err
    # Another name, another format, a column less.
    copy = survey.with_name("copy.parquet")
    pd.read_csv(survey)[["smokes"]].to_parquet(copy)
    assert run(copy, *OPTIONS, "--epsilon=1", "--out", tmp_path / "b.csv") == 0
    words = "The answers of 'smokes' were released before. Over 2 releases their budgets add up to ε = 1.5."
    assert words in capsys.readouterr().err
    # The receipt travels: that the answers are those of the first release depends on the answers.
    assert "add up" not in receipt(tmp_path / "b.csv").model_dump_json()
    assert b"yes" not in ledger.read_bytes()


def test_a_budget_for_all_releases_is_kept(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*OPTIONS, "--budget=0.3", "--out")
    assert run(survey, "--epsilon=0.1", *options, tmp_path / "a.csv") == 0
    assert run(survey, "--epsilon=0.2", *options, tmp_path / "b.csv") == 0
    capsys.readouterr()
    assert run(survey, "--epsilon=0.1", *options, tmp_path / "c.csv") == 2
    line = capsys.readouterr().err
    assert "must stay within a total of ε = 0.3, but with the ε = 0.1 of this one" in line
    assert "they come to 0.4. Lower `--epsilon`, or raise `--budget`." in line
    # Another column of the same records counts too.
    others = ("--protect=age", "--bins=age=0:50:2", "--quiet", "--budget=0.3", "--epsilon=0.1")
    assert run(survey, *others, "--out", tmp_path / "d.csv") == 2
    assert "they come to 0.4" in capsys.readouterr().err
    assert not list(tmp_path.glob("[cd].csv*"))
    assert run(survey, *OPTIONS, "--epsilon=1", "--budget=0", "--out=e.csv") == 2
    assert "`--budget` must be finite and greater than 0" in capsys.readouterr().err


def test_standard_input_and_folders_that_are_closed_have_the_user_s_own_ledger(
    survey: Path,
    tmp_path: Path,
    own_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = (*OPTIONS, "--epsilon=1", "--out")
    for name in ("a.csv", "b.csv"):
        with survey.open(encoding="utf-8") as redirected, monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", redirected)
            assert run("-", *options, tmp_path / name) == 0
    assert "add up to ε = 2" in capsys.readouterr().err
    own = own_folder / "epsilens-ledger"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    closed = {str(survey.parent)}
    monkeypatch.setattr("os.access", lambda path, mode: str(path) not in closed)
    assert run(survey, *options, tmp_path / "c.csv") == 0
    assert "add up to ε = 3" in capsys.readouterr().err
    closed.add(str(own))
    assert run(survey, *options, tmp_path / "d.csv") == 0
    assert "This release is in no ledger" in capsys.readouterr().err
    assert run(survey, *OPTIONS, "--epsilon=1", "--budget=9", "--out", tmp_path / "e.csv") == 2
    assert "`--budget` needs a ledger" in capsys.readouterr().err


def test_a_damaged_ledger_stops_the_release(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (survey.parent / LEDGER_FILE).write_text("Dear ledger, " * 500)
    assert run(survey, *OPTIONS, "--epsilon=1", "--out", tmp_path / "a.csv") == 2
    assert "must be a record of releases, but it cannot be read" in capsys.readouterr().err
    assert not list(tmp_path.glob("*a.csv*"))

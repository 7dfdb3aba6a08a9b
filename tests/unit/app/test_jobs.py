"""Jobs: progress, cancelling, resuming, and a server that dies in the middle."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from epsilens.app.folder import open_folder
from epsilens.app.store import Store
from epsilens.cli import main
from epsilens.errors import InputError

pytestmark = pytest.mark.slow

LONG = {"epsilon": "0.5:8:20", "shadow_models": 4000}
"""An attack that is certainly not done while we look at it."""


def begin(visitor: Any, study: Any, kind: str = "attack") -> Any:
    return visitor.json("POST", f"/api/studies/{study['id']}/jobs", {"kind": kind}, status=202)


def wait_for_progress(visitor: Any, job: Any) -> Any:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = visitor.json("GET", f"/api/jobs/{job['id']}")
        if found["done"] and found["seconds_left"] is not None:
            return found
        assert found["state"] in {"waiting", "running"}, found
        time.sleep(0.05)
    raise AssertionError("no progress")


def test_a_job_tells_how_far_it_is_and_can_be_cancelled_and_resumed(
    visitor: Any, csv_bytes: bytes
) -> None:
    study = visitor.study(csv_bytes, **LONG)
    job = begin(visitor, study)
    found = wait_for_progress(visitor, job)
    assert 0 < found["done"] < found["total"]
    assert found["seconds_left"] > 0
    # The same work is not begun twice, in two tabs for instance.
    assert begin(visitor, study)["id"] == job["id"]
    child = visitor.service.jobs._running[job["id"]].child
    cancelled = visitor.json("POST", f"/api/jobs/{job['id']}/cancel")
    assert cancelled["state"] == "cancelled"
    assert not child.is_alive
    kept = visitor.service.store.checkpoint(study["id"])
    blocks = {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    assert blocks
    assert all(path.stat().st_mode & 0o077 == 0 for path in [kept, *kept.rglob("*")])
    visitor.json("POST", f"/api/jobs/{job['id']}/resume", status=202)
    resumed = wait_for_progress(visitor, job)
    assert resumed["state"] == "running"
    visitor.json("DELETE", f"/api/studies/{study['id']}", status=204)
    assert not kept.exists()
    visitor.json("GET", f"/api/jobs/{job['id']}", status=404)


@pytest.mark.nightly
def test_a_resumed_attack_finds_what_an_uninterrupted_one_finds(
    visitor: Any, csv_bytes: bytes
) -> None:
    question = {"epsilon": "0.5:8:8", "shadow_models": 400}
    found = []
    for is_cancelled in (False, True):
        study = visitor.study(csv_bytes, **question)
        job = begin(visitor, study)
        if is_cancelled:
            wait_for_progress(visitor, job)
            visitor.json("POST", f"/api/jobs/{job['id']}/cancel")
            visitor.json("POST", f"/api/jobs/{job['id']}/resume", status=202)
        visitor.wait(job["id"], "done")
        document = visitor.json("GET", f"/api/studies/{study['id']}/documents/risk")
        found.append(document["cells"])
        assert not visitor.service.store.checkpoint(study["id"]).exists()
    assert found[0] == found[1]


def test_a_named_file_that_has_changed_is_not_mixed_with_what_it_was(
    serve: Any, tmp_path: Path, csv_bytes: bytes
) -> None:
    data = tmp_path / "survey.csv"
    data.write_bytes(csv_bytes)
    with serve(tmp_path / "state", data=str(data)) as visitor:
        question = {"label": "smokes", "drop": ["town"]}
        asked = {"table": visitor.service.given, "question": question}
        study = visitor.json("POST", "/api/studies", asked, status=201)
        data.write_bytes(csv_bytes.replace(b"yes", b"no ", 40))
        failed = visitor.wait(begin(visitor, study, "cost")["id"], "failed", "done")
        assert "has changed since" in failed["message"]
        address = f"/api/studies/{study['id']}/first-order"
        refused = visitor.json("POST", address, {"expression": "age < 40"}, status=422)
        assert "has changed since" in refused["error"]


def test_work_that_dies_is_a_failure_in_one_line(visitor: Any, csv_bytes: bytes) -> None:
    study = visitor.study(csv_bytes, **LONG)
    job = begin(visitor, study)
    wait_for_progress(visitor, job)
    os.kill(visitor.service.jobs._running[job["id"]].child.pid, signal.SIGKILL)
    failed = visitor.wait(job["id"], "failed")
    assert "ended before it was done" in failed["message"]
    visitor.json("POST", f"/api/jobs/{job['id']}/resume", status=202)
    visitor.json("POST", f"/api/jobs/{job['id']}/cancel")


def test_a_job_that_waits_can_be_cancelled(visitor: Any, csv_bytes: bytes) -> None:
    first = begin(visitor, visitor.study(csv_bytes, **LONG))
    second = begin(visitor, visitor.study(csv_bytes, **LONG, seed=1))
    assert second["state"] == "waiting"
    assert visitor.json("POST", f"/api/jobs/{second['id']}/cancel")["state"] == "cancelled"
    third = begin(visitor, visitor.study(csv_bytes, **LONG, seed=2))
    visitor.json("POST", f"/api/jobs/{first['id']}/cancel")
    # Jobs are taken in their order: once the third runs, the second was passed over.
    visitor.wait(third["id"], "running")
    visitor.json("POST", f"/api/jobs/{third['id']}/cancel")
    assert visitor.json("GET", f"/api/jobs/{second['id']}")["state"] == "cancelled"


def test_one_folder_has_one_server(tmp_path: Path) -> None:
    store = Store(open_folder(tmp_path / "state"))
    with pytest.raises(InputError, match="no other server"):
        Store(open_folder(tmp_path / "state"))
    store.close()
    Store(open_folder(tmp_path / "state")).close()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(InputError, match="holds other files"):
        open_folder(tmp_path)


def test_tables_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "folder" / "tables" / "mine.csv"
    mine.parent.mkdir(parents=True)
    mine.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="not ours"):
        open_folder(tmp_path / "folder")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "tables").symlink_to(mine.parent)
    with pytest.raises(InputError, match="not ours"):
        open_folder(tmp_path / "linked")
    assert mine.exists()


def test_a_folder_that_has_moved_keeps_its_tables(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "state")
    upload = folder / "tables" / "0123456789abcdef.table"
    upload.write_text("a,b\n1,2\n")
    store = Store(folder)  # cut off: nobody knows it
    assert not upload.exists()
    upload.write_text("a,b\n1,2\n")
    other = folder / "tables" / "notes"
    other.mkdir()
    store.add_table(name="a.csv", path=upload, format="csv", size=8, is_uploaded=True)
    store.close()
    moved = folder.rename(tmp_path / "elsewhere")
    again = Store(open_folder(moved))
    (table,) = again.tables()
    assert table.path == moved / "tables" / upload.name
    assert table.path.read_text() == "a,b\n1,2\n"
    assert (moved / "tables" / "notes").is_dir()
    again.delete_table(table.id)
    assert not table.path.exists()
    for file in moved.glob("studies.sqlite*"):
        assert b"a.csv" not in file.read_bytes()
    again.close()


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "state")
    (folder / "studies.sqlite").write_bytes(b"no database at all, but long enough" * 100)
    with pytest.raises(InputError, match="damaged"):
        Store(folder)


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes as Linux shows them")
def test_a_killed_server_loses_no_finished_result(
    start_server: Any, tmp_path: Path, csv_bytes: bytes
) -> None:
    data = tmp_path / "survey.csv"
    data.write_bytes(csv_bytes)
    server = start_server(tmp_path / "state", str(data))
    table = server.json("GET", "/api/session")["given"]
    question = {"label": "smokes", "drop": ["town"], **LONG}
    study = server.json("POST", "/api/studies", {"table": table, "question": question}, status=201)
    address = f"/api/studies/{study['id']}"
    cost = server.json("POST", f"{address}/jobs", {"kind": "cost"}, status=202)
    attack = server.json("POST", f"{address}/jobs", {"kind": "attack"}, status=202)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        jobs = {job["id"]: job for job in server.json("GET", address)["jobs"]}
        if jobs[cost["id"]]["state"] == "done" and jobs[attack["id"]]["done"]:
            break
        time.sleep(0.1)
    found = server.json("GET", f"{address}/documents/cost")
    children = children_of(server.process.pid)
    assert children
    code, _, _ = server.end(signal.SIGKILL)
    assert code == -signal.SIGKILL
    # Whoever worked for it ends with it.
    end = time.monotonic() + 30
    while time.monotonic() < end and any(_is_running(child) for child in children):
        time.sleep(0.1)
    assert not any(_is_running(child) for child in children)

    server = start_server(tmp_path / "state", str(data))
    assert server.json("GET", "/api/session")["given"] == table
    again = server.json("GET", address)
    assert again["stage"] == "cost"
    states = {job["kind"]: job["state"] for job in again["jobs"]}
    assert states == {"cost": "done", "attack": "interrupted"}
    assert server.json("GET", f"{address}/documents/cost") == found
    resumed = server.json("POST", f"/api/jobs/{attack['id']}/resume", status=202)
    assert resumed["state"] in {"waiting", "running"}
    code, out, err = server.end(signal.SIGINT)
    assert (code, err) == (0, "")
    assert out.endswith("Stopped.\n")
    store = Store(open_folder(tmp_path / "state"))
    assert store.job(attack["id"]).state == "interrupted"
    store.close()
    # The file that was named is not ours to delete.
    assert data.read_bytes() == csv_bytes


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is a script of the shell")
def test_the_link_stands_on_no_command_line(
    start_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {told}.part && mv {told}.part {told}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("DISPLAY", ":0")
    state = tmp_path / "state"
    left, mine = state / f"open-{'0' * 16}.html", state / "open-mine.html"
    Store(open_folder(state)).close()
    left.write_text("of a server that was killed")
    mine.write_text("of somebody else")
    server = start_server(state, "--browser", opens=False)
    assert not left.exists()
    end = time.monotonic() + 60
    while not told.exists() and time.monotonic() < end:
        time.sleep(0.05)
    address = told.read_text().strip()
    assert address.startswith("file://")
    assert "token" not in address
    page = Path(address.removeprefix("file://"))
    assert page.parent == state
    assert page.stat().st_mode & 0o077 == 0
    assert server.link in page.read_text()
    server.enter()
    assert not page.exists()
    assert mine.exists()


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_command_refuses_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        ([str(tmp_path / "nothing.csv")], "must be a file that exists"),
        (["-"], "standard input"),
    ):
        code = main(["serve", "--no-browser", "--state", str(tmp_path / "state"), *arguments])
        assert code == 2
        errors = capsys.readouterr().err
        assert words in errors
        assert errors.count("\n") == 1

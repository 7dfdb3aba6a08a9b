"""What is kept: nothing outlives what it belongs to, and nothing of others is touched."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from epsilens.app import child
from epsilens.app.database import unwritten
from epsilens.app.folder import open_folder
from epsilens.app.jobs import Jobs
from epsilens.app.questions import Job, Limits, Question
from epsilens.app.store import NotKeptError, Store, StoredStudy
from epsilens.errors import InputError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(open_folder(tmp_path / "state"))


def add_study(store: Store, *, is_anonymous: bool = False) -> StoredStudy:
    data = store.folder.parent / "survey.csv"
    table = store.add_table(name="survey.csv", path=data, format="text", size=8, is_uploaded=False)
    return store.add_study(
        table_id=table.id,
        name="",
        question=Question(label="smokes"),
        limits=Limits(),
        is_anonymous=is_anonymous,
        document={},
        kind="cost",
    )


def test_a_folder_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Its studies have a column that is no longer used."""
    store = Store(open_folder(tmp_path / "state"))
    with store._database.writing() as connection:
        connection.execute("ALTER TABLE studies ADD COLUMN kept_gain REAL")
    study = add_study(store)
    assert store.study(study.id) == study
    # Nor did it ask who is trusted, or of another table with test data.
    with store._database.writing() as connection:
        limits = '{"max_attack_rate": 0.9, "proven_only": true}'
        connection.execute(
            "UPDATE studies SET question = ?, limits = ?", ('{"label": "y"}', limits)
        )
        connection.execute("PRAGMA user_version = 1")
    store.close()
    again = Store(open_folder(tmp_path / "state"))
    (found,) = again.studies()
    assert (found.question.trust, found.question.test) == ("curator", None)
    assert found.limits == Limits(max_attack_rate=0.9)
    again.close()


def test_a_document_of_an_earlier_version_is_brought_up_to_date(store: Store) -> None:
    study = add_study(store)
    old = {"epsilens_document": 1, "kind": "whatif", "warnings": ["take care"]}
    with store._database.writing() as connection:
        connection.execute("UPDATE documents SET content = ?", (json.dumps(old),))
    found = store.document(study.id, "cost")
    assert found is not None
    assert found["epsilens_document"] == 2
    assert found["notes"] == [{"code": "unclassified", "severity": "warning", "text": "take care"}]


def leave_models(store: Store, study_id: str) -> Path:
    path = store.checkpoint(study_id) / "epsilon-0-128-models"
    path.mkdir(parents=True)
    (path / "block.npz").write_bytes(b"models")
    return path.parent


def test_what_a_job_leaves_of_a_deleted_study_goes_when_it_ends(store: Store) -> None:
    study = add_study(store)
    job = store.add_job(study.id, "attack")
    store.delete_study(study.id)
    left = leave_models(store, study.id)
    store.finish_job(job, {"document": {}})
    assert not left.exists()
    assert store.studies() == []
    store.close()


def test_models_that_a_killed_server_left_are_cleared_away_and_nothing_else(store: Store) -> None:
    kept, done = add_study(store), add_study(store)
    job = store.add_job(done.id, "attack")
    store.finish_job(job, {"document": {}})
    parts = store.folder / "checkpoints"
    going = [leave_models(store, id) for id in (done.id, "0123456789abcdef")]
    theirs = parts / "elsewhere"
    staying = [leave_models(store, kept.id), theirs, parts / "0123456789abcde"]
    (theirs / "0123456789abcdef").mkdir(parents=True)
    (parts / "0123456789abcde").mkdir()
    file, link = parts / "fedcba9876543210", parts / "ffffffffffffffff"
    file.write_text("mine")
    link.symlink_to(theirs)
    store.close()
    Store(open_folder(store.folder)).close()
    assert not any(path.exists() for path in going)
    assert all(path.exists() for path in [*staying, theirs / "0123456789abcdef", file, link])


def test_no_job_begins_while_its_study_is_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from epsilens.app.service import PageService

    study = add_study(store)
    service = PageService(store, anonymous=False, max_upload=1)
    delete, said = store.delete_study, []

    def begin(jobs: Jobs) -> None:
        try:
            jobs.start(study.id, "attack")
        except NotKeptError as error:
            said.append(str(error))

    hurried = threading.Thread(target=begin, args=(service.jobs,))

    def slowly(id: str) -> None:
        hurried.start()
        hurried.join(timeout=0.2)  # it waits for us, so this always takes so long
        delete(id)

    monkeypatch.setattr(store, "delete_study", slowly)
    service.delete_study(study.id)
    hurried.join()
    assert len(said) == 1
    assert service.jobs._running == {}
    service.close()


def test_a_page_drawn_while_its_study_is_deleted_is_not_held(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from epsilens.app.service import PageService

    study = add_study(store)
    service = PageService(store, anonymous=False, max_upload=1)

    def draw(task: dict[str, object]) -> dict[str, str]:
        service.delete_study(study.id)
        return {"page": "what it found"}

    monkeypatch.setattr(service.helper, "ask", draw)
    with pytest.raises(NotKeptError):
        service.page(study.id)
    assert not service._pages
    service.close()


WAITS_FOR_A_SIGN = """
import json, os, sys, time
for line in sys.stdin:
    task = json.loads(line)
    while not os.path.exists(SIGN):
        time.sleep(0.01)
    print(json.dumps({"answer": {"document": {"name": task["name"]}}}), flush=True)
"""


def test_a_result_that_cannot_be_written_is_said_and_the_next_one_can(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = tmp_path / "sign"
    script = f"SIGN = {str(sign)!r}\n{WAITS_FOR_A_SIGN}"
    monkeypatch.setattr(child, "COMMAND", [sys.executable, "-c", script])
    study = add_study(store, is_anonymous=True)
    jobs = Jobs(store)
    job = jobs.start(study.id, "cost")

    def wait_for(state: str) -> Job:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            seen = jobs.view(store.job(job.id))
            if seen.state == state:
                return seen
            time.sleep(0.01)
        raise AssertionError(seen)

    wait_for("running")
    store._database.connection.execute("PRAGMA query_only = ON")
    sign.touch()
    failed = wait_for("failed")
    assert "`--state` could not be used: the folder is read-only" in failed.message
    with pytest.raises(sqlite3.OperationalError):
        jobs.resume(job.id)
    store._database.connection.execute("PRAGMA query_only = OFF")
    assert jobs.resume(job.id).state == "waiting"
    wait_for("done")
    # What is made without names is worked on without them.
    assert store.document(study.id, "cost") == {"name": "table 1"}
    jobs.close()
    store.close()


def test_a_full_disk_is_one_line_on_the_page(serve: Any, tmp_path: Path) -> None:
    with serve(tmp_path / "state") as visitor:
        study = add_study(visitor.service.store)
        connection = visitor.service.store._database.connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        job = visitor.service.store.add_job(study.id, "cost")
        with pytest.raises(sqlite3.OperationalError) as full:
            visitor.service.store.finish_job(job, {"document": {"long": "x" * 100_000}})
        assert "the disk is full" in unwritten(full.value)
        connection.execute("PRAGMA query_only = ON")
        answer = visitor.ask("PATCH", f"/api/studies/{study.id}", json={"name": "another"})
        assert answer.status_code == 503
        assert "read-only" in answer.json()["error"]
        connection.execute("PRAGMA query_only = OFF")
        visitor.json("PATCH", f"/api/studies/{study.id}", {"name": "another"})


def test_a_folder_in_place_of_the_file_is_said(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "state")
    (folder / "studies.sqlite").mkdir()
    with pytest.raises(InputError, match="must be a file that can be written"):
        Store(folder)


def test_a_table_that_is_deleted_while_it_is_asked_about_is_not_kept(tmp_path: Path) -> None:
    store = Store(open_folder(tmp_path / "state"))
    with pytest.raises(NotKeptError, match="this table is not kept"):
        store.add_study(
            table_id="0" * 16,
            name="",
            question=Question(label="smokes"),
            limits=Limits(),
            is_anonymous=False,
            document={},
            kind="cost",
        )
    store.close()

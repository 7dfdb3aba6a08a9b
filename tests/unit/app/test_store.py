"""What is kept: nothing outlives what it belongs to, and nothing of others is touched."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from epsilens.app.folder import open_folder
from epsilens.app.jobs import Jobs
from epsilens.app.questions import Limits, Question
from epsilens.app.store import NotKeptError, Store, StoredStudy


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(open_folder(tmp_path / "state"))


def add_study(store: Store) -> StoredStudy:
    data = store.folder.parent / "survey.csv"
    table = store.add_table(name="survey.csv", path=data, format="text", size=8, is_uploaded=False)
    return store.add_study(
        table_id=table.id,
        name="",
        question=Question(label="smokes"),
        limits=Limits(),
        kept_gain=None,
        is_anonymous=False,
        first_order={},
    )


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
    store.finish_job(job, {})
    assert not left.exists()
    assert store.studies() == []
    store.close()


def test_models_that_a_killed_server_left_are_cleared_away_and_nothing_else(store: Store) -> None:
    kept, done = add_study(store), add_study(store)
    job = store.add_job(done.id, "attack")
    store.finish_job(job, {})
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
    from epsilens.app.desk import Desk

    study = add_study(store)
    desk = Desk(store, anonymous=False, max_upload=1)
    delete, said = store.delete_study, []

    def begin(jobs: Jobs) -> None:
        try:
            jobs.start(study.id, "attack")
        except NotKeptError as error:
            said.append(str(error))

    hurried = threading.Thread(target=begin, args=(desk.jobs,))

    def slowly(id: str) -> None:
        hurried.start()
        hurried.join(timeout=0.2)  # it waits for us, so this always takes so long
        delete(id)

    monkeypatch.setattr(store, "delete_study", slowly)
    desk.delete_study(study.id)
    hurried.join()
    assert len(said) == 1
    assert desk.jobs._running == {}
    desk.close()

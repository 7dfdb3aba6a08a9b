# SPDX-License-Identifier: Apache-2.0
"""Long work in the background: one process a job, so that it can be cancelled at once."""

from __future__ import annotations

import queue
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, get_args

from epsilens.app.child import Child, StoppedError, WorkFault
from epsilens.app.database import unwritten
from epsilens.app.file_changes import check_unchanged
from epsilens.app.questions import Job, JobKind, Question
from epsilens.app.store import NotKeptError, Store, StoredTable
from epsilens.app.surface import PAGE
from epsilens.errors import InputError

_ACTIVE = ("waiting", "running")
_WRITTEN_EVERY = 0.5
"""Seconds between two notes of how far a job has come."""
_FAULT = "the computation failed through a fault of ours; the terminal says where."
_STOPPED = "the computation ended before it was done, perhaps for want of memory. Try again."


@dataclass
class _Running:
    """A job that is under way."""

    child: Child
    done: int = 0
    total: int = 0
    what: str = ""
    began: float = 0.0
    began_at: int = 0
    written: float = 0.0

    def seconds_left(self) -> float | None:
        """Guess by the pace since the first sign of progress."""
        moved = self.done - self.began_at
        if moved <= 0:
            return None
        return (time.monotonic() - self.began) / moved * (self.total - self.done)


def task_of(
    store: Store, table: StoredTable, question: Question, *, anonymous: bool
) -> dict[str, Any]:
    """Return what a working process is told of a question: the files, and what was asked."""
    tables = [table] if question.test is None else [table, store.table(question.test)]
    test = None if question.test is None else tables[1]
    return {
        "path": str(table.path),
        "name": table.name_for(anonymous=anonymous),
        "test_path": None if test is None else str(test.path),
        "test_name": None if test is None else test.name_for(anonymous=anonymous),
        # Files of others, which may change meanwhile.
        "named": [str(one.path) for one in tables if not one.is_uploaded],
        "anonymous": anonymous,
        "question": question.model_dump(mode="json"),
    }


class Jobs:
    """Starts, watches, cancels and resumes jobs; costs and attacks do not wait for each other.

    Parameters
    ----------
    store : Store
    beside : mapping, optional
        What every task is told beside its question.
    """

    def __init__(self, store: Store, *, beside: Mapping[str, object] | None = None) -> None:
        self._store = store
        self._beside = dict(beside or {})
        self._lock = threading.RLock()
        self._running: dict[str, _Running] = {}
        self._unwritten: dict[str, str] = {}
        """Jobs whose end could not be written down, and why."""
        self._waiting: dict[str, queue.Queue[str | None]] = {
            kind: queue.Queue() for kind in get_args(JobKind)
        }
        self._is_closing = False
        self._lanes = [
            threading.Thread(target=self._work, args=(lane,), daemon=True)
            for lane in self._waiting.values()
        ]
        for lane in self._lanes:
            lane.start()

    def start(self, study_id: str, kind: JobKind) -> Job:
        """Begin a job, or return the one that is under way or done."""
        with self._lock:
            self._store.study(study_id)
            for job in map(self._now, reversed(self._store.jobs(study_id))):
                if job.kind != kind:
                    continue
                if job.state in (*_ACTIVE, "done"):
                    return job
                return self._queue(job)
            return self._queue(self._store.add_job(study_id, kind))

    def resume(self, id: str) -> Job:
        """Go on with a job that was interrupted, cancelled or failed."""
        with self._lock:
            job = self._now(self._store.job(id))
            return job if job.state in (*_ACTIVE, "done") else self._queue(job)

    def _now(self, job: Job) -> Job:
        """Return what a job is, also where that could not be written down."""
        message = self._unwritten.get(job.id)
        return (
            job
            if message is None
            else job.model_copy(update={"state": "failed", "message": message})
        )

    def _queue(self, job: Job) -> Job:
        self._store.set_job(job.id, "waiting")
        self._unwritten.pop(job.id, None)
        self._waiting[job.kind].put(job.id)
        return self._store.job(job.id)

    def cancel(self, id: str) -> Job:
        """End a job now; one that has ended stays what it is."""
        with self._lock:
            job = self._store.job(id)
            if job.state in _ACTIVE:
                self._end(id)
                self._store.set_job(id, "cancelled")
                self._unwritten.pop(id, None)
        return self._store.job(id)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no job begin or finish meanwhile."""
        with self._lock:
            yield

    def end_all(self, study_id: str) -> None:
        """End the jobs of a study, which is about to be deleted, while they are held."""
        for job in self._store.jobs(study_id):
            self.cancel(job.id)

    def _end(self, id: str) -> None:
        running = self._running.pop(id, None)
        if running is not None:
            running.child.kill()

    def view(self, job: Job) -> Job:
        """Return a job as the page shows it."""
        with self._lock:
            job = self._now(job)
            live = self._running.get(job.id)
            if live is None:
                return job
            now = {name: getattr(live, name) for name in ("done", "total", "what")}
            return job.model_copy(update={**now, "seconds_left": live.seconds_left()})

    def close(self) -> None:
        """End everything; what is under way can be resumed at the next start."""
        with self._lock:
            self._is_closing = True
            for id in list(self._running):
                self._end(id)
                with suppress(sqlite3.OperationalError):  # the next start sees it all the same
                    self._store.set_job(id, "interrupted")
        for lane in self._waiting.values():
            lane.put(None)
        for thread in self._lanes:
            thread.join()

    # --- In the lanes ---

    def _work(self, lane: queue.Queue[str | None]) -> None:
        while (id := lane.get()) is not None:
            if self._is_closing:
                continue
            try:
                self._do(id)
            except sqlite3.OperationalError as error:
                with self._lock:
                    self._running.pop(id, None)
                    self._unwritten[id] = unwritten(error)

    def _do(self, id: str) -> None:
        with self._lock:
            try:
                job = self._store.job(id)
                study = self._store.study(job.study)
                table = self._store.table(study.table_id)
                asked = task_of(self._store, table, study.question, anonymous=study.is_anonymous)
            except NotKeptError:
                return
            if job.state != "waiting" or self._is_closing:
                return
            self._store.set_job(id, "running")
            running = self._running[id] = _Running(Child(self._store.temporary))
        task: dict[str, Any] = {
            "task": job.kind,
            **asked,
            "limits": study.limits.model_dump(mode="json"),
            "checkpoint": str(self._store.checkpoint(study.id)),
            "cost_checkpoint": str(self._store.cost_checkpoint(study.id)),
            **self._beside,
        }
        try:
            look = self._store.seen(study.id)
            check_unchanged(task["named"], look)
            answer = running.child.ask(task, lambda *step: self._note(id, running, *step))
            check_unchanged(task["named"], look)
        except InputError as error:
            self._fail(id, error.render(PAGE))
        except StoppedError:
            self._fail(id, _STOPPED)
        except WorkFault as fault:
            print(f"job {id}: {fault}", file=sys.stderr, flush=True)  # noqa: T201
            self._fail(id, _FAULT)
        else:
            with self._lock:
                # A result that has come is kept, even if somebody has just cancelled.
                self._store.finish_job(job, answer)
                self._running.pop(id, None)
        finally:
            running.child.kill()

    def _fail(self, id: str, message: str) -> None:
        with self._lock:
            # One that we have ended ourselves is no longer there, and has its state already.
            if self._running.pop(id, None) is not None:
                self._store.set_job(id, "failed", message=message)

    def _note(self, id: str, running: _Running, done: int, total: int, what: str) -> None:
        with self._lock:
            if self._running.get(id) is not running:
                return
            # Another kind of work, or another round of the same, has a pace of its own.
            if what != running.what or not running.total or done < running.done:
                running.began, running.began_at, running.what = time.monotonic(), done, what
            running.done, running.total = done, total
            if time.monotonic() - running.written > _WRITTEN_EVERY:
                running.written = time.monotonic()
                with suppress(sqlite3.OperationalError):  # a note is not worth ending the job
                    self._store.set_progress(id, done, total, what)

# SPDX-License-Identifier: Apache-2.0
"""Tables, studies, documents and jobs in one SQLite file, which survives the server's death."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from epsilens.app.database import Database
from epsilens.app.questions import Job, JobKind, JobState, Limits, Question, Table

_TABLES = """
CREATE TABLE IF NOT EXISTS tables (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, path TEXT NOT NULL, is_uploaded INTEGER NOT NULL,
    format TEXT NOT NULL, size INTEGER, number INTEGER NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS studies (
    id TEXT PRIMARY KEY, table_id TEXT NOT NULL REFERENCES tables(id) ON DELETE CASCADE,
    name TEXT NOT NULL, question TEXT NOT NULL, limits TEXT NOT NULL,
    is_anonymous INTEGER NOT NULL, revision INTEGER NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
    study_id TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, kind TEXT NOT NULL,
    content TEXT NOT NULL, PRIMARY KEY (study_id, kind));
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, study_id TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
    kind TEXT NOT NULL, state TEXT NOT NULL, done INTEGER NOT NULL, total INTEGER NOT NULL,
    what TEXT NOT NULL, message TEXT, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS sightings (
    study_id TEXT PRIMARY KEY REFERENCES studies(id) ON DELETE CASCADE, seen TEXT NOT NULL);
"""


class NotKeptError(LookupError):
    """What was asked for is not kept here, or no longer."""


class StoredTable(Table):
    """A table with where it lies, and its number among all."""

    path: Path
    number: int

    def name_for(self, *, anonymous: bool) -> str:
        """Return what it is called where names are shown, or where they are withheld."""
        return f"table {self.number}" if anonymous else self.name


@dataclass(frozen=True)
class StoredStudy:
    """A study without its documents."""

    id: str
    table_id: str
    name: str
    question: Question
    limits: Limits
    is_anonymous: bool
    revision: int
    created: float


_ID = re.compile(r"[0-9a-f]{16}")
_UPLOAD = re.compile(r"([0-9a-f]{16})\.table")


def new_id() -> str:
    """Return a name that nobody can guess and that is safe in a path."""
    return secrets.token_hex(8)


class Store:
    """What the server keeps.

    Parameters
    ----------
    folder : Path
        Opened by `open_folder`. One server at a time.

    Raises
    ------
    InputError
        If another server has it open, or the file is of a later version.

    Examples
    --------
    >>> import tempfile
    >>> from epsilens.app.folder import open_folder
    >>> store = Store(open_folder(tempfile.mkdtemp()))
    >>> store.tables(), store.studies()
    ([], [])
    >>> store.close()
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._database = Database(folder, _TABLES)
        with self._database.opening():
            # Whoever worked on these is gone.
            # An earlier version called it so.
            self._database.connection.execute(
                "UPDATE documents SET kind = 'preview' WHERE kind = 'first-order'"
            )
            self._database.connection.execute(
                "UPDATE jobs SET state = 'interrupted' WHERE state IN ('waiting', 'running')"
            )
            self._clear_away()
            self._database.forget_for_good()

    def _clear_away(self) -> None:
        """Remove what a server that was killed has left; only what bears a name of ours."""
        kept = {row["id"] for row in self._database.rows("SELECT id FROM tables")}
        for file in (self.folder / "tables").iterdir():
            ours = _UPLOAD.fullmatch(file.name)
            if ours and ours[1] not in kept and file.is_file() and not file.is_symlink():
                file.unlink()  # an upload that was cut off
        unfinished = self._database.rows(
            "SELECT id FROM studies WHERE id NOT IN "
            "(SELECT study_id FROM documents WHERE kind = 'risk')"
        )
        kept = {row["id"] for row in unfinished}
        without_cost = {
            row["id"]
            for row in self._database.rows(
                "SELECT id FROM studies WHERE id NOT IN "
                "(SELECT study_id FROM documents WHERE kind = 'cost')"
            )
        }
        for part in (self.folder / "checkpoints").iterdir():
            if _ID.fullmatch(part.name) and part.name not in kept:
                _remove(part)
            known = part.suffix == ".cost" and _ID.fullmatch(part.stem)
            if known and part.stem not in without_cost and part.is_file():
                part.unlink()
        for part in self.temporary.iterdir():
            if _ID.fullmatch(part.name):
                _remove(part)

    def close(self) -> None:
        """Let the file go; what was written is safe with or without this."""
        self._database.close()

    # --- Tables ---

    def add_table(
        self, *, name: str, path: Path, format: str, size: int | None, is_uploaded: bool
    ) -> StoredTable:
        """Keep a table; one that was named at an earlier start keeps its studies."""
        if not is_uploaded:
            known = self._database.rows(
                "SELECT * FROM tables WHERE path = ? AND NOT is_uploaded", str(path)
            )
            if known:
                return self._table(known[0])
        found = path.stem if is_uploaded else new_id()
        with self._database.writing() as connection:
            (number,) = connection.execute(
                "SELECT COALESCE(MAX(number), 0) + 1 FROM tables"
            ).fetchone()
            connection.execute(
                "INSERT INTO tables VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (found, name, str(path), is_uploaded, format, size, number, time.time()),
            )
        return self.table(found)

    def table(self, id: str) -> StoredTable:
        """Return a table, or say that it is not kept."""
        return self._table(
            _only(self._database.rows("SELECT * FROM tables WHERE id = ?", id), "table")
        )

    def tables(self) -> list[StoredTable]:
        """Return all tables, the latest first."""
        rows = self._database.rows("SELECT * FROM tables ORDER BY created DESC")
        return [self._table(row) for row in rows]

    def _table(self, row: sqlite3.Row) -> StoredTable:
        values = dict(row)
        values["is_uploaded"] = bool(values["is_uploaded"])
        # An upload is found by its name, wherever the folder has gone since.
        values["path"] = (
            self.folder / "tables" / f"{values['id']}.table"
            if values["is_uploaded"]
            else Path(values["path"])
        )
        return StoredTable(**values)

    def delete_table(self, id: str) -> None:
        """Forget a table, its studies and all their files; a file that was only named stays."""
        with self._database.lock:
            table = self.table(id)
            studies = self.studies_of(id)
            with self._database.writing() as connection:
                connection.executemany(
                    "DELETE FROM studies WHERE id = ?", [(study.id,) for study in studies]
                )
                connection.execute("DELETE FROM tables WHERE id = ?", (id,))
            self._database.forget_for_good()
            for study in studies:
                self._forget_checkpoint(study.id)
            if table.is_uploaded:
                table.path.unlink(missing_ok=True)

    # --- Studies ---

    def add_study(
        self,
        *,
        table_id: str,
        name: str,
        question: Question,
        limits: Limits,
        is_anonymous: bool,
        document: dict[str, object] | None,
        kind: Literal["preview", "cost"] = "preview",
        seen: str | None = None,
    ) -> StoredStudy:
        """Keep a study with its first answer, if it has one, and how the file that was named looked then."""
        found = new_id()
        with self._database.writing() as connection:
            # It may have been deleted while its first answer was looked for.
            self.table(table_id)
            (number,) = connection.execute(
                "SELECT COALESCE(MAX(rowid), 0) + 1 FROM studies"
            ).fetchone()
            connection.execute(
                "INSERT INTO studies (id, table_id, name, question, limits, is_anonymous, revision, "
                "created) VALUES (?, ?, ?, ?, ?, ?, 1, ?)",
                (
                    found,
                    table_id,
                    name or f"study {number}: {_named(question)}",
                    question.model_dump_json(),
                    limits.model_dump_json(),
                    is_anonymous,
                    time.time(),
                ),
            )
            if document is not None:
                connection.execute(
                    "INSERT INTO documents VALUES (?, ?, ?)", (found, kind, json.dumps(document))
                )
            if seen is not None:
                connection.execute("INSERT INTO sightings VALUES (?, ?)", (found, seen))
        return self.study(found)

    def study(self, id: str) -> StoredStudy:
        """Return a study, or say that it is not kept."""
        return _study(_only(self._database.rows("SELECT * FROM studies WHERE id = ?", id), "study"))

    def seen(self, id: str) -> str | None:
        """Return how the file of a study looked when it was asked, if it is not one of ours."""
        rows = self._database.rows("SELECT seen FROM sightings WHERE study_id = ?", id)
        return str(rows[0]["seen"]) if rows else None

    def studies(self) -> list[StoredStudy]:
        """Return all studies, the latest first."""
        return [
            _study(row)
            for row in self._database.rows("SELECT * FROM studies ORDER BY created DESC")
        ]

    def studies_of(self, table_id: str) -> list[StoredStudy]:
        """Return the studies that use a table, as their data or as their test data."""
        return [
            study for study in self.studies() if table_id in {study.table_id, study.question.test}
        ]

    def change_study(self, id: str, *, name: str | None, limits: Limits | None) -> StoredStudy:
        """Change a study's name or its limits."""
        known = self.study(id)
        kept = known.limits if limits is None else limits
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE studies SET name = ?, limits = ? WHERE id = ?",
                (name or known.name, kept.model_dump_json(), id),
            )
        return self.study(id)

    def delete_study(self, id: str) -> None:
        """Forget a study, its documents and its unfinished models."""
        with self._database.lock:
            self.study(id)
            with self._database.writing() as connection:
                connection.execute("DELETE FROM studies WHERE id = ?", (id,))
            self._database.forget_for_good()
            self._forget_checkpoint(id)

    @property
    def temporary(self) -> Path:
        """Where working processes write for a moment."""
        return self.folder / "temporary"

    def checkpoint(self, study_id: str) -> Path:
        """Return where the unfinished models of a study are kept."""
        return self.folder / "checkpoints" / study_id

    def cost_checkpoint(self, study_id: str) -> Path:
        """Return the file that keeps the trainings of an unfinished cost."""
        return self.folder / "checkpoints" / f"{study_id}.cost"

    def _forget_checkpoint(self, study_id: str) -> None:
        _remove(self.checkpoint(study_id))
        self.cost_checkpoint(study_id).unlink(missing_ok=True)

    # --- Documents ---

    def document(self, study_id: str, kind: str) -> dict[str, object] | None:
        """Return a document of a study, or None if it has not arrived."""
        rows = self._database.rows(
            "SELECT content FROM documents WHERE study_id = ? AND kind = ?", study_id, kind
        )
        if not rows:
            return None
        from epsilens.document import migrate

        found: dict[str, object] = json.loads(rows[0]["content"])
        # An earlier version of the package may have stored it.
        return migrate(found) if "epsilens_document" in found else found

    def document_kinds(self, study_id: str) -> set[str]:
        """Return which documents have arrived."""
        rows = self._database.rows("SELECT kind FROM documents WHERE study_id = ?", study_id)
        return {row["kind"] for row in rows}

    # --- Jobs ---

    def add_job(self, study_id: str, kind: JobKind) -> Job:
        """Write a job down before it is begun."""
        found = new_id()
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO jobs VALUES (?, ?, ?, 'waiting', 0, 0, '', NULL, ?)",
                (found, study_id, kind, time.time()),
            )
        return self.job(found)

    def job(self, id: str) -> Job:
        """Return a job, or say that it is not kept."""
        return _job(_only(self._database.rows("SELECT * FROM jobs WHERE id = ?", id), "job"))

    def jobs(self, study_id: str) -> list[Job]:
        """Return the jobs of a study in their order."""
        return [
            _job(row)
            for row in self._database.rows(
                "SELECT * FROM jobs WHERE study_id = ? ORDER BY created", study_id
            )
        ]

    def set_job(self, id: str, state: JobState, *, message: str | None = None) -> None:
        """Write down what became of a job; one that was deleted meanwhile is let go."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE jobs SET state = ?, message = ? WHERE id = ?", (state, message, id)
            )

    def set_progress(self, id: str, done: int, total: int, what: str) -> None:
        """Write down how far a job has come."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE jobs SET done = ?, total = ?, what = ? WHERE id = ?",
                (done, total, what, id),
            )

    def finish_job(self, job: Job, found: Mapping[str, object]) -> None:
        """Keep what a job found and that it is done, all or nothing.

        The unfinished models go, also those of a study that was deleted meanwhile.
        """
        kind = "risk" if job.kind == "attack" else job.kind
        with self._database.lock:
            is_kept = bool(self._database.rows("SELECT 1 FROM studies WHERE id = ?", job.study))
            if is_kept:
                with self._database.writing() as connection:
                    for name, part in found.items():
                        content = (
                            job.study,
                            kind if name == "document" else name,
                            json.dumps(part),
                        )
                        connection.execute(
                            "INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", content
                        )
                    connection.execute(
                        "UPDATE studies SET revision = revision + 1 WHERE id = ?", (job.study,)
                    )
                    connection.execute(
                        "UPDATE jobs SET state = 'done', done = total, message = NULL WHERE id = ?",
                        (job.id,),
                    )
            if not is_kept:
                self._forget_checkpoint(job.study)
            elif job.kind == "attack":
                _remove(self.checkpoint(job.study))
            else:
                self.cost_checkpoint(job.study).unlink(missing_ok=True)


def _remove(path: Path) -> None:
    """Remove a folder of ours; a file or a link in its place is not ours."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)


def _named(question: Question) -> str:
    """Return what a study is called after: its protected columns, or whom its mask is to hide."""
    if question.identity is not None:
        return f"columns that identify {question.identity}"
    return ", ".join(question.protected)


def _only(rows: list[sqlite3.Row], what: str) -> sqlite3.Row:
    if not rows:
        raise NotKeptError(f"this {what} is not kept here, or no longer. Choose another.")
    return rows[0]


def _study(row: sqlite3.Row) -> StoredStudy:
    values = dict(row)
    # Folders of earlier versions have a column that is no longer used.
    values.pop("kept_gain", None)
    values["question"] = Question.model_validate_json(values["question"])
    values["limits"] = Limits.model_validate_json(values["limits"])
    values["is_anonymous"] = bool(values["is_anonymous"])
    return StoredStudy(**values)


def _job(row: sqlite3.Row) -> Job:
    values = dict(row)
    return Job(study=values.pop("study_id"), seconds_left=None, **values)

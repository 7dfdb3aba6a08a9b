# SPDX-License-Identifier: Apache-2.0
"""One SQLite file that one server has open: whole transactions, and deleted for good."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epsilens.app.folder import DATABASE
from epsilens.errors import InputError

FORMAT = 2
"""Format version of the file; a file of a later version is refused rather than damaged."""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the folder is read-only",
    sqlite3.SQLITE_CANTOPEN: "the folder cannot be written",
    **dict.fromkeys(_BUSY, "another program holds its file"),
}


def unwritten(error: sqlite3.OperationalError) -> str:
    """Say in one line why nothing could be written down.

    Examples
    --------
    >>> unwritten(sqlite3.OperationalError("disk I/O error"))
    'the folder of `--state` could not be used: the disk does not answer as it should. Fix that and try again; what was finished before is kept.'
    """
    reason = _REASONS.get(_code(error), "the disk does not answer as it should")
    return (
        f"the folder of `--state` could not be used: {reason}. Fix that and try again; what was "
        "finished before is kept."
    )


def _code(error: sqlite3.OperationalError) -> int:
    # The lower byte is the kind, the rest its circumstances.
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


class Database:
    """The file of a folder, for all threads of one process.

    Parameters
    ----------
    folder : Path
        Opened by `open_folder`. One server at a time.
    tables : str
        Statements that make what is not there yet.

    Raises
    ------
    InputError
        If another server has it open, or the file is damaged or of a later version.
    """

    def __init__(self, folder: Path, tables: str) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        path = folder / DATABASE
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            path.chmod(0o600)
        except OSError as error:
            raise InputError(
                f"{DATABASE!r} in the folder {folder.name!r} must be a file that can be written, got "
                f"{type(error).__name__}. Choose another `--state`."
            ) from None
        self.connection = sqlite3.connect(
            path, check_same_thread=False, isolation_level=None, timeout=1.0
        )
        self.connection.row_factory = sqlite3.Row
        with self.opening():
            self._open(tables)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Let what goes wrong at the start be said in one line, and the file go."""
        try:
            yield
        except InputError:
            self.connection.close()
            raise
        except sqlite3.OperationalError as error:
            self.connection.close()
            if _code(error) not in _BUSY:
                raise InputError(unwritten(error)) from None
            raise InputError(
                f"`--state` must be a folder that no other server has open, but {self.folder.name!r} "
                "is in use. Stop the other one, or choose another place."
            ) from None
        except sqlite3.DatabaseError:
            self.connection.close()
            raise InputError(
                f"{DATABASE!r} in the folder {self.folder.name!r} must be a file of an earlier start, "
                "but it is damaged. Move it away, or choose another place."
            ) from None

    def _open(self, tables: str) -> None:
        # The lock is held until this process ends, however it ends.
        self.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("PRAGMA foreign_keys = ON")
        # What is deleted is overwritten, not only forgotten.
        self.connection.execute("PRAGMA secure_delete = ON")
        (version,) = self.connection.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise InputError(
                f"the folder {self.folder.name!r} was written by a later version of epsilens. "
                "Update, or choose another `--state`."
            )
        self.connection.executescript(f"BEGIN IMMEDIATE; {tables} COMMIT;")
        self.connection.execute(f"PRAGMA user_version = {FORMAT}")

    def close(self) -> None:
        """Let the file go; what was written is safe with or without this."""
        with self.lock:
            self.connection.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Do all of a block or nothing of it."""
        with self.lock:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """Return what a question finds."""
        with self.lock:
            return self.connection.execute(sql, values).fetchall()

    def forget_for_good(self) -> None:
        """Empty the log in which what was deleted would still stand."""
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

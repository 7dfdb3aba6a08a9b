# SPDX-License-Identifier: Apache-2.0
"""How the stores of a federation are kept in SQLite: private files, whole transactions, exact numbers."""

from __future__ import annotations

import io
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilens.errors import InputError
from epsilens.federated.ledger import LedgerEntry

__all__ = [
    "LEDGER_TABLE",
    "array_of",
    "blob_of",
    "connect",
    "ledger_of",
    "new_private_file",
    "transaction",
    "write_ledger",
    "write_private",
]

SECONDS_TO_WAIT = 30.0
"""For another process that works on the same store."""

LEDGER_TABLE = """
CREATE TABLE ledger (
    line INTEGER PRIMARY KEY,
    site INTEGER NOT NULL,
    operation TEXT NOT NULL,
    mode TEXT,
    epsilon REAL,
    record_epsilon REAL NOT NULL,
    total_epsilon REAL NOT NULL,
    private INTEGER NOT NULL
);
"""


def new_private_file(folder: Path, name: str, *, taken: str) -> Path:
    """Make an empty file that nobody else on the machine can read, in a folder of the same kind.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    name : str
    taken : str
        What to say if the file exists.
    """
    is_new = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_new:
        folder.chmod(0o700)
    path = folder / name
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise InputError(taken) from None
    return path


def write_private(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read, whole or not at all."""
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def connect(path: Path, *, whose: str, damaged: str) -> sqlite3.Connection:
    """Open a store for transactions that are on the disk once they are committed.

    Parameters
    ----------
    path : Path
    whose : str
        "the site", "the coordinator".
    damaged : str
        What to say if the file is no database.
    """
    connection = sqlite3.connect(path, timeout=SECONDS_TO_WAIT, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        # Committed means on the disk: who forgot a release would spend a budget twice.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_mode = WAL")
        # What is deleted is overwritten.
        connection.execute("PRAGMA secure_delete = ON")
    except sqlite3.OperationalError:
        connection.close()
        raise InputError(
            f"{whose}'s store must not be in use for long, but another process holds it. Try again."
        ) from None
    except sqlite3.DatabaseError:
        connection.close()
        raise InputError(damaged) from None
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, busy: str) -> Iterator[None]:
    """Do all of a block or nothing of it.

    Parameters
    ----------
    connection : sqlite3.Connection
    busy : str
        What to say if another process is at work for too long.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        raise InputError(busy) from None
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def write_ledger(
    connection: sqlite3.Connection, entries: Iterable[LedgerEntry], *, first: int
) -> None:
    """Add lines to a ledger, numbered from `first`."""
    for line, entry in enumerate(entries, start=first):
        connection.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (line, *asdict(entry).values())
        )


def ledger_of(connection: sqlite3.Connection) -> tuple[LedgerEntry, ...]:
    """Read all lines of a ledger."""
    return tuple(
        LedgerEntry(
            site=row["site"],
            operation=row["operation"],
            mode=row["mode"],
            epsilon=row["epsilon"],
            record_epsilon=row["record_epsilon"],
            total_epsilon=row["total_epsilon"],
            private=bool(row["private"]),
        )
        for row in connection.execute("SELECT * FROM ledger ORDER BY line")
    )


def blob_of(array: NDArray[np.generic]) -> bytes:
    """Write an array, exactly.

    Examples
    --------
    >>> array_of(blob_of(np.array([0.1, 0.2])))
    array([0.1, 0.2])
    """
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def array_of(blob: bytes) -> NDArray[np.generic]:
    """Read what `blob_of` wrote."""
    loaded: NDArray[np.generic] = np.load(io.BytesIO(blob), allow_pickle=False)
    return loaded

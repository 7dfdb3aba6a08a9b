# SPDX-License-Identifier: Apache-2.0
"""How the parties of a federation keep what they must not forget: contract, ledger, and exact numbers."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilens.data.atomic import remove_stale
from epsilens.data.private_files import PrivateStore, make_private_folder, writable, write_private
from epsilens.errors import InputError
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.ledger import LedgerEntry

STORE_VERSION = 1

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


class PartyStore:
    """The folder of one party: a store whose first row has the contract and the version of its form.

    Parameters
    ----------
    folder : str or Path

    Raises
    ------
    InputError
        If there is no such party, or one that another version of epsilens has written.
    """

    _FILE: ClassVar[str]
    _PARTY: ClassVar[str]
    """"site", "coordinator"."""
    _HEAD: ClassVar[str]
    """The query for the first row."""
    _JOIN: ClassVar[str]
    """What to do where there is none."""
    _DAMAGED: ClassVar[str]
    _BUSY: ClassVar[str]

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._store = self._at(self.folder)
        if not self._store.file.is_file():
            raise InputError(
                f"{str(self.folder)!r} must be the folder of a {self._PARTY}, but holds none. {self._JOIN}"
            )
        remove_stale(self.folder)  # of makings that were stopped: this one is whole
        with self._store.connected() as connection:
            row = self._row(connection)
        with self._readable():
            self.schema = FederationSchema.from_dict(json.loads(row["contract"]))
            self._read(row)
        if self.schema.fingerprint != row["fingerprint"]:
            raise InputError(
                f"the {self._PARTY}'s contract is not the one that it was written with. Its folder is damaged: "
                "bring it back from a backup."
            )

    def _read(self, row: sqlite3.Row) -> None:
        """Take what else never changes from the first row."""
        raise NotImplementedError

    @classmethod
    def _at(cls, folder: Path) -> PrivateStore:
        return PrivateStore(
            folder / cls._FILE, whose=f"the {cls._PARTY}", damaged=cls._DAMAGED, busy=cls._BUSY
        )

    @classmethod
    @contextmanager
    def _made(cls, folder: Path, tables: str, *, taken: str) -> Iterator[sqlite3.Connection]:
        """Make the store of a new party in a folder that nobody else can read, and fill it in a block.

        It has its name only once it is whole: stopped before, there is no party, and one can be made.
        """
        with writable(folder):
            make_private_folder(folder)
        file = folder / cls._FILE
        logs = [
            name
            for name in (f"{file.name}-wal", f"{file.name}-journal")
            if (folder / name).exists()
        ]
        if logs and not file.exists():
            # SQLite would play it into the new store.
            raise InputError(
                f"{str(folder)!r} must not hold a part of a {cls._PARTY} that is gone, but has {logs[0]!r}. "
                "Bring its store back from a backup, or choose another folder."
            )
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.executescript(f"{tables}{LEDGER_TABLE}")
            yield connection
            content = connection.serialize()
        with writable(folder):
            try:
                write_private(file, content, new=True)
            except FileExistsError:
                raise InputError(f"{str(folder)!r} has a {cls._PARTY} already{taken}") from None

    @classmethod
    @contextmanager
    def _readable(cls) -> Iterator[None]:
        """Say of whatever cannot be read that the file is damaged."""
        try:
            yield
        except InputError:
            raise
        except (sqlite3.DatabaseError, ValueError, KeyError, TypeError):
            raise InputError(cls._DAMAGED) from None

    def _row(self, connection: sqlite3.Connection) -> sqlite3.Row:
        with self._readable():
            row: sqlite3.Row | None = connection.execute(self._HEAD).fetchone()
        if row is None:
            raise InputError(self._DAMAGED)
        if row["store_version"] != STORE_VERSION:
            raise InputError(
                f"the {self._PARTY}'s store has version {row['store_version']}, and this epsilens reads "
                f"{STORE_VERSION}. Use the epsilens that wrote it."
            )
        return row


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
    rows = connection.execute("SELECT * FROM ledger ORDER BY line")
    names = [name for name in LedgerEntry.__dataclass_fields__ if name != "private"]
    return tuple(
        LedgerEntry(**{name: row[name] for name in names}, private=bool(row["private"]))
        for row in rows
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

# SPDX-License-Identifier: Apache-2.0
"""Files that their owner alone can read: written whole or not at all, or a store of whole transactions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from epsilens.data.atomic import scratch_beside, sync_folder
from epsilens.errors import InputError, system_refusal

SECONDS_TO_WAIT = 30.0
"""For another process that works on the same store."""


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Say in one line if a folder cannot be made, or nothing be written into it.

    Examples
    --------
    >>> with writable(Path("survey.csv/site")):
    ...     raise NotADirectoryError
    Traceback (most recent call last):
    ...
    epsilens.errors.InputError: 'survey.csv/site' must be a folder that can be made and written, but
    the operating system reports NotADirectoryError. Choose another place.
    """
    try:
        yield
    except OSError as error:
        raise system_refusal(
            error, subject=repr(str(folder)), must="be a folder that can be made and written"
        ) from None


def make_private_folder(folder: Path) -> None:
    """Make a folder that nobody else on the machine can look into; one that is there stays as it is."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)


def make_private_file(path: Path) -> None:
    """Make an empty file that nobody else on the machine can read.

    Raises
    ------
    OSError
        If it is there already, or cannot be made.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def write_private(path: Path, content: bytes, *, new: bool = False) -> None:
    """Write a file that its owner alone can read, whole or not at all.

    Parameters
    ----------
    path : Path
    content : bytes
    new : bool
        Whether to refuse, instead of to replace, a file that is there.

    Raises
    ------
    FileExistsError
        If it must be new and is not.
    """
    with scratch_beside(path) as scratch:
        with scratch.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if new:
            _link(scratch, path)
        else:
            scratch.replace(path)
        sync_folder(path.parent)


def _link(scratch: Path, path: Path) -> None:
    try:
        os.link(scratch, path)
    except FileExistsError:
        raise
    except OSError:
        # Not all file systems have hard links; where they are missing, a name that is taken is seen first.
        scratch.rename(path)


class PrivateStore:
    """A store in one SQLite file that its owner alone can read; every operation is one transaction.

    What was committed is on the disk. What was deleted is overwritten and leaves the log too, unless another
    process reads at that moment: then it goes with the next operation. Killed at any point, the next one to
    open it sees an operation done or not begun.

    Parameters
    ----------
    file : Path
    whose : str
        "the site", "the coordinator".
    damaged : str
        What to say if the file is no database.
    busy : str
        What to say if another process is at work for too long.
    tables : tuple of str
        Statements that make the tables, if they are not there. With them the first transaction makes the
        file too, if it is not there; without, it must be.

    Examples
    --------
    >>> import tempfile
    >>> store = PrivateStore(Path(tempfile.mkdtemp()) / "notes.sqlite", whose="the site",
    ...     damaged="the notes cannot be read.", busy="Try again.",
    ...     tables=("CREATE TABLE IF NOT EXISTS note (text TEXT)",))
    >>> with store.transaction() as notes:
    ...     _ = notes.execute("INSERT INTO note VALUES ('told once')")
    >>> with store.transaction() as notes:
    ...     notes.execute("SELECT text FROM note").fetchone()["text"]
    'told once'
    """

    def __init__(
        self, file: Path, *, whose: str, damaged: str, busy: str, tables: tuple[str, ...] = ()
    ) -> None:
        self.file = file
        self._whose, self._damaged, self._busy, self._tables = whose, damaged, busy, tables
        self._is_made = False

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Give a connection without a transaction, and close it.

        Raises
        ------
        InputError
            If the file is no database, cannot be written, or is held by another process.
        """
        connection = self._connect()
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if _code(error) == sqlite3.SQLITE_ERROR:
                raise  # a wrong statement, no fault of the disk
            raise self._in_words(error, self._busy) from None
        finally:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = None
        try:
            # Never made here: a count that somebody deletes must not begin anew without a word.
            place = f"{self.file.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(
                place, uri=True, timeout=SECONDS_TO_WAIT, isolation_level=None
            )
            connection.row_factory = sqlite3.Row
            # Committed means on the disk: who forgot a release would spend a budget twice.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_mode = WAL")
            # What is deleted is overwritten.
            connection.execute("PRAGMA secure_delete = ON")
        except sqlite3.DatabaseError as error:
            if connection is not None:
                connection.close()
            held = f"{self._whose}'s store must not be in use for long, but another process holds it. Try again."
            raise self._in_words(error, held) from None
        return connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do all of a block or nothing of it, one process at a time.

        Raises
        ------
        InputError
            As `connected`.
        """
        if self._tables and not self._is_made:
            self._make()
        with self.connected() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.DatabaseError as error:
                raise self._in_words(error, self._busy) from None
            try:
                for table in self._tables:
                    connection.execute(table)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # Where the disk is full, SQLite has done so itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            _empty_log(connection)
        self._is_made = True

    def _make(self) -> None:
        try:
            make_private_file(self.file)
            sync_folder(self.file.parent)
        except FileExistsError:
            with suppress(OSError):  # one that came back from a backup may be open to others
                self.file.chmod(0o600)
        except OSError as error:
            raise self._unwritable(type(error).__name__) from None

    def _in_words(self, error: sqlite3.DatabaseError, held: str) -> InputError:
        if not isinstance(error, sqlite3.OperationalError):
            return InputError(self._damaged)
        if _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return InputError(held)
        return self._unwritable(error.sqlite_errorname)

    def _unwritable(self, reason: str) -> InputError:
        return InputError(
            f"{self._whose}'s store must be a file that can be written, but {self.file.name!r} cannot: "
            f"{reason}. Look at its folder and the disk."
        )


def _empty_log(connection: sqlite3.Connection) -> None:
    """Take what was deleted out of the log, which stays while others have the store open; wait for nobody."""
    with suppress(sqlite3.OperationalError):  # the operation is done all the same
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _code(error: sqlite3.OperationalError) -> int:
    # The lower byte is the kind, the rest its circumstances; what Python itself raises has none.
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF

# SPDX-License-Identifier: Apache-2.0
"""A ledger of releases beside the data: what was spent on the same answers before.

Columns are recognised by a keyed digest of their values in the order of the rows. So a copy of the file under
another name, in another format or without some columns counts; other rows or another order do not.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilens.channels.budget import Budget
from epsilens.data.private_files import PrivateStore
from epsilens.errors import BudgetExceededError, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd


LEDGER_FILE = ".epsilens-ledger.sqlite"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS secret (key BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS spent (release TEXT NOT NULL, moment TEXT NOT NULL, "
    "output TEXT NOT NULL, name TEXT NOT NULL, answers BLOB NOT NULL, epsilon REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS seen (release TEXT NOT NULL, answers BLOB NOT NULL)",
)


@dataclass(frozen=True)
class Spending:
    """What all releases of the same answers have spent, the present one included.

    Attributes
    ----------
    n_releases : mapping of str to int
        How many releases had the answers of each protected column.
    epsilon : mapping of str to float
        The sum of their budgets.
    record_epsilon : float
        The sum over all protected columns of all releases of these records.
    """

    n_releases: Mapping[str, int]
    epsilon: Mapping[str, float]
    record_epsilon: float

    def notes(self) -> tuple[Note, ...]:
        """Return a sentence or two for each column that was released before.

        Examples
        --------
        >>> Spending({"smokes": 2}, {"smokes": 1.5}, 1.5).notes()[0].text
        "The answers of 'smokes' were released before. Over 2 releases their budgets add up to ε = 1.5."
        """
        found = [
            Note(
                "released-before",
                f"The answers of {name!r} were released before. Over {count} releases their budgets add "
                f"up to ε = {self.epsilon[name]:g}.",
                name,
            )
            for name, count in self.n_releases.items()
            if count > 1
        ]
        if self.record_epsilon > _total(list(self.epsilon.values())):
            found.append(
                Note(
                    "released-before",
                    "Other columns of these records were released before. Over all releases a record has "
                    f"spent ε = {self.record_epsilon:g}.",
                )
            )
        return tuple(found)


class ReleaseLedger:
    """The ledger in a folder. Its owner alone can read it; it holds budgets and keyed digests, no answers.

    Parameters
    ----------
    folder : Path
        Where the ledger is, or will be made by the first entry.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> digests = column_digests(pd.DataFrame({"smokes": ["no", "yes", "no"]}))
    >>> ledger = ReleaseLedger(Path(tempfile.mkdtemp()))
    >>> first = ledger.enter(digests, Budget({"smokes": 0.5}), output="may.csv")
    >>> again = ledger.enter(digests, Budget({"smokes": 1.0}), output="june.csv")
    >>> first.epsilon, again.epsilon
    ({'smokes': 0.5}, {'smokes': 1.5})
    """

    def __init__(self, folder: Path) -> None:
        name = repr(LEDGER_FILE)
        self._store = PrivateStore(
            folder / LEDGER_FILE,
            whose="the release ledger",
            damaged=f"the ledger {name} must be a record of releases, but it cannot be read. Bring it back "
            "from a backup, or move it away: earlier releases are then forgotten.",
            busy=f"the ledger {name} must be free, but another process holds it. Try again.",
            tables=_TABLES,
        )

    def require(self, digests: Mapping[str, bytes], budget: Budget, *, limit: float) -> None:
        """Refuse a release with which the total ε of a record would exceed a limit.

        Parameters
        ----------
        digests : mapping of str to bytes
            By `column_digests`, of all columns of the data.
        budget : Budget
            What the release would spend.
        limit : float
            The largest total.

        Raises
        ------
        BudgetExceededError
            If it would.
        """
        if not self._store.file.exists():
            _require(_spending([], digests, budget), budget, limit)
            return
        with self._store.transaction() as connection:
            _require(_read(connection, digests, budget), budget, limit)

    def enter(
        self,
        digests: Mapping[str, bytes],
        budget: Budget,
        *,
        output: str,
        limit: float = math.inf,
    ) -> Spending:
        """Record a release, on the disk before returning; one process at a time.

        Parameters
        ----------
        digests, budget, limit
            As for `require`.
        output : str
            Name of the released file.

        Raises
        ------
        BudgetExceededError
            If the total would exceed the limit; nothing is recorded then.
        """
        with self._store.transaction() as connection:
            spending = _read(connection, digests, budget)
            _require(spending, budget, limit)
            keyed = _keyed(connection, digests)
            release, moment = secrets.token_hex(8), f"{datetime.datetime.now(datetime.UTC):%FT%TZ}"
            connection.executemany(
                "INSERT INTO spent VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (release, moment, output, name, keyed[name], epsilon)
                    for name, epsilon in budget.per_column.items()
                ],
            )
            connection.executemany(
                "INSERT INTO seen VALUES (?, ?)", [(release, digest) for digest in keyed.values()]
            )
        return spending


def column_digests(frame: pd.DataFrame) -> dict[str, bytes]:
    """Return a digest of every column's values in the order of the rows, whatever their type.

    Numbers and texts that read alike have one digest, as in a csv file and a parquet file. A column with one
    value only, or a running number, tells nothing about whose rows they are: its digest depends on all other
    columns.

    Examples
    --------
    >>> import pandas as pd
    >>> text = column_digests(pd.DataFrame({"children": ["0", "2", "1"]}))
    >>> text == column_digests(pd.DataFrame({"children": [0.0, 2.0, 1.0]}))
    True
    """
    import pandas as pd

    found: dict[str, bytes] = {}
    common: list[str] = []
    for name, series in frame.items():
        codes, values = pd.factorize(series)
        digest = hashlib.sha256(repr([_text(value) for value in values]).encode())
        digest.update(codes.astype("<i8").tobytes())
        found[str(name)] = digest.digest()
        if not codes.any() or _is_running_number(values, len(series)):
            common.append(str(name))
    others = b"".join(sorted(digest for name, digest in found.items() if name not in common))
    for name in common:
        found[name] = hashlib.sha256(name.encode() + found[name] + others).digest()
    return found


def _is_running_number(values: pd.Index | NDArray[Any], n_rows: int) -> bool:
    """Say whether a column counts its rows, as that of any other table of this length may."""
    import pandas as pd

    if len(values) != n_rows:
        return False
    steps = np.diff(pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(dtype=np.float64))
    return bool((np.abs(steps) == 1.0).all() and (steps == steps[:1]).all())


def _text(value: object) -> str:
    """Return a value as text: 2 for the number 2.0, which types of files hold differently."""
    try:
        number = float(str(value))
    except ValueError:
        return str(value)
    return str(int(number)) if number.is_integer() else repr(number)


def _keyed(connection: sqlite3.Connection, digests: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return digests that nobody can compare with guessed answers without the ledger's key."""
    row = connection.execute("SELECT key FROM secret").fetchone()
    key = secrets.token_bytes(32) if row is None else row["key"]
    if row is None:
        connection.execute("INSERT INTO secret VALUES (?)", (key,))
    return {
        name: hashlib.blake2b(digest, key=key, digest_size=16).digest()
        for name, digest in digests.items()
    }


def _read(connection: sqlite3.Connection, digests: Mapping[str, bytes], budget: Budget) -> Spending:
    """Add a release to what the ledger has of these records: all releases that share a column with them."""
    keyed = _keyed(connection, digests)
    marks = ",".join("?" * len(keyed))
    shared = f"SELECT release FROM seen WHERE answers IN ({marks})"  # noqa: S608
    rows = connection.execute(
        f"SELECT release, answers, epsilon FROM spent WHERE release IN ({shared})",  # noqa: S608
        list(keyed.values()),
    )
    return _spending([tuple(row) for row in rows], keyed, budget)


def _spending(
    earlier: list[tuple[str, bytes, float]], digests: Mapping[str, bytes], budget: Budget
) -> Spending:
    # A column that is not there is refused where the release is made.
    answers = {name: digests.get(name, name.encode()) for name in budget.per_column}
    entries = [
        *earlier,
        *(("", answers[name], epsilon) for name, epsilon in budget.per_column.items()),
    ]
    same = {name: [e for e in entries if e[1] == digest] for name, digest in answers.items()}
    return Spending(
        n_releases={name: len({release for release, _, _ in of}) for name, of in same.items()},
        epsilon={name: _total([epsilon for _, _, epsilon in of]) for name, of in same.items()},
        record_epsilon=_total([epsilon for _, _, epsilon in entries]),
    )


def _total(budgets: list[float]) -> float:
    """Add budgets up as they were typed: 0.1 and 0.2 are 0.3."""
    return float(sum(Decimal(repr(float(epsilon))) for epsilon in budgets))


def _require(spending: Spending, budget: Budget, limit: float) -> None:
    if spending.record_epsilon > limit:
        raise BudgetExceededError(
            f"the releases of these records must stay within a total of ε = {limit:g}, but with "
            f"the ε = {budget.per_record:g} of this one they come to {spending.record_epsilon:g}. "
            f"Lower {setting('epsilon')}, or raise {setting('budget')}."
        )

# SPDX-License-Identifier: Apache-2.0
"""Persistent log of the model that a site received, and of what it disclosed about its own records to whom.

The coordinator names the model, the tester and the number of records. None of that is taken at its
word: the model must be the one that was settled with this site, whoever asks is known by its
signature, and everything that left is counted and given again, never computed a second time.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from epsilens._types import FloatArray
from epsilens.data.private_files import PrivateStore

Told: TypeAlias = Literal["items", "batch", "submission"]

_SETTLED = """
CREATE TABLE IF NOT EXISTS settled (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1), version INTEGER NOT NULL, theta TEXT NOT NULL)
"""
_TOLD = """
CREATE TABLE IF NOT EXISTS told (
    kind TEXT NOT NULL, theta TEXT NOT NULL, asker TEXT NOT NULL, called TEXT NOT NULL,
    content BLOB NOT NULL, PRIMARY KEY (kind, theta, asker))
"""
_DAMAGED = (
    "the site's note of what it has told of its records cannot be read. Bring it back from a backup; "
    "without it the site would tell more than it may."
)


def theta_name(theta: FloatArray) -> str:
    """Return a hash of a model's numbers, and of nothing that comes with them.

    Examples
    --------
    >>> theta_name(np.zeros(2))[:8]
    '374708ff'
    """
    return hashlib.sha256(np.ascontiguousarray(theta, dtype="<f8").tobytes()).hexdigest()


class ProviderLog:
    """A site's own log of the model that it received and of what it disclosed.

    Parameters
    ----------
    file : path
        In the site's folder; made when it is needed first.

    Examples
    --------
    >>> import tempfile
    >>> log = ProviderLog(Path(tempfile.mkdtemp()) / "provider.sqlite")
    >>> log.settle(0, np.zeros(2))
    >>> log.settled() == (0, theta_name(np.zeros(2)))
    True
    >>> log.tell("items", "a model", b"a reply", asker="a fingerprint", called="site 3")
    >>> log.told("items", "a model", asker="another", called="site 3"), log.count("items")
    (b'a reply', 1)
    """

    def __init__(self, file: str | Path) -> None:
        self._store = PrivateStore(
            Path(file),
            whose="the site",
            damaged=_DAMAGED,
            busy="the site is busy with another message. Try again.",
            tables=(_SETTLED, _TOLD),
        )

    def settled(self) -> tuple[int, str] | None:
        """Return the version that was settled last and the name of its model; None: no version yet."""
        with self._store.transaction() as log:
            row = log.execute("SELECT version, theta FROM settled").fetchone()
        return None if row is None else (int(row["version"]), str(row["theta"]))

    def settle(self, version: int, theta: FloatArray) -> None:
        """Note which model a version is."""
        with self._store.transaction() as log:
            log.execute(
                "INSERT OR REPLACE INTO settled VALUES (1, ?, ?)", (version, theta_name(theta))
            )

    def told(self, kind: Told, theta: str, *, asker: str = "", called: str = "") -> bytes | None:
        """Return what was told about a model to somebody of this key or of this name; None if nothing was."""
        with self._store.transaction() as log:
            row = log.execute(
                "SELECT content FROM told WHERE kind = ? AND theta = ? AND (asker = ? OR called = ?)",
                (kind, theta, asker, called),
            ).fetchone()
        return None if row is None else bytes(row["content"])

    def tell(
        self, kind: Told, theta: str, content: bytes, *, asker: str = "", called: str = ""
    ) -> None:
        """Write down what is told, before it leaves."""
        with self._store.transaction() as log:
            log.execute(
                "INSERT INTO told VALUES (?, ?, ?, ?, ?)", (kind, theta, asker, called, content)
            )

    def count(self, *kinds: Told) -> int:
        """Return how often something of some kinds was told."""
        with self._store.transaction() as log:
            rows = log.execute("SELECT kind, COUNT(*) AS n FROM told GROUP BY kind").fetchall()
        return sum(row["n"] for row in rows if row["kind"] in kinds)

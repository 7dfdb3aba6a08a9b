# SPDX-License-Identifier: Apache-2.0
"""What a site must not forget, in its own folder: the draw it answers from, and what it has spent.

Nothing here ever leaves the site but through its answers. Every operation is one transaction: killed
at any point, the site has either the old state or the new one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated.database import (
    STORE_VERSION,
    PartyStore,
    array_of,
    blob_of,
    ledger_of,
    write_ledger,
)
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.site import Site
from epsilens.federated.site_state import Draw, Pending, SiteState
from epsilens.federated.written import budget_text, read_budget, read_wish, wish_text

DATABASE = "site.sqlite"
_NUMBERS = ("number", "draws", "version", "offered", "draw_name")
_FLAGS = ("submitted", "allows_as_printed", "insists_on_masks")

_TABLES = """
CREATE TABLE site (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    schema_version INTEGER NOT NULL,
    contract TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    raw_file TEXT NOT NULL,
    number INTEGER NOT NULL,
    most REAL NOT NULL,
    seed TEXT,
    draws INTEGER NOT NULL,
    spent TEXT NOT NULL,
    pending TEXT,
    wish TEXT,
    version INTEGER NOT NULL,
    offered INTEGER NOT NULL,
    submitted INTEGER NOT NULL,
    preview TEXT,
    allows_as_printed INTEGER NOT NULL,
    insists_on_masks INTEGER NOT NULL,
    draw_name TEXT NOT NULL
);
CREATE TABLE draw (
    role TEXT PRIMARY KEY,
    budget TEXT NOT NULL,
    codes BLOB NOT NULL,
    numbers BLOB NOT NULL
);
"""


@dataclass(frozen=True)
class RawFile:
    """Where a site's true records are; they stay there and are read when a fresh draw needs them.

    Parameters
    ----------
    path : str
    delimiter, encoding : str, optional
        As `epsilens.data.read_table` takes them.
    size, changed : int
        Bytes, and when it was last written, in nanoseconds: a file that was changed is noticed
        without a hash of its content.
    """

    path: str
    delimiter: str | None = None
    encoding: str | None = None
    size: int = 0
    changed: int = 0

    @classmethod
    def at(
        cls, path: str | Path, *, delimiter: str | None = None, encoding: str | None = None
    ) -> RawFile:
        """Return the reference to a file as it is now."""
        try:
            found = Path(path).resolve(strict=True)
        except OSError as error:
            raise InputError(
                f"the site's data must be a file that can be read, got {type(error).__name__}. "
                "Check the path."
            ) from None
        facts = found.stat()
        return cls(str(found), delimiter, encoding, facts.st_size, facts.st_mtime_ns)

    def read(self, schema: FederationSchema) -> Records:
        """Read the records and check them against the contract.

        Raises
        ------
        InputError
            If the file is gone or was changed since the site joined.
        """
        from epsilens.data import read_table

        now = RawFile.at(self.path, delimiter=self.delimiter, encoding=self.encoding)
        if now != self:
            raise InputError(
                "the site's data file was changed since its first draw, so no draw can be made "
                "together with that one. Put the old file back; a site that joins again spends its budget again."
            )
        table = read_table(self.path, delimiter=self.delimiter, encoding=self.encoding)
        return schema.encode(table.frame)


class _TruthOnDemand(Records):
    """True records that are read from their file when, and only when, somebody needs them."""

    _n: int
    _read: Callable[[], Records]

    def __init__(self, n: int, read: Callable[[], Records]) -> None:
        object.__setattr__(self, "_n", n)
        object.__setattr__(self, "_read", read)

    @property
    def n(self) -> int:
        return self._n

    def __getattr__(self, name: str) -> NDArray[np.int64]:
        # Reached for `codes` and `numbers` only until they have been read.
        if name not in {"codes", "numbers"}:
            raise AttributeError(name)
        records = self._read()
        if records.n != self.n:
            raise InputError(
                f"the site's data must have the {self.n} records of its first draw, got "
                f"{records.n}. Put the old file back; a site that joins again spends its budget again."
            )
        object.__setattr__(self, "codes", records.codes)
        object.__setattr__(self, "numbers", records.numbers)
        wanted: NDArray[np.int64] = getattr(self, name)
        return wanted


class SiteStore(PartyStore):
    """The folder of one site.

    Parameters
    ----------
    folder : str or Path
        Made by `create_site_store`.

    Raises
    ------
    InputError
        If there is no site, or one that another version of epsilens has written.
    """

    _FILE, _PARTY, _JOIN = DATABASE, "site", "Join first."
    _HEAD = "SELECT *, schema_version AS store_version FROM site"
    _DAMAGED = (
        "the site's store cannot be read: it is incomplete or damaged. Bring it back from a backup; a site "
        "that draws again spends its budget again."
    )
    _BUSY = "the site is busy with another message. Try again."

    def _read(self, row: sqlite3.Row) -> None:
        self.fingerprint: str = row["fingerprint"]
        self.raw_file = RawFile(**json.loads(row["raw_file"]))

    @contextmanager
    def transaction(self) -> Iterator[Site]:
        """Give the site as it was left, and keep what was done to it, all of it or nothing.

        Yields
        ------
        Site
            Whatever is done to it within the block is on disk once the block has ended; after an
            error, or if the process is killed, the old state is there.
        """
        with self._store.transaction() as connection:
            site = self._load(connection)
            before = site.state
            yield site
            if site.state is not before:
                _save(connection, site.state, before=before)

    def _load(self, connection: sqlite3.Connection) -> Site:
        row = self._row(connection)
        draws = {
            found["role"]: Draw(
                Records(
                    array_of(found["codes"]).astype(np.int64),
                    array_of(found["numbers"]).astype(np.float64),
                ),
                read_budget(found["budget"]),
            )
            for found in connection.execute("SELECT * FROM draw")
        }
        pending = None
        if row["pending"] is not None:
            asked = read_wish(row["pending"])
            # A fresh draw from the true answers is the anchor from the moment that it is made.
            drawn = {"redraw": draws["anchor"], "degrade": draws.get("pending")}.get(asked.mode)
            pending = Pending(asked, drawn)
        wish, preview = (
            None if row[name] is None else read_wish(row[name]) for name in ("wish", "preview")
        )
        plain: dict[str, Any] = {name: row[name] for name in _NUMBERS}
        plain |= {name: bool(row[name]) for name in _FLAGS}
        state = SiteState(
            limit=row["most"],
            seed=None if row["seed"] is None else int(row["seed"]),
            anchor=draws["anchor"],
            current=draws.get("current", draws["anchor"]),
            spent=read_budget(row["spent"]).per_column,
            ledger=ledger_of(connection),
            pending=pending,
            wish=wish,
            preview=preview,
            **plain,
        )
        truth = _TruthOnDemand(state.current.records.n, lambda: self.raw_file.read(self.schema))
        return Site.restore(self.schema, truth, state)


def create_site_store(folder: str | Path, site: Site, raw_file: RawFile) -> SiteStore:
    """Keep a new site in a folder of its own, which nobody else on the machine can read.

    Parameters
    ----------
    folder : str or Path
        Made if it does not exist.
    site : Site
    raw_file : RawFile
        Where its true records are.

    Returns
    -------
    SiteStore

    Raises
    ------
    InputError
        If the folder has a site already: drawing again would spend its budget again.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from epsilens.federated import DeclaredColumn, FederationSchema, Records
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> site = Site(0, schema, Records(np.array([[0, 1], [1, 0]]), np.empty((2, 0))), epsilon=3.0)
    >>> store = create_site_store(tempfile.mkdtemp() + "/site", site, RawFile("survey.csv"))
    >>> with store.transaction() as kept:
    ...     wish = kept.ask_for(1.0)
    >>> open_site(store.folder, schema).wish == wish
    True
    """
    state, schema, place = site.state, site.schema, Path(folder)
    taken = ", and a new draw would spend its budget again. Choose another folder."
    with SiteStore._made(place, _TABLES, taken=taken) as connection:
        connection.execute(
            "INSERT INTO site VALUES (1, ?, ?, ?, ?, ?, ?, ?, 0, '', NULL, NULL, -1, 0, 0, NULL, 0, 0, ?)",
            (
                STORE_VERSION,
                json.dumps(schema.to_dict(), ensure_ascii=False),
                schema.fingerprint,
                json.dumps(asdict(raw_file)),
                state.number,
                state.limit,
                None if state.seed is None else str(state.seed),
                state.draw_name,
            ),
        )
        _save(connection, state, before=None)
    return SiteStore(place)


def open_site(folder: str | Path, schema: FederationSchema) -> Site:
    """Return the site of a folder as it was left, to look at; changes are kept by a transaction.

    Parameters
    ----------
    folder : str or Path
    schema : FederationSchema
        The contract that it must have.

    Returns
    -------
    Site

    Raises
    ------
    InputError
        If it has another contract.

    Examples
    --------
    See `create_site_store`.
    """
    store = SiteStore(folder)
    if store.fingerprint != schema.fingerprint:
        raise InputError(
            "the site has agreed to another contract than this one. Compare the schema files."
        )
    with store.transaction() as site:
        return site


# --- Rows ---


def _save(connection: sqlite3.Connection, state: SiteState, *, before: SiteState | None) -> None:
    asked = None if state.pending is None else state.pending.wish
    texts = [None if w is None else wish_text(w) for w in (asked, state.wish, state.preview)]
    connection.execute(
        "UPDATE site SET most = ?, spent = ?, draws = ?, version = ?, offered = ?, submitted = ?, "
        "allows_as_printed = ?, insists_on_masks = ?, pending = ?, wish = ?, preview = ?",
        (
            state.limit,
            budget_text(Budget(dict(state.spent))),
            state.draws,
            state.version,
            state.offered,
            *(int(getattr(state, name)) for name in _FLAGS),
            *texts,
        ),
    )
    old = {} if before is None else _roles(before)
    new = _roles(state)
    for role in old.keys() - new.keys():
        connection.execute("DELETE FROM draw WHERE role = ?", (role,))
    for role, draw in new.items():
        if old.get(role) is not draw:
            connection.execute(
                "INSERT OR REPLACE INTO draw VALUES (?, ?, ?, ?)",
                (
                    role,
                    budget_text(draw.budget),
                    blob_of(_narrow(draw.records.codes)),
                    blob_of(draw.records.numbers),
                ),
            )
    known = 0 if before is None else len(before.ledger)
    write_ledger(connection, state.ledger[known:], first=known)


def _roles(state: SiteState) -> dict[str, Draw]:
    """Name the different draws of a state; one that is the anchor itself is kept once."""
    roles = {"anchor": state.anchor}
    if state.current is not state.anchor:
        roles["current"] = state.current
    drawn = None if state.pending is None else state.pending.drawn
    if drawn is not None and drawn is not state.anchor:
        roles["pending"] = drawn
    return roles


def _narrow(codes: NDArray[np.int64]) -> NDArray[np.integer]:
    """Return codes in the smallest type that holds them."""
    return codes.astype(np.min_scalar_type(int(codes.max(initial=0))))

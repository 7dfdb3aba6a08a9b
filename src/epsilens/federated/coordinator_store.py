# SPDX-License-Identifier: Apache-2.0
"""What a coordinator must not forget, in its own folder: versions, sums, ledger, and who takes part.

Every step from which an operation can be taken up again is one transaction: killed at any point, a
restart shows either the old version or the new one. The sums of a site that left are overwritten.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from epsilens._validate import as_choice
from epsilens.errors import InputError
from epsilens.federated.change import Rung
from epsilens.federated.database import (
    STORE_VERSION,
    PartyStore,
    array_of,
    blob_of,
    ledger_of,
    write_ledger,
)
from epsilens.federated.declaration import FederationSchema
from epsilens.federated.ledger import Mode
from epsilens.federated.site_state import SiteDraw
from epsilens.federated.sums import SiteSums
from epsilens.federated.versions import Begun, CoordinatorState, Intention
from epsilens.federated.written import (
    budget_text,
    budgets_record,
    read_budget,
    read_budgets,
    read_version,
    version_record,
)

DATABASE = "coordinator.sqlite"

_TABLES = """
CREATE TABLE coordinator (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    store_version INTEGER NOT NULL,
    contract TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    regularisation REAL NOT NULL,
    model_budgets TEXT NOT NULL,
    has_sums INTEGER NOT NULL,
    departed TEXT NOT NULL,
    intention TEXT,
    undelivered INTEGER NOT NULL,
    draws TEXT NOT NULL,
    masked INTEGER NOT NULL
);
CREATE TABLE version (number INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE sums (
    site INTEGER PRIMARY KEY,
    n INTEGER NOT NULL,
    loss REAL NOT NULL,
    gradient BLOB NOT NULL,
    hessian BLOB
);
CREATE TABLE member (
    site INTEGER PRIMARY KEY,
    public_key TEXT NOT NULL UNIQUE,
    node TEXT
);
"""


@dataclass(frozen=True)
class Member:
    """A site that may take part.

    Parameters
    ----------
    site : int
        Its number.
    public_key : str
        By which it is known, in OpenSSH's form.
    node : int or None
        What Flower calls it at present.

    Examples
    --------
    >>> Member(2, "ecdsa-sha2-nistp384 AAAA").node is None
    True
    """

    site: int
    public_key: str
    node: int | None = None


class CoordinatorStore(PartyStore):
    """The folder of a coordinator.

    Parameters
    ----------
    folder : str or Path
        Made by `create_coordinator_store`.

    Raises
    ------
    InputError
        If there is no coordinator, or one that another version of epsilens has written.
    """

    _FILE, _PARTY = DATABASE, "coordinator"
    _JOIN = "Start one: `epsilens federate server --state DIR --schema FILE`."
    _HEAD = "SELECT * FROM coordinator"
    _DAMAGED = "the coordinator's store cannot be read: it is incomplete or damaged. Bring it back from a backup."
    _BUSY = "the coordinator's store is busy with another operation. Try again."

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self._known: CoordinatorState | None = None

    def _read(self, row: sqlite3.Row) -> None:
        self.regularisation = float(row["regularisation"])

    # --- Its state ---

    def load(self) -> CoordinatorState:
        """Return the state as it was last kept."""
        with self._store.connected() as connection, self._readable():
            connection.execute("BEGIN")
            self._known = _state(connection, self._row(connection))
        return self._known

    def keep(self, state: CoordinatorState) -> None:
        """Write a state, all of it or nothing: the `keep` of a `Coordinator`.

        Parameters
        ----------
        state : CoordinatorState
            Follows from the one that was loaded or kept last by this object.
        """
        before = self._known
        gone = set(state.left) - set(() if before is None else before.left)
        with self._store.transaction() as connection:
            self._row(connection)
            _save(connection, state, before=before)
        if gone:
            with self._store.connected() as connection:
                # Nothing of who left stays behind, in free pages or in the log.
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._known = state

    @property
    def masked(self) -> bool:
        """Whether sums are asked for under masks."""
        with self._store.connected() as connection:
            return bool(self._row(connection)["masked"])

    def remember_masks(self, *, masked: bool) -> None:
        """Keep whether sums are asked for under masks, for all operations that follow."""
        with self._store.transaction() as connection:
            connection.execute("UPDATE coordinator SET masked = ?", (int(masked),))

    # --- Who takes part ---

    @property
    def members(self) -> tuple[Member, ...]:
        """All sites that were registered and have not left."""
        with self._store.connected() as connection, self._readable():
            rows = connection.execute("SELECT * FROM member ORDER BY site").fetchall()
        return tuple(
            Member(
                row["site"], row["public_key"], None if row["node"] is None else int(row["node"])
            )
            for row in rows
        )

    def register(self, public_key: str, *, site: int | None = None) -> Member:
        """Let a site take part, known by its key.

        Parameters
        ----------
        public_key : str
        site : int, optional
            Its number; unless given, the one that the key has, or the next. Given the number of a
            member, the key replaces that member's.

        Raises
        ------
        InputError
            If the key belongs to another site, or the site has left.
        """
        with self._store.transaction() as connection:
            rows = connection.execute("SELECT * FROM member").fetchall()
            taken = {row["public_key"]: int(row["site"]) for row in rows}
            left: list[int] = json.loads(self._row(connection)["departed"])
            following = max([*taken.values(), *left], default=-1) + 1
            number = taken.get(public_key, following) if site is None else site
            if taken.get(public_key, number) != number:
                raise InputError(
                    f"the key must be a new one, but it belongs to site {taken[public_key]}. Each site "
                    "has a key of its own."
                )
            if number in left:
                raise InputError(f"site {number} has left. Register it under a new number.")
            if public_key not in taken:
                connection.execute(
                    "INSERT OR REPLACE INTO member VALUES (?, ?, NULL)", (number, public_key)
                )
        return next(member for member in self.members if member.site == number)

    def unregister(self, site: int) -> Member:
        """Let a site take part no longer that is not in the model.

        Parameters
        ----------
        site : int

        Raises
        ------
        InputError
            If it is in the model, or was never registered.
        """
        known = {member.site: member for member in self.members}
        if site not in known:
            names = ", ".join(map(str, known)) or "none"
            raise InputError(f"site {site} is not registered. There are: {names}.")
        state = self.load()
        if site in state.model_sites:
            raise InputError(
                f"site {site} is in the model, and cannot be forgotten. Take it out first: `epsilens "
                f"federate remove {site}`."
            )
        if site in {entry.site for entry in state.ledger} | set(state.model_budgets):
            # Its number is not given to anybody else: what it has released stays counted.
            self.keep(replace(state, left=(*state.left, site)))
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM member WHERE site = ?", (site,))
        return known[site]

    def note_node(self, site: int, node: int) -> None:
        """Keep what Flower calls a member now."""
        with self._store.transaction() as connection:
            connection.execute("UPDATE member SET node = ? WHERE site = ?", (str(node), site))


def create_coordinator_store(
    folder: str | Path, schema: FederationSchema, *, regularisation: float = 1e-3
) -> CoordinatorStore:
    """Begin a coordinator in a folder of its own, which nobody else on the machine can read.

    Parameters
    ----------
    folder : str or Path
        Made if it does not exist.
    schema : FederationSchema
        The contract.
    regularisation : float

    Returns
    -------
    CoordinatorStore

    Raises
    ------
    InputError
        If the folder has a coordinator already.

    Examples
    --------
    >>> import tempfile
    >>> from epsilens.federated import DeclaredColumn, FederationSchema
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = create_coordinator_store(folder, schema)
    ...     store.register("a key").site, store.register("another").site, store.load().versions
    (0, 1, ())
    """
    place = Path(folder)
    taken = ". Choose another folder, or go on with that one."
    with CoordinatorStore._made(place, _TABLES, taken=taken) as connection:
        connection.execute(
            "INSERT INTO coordinator VALUES (1, ?, ?, ?, ?, '{}', 0, '[]', NULL, 0, '{}', 0)",
            (
                STORE_VERSION,
                json.dumps(schema.to_dict(), ensure_ascii=False),
                schema.fingerprint,
                float(regularisation),
            ),
        )
    return CoordinatorStore(place)


# --- Rows ---


def _state(connection: sqlite3.Connection, row: sqlite3.Row) -> CoordinatorState:
    versions = connection.execute("SELECT record FROM version ORDER BY number")
    sums = {
        found["site"]: SiteSums(
            found["n"],
            found["loss"],
            array_of(found["gradient"]).astype(np.float64),
            None if found["hessian"] is None else array_of(found["hessian"]).astype(np.float64),
        )
        for found in connection.execute("SELECT * FROM sums ORDER BY site")
    }
    return CoordinatorState(
        versions=tuple(read_version(json.loads(record)) for (record,) in versions),
        model_budgets=read_budgets(json.loads(row["model_budgets"])),
        sums=sums if row["has_sums"] else None,
        ledger=ledger_of(connection),
        left=tuple(json.loads(row["departed"])),
        intention=None if row["intention"] is None else _read_intention(row["intention"]),
        undelivered=bool(row["undelivered"]),
        draws={int(site): SiteDraw(**known) for site, known in json.loads(row["draws"]).items()},
    )


def _save(
    connection: sqlite3.Connection, state: CoordinatorState, *, before: CoordinatorState | None
) -> None:
    connection.execute(
        "UPDATE coordinator SET model_budgets = ?, has_sums = ?, departed = ?, intention = ?, "
        "undelivered = ?, draws = ?",
        (
            json.dumps(budgets_record(state.model_budgets), ensure_ascii=False),
            state.sums is not None,
            json.dumps(list(state.left)),
            None if state.intention is None else _intention_text(state.intention),
            state.undelivered,
            json.dumps({str(site): asdict(known) for site, known in state.draws.items()}),
        ),
    )
    known = 0 if before is None else len(before.versions)
    for version in state.versions[known:]:
        text = json.dumps(version_record(version), ensure_ascii=False)
        connection.execute("INSERT INTO version VALUES (?, ?)", (version.version, text))
    if before is None or state.sums is not before.sums:
        connection.execute("DELETE FROM sums")
        for site, part in (state.sums or {}).items():
            hessian = None if part.hessian is None else blob_of(part.hessian)
            connection.execute(
                "INSERT INTO sums VALUES (?, ?, ?, ?, ?)",
                (site, int(part.n), float(part.loss), blob_of(part.gradient), hessian),
            )
    if before is None or state.ledger != before.ledger:
        # Sites report in any order, so a new line may stand in the middle.
        connection.execute("DELETE FROM ledger")
        write_ledger(connection, state.ledger, first=0)
    for site in state.left:
        connection.execute("DELETE FROM member WHERE site = ?", (site,))


def _intention_text(intention: Intention) -> str:
    budgets = [budget_text(budget) for budget in intention.budgets]
    return json.dumps({**vars(intention), "budgets": budgets}, ensure_ascii=False)


def _read_intention(text: str) -> Intention:
    given: dict[str, Any] = json.loads(text)
    for name, choices in (("operation", Begun), ("mode", Mode), ("rung", Rung)):
        as_choice(given[name], get_args(choices), name=name)
    budgets = tuple(read_budget(budget) for budget in given["budgets"])
    return Intention(**{**given, "sites": tuple(given["sites"]), "budgets": budgets})

# SPDX-License-Identifier: Apache-2.0
"""Persistent log of the model that a site received, and of what it disclosed about its own records to whom.

The coordinator names the model, the tester and the number of records. None of that is taken at its
word: the model must be the one that was settled with this site, whoever asks is known by its
signature, and everything that left is counted and given again, never computed a second time.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from epsilens._types import FloatArray
from epsilens.data.private_files import PrivateStore
from epsilens.errors import SiteError
from epsilens.federated.masked_sums import MaskedQuestion
from epsilens.federated.site import Site
from epsilens.federated.written import wish_text
from epsilens.valuation.batch_exchange import BatchMove
from epsilens.valuation.item_messages import EncryptedScores

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


# --- Replies and moves as bytes, for a provider's own note of what it has told ---


def _written(head: list[str], parts: dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, head=np.array(head), **parts)  # type: ignore[arg-type]
    return stream.getvalue()


def reply_bytes(reply: EncryptedScores) -> bytes:
    """Write a reply."""
    parts = {f"c{i}": np.frombuffer(c, dtype=np.uint8) for i, c in enumerate(reply.ciphertexts)}
    return _written([reply.model, reply.key, str(reply.n_items)], parts)


def read_reply(content: bytes) -> EncryptedScores:
    """Read what `reply_bytes` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        model, key, n_items = (str(text) for text in stored["head"])
        parts = [stored[f"c{i}"].tobytes() for i in range(len(stored.files) - 1)]
    return EncryptedScores(model, key, int(n_items), tuple(parts))


def move_bytes(move: BatchMove) -> bytes:
    """Write a move."""
    return _written([move.model, move.change], {"move": move.move})


def read_move(content: bytes) -> BatchMove:
    """Read what `move_bytes` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        model, change = (str(text) for text in stored["head"])
        return BatchMove(model, change, stored["move"])  # type: ignore[arg-type]


# --- Persistent log of what a site answered under masks, so that no two answers disclose its own part ---

FILE = "masked.sqlite"
MOST_ANSWERS = 100_000
"""Models that are noted; at more than these the site answers no more, for a note that forgets protects nobody."""

_TABLE = "CREATE TABLE IF NOT EXISTS answered (question TEXT PRIMARY KEY, asked TEXT NOT NULL)"
_MASKS_DAMAGED = (
    "the site's note of what it has answered under masks cannot be read. Bring it back from a backup; "
    "without it two answers could give the site's own sums away."
)


class MaskLog:
    """A log of what a site that requires masks has answered.

    Parameters
    ----------
    folder : path
        The site's own.
    """

    def __init__(self, folder: str | Path) -> None:
        self._store = PrivateStore(
            Path(folder) / FILE,
            whose="the site",
            damaged=_MASKS_DAMAGED,
            busy="the site is busy with another message. Try again.",
            tables=(_TABLE,),
        )

    def note(self, site: Site, question: MaskedQuestion) -> None:
        """Write a question down before its answer leaves, or refuse it.

        Parameters
        ----------
        site : Site
        question : MaskedQuestion

        Raises
        ------
        InputError
            If the answer, beside one that was given, could tell the site's own part.
        """
        if question.what == "trial":
            return
        changes = site.number in question.pending
        if question.what == "difference":
            if not changes:
                return  # zeros
            if len(question.pending) < 2:
                raise SiteError(
                    site.number,
                    "insists on masks, and would change alone: the sum of one is its own. "
                    "Use `apply --rung exact`, or wait until another site changes too.",
                )
        own = _own_data(site, pending=changes)
        place = [question.what, theta_name(question.theta)]
        # Prepared in another way a change is other data; the sums of two draws differ by the change.
        place += [own] if question.what == "difference" else []
        asked = [sorted(question.records.items()), sorted(question.pending), own]
        with self._store.transaction() as log:
            row = log.execute(
                "SELECT asked FROM answered WHERE question = ?", (_name(place),)
            ).fetchone()
            if row is not None and row["asked"] != _name(asked):
                raise SiteError(
                    site.number,
                    "insists on masks, and has answered at this model with another group "
                    "or for other changes: the two sums would give single sites away. Train or change with "
                    "all sites; take sites out by `remove --rung exact`.",
                )
            if row is None:
                (n,) = log.execute("SELECT COUNT(*) FROM answered").fetchone()
                if n >= MOST_ANSWERS:
                    raise SiteError(
                        site.number,
                        f"insists on masks, and has answered at {n} models, which is all "
                        "it keeps a note of. It can join anew, which spends its budget again.",
                    )
                log.execute("INSERT INTO answered VALUES (?, ?)", (_name(place), _name(asked)))


def _name(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _own_data(site: Site, *, pending: bool) -> str:
    """Return a hash of what a site's answer is computed from; it stays at the site."""
    state, drawn, how = site.state, site.state.current, ""
    if pending and state.preview is not None:
        how = wish_text(state.preview)
    elif pending and state.pending is not None:
        how = wish_text(state.pending.wish)
        drawn = state.pending.drawn or drawn
    found = hashlib.sha256(f"{site.n} {how} ".encode())
    found.update(drawn.records.codes.tobytes())
    return found.hexdigest()

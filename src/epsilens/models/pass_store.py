# SPDX-License-Identifier: Apache-2.0
"""Finished passes in a folder, so that a killed run goes on where it was.

A run is a fixed sequence of passes: the number of a pass, and a digest of what it was asked, say whether its
sums are those that are kept. A long pass is kept from time to time on its way. Only sums are kept, never
a number of a single record; passes that give one are done again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from epsilens.models.block_store import BlockStore

__all__ = ["PassStore", "current_store", "keeping_passes"]

_SECONDS_BETWEEN = 20.0


class PassStore:
    """The passes of one run.

    Parameters
    ----------
    path : str or Path
        A folder; made if it does not exist.
    identity : mapping
        What must agree for passes to be reused: files, settings, seed.

    Raises
    ------
    InputError
        If the folder belongs to another run, or is no such folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> PassStore(folder, {"seed": 1}).begin("fit", ()).keep({"total": np.ones(2)}, 3)
    >>> PassStore(folder, {"seed": 1}).begin("fit", ()).found
    ({'total': array([1., 1.])}, 3)
    """

    def __init__(self, path: str | Path, identity: Mapping[str, object]) -> None:
        self._blocks = BlockStore(path, identity)
        self._number = 0
        self.last_was_found = False

    def begin(self, what: str, asked: object) -> KeptPass:
        """Return the place of the next pass, with what is kept of it already."""
        self._number += 1
        kept = KeptPass(self._blocks, self._number, _digest(what, asked))
        self.last_was_found = kept.found is not None
        return kept


class KeptPass:
    """One pass: what was kept of it, and where to keep more."""

    def __init__(self, blocks: BlockStore, number: int, digest: str) -> None:
        self._blocks, self._number, self._digest = blocks, number, digest
        self._kept_at = time.monotonic()
        self.found: tuple[dict[str, Any], int] | None = None
        if number in blocks.done:
            stored: dict[str, Any] = dict(blocks.read(number))
            done, known = int(stored.pop(".done")), str(stored.pop(".digest"))
            if known == digest:
                self.found = stored, done

    def keep(self, total: Mapping[str, object], done: int) -> None:
        """Keep the sums of the first pieces, unless they hold single records."""
        if any(isinstance(value, list | dict) for value in total.values()):
            return
        arrays = {name: np.asarray(value) for name, value in total.items()}
        extra = {".done": np.array(done), ".digest": np.array(self._digest)}
        self._blocks.write(self._number, {**arrays, **extra})
        self._kept_at = time.monotonic()

    def keep_sometimes(self, total: Mapping[str, object], done: int) -> None:
        """Keep them if the last time is long ago."""
        if time.monotonic() - self._kept_at > _SECONDS_BETWEEN:
            self.keep(total, done)


_stores: list[PassStore] = []


def current_store() -> PassStore | None:
    """Return where passes are kept now, if anywhere."""
    return _stores[-1] if _stores else None


@contextmanager
def keeping_passes(store: PassStore) -> Iterator[PassStore]:
    """Keep finished passes while this lasts, and take those that are kept."""
    _stores.append(store)
    try:
        yield store
    finally:
        _stores.remove(store)


def _digest(what: str, asked: object) -> str:
    digest = hashlib.sha256(what.encode())

    def add(value: object) -> None:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, list | tuple):
            digest.update(f"({len(value)}".encode())
            for one in value:
                add(one)
        elif hasattr(value, "__dataclass_fields__"):
            digest.update(type(value).__name__.encode())
            for name in value.__dataclass_fields__:
                add(getattr(value, name))
        elif callable(value):
            digest.update(getattr(value, "__name__", type(value).__name__).encode())
        elif value is None or isinstance(value, str | int | float | bool | slice | np.generic):
            digest.update(repr(value).encode())
        else:
            # Frozen transformers and the like belong to the run's identity.
            digest.update(type(value).__name__.encode())

    add(asked)
    return digest.hexdigest()

# SPDX-License-Identifier: Apache-2.0
"""Finished blocks of models in a folder, so that a killed run goes on where it was.

Every block is a file that appears whole or not at all. A first file says which run the folder belongs
to; a folder of another run is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilens.data.atomic import replacing
from epsilens.errors import InputError

_HEAD = "run.json"
_BLOCK = re.compile(r"block-(\d{6})\.npz")
_PART = re.compile(r"\.block-.*\.part")
_FORMAT = 1


class BlockStore:
    """A folder of finished blocks.

    The blocks hold what the caller writes: parameters or scores of models, never a record. They are
    sensitive all the same, since membership can be read from them; the files can be read by their owner
    only. Delete the folder when the run is done.

    Parameters
    ----------
    path : str, Path or None
        The folder; made if it does not exist. None: nothing is kept.
    identity : mapping
        What must agree for blocks to be reused, as plain numbers, strings and lists: settings, seed,
        shapes.
    data : sequence of arrays
        What the run is about. Only a salted digest of it is kept, so that other data are noticed.

    Attributes
    ----------
    done : set of int
        The numbers of the blocks that are there and whole.

    Raises
    ------
    InputError
        If the folder belongs to another run, is no such folder, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> BlockStore(folder, {"seed": 1}).write(0, {"scores": np.arange(3.0)})
    >>> again = BlockStore(folder, {"seed": 1})
    >>> sorted(again.done), again.read(0)["scores"].tolist()
    ([0], [0.0, 1.0, 2.0])
    >>> BlockStore(folder, {"seed": 2})  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    epsilens.errors.InputError: the checkpoint ... belongs to another run ...
    """

    def __init__(
        self,
        path: str | Path | None,
        identity: Mapping[str, object],
        *,
        data: Sequence[NDArray[np.generic]] = (),
    ) -> None:
        self.path = None if path is None else Path(path)
        self.done: set[int] = set()
        if self.path is None:
            return
        head = self._open(self.path)
        if head is None:
            self._begin(identity, data)
            return
        salt = str(head.get("salt"))
        known = (head.get("identity"), head.get("digest"))
        # As JSON, since that turns tuples into lists.
        if known != (json.loads(json.dumps(dict(identity))), _digest(salt, data)):
            raise InputError(
                f"the checkpoint {self.path.name!r} belongs to another run (other data, settings or "
                "seed). Choose another folder, or delete it."
            )
        for file in self.path.iterdir():
            if _PART.fullmatch(file.name):
                file.unlink(missing_ok=True)  # what a killed run was writing: sensitive, and no use
                continue
            match = _BLOCK.fullmatch(file.name)
            # Names say that a block is there, the check sums that it is whole.
            if match and _is_whole(file):
                self.done.add(int(match[1]))

    def read(self, block: int) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of a finished block."""
        with np.load(self._file(block), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    def write(self, block: int, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Keep the arrays of a block, on disk before returning."""
        if self.path is None:
            return
        named: dict[str, Any] = dict(arrays)
        with replacing(self._file(block), private=True) as scratch, scratch.open("wb") as file:
            np.savez(file, **named)
        self.done.add(block)

    def _file(self, block: int) -> Path:
        assert self.path is not None  # noqa: S101
        return self.path / f"block-{block:06d}.npz"

    def _open(self, path: Path) -> dict[str, object] | None:
        """Return what the first file says, or None if the folder is new or empty."""
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            names = [file.name for file in path.iterdir()]
        except OSError as error:
            raise InputError(
                f"the checkpoint {path.name!r} must be a folder that can be made and written, got "
                f"{type(error).__name__}. Choose another place."
            ) from None
        if not any(not name.startswith(".") for name in names):
            return None
        try:
            head = json.loads((path / _HEAD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            head = None
        if not isinstance(head, dict) or head.get("epsilens_blocks") != _FORMAT:
            raise InputError(
                f"the folder {path.name!r} is not a checkpoint and is left alone. Choose another."
            )
        return head

    def _begin(self, identity: Mapping[str, object], data: Sequence[NDArray[np.generic]]) -> None:
        assert self.path is not None  # noqa: S101
        salt = secrets.token_hex(16)
        head = {
            "epsilens_blocks": _FORMAT,
            "salt": salt,
            "digest": _digest(salt, data),
            "identity": dict(identity),
        }
        with replacing(self.path / _HEAD, private=True) as scratch:
            scratch.write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")


def _digest(salt: str, data: Sequence[NDArray[np.generic]]) -> str:
    digest = hashlib.sha256(salt.encode())
    for array in data:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _is_whole(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as stored:
            return stored.testzip() is None
    except (OSError, zipfile.BadZipFile, EOFError):
        return False


# --- Finished passes in a folder, so that a killed run goes on where it was ---

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
        kept = KeptPass(self._blocks, self._number, _digest_of_pass(what, asked))
        self.last_was_found = kept.found is not None
        return kept


class KeptPass:
    """One pass: what was kept of it, and where to keep more."""

    def __init__(self, blocks: BlockStore, number: int, digest: str) -> None:
        self._blocks, self._number, self._digest_of_pass = blocks, number, digest
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
        extra = {".done": np.array(done), ".digest": np.array(self._digest_of_pass)}
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


def _digest_of_pass(what: str, asked: object) -> str:
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

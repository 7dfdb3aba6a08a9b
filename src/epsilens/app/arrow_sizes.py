# SPDX-License-Identifier: Apache-2.0
"""How much an arrow file holds, by what it says itself, before anything of it is unpacked.

Every packed buffer of a batch begins with the number of bytes that it unpacks to, and the reader
reserves so many; so this is what reading takes, whatever the file then holds. Layout: the Arrow
columnar format 1.5, "Serialization and Interprocess Communication", and its flatbuffers
`Message.fbs` and `File.fbs`.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"ARROW1"
_CONTINUED = 0xFFFFFFFF
_DICTIONARY, _RECORDS = 2, 3
_LAST_EXPERIMENTAL = 3
"""Version 4 of the metadata, counted from 0: packed buffers may be declared in its remarks."""


class DamagedFileError(ValueError):
    """The file points outside itself, or is no arrow file."""


def declared_bytes(path: Path) -> Iterator[int]:
    """Yield what each batch of an arrow file or stream unpacks to, in bytes.

    Parameters
    ----------
    path : Path
        It is looked at, not read as a whole.

    Raises
    ------
    DamagedFileError
        If it is cut short or points outside itself.

    Examples
    --------
    >>> import pyarrow as pa, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "zeros.arrow"
    >>> options = pa.ipc.IpcWriteOptions(compression="zstd")
    >>> zeros = pa.table({"a": pa.array([0] * 100_000, pa.int64())})
    >>> with pa.ipc.new_file(str(path), zeros.schema, options=options) as writer:
    ...     writer.write_table(zeros)
    >>> path.stat().st_size < 2_000, list(declared_bytes(path))
    (True, [800000])
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            places = _of_file if content[: len(_MAGIC)] == _MAGIC else _of_stream
            for message, body in places(content):
                yield _unpacked(content, message, body)
        except (struct.error, IndexError):
            raise DamagedFileError("an arrow file must point into itself") from None


def _read(kind: str, content: mmap.mmap, at: int) -> int:
    if at < 0:  # would be counted from the end
        raise IndexError(at)
    found: int = struct.unpack_from(f"<{kind}", content, at)[0]
    return found


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer: its fields are found by their numbers."""

    content: mmap.mmap
    at: int

    @classmethod
    def root(cls, content: mmap.mmap, start: int) -> _Table:
        return cls(content, start + _read("I", content, start))

    def place(self, number: int) -> int | None:
        """Return where a field lies, or None if it is not there."""
        layout = self.at - _read("i", self.content, self.at)
        slot = 4 + 2 * number
        if slot + 2 > _read("H", self.content, layout):
            return None
        offset = _read("H", self.content, layout + slot)
        return self.at + offset if offset else None

    def number(self, number: int, kind: str) -> int:
        place = self.place(number)
        return 0 if place is None else _read(kind, self.content, place)

    def table(self, number: int) -> _Table:
        place = self.place(number)
        if place is None:
            raise IndexError(number)
        return _Table.root(self.content, place)

    def structures(self, number: int, kind: str) -> Iterator[tuple[int, ...]]:
        """Yield the structures of a list, one after the other."""
        place = self.place(number)
        if place is None:
            return
        start = place + _read("I", self.content, place)
        size = struct.calcsize(f"<{kind}")
        for index in range(_read("I", self.content, start)):
            yield struct.unpack_from(f"<{kind}", self.content, start + 4 + index * size)


def _of_file(content: mmap.mmap) -> Iterator[tuple[_Table, int]]:
    """Find the batches by the table of contents at the end, as readers do."""
    end = len(content) - len(_MAGIC)
    length = _read("i", content, end - 4)
    if content[end:] != _MAGIC or length <= 0:
        raise IndexError(end)
    footer = _Table.root(content, end - 4 - length)
    for lists in (2, 3):  # dictionaries, records
        for offset, metadata, _ in footer.structures(lists, "qi4xq"):
            if offset < 0 or metadata < 0:
                raise IndexError(offset)
            _, start = _after_length(content, offset)
            yield _Table.root(content, start), offset + metadata


def _of_stream(content: mmap.mmap) -> Iterator[tuple[_Table, int]]:
    at = 0
    while at + 4 <= len(content):
        length, start = _after_length(content, at)
        if length == 0:
            return
        message = _Table.root(content, start)
        body = start + length
        yield message, body
        at = body + message.number(3, "q")
        if at < body:
            raise IndexError(at)


def _after_length(content: mmap.mmap, at: int) -> tuple[int, int]:
    """Return the length of the metadata at a place, and where they begin."""
    length, start = _read("I", content, at), at + 4
    if length == _CONTINUED:
        length, start = _read("I", content, start), start + 4
    return length, start


def _unpacked(content: mmap.mmap, message: _Table, body: int) -> int:
    kind = message.number(1, "B")
    if kind not in {_DICTIONARY, _RECORDS}:
        return 0
    batch = message.table(2)
    if kind == _DICTIONARY:
        batch = batch.table(1)
    is_early = message.number(0, "h") <= _LAST_EXPERIMENTAL and message.place(4) is not None
    is_packed = batch.place(3) is not None or is_early
    total = 0
    for offset, length in batch.structures(2, "qq"):
        if offset < 0 or length < 0:
            raise IndexError(offset)
        declared = _read("q", content, body + offset) if length and is_packed else length
        held = length - 8 if declared == -1 else declared
        if held < 0:
            raise IndexError(held)
        total += held
    return total

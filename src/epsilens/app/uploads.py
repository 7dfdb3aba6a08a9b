# SPDX-License-Identifier: Apache-2.0
"""A file that somebody sends: taken piece by piece, refused when too large or of another kind."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from epsilens.app.arrow_sizes import declared_bytes
from epsilens.app.store import new_id
from epsilens.data.file_kinds import BY_SUFFIX, FileKind, kind_of, suffix_of
from epsilens.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FORMATS = (*get_args(FileKind), "folder")
"""What a table may be called; an ending that somebody made up could be a name."""

SUFFIXES = tuple(BY_SUFFIX)
LARGEST_EXPANSION = 20
"""Compressed text may become so many times the largest upload."""
LARGEST_RATIO = 300
"""Text of a survey shrinks to a tenth or less; a file that shrinks to this is made to be a bomb."""
SMALL = 16 * 2**20
"""What is no larger than this when unpacked does no harm, whatever its ratio."""
MOST_TOGETHER = 10
"""All uploads together may take so many times the largest one."""
SPARE = 256 * 2**20
"""Bytes of the disk that uploads leave free."""
LONGEST_PAUSE = 30.0
"""Seconds without a byte after which a file is given up."""
MOST_CELLS = 400_000_000
_PIECE = 2**20
_LOOKED_AT = 2**16

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class TooLargeError(InputError):
    """More was sent than may be."""


class LeftError(InputError):
    """The sender left before the whole file had come."""


class StalledError(InputError):
    """A file ceased to arrive."""


@dataclass(frozen=True)
class Upload:
    """A file that was taken."""

    path: Path
    format: str
    size: int


def shown_name(name: str) -> str:
    r"""Return a file's name to be shown, never to be used as a path.

    Examples
    --------
    >>> shown_name("../../etc/survey\n.csv"), shown_name("C:\\data\\survey.csv")
    ('survey .csv', 'survey.csv')
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    printable = "".join(sign if sign.isprintable() else " " for sign in last)
    return " ".join(printable.split())[-120:] or "table"


def _written_as(name: str) -> str:
    if suffix := suffix_of(name):
        return BY_SUFFIX[suffix]
    raise InputError(
        f"a table must be a file ending in {', '.join(SUFFIXES)}. Save it in one of these formats."
    )


def format_of(name: str) -> str:
    """Return what a file is by its name, in our words; text if nothing else.

    Examples
    --------
    >>> format_of("survey.Parquet"), format_of("clinic.of-doctor-jones")
    ('parquet', 'text')
    """
    try:
        return _written_as(name)
    except InputError:
        return "text"


async def receive(
    pieces: AsyncIterator[bytes], *, name: str, folder: Path, max_upload: int
) -> Upload:
    """Write a file that arrives in pieces; what is in it is looked at by `check_content`.

    Parameters
    ----------
    pieces : async iterator of bytes
    name : str
        What the sender calls it: its ending says the format, and nothing else of it is used.
    folder : Path
        Where it is kept, under a name of our own.
    max_upload : int
        The largest number of bytes.

    Raises
    ------
    InputError
        If it is too large, alone or with the others, or ceases to arrive, or its sender leaves, or its
        name ends as no table's does.
    """
    wanted = _written_as(shown_name(name))
    path = folder / f"{new_id()}.table"
    size, measured = 0, -_PIECE
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            while (piece := await _next(pieces)) is not None:
                size += len(piece)
                if size - measured >= _PIECE:
                    measured = size
                    _check_room(folder, len(piece), max_upload)
                if size > max_upload:
                    raise TooLargeError(
                        f"a file must be at most {max_upload / 2**20:.4g} MB, got more. Start with "
                        "a larger `--max-upload`, or name the file in the command."
                    )
                file.write(piece)
                file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Upload(path, wanted, size)


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    """Return the next piece, or None after the last; wait for it no longer than is reasonable."""
    from starlette.requests import ClientDisconnect

    try:
        return await asyncio.wait_for(anext(pieces, None), LONGEST_PAUSE)
    except ClientDisconnect:
        raise LeftError("a file must come whole, but its sender left. Send it again.") from None
    except TimeoutError:
        raise StalledError(
            "the file ceased to arrive, so nothing was kept. Send it again."
        ) from None


def _check_room(folder: Path, coming: int, max_upload: int) -> None:
    """Refuse what all uploads together, or the disk, have no space for."""
    kept = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
    most = MOST_TOGETHER * max_upload
    if kept + coming > most:
        raise TooLargeError(
            f"all uploaded tables together must be at most {most / 2**20:.4g} MB, got more. Delete "
            "one, start with a larger `--max-upload`, or name the file in the command."
        )
    if shutil.disk_usage(folder).free < coming + SPARE:
        raise TooLargeError(
            f"the disk must keep {SPARE / 2**20:.4g} MB free, but the file would take more. Make "
            "room, or name the file in the command."
        )


def check_content(path: Path, *, wanted: str, largest: int, name: str | None = None) -> None:
    """Refuse a file that is not what its name says, or that unpacks to more than is reasonable.

    Parameters
    ----------
    path : Path
    wanted : str
        A `FileKind`.
    largest : int
        Bytes that it may unpack to.
    name : str, optional
        What the sender calls it, for messages; None where names are withheld.
    """
    with path.open("rb") as file:
        start = file.read(_LOOKED_AT)
    if not start:
        raise InputError("a table must hold rows, but the file is empty. Choose another.")
    is_text = b"\0" not in start or start.startswith(_UTF_16)
    found = kind_of(start) or ("text" if is_text else "something else")
    if found != wanted:
        raise InputError(
            f"the file must be {wanted}, as its name says, but it is {found}. "
            "Export it again, or give it the right ending."
        )
    if found == "gzip":
        _check_gzip(path, largest)
    elif found == "excel":
        _check_workbook(path, largest)
    elif found in {"spss", "stata", "sas"}:
        _check_statistics_file(path, found, largest, what=repr(name) if name else "the file")
    elif start.startswith(b"FEA1"):
        return  # the first version of feather is not compressed
    elif found != "text":
        import pyarrow as pa

        try:
            (_check_parquet if found == "parquet" else _check_arrow)(path, largest)
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError):
            raise InputError(
                f"the file must be a complete {found} file, but it is damaged. Export it again."
            ) from None


def _check_gzip(path: Path, largest: int) -> None:
    """Unpack without keeping anything, as far as is allowed."""
    packed, unpacked = 0, 0
    damaged = InputError(
        "the file must be a complete gzip file, but it is damaged or cut short. Copy it again."
    )
    decoder = zlib.decompressobj(wbits=31)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            packed += len(piece)
            while piece:
                try:
                    unpacked += len(decoder.decompress(piece, _PIECE))
                except zlib.error:
                    raise damaged from None
                if unpacked > largest or (unpacked > SMALL and unpacked > LARGEST_RATIO * packed):
                    raise TooLargeError(
                        "the file unpacks to far more than a table of its size would. Unpack it "
                        "yourself, look at it, and name it in the command."
                    )
                piece = decoder.unconsumed_tail
                if decoder.eof:
                    piece = decoder.unused_data
                    decoder = zlib.decompressobj(wbits=31)
                    if not piece.startswith(b"\x1f"):
                        break  # zeros that fill up a block
    if not unpacked:
        raise damaged


def _check_workbook(path: Path, largest: int) -> None:
    """Unpack every part of a workbook without keeping anything, as far as is allowed."""
    if not zipfile.is_zipfile(path):
        return  # .xls is not compressed
    packed, unpacked = path.stat().st_size, 0
    try:
        with zipfile.ZipFile(path) as archive:
            for part in archive.infolist():
                part.file_size = sys.maxsize  # what it says of itself is no bound
                with archive.open(part) as file:
                    while piece := file.read(_PIECE):
                        unpacked += len(piece)
                        if unpacked > SMALL and unpacked > LARGEST_RATIO * packed:
                            unpacked = largest + 1
                        _check_size(unpacked, largest)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError):
        raise InputError(
            "the file must be a complete workbook without password, but it is damaged or protected. "
            "Save it again."
        ) from None


def _check_statistics_file(path: Path, kind: FileKind, largest: int, *, what: str) -> None:
    """Look at how many rows the file declares, and how wide they are."""
    from epsilens.data.statistics_files import open_statistics_file

    content = path.read_bytes()
    _, meta = open_statistics_file(content, kind, what=what, metadataonly=True)
    widths = [max(8, width) for width in meta.variable_storage_width.values()]
    rows = meta.number_rows
    if (
        rows is None
    ):  # a packed row then has no bound; one that is not packed takes a byte for eight
        rows = largest if content.startswith(b"$FL3") else 8 * len(content) // max(1, sum(widths))
    _check_cells(rows * len(widths))
    _check_size(rows * sum(widths), largest)


def _check_parquet(path: Path, largest: int) -> None:
    """Look at what the file holds: a few bytes of it can stand for any number of rows."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        texts = _check_declared(file, largest)
    # Text stays a list of different values and places in it, so that nothing is unpacked here.
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        held = 0
        for batch in file.iter_batches(batch_size=1 << 14):
            held += _unpacked_bytes(batch)
            _check_size(held, largest)


def _check_declared(file: Any, largest: int) -> list[str]:
    """Refuse a parquet file by what it says of itself; return its columns of text."""
    import pyarrow as pa

    rows = file.metadata.num_rows
    _check_cells(rows * file.metadata.num_columns)
    kinds = {
        field.name: getattr(field.type, "storage_type", field.type) for field in file.schema_arrow
    }
    if any(map(pa.types.is_nested, kinds.values())):
        raise InputError(
            "a table must have one answer in every field, but the file has lists or structures. Take "
            "those columns apart, or leave them out."
        )
    values, packed = 0, 0
    for group in range(file.metadata.num_row_groups):
        for place in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(place)
            values += column.num_values
            packed += column.total_uncompressed_size
    _check_cells(values)
    # One wide value can stand for many rows.
    fixed = sum(kind.byte_width for kind in kinds.values() if pa.types.is_fixed_size_binary(kind))
    _check_size(max(packed, rows * fixed), largest)
    return [name for name, kind in kinds.items() if _is_text(kind)]


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
        or _is_view(kind)
    )


def _unpacked_bytes(batch: Any) -> int:
    """Return what a batch takes once values that stand for many are written out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for column in batch.columns:
        if not pa.types.is_dictionary(column.type):
            total += int(_lengths(column).sum()) if _is_view(column.type) else column.nbytes
            continue
        values = column.dictionary
        if pa.types.is_primitive(values.type) or not len(values):
            total += column.nbytes
            continue
        lengths = pa.array(_lengths(values))
        total += pc.sum(pc.fill_null(pc.take(lengths, column.indices), 0)).as_py() or 0
    return total


def _is_view(kind: Any) -> bool:
    """Say whether texts of a column are places in another, so that one can stand for many."""
    return str(kind) in {"string_view", "binary_view"}


def _lengths(texts: Any) -> NDArray[np.int64]:
    """Return the bytes of each text."""
    import numpy as np
    import pyarrow.compute as pc

    if not _is_view(texts.type):
        found: NDArray[np.int64] = np.asarray(
            pc.fill_null(pc.binary_length(texts), 0), dtype=np.int64
        )
        return found
    # Sixteen bytes each, of which the first four are the length.
    places = np.frombuffer(texts.buffers()[1], dtype="<i4").reshape(-1, 4)
    return places[texts.offset : texts.offset + len(texts), 0].astype(np.int64)


def _check_size(held: int, largest: int) -> None:
    if held > largest:
        raise TooLargeError(
            "the file unpacks to far more than a table of its size would. Save it as csv, or name it "
            "in the command."
        )


def _check_arrow(path: Path, largest: int) -> None:
    """Look at what each batch says of itself before it is unpacked, then at what it holds."""
    import pyarrow as pa

    cells, held, declared = 0, 0, 0
    for size in declared_bytes(path):
        declared += size
        _check_size(declared, largest)
    with pa.memory_map(str(path)) as source:
        for batch in _batches(source):
            cells += batch.num_rows * batch.num_columns
            _check_cells(cells)
            batch.validate(full=True)  # places and lengths are taken on trust from here on
            held += _unpacked_bytes(batch)
            _check_size(held, largest)


def _batches(source: Any) -> Iterator[Any]:
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        yield from pa.ipc.open_stream(source)
        return
    for place in range(reader.num_record_batches):
        yield reader.get_batch(place)


def _check_cells(cells: int) -> None:
    if cells > MOST_CELLS:
        raise TooLargeError(
            f"a table must have at most {MOST_CELLS // 10**6} million fields, got more. Take fewer "
            "rows or columns."
        )

# SPDX-License-Identifier: Apache-2.0
"""A parquet file, or a folder of them, as small pieces that are read again at every pass.

A piece says where its rows stand (file, row groups, position of its first row); it holds none of them, can
be pickled, and can be read by any process that sees the file. Whoever reads a piece gets it some rows at a
time, with the columns and types of the whole.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from epsilens._validate import require_column, require_unique
from epsilens.data.columnar import common_schema, damaged, parquet_files, partition_columns
from epsilens.data.file_kinds import BY_SUFFIX, suffix_of
from epsilens.errors import InputError, setting

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet


# Rows a piece has at most, if the row groups of the file allow it: enough to make a task worth
# handing over, few enough to share the work out evenly.
_PIECE_ROWS = 1 << 16
# Bytes of the numbers of one block, as the model sees them. A worker holds a few copies of its block (decoded,
# encoded, centred, weighted); the number of workers must not decide, for it would decide the order of sums.
_BATCH_BYTES = 1 << 22
_FEWEST_ROWS = 256


@dataclass(frozen=True)
class Piece:
    """Where some rows stand.

    Attributes
    ----------
    path : str
    row_groups : tuple of int
    first_row : int
        The position of the first row among all rows of all files.
    n_rows : int
    stamp : tuple of int
        Size and time of the file when the source was opened: another file of that name is noticed.
    """

    path: str
    row_groups: tuple[int, ...]
    first_row: int
    n_rows: int
    stamp: tuple[int, int]


@dataclass(frozen=True)
class ParquetSource:
    """Rows on disk, made by `open_parquet`.

    Attributes
    ----------
    name : str
        The file's or folder's name, for messages.
    pieces : tuple of Piece
        In the order of the rows.
    schema : pyarrow.Schema
        The columns with types that are wide enough for every file.
    n_rows : int
    width : int
        Numbers that a row becomes once it is encoded, if they are more than its columns.
    n_bytes : int
        What the rows would take as numbers of 8 bytes.
    """

    name: str
    pieces: tuple[Piece, ...]
    schema: pa.Schema = field(repr=False)
    n_rows: int
    width: int = 0

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return [str(name) for name in self.schema.names]

    @property
    def n_bytes(self) -> int:
        """What the rows would take as numbers of 8 bytes."""
        return 8 * self.n_rows * len(self.schema.names)

    def fits_one_block(self, n_columns: int) -> bool:
        """Say whether all rows, of so many columns or numbers each, are no more than one block."""
        return 8 * self.n_rows * max(n_columns, self.width, 1) <= _BATCH_BYTES

    def check(self, piece: Piece) -> None:
        """Refuse a piece whose file is another one than when the source was opened, or is gone."""
        path = Path(piece.path)
        try:
            if _stamp(path) != piece.stamp:
                raise _changed(path.name)
        except FileNotFoundError:
            raise _gone(path.name) from None
        except OSError:
            raise damaged(path.name, "parquet") from None

    def batches(self, piece: Piece, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """Yield some rows of a piece at a time, with the position of the first.

        Parameters
        ----------
        piece : Piece
        columns : sequence of str
            Those to be read.

        Raises
        ------
        InputError
            If the file is damaged, or is another one than when the source was opened.
        """
        import pyarrow as pa

        names = list(columns)
        wanted = pa.schema([self.schema.field(name) for name in names])
        step = max(_FEWEST_ROWS, _BATCH_BYTES // (8 * max(len(names), self.width, 1)))
        at = piece.first_row
        self.check(piece)
        try:
            file = _opened(piece.path, piece.stamp)
            for batch in file.iter_batches(
                batch_size=step, row_groups=list(piece.row_groups), columns=names, use_threads=False
            ):
                table = pa.Table.from_batches([batch]).select(names).cast(wanted)
                yield at, table
                at += table.num_rows
        except FileNotFoundError:
            raise _gone(Path(piece.path).name) from None
        except (pa.ArrowException, OSError):
            raise damaged(Path(piece.path).name, "parquet") from None
        if at != piece.first_row + piece.n_rows:
            raise damaged(Path(piece.path).name, "parquet")

    def may_lack(self, name: str) -> bool:
        """Say whether a column may have missing answers: a null, or a number that is none."""
        import pyarrow as pa

        if pa.types.is_floating(self.schema.field(name).type):
            return True
        known = {piece.path: piece.stamp for piece in self.pieces}
        return any(_nulls(_footer(path, stamp), name) for path, stamp in known.items())

    def number_of(self, piece: Piece) -> int:
        """Return the place of a piece among all."""
        return bisect.bisect_left(self.pieces, piece.first_row, key=lambda one: one.first_row)

    def require(self, names: Sequence[str], *, argument: str) -> None:
        """Refuse names that are no columns."""
        for name in names:
            require_column(name, self.columns, argument=argument)


def open_parquet(source: str | Path, *, piece_rows: int = _PIECE_ROWS) -> ParquetSource:
    """Look at a parquet file, or at all of a folder, without reading a row.

    Parameters
    ----------
    source : str or Path
        A file, or a folder whose `.parquet` files are taken in the order of their names.
    piece_rows : int
        Row groups are put together up to this many rows; a larger row group is a piece by itself.

    Returns
    -------
    ParquetSource

    Raises
    ------
    InputError
        If there is no such file, it is damaged or empty, or the files differ in their columns.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> file = Path(tempfile.mkdtemp()) / "survey.parquet"
    >>> pq.write_table(pa.table({"age": [31, 42, 53]}), file, row_group_size=2)
    >>> [piece.n_rows for piece in open_parquet(file, piece_rows=2).pieces]
    [2, 1]
    """
    import pyarrow as pa

    path = Path(source)
    if not str(source) or not path.exists():
        raise InputError(
            f"the data must be a file that exists, got {str(source)!r}. Check the path."
        )
    kind = "gzip" if path.suffix == ".gz" else BY_SUFFIX.get(suffix_of(path.name) or "", "parquet")
    if path.is_file() and kind != "parquet":
        raise InputError(
            f"only parquet can be streamed, got {path.name!r}. Save the table as parquet, or "
            f"leave {setting('stream')} out."
        )
    files = parquet_files(path) if path.is_dir() else [path]
    name = path.resolve().name
    if not files:
        raise InputError(
            f"a folder must contain parquet files, but {name!r} has none. "
            "Name a file, or a folder of .parquet files."
        )
    if path.is_dir() and partition_columns(path):
        raise InputError(
            f"the rows of {name!r} cannot be streamed, for folders named `column=value` hold a column "
            "of it. Write that column into the files, or read the table into memory."
        )
    pieces: list[Piece] = []
    schemas: list[pa.Schema] = []
    at = 0
    for file in files:
        try:
            stamp = _stamp(file)
            # A worker elsewhere has another working folder.
            place = str(file.absolute())
            opened = _opened(place, stamp)
        except (pa.ArrowException, OSError):
            raise damaged(file.name, "parquet") from None
        schemas.append(_plain(opened.schema_arrow))
        pieces += _pieces(place, stamp, opened.metadata, at, piece_rows)
        at += opened.metadata.num_rows
    whole = schemas[0] if len(schemas) == 1 else common_schema(schemas[0], schemas, path)
    require_unique(whole.names, what=f"the column names of {name!r}")
    if at == 0 or len(whole.names) == 0:
        raise InputError(
            f"{name!r} must have at least one row and one column, got {at} rows and "
            f"{len(whole.names)} columns. Check that the file was saved completely."
        )
    return ParquetSource(name, tuple(pieces), whole, at)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema without what pandas or a dictionary adds to it."""
    import pyarrow as pa

    return pa.schema(
        [
            (one.name, one.type.value_type if pa.types.is_dictionary(one.type) else one.type)
            for one in schema
            if not (one.name.startswith("__index_level_") and one.name.endswith("__"))
        ]
    )


def _pieces(
    path: str, stamp: tuple[int, int], metadata: parquet.FileMetaData, first: int, most: int
) -> list[Piece]:
    """Return the row groups of a file, small ones put together."""
    pieces: list[Piece] = []
    groups: list[int] = []
    rows = 0
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).num_rows
        if groups and rows + size > most:
            pieces.append(Piece(path, tuple(groups), first, rows, stamp))
            first, groups, rows = first + rows, [], 0
        groups.append(number)
        rows += size
    if rows:
        pieces.append(Piece(path, tuple(groups), first, rows, stamp))
    return pieces


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


@lru_cache(maxsize=64)
def _footer(path: str, stamp: tuple[int, int]) -> parquet.FileMetaData:
    """Return what the end of a file says; parsing it at every piece would cost more than the piece."""
    from pyarrow import parquet

    return parquet.read_metadata(path)


def _nulls(metadata: parquet.FileMetaData, name: str) -> bool:
    """Say whether a column of a file has nulls, or does not tell."""
    leaves = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
    if leaves.count(name) != 1:
        return True
    place = leaves.index(name)
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False


def _opened(path: str, stamp: tuple[int, int]) -> parquet.ParquetFile:
    from pyarrow import parquet

    return parquet.ParquetFile(path, metadata=_footer(path, stamp))


def _gone(name: str) -> InputError:
    return InputError(
        f"{name!r} must stay where it is while it is read, and every machine that reads it must see it "
        "under the same path, but it was not found. Put it into a folder that all of them share."
    )


def _changed(name: str) -> InputError:
    return InputError(
        f"{name!r} must stay as it is while it is read, but it has changed. Start again when nobody "
        "writes to it."
    )

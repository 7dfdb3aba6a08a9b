# SPDX-License-Identifier: Apache-2.0
"""Parquet and Arrow files, and folders of parquet files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from epsilens._validate import require_unique
from epsilens.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def read_columnar(content: bytes, *, name: str) -> pa.Table:
    """Read the bytes of one parquet file, or of an Arrow file, stream or Feather file.

    Parameters
    ----------
    content : bytes
        The whole file.
    name : str
        The file's name, for messages.

    Returns
    -------
    pyarrow.Table
        The table.

    Raises
    ------
    InputError
        If the file is damaged.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> sink = io.BytesIO()
    >>> pq.write_table(pa.table({"age": [31, 42]}), sink)
    >>> read_columnar(sink.getvalue(), name="survey.parquet").num_rows
    2
    """
    import pyarrow as pa
    from pyarrow import feather, ipc, parquet

    is_parquet = content.startswith(b"PAR1")
    try:
        if is_parquet:
            return parquet.ParquetFile(io.BytesIO(content)).read()
        if content.startswith(b"\xff\xff\xff\xff"):
            return ipc.open_stream(io.BytesIO(content)).read_all()
        return feather.read_table(io.BytesIO(content))
    except (pa.ArrowException, OSError):
        raise damaged(name, "parquet" if is_parquet else "arrow") from None


def read_parquet_folder(folder: Path) -> pa.Table:
    """Read all parquet files of a folder as one table.

    Parameters
    ----------
    folder : Path
        Files below it that end in `.parquet` are read in the order of their names; folders
        named `column=value` become a column. Names that begin with `.` or `_` are skipped.

    Returns
    -------
    pyarrow.Table
        The rows of all files.

    Raises
    ------
    InputError
        If there is no parquet file, one is damaged, or their columns or types differ.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> folder = Path(tempfile.mkdtemp())
    >>> pq.write_table(pa.table({"age": [31, 42]}), folder / "part-0.parquet")
    >>> pq.write_table(pa.table({"age": [53]}), folder / "part-1.parquet")
    >>> read_parquet_folder(folder).num_rows
    3
    """
    import pyarrow as pa
    from pyarrow import dataset, parquet

    files = parquet_files(folder)
    if not files:
        raise InputError(
            f"a folder must contain parquet files, but {folder.name!r} has none. "
            "Name a file, or a folder of .parquet files."
        )
    try:
        for file in files:
            # A dataset would only say that it cannot join the files.
            names = parquet.read_schema(file).names
            require_unique(names, what=f"the column names of {folder.name!r}")
        layout = {
            "source": [str(file) for file in files],
            "format": "parquet",
            "partitioning": dataset.partitioning(flavor="hive"),
            "partition_base_dir": str(folder),
        }
        parts = dataset.dataset(**layout)
        schemas = [fragment.physical_schema for fragment in parts.get_fragments()]
        common = common_schema(parts.schema, schemas, folder)
        return dataset.dataset(schema=common, **layout).to_table()
    except (pa.ArrowException, OSError):
        raise damaged(folder.name, "parquet") from None


def parquet_files(folder: Path) -> list[Path]:
    """Return the parquet files of a folder, in the order of their names."""
    return sorted(
        file
        for file in folder.rglob("*.parquet")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    )


def partition_columns(folder: Path) -> tuple[str, ...]:
    """Name the columns whose values stand in the names of folders, as `year` in `year=2024`.

    Parameters
    ----------
    folder : Path
        A folder of parquet files.

    Returns
    -------
    tuple of str
        The rows are sorted by these columns.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "year=2024").mkdir()
    >>> _ = (folder / "year=2024" / "part-0.parquet").write_bytes(b"")
    >>> partition_columns(folder)
    ('year',)
    """
    names = (
        unquote(part.partition("=")[0])
        for file in parquet_files(folder)
        for part in file.relative_to(folder).parts[:-1]
        if "=" in part
    )
    return tuple(dict.fromkeys(names))


def common_schema(whole: pa.Schema, schemas: Sequence[pa.Schema], folder: Path) -> pa.Schema:
    """Return the columns of all files, with types wide enough for each of them."""
    import pyarrow as pa

    for schema in schemas:
        require_unique(schema.names, what=f"the column names of {folder.name!r}")
    partitions = set(partition_columns(folder))
    if any(set(schema.names) | partitions != set(whole.names) for schema in schemas):
        raise InputError(
            f"the parquet files of {folder.name!r} must have the same columns, "
            "but they differ. Read them one by one, or fix them."
        )
    fields = []
    for field in whole:
        types = {schema.field(field.name).type for schema in schemas if field.name in schema.names}
        try:
            wide = pa.unify_schemas(
                [pa.schema([(field.name, kind)]) for kind in types or {field.type}],
                promote_options="permissive",
            )
        except pa.ArrowException:
            raise InputError(
                f"the parquet files of {folder.name!r} must have the same types, but those of "
                f"column {field.name!r} differ. Read them one by one, or fix them."
            ) from None
        fields.append(wide.field(0))
    return pa.schema(fields)


def damaged(name: str, kind: str) -> InputError:
    """Return the error for a file that cannot be read to its end."""
    return InputError(
        f"{name!r} must be a complete {kind} file, but it is damaged or cut short. "
        "Export or copy it again."
    )


def frame_from_arrow(table: pa.Table, *, name: str) -> pd.DataFrame:
    """Turn an Arrow table into a pandas frame without losing whole numbers.

    A column of whole numbers in which some are missing stays whole numbers. Categories that a file
    stores in a dictionary become plain values: a dictionary is made from the data, and its order
    shows who came first, so it declares nothing. A length of time becomes seconds.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    name : str
        The file's name, for messages.

    Returns
    -------
    pandas.DataFrame
        The same columns.

    Raises
    ------
    InputError
        If there are no rows, or a name stands twice, or a column holds lists or binary data.

    Examples
    --------
    >>> import pyarrow as pa
    >>> frame_from_arrow(pa.table({"age": [31, None]}), name="survey").dtypes["age"]
    Int64Dtype()
    """
    import pandas as pd
    import pyarrow as pa

    # pandas writes an unnamed index as a column of this name; it is no answer of anybody.
    table = table.select(
        [
            index
            for index, column in enumerate(table.schema.names)
            if not (column.startswith("__index_level_") and column.endswith("__"))
        ]
    )
    require_unique(table.schema.names, what=f"the column names of {name!r}")
    if "" in table.schema.names:
        raise InputError(f"every column of {name!r} must have a name, but one has none. Name it.")
    if table.num_rows == 0 or table.num_columns == 0:
        raise InputError(
            f"{name!r} must have at least one row and one column, got {table.num_rows} rows and "
            f"{table.num_columns} columns. Check that the file was saved completely."
        )
    for index, field in enumerate(table.schema):
        kind, column = field.type, table.column(index)
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], kind)
        if not _is_readable(kind):
            raise InputError(
                f"column {field.name!r} of {name!r} must hold numbers, words or dates, "
                "but it holds lists, structures or binary data. Drop it before reading."
            )
        if pa.types.is_date(kind):
            # To seconds: nanoseconds, which pandas may choose, end in the year 2262.
            column = column.cast(pa.timestamp("s"))
        table = table.set_column(index, field.name, column)
    whole = {
        getattr(pa, kind.lower())(): getattr(pd, f"{kind}Dtype")()
        for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    }
    try:
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, types_mapper=whole.get)
    except (pa.ArrowException, ValueError, OverflowError):
        # The original message would quote the value.
        raise InputError(
            f"{name!r} must hold values that fit into a table of pandas, but some do not, such as "
            "dates beyond its range. Fix or drop those columns before reading."
        ) from None
    for column, dtype in frame.dtypes.items():
        if dtype in whole.values() and not frame[column].isna().any():
            frame[column] = frame[column].astype(dtype.numpy_dtype)
    for field in table.schema:
        if pa.types.is_decimal(field.type):
            frame[field.name] = frame[field.name].astype("float64")
        elif pa.types.is_duration(field.type):
            frame[field.name] = frame[field.name].dt.total_seconds()
        elif pa.types.is_time(field.type):
            frame[field.name] = frame[field.name].astype(object).map(str, na_action="ignore")
    return frame


def _is_readable(kind: pa.DataType) -> bool:
    from pyarrow import types

    known = (
        *(types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal),
        *(types.is_string, types.is_large_string),
        *(types.is_date, types.is_time, types.is_timestamp, types.is_duration),
    )
    is_string_view = getattr(types, "is_string_view", None)
    return any(is_kind(kind) for is_kind in known) or bool(is_string_view and is_string_view(kind))

# SPDX-License-Identifier: Apache-2.0
"""A table as it is written, field by field, without any guess that one record could turn."""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from epsilens._validate import require_unique
from epsilens.data.columnar import frame_from_arrow, read_columnar, read_parquet_folder
from epsilens.data.delimited import DELIMITERS, parse_fields
from epsilens.errors import InputError, system_refusal

if TYPE_CHECKING:
    import pandas as pd

_BINARY = (b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")


def read_fields(
    source: str | Path, *, delimiter: str | None = None, encoding: str | None = None
) -> tuple[pd.DataFrame, str | None]:
    r"""Read a table whose columns are declared.

    The delimiter of a text file is that of its header line, the encoding UTF-8 unless they are given;
    every field is text. The columns of a parquet or arrow file have the types that the file declares.
    So a record changes its own row and nothing else, as long as the file is well-formed: rows with as
    many fields as the header, quotation marks that are closed, one encoding.

    Parameters
    ----------
    source : str or Path
        A file, a folder of parquet files, or "-" for standard input.
    delimiter, encoding : str, optional

    Returns
    -------
    pandas.DataFrame and str or None
        The rows, and the delimiter of a text file.

    Raises
    ------
    InputError
        If the file cannot be read or is not well-formed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "survey.csv"
    >>> _ = file.write_text("age;smokes\n31;yes\nold;\n")
    >>> frame, delimiter = read_fields(file)
    >>> frame["age"].tolist(), delimiter
    (['31', 'old'], ';')
    """
    path = Path(source)
    if str(source) != "-" and path.is_dir():
        return frame_from_arrow(read_parquet_folder(path), name=path.name), None
    try:
        content = sys.stdin.buffer.read() if str(source) == "-" else path.read_bytes()
    except OSError as error:
        raise system_refusal(error, subject="the data", must="be a readable file") from None
    name = "standard input" if str(source) == "-" else path.name
    if content.startswith(_BINARY):
        return frame_from_arrow(read_columnar(content, name=name), name=name), None
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            raise InputError(f"{name!r} must be a complete gzip file. Copy it again.") from None
    try:
        text = content.decode(encoding or "utf-8").removeprefix("\ufeff")
    except (LookupError, UnicodeError):
        raise InputError(
            f"{name!r} must be text in the encoding {encoding or 'utf-8'!r}, which is not detected "
            "where records are protected. Name it with `--encoding`."
        ) from None
    header = text.lstrip("\r\n").splitlines()[0] if text.strip() else ""
    used = delimiter or max(DELIMITERS, key=header.count)
    table = parse_fields(text, used, name=name)
    names = [str(column[0].as_py()).strip() for column in table.columns]
    require_unique(names, what=f"the column names of {name!r}")
    if "" in names or table.num_rows < 2:
        raise InputError(
            f"{name!r} must have a header with a name for every column, and rows below it."
        )
    return table.slice(1).rename_columns(names).to_pandas(), used

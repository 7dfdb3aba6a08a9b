# SPDX-License-Identifier: Apache-2.0
"""A table as it is written, field by field, without any guess that one record could turn."""

from __future__ import annotations

import gzip
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from epsilens._validate import require_unique
from epsilens.data.delimited import DELIMITERS, detect_encoding, parse_fields
from epsilens.data.dialect import type_fields
from epsilens.data.file_kinds import kind_of
from epsilens.data.files import STANDARD_INPUT, TableFile, read_content, read_table
from epsilens.errors import InputError, setting, system_refusal

if TYPE_CHECKING:
    import pandas as pd

_TEXT = (
    "",
    ".csv",
    ".tsv",
    ".txt",
    ".gz",
    ".data",
    ".dat",
    ".test",
    ".parquet",
    ".arrow",
    ".feather",
)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Fields:
    """A table as it is written.

    Attributes
    ----------
    written : pandas.DataFrame
        Every field as text; columns of parquet and arrow in the types that the file declares.
    delimiter : str or None
        What stands between the columns of a text file.
    """

    written: pd.DataFrame
    delimiter: str | None = None

    @property
    def decimal_comma(self) -> bool:
        """Whether 1,5 may be a number."""
        return self.delimiter not in (",", None)

    def typed(self) -> pd.DataFrame:
        """Return the table with numbers where all answers of a column are numbers, marks as missing.

        The type of a column depends on that column alone.
        """
        import pyarrow as pa

        if self.delimiter is None:
            return self.written
        names = list(map(str, self.written.columns))
        table = pa.Table.from_pandas(self.written.astype(str), preserve_index=False)
        table = pa.table([column.cast(pa.string()) for column in table.columns], names=names)
        return type_fields(table, names, decimal_comma=self.decimal_comma)[0]


def read_fields(
    source: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    detect: bool = False,
) -> Fields:
    r"""Read a table whose columns are declared.

    The delimiter of a text file is that of its header line, the encoding UTF-8 unless they are given;
    every field is text, also of a workbook and a file of SPSS, Stata or SAS. The columns of parquet and
    arrow have the types that the file declares. So a record
    changes its own row and nothing else, as long as the file is well-formed: rows with as many fields
    as the header, quotation marks that are closed, one encoding.

    Parameters
    ----------
    source : str or Path
        A file, a folder of parquet files, or "-" for standard input.
    delimiter, encoding : str, optional
    detect : bool
        Whether to detect the encoding. That of a file in UTF-8 is detected whatever its records are.

    Returns
    -------
    Fields

    Raises
    ------
    InputError
        If the file cannot be read or is not well-formed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "survey.csv"
    >>> _ = file.write_text("age;smokes\n31;yes\nold;\n")
    >>> fields = read_fields(file)
    >>> fields.written["age"].tolist(), fields.delimiter
    (['31', 'old'], ';')
    """
    path = Path(source)
    is_stream = str(source) == "-"
    if not is_stream and (path.is_dir() or path.suffix.lower() not in _TEXT):
        return _fields(read_table(path, spelled=True))
    try:
        content = sys.stdin.buffer.read() if is_stream else path.read_bytes()
    except OSError as error:
        raise system_refusal(error, subject="the data", must="be a readable file") from None
    name = STANDARD_INPUT if is_stream else path.name
    kind = kind_of(content)
    if kind not in {None, "gzip"}:
        return _fields(read_content(content, name, None, encoding, spelled=True))
    if kind == "gzip":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            raise InputError(f"{name!r} must be a complete gzip file. Copy it again.") from None
    used = encoding or (detect_encoding(content, name=name) if detect else "utf-8")
    try:
        text = content.decode(used).removeprefix("\ufeff")
    except (LookupError, UnicodeError):
        raise InputError(
            f"{name!r} must be text in the encoding {used!r}, but some bytes are not. Name its encoding "
            f"with {setting('encoding')}: where records are protected it is not detected."
        ) from None
    header = text.lstrip("\r\n").splitlines()[0] if text.strip() else ""
    mark = delimiter or max(DELIMITERS, key=header.count)
    table = parse_fields(text, mark, name=name)
    names = [str(column[0].as_py()).strip() for column in table.columns]
    while names and not names[-1]:  # spreadsheets add such columns
        names.pop()
        table = table.remove_column(len(names))
    require_unique(names, what=f"the column names of {name!r}")
    if "" in names or table.num_rows < 2:
        raise InputError(
            f"{name!r} must have a header with a name for every column, and rows below it."
        )
    return Fields(table.slice(1).rename_columns(names).to_pandas(), mark)


def _fields(table: TableFile) -> Fields:
    """Return a table that is no text: where a record could turn the type of a column, all is text."""
    if table.spelled is None or table.dialect is not None:
        return Fields(table.frame)
    return Fields(table.spelled.to_pandas(), ",")

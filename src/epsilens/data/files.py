# SPDX-License-Identifier: Apache-2.0
"""Read the curator's table from a file, and write one."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from epsilens.data.atomic import replacing
from epsilens.data.columnar import (
    frame_from_arrow,
    partition_columns,
    read_columnar,
    read_parquet_folder,
)
from epsilens.data.delimited import check_header, parse_delimited
from epsilens.data.dialect import Dialect, type_fields
from epsilens.data.file_kinds import BY_SUFFIX, kind_of, suffix_of
from epsilens.data.statistics_files import read_statistics_file
from epsilens.data.workbooks import read_workbook
from epsilens.errors import InputError
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


TableFormat = Literal["csv", "csv.gz", "tsv", "parquet", "arrow", "excel", "spss", "stata", "sas"]

STANDARD_INPUT = "standard input"
WRITABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".feather")


@dataclass(frozen=True)
class TableFile:
    """A table as it was found in a file, and how it was written there.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows. Marks for missing answers have become missing values.
    name : str
        The file's name without its folder.
    format : str
        One of "csv", "csv.gz", "tsv", "parquet", "arrow", "excel", "spss", "stata", "sas".
    delimiter : str or None
        What stands between the columns of a text file.
    encoding : str or None
        The encoding of a text file.
    missing_marks : dict of str to int
        Which marks were taken as missing answers, and how often each stands in the file.
    notes : tuple of Note
        What else was noticed while reading.
    partitions : tuple of str
        The columns by which a folder is divided: its rows are sorted by them.
    spelled : pyarrow.Table or None
        Every field as text, if that was asked for: of a text file as it is written there, of a
        workbook or a file of SPSS, Stata or SAS as a text file would have it; else None.
    dialect : Dialect or None
        How a text file is written.
    """

    frame: pd.DataFrame = field(repr=False)
    name: str
    format: TableFormat
    delimiter: str | None = None
    encoding: str | None = None
    missing_marks: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    partitions: tuple[str, ...] = ()
    spelled: pa.Table | None = field(default=None, repr=False)
    dialect: Dialect | None = field(default=None, repr=False)

    @property
    def marks_note(self) -> tuple[Note, ...]:
        """Which marks were taken as missing answers, as a sentence; empty if none was."""
        if not self.missing_marks:
            return ()
        marks = ", ".join(
            f"{mark!r} {count}" if mark else f"empty {count}"
            for mark, count in self.missing_marks.items()
        )
        return (Note("missing-marks", f"taken as missing values: {marks}"),)


def read_table(
    source: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    spelled: bool = False,
    name: str | None = None,
    what: str = "the data",
) -> TableFile:
    r"""Read a table from a text, parquet or arrow file, a workbook, or a file of SPSS, Stata or SAS.

    What kind of file it is, how its columns are separated and how its letters are encoded is
    found out by looking at it. Marks such as an empty field, `NA` or `?` become missing values
    and are counted; the word "None" is an answer and stays one.

    Of a workbook the first sheet with data is read, the first row that is not empty holds the names
    (extra `excel`). In a file of SPSS, Stata or SAS codes become what their value labels say, and values
    that it declares as missing are missing (extra `stats`).

    Parameters
    ----------
    source : str or Path
        A file, a folder of parquet files, or "-" for standard input.
    delimiter : str, optional
        One character, instead of detecting it.
    encoding : str, optional
        For instance "cp1252", instead of detecting it.
    spelled : bool
        Whether to keep every field of a text file as it is written, beside its value.
    name : str, optional
        Name of the table in messages and documents, instead of the name of the file.
    what : str
        What a message calls a file that does not exist.

    Returns
    -------
    TableFile
        The table and how it was written.

    Raises
    ------
    InputError
        If the file cannot be read or is no table. The message never contains a value.

    Notes
    -----
    The whole table is held in memory.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "survey.csv"
    >>> _ = file.write_text("age;smokes\n31;yes\n;no\n")
    >>> table = read_table(file)
    >>> table.name, table.delimiter, table.missing_marks
    ('survey.csv', ';', {'': 1})
    """
    if str(source) == "-":
        if sys.stdin is None:  # a shell can close it: `<&-`
            raise InputError(
                "standard input must be open to be read, but it is closed. Name a file."
            )
        content = sys.stdin.buffer.read()
        return read_content(content, STANDARD_INPUT, delimiter, encoding, spelled=spelled)
    path = Path(source)
    # An empty name, as of a shell variable that is not set, would be the folder that one stands in.
    if path.is_dir() and str(source):
        path = path.resolve() if path.name in ("", "..") else path  # `.` has no name to show
        frame = frame_from_arrow(read_parquet_folder(path), name=path.name)
        return TableFile(
            frame, name or path.resolve().name, "parquet", partitions=partition_columns(path)
        )
    try:
        if not str(source):
            raise FileNotFoundError
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{what} must be a file that exists, got {str(source)!r}. Check the path."
        ) from None
    except OSError as error:
        raise InputError(
            f"{(name or path.name)!r} must be a readable file, got {type(error).__name__}. "
            "Check its permissions."
        ) from None
    return read_content(content, name or path.name, delimiter, encoding, spelled=spelled)


def read_content(
    content: bytes, name: str, delimiter: str | None, encoding: str | None, *, spelled: bool
) -> TableFile:
    """Tell the format by the file's first bytes: a name may lie."""
    kind = kind_of(content)
    match kind:
        case "parquet" | "arrow":
            frame = frame_from_arrow(read_columnar(content, name=name), name=name)
            return TableFile(frame, name, kind)
        case "excel":
            cells, said = read_workbook(content, name=name)
            fields, header, noted = check_header(cells, None, name=name)
            frame, marks, typed = type_fields(fields, header, decimal_comma=False)
            texts = fields if spelled else None
            notes = (*said, *noted, *typed)
            return TableFile(frame, name, kind, None, None, marks, notes, spelled=texts)
        case "spss" | "stata" | "sas":
            frame, texts, n_blank, said = read_statistics_file(
                content, kind, name=name, encoding=encoding, spelled=spelled
            )
            marks = {"": n_blank} if n_blank else {}
            return TableFile(frame, name, kind, None, None, marks, tuple(said), spelled=texts)
    suffix = suffix_of(name) or ""
    if content and kind is None and BY_SUFFIX.get(suffix, "text") not in {"text", "gzip"}:
        raise InputError(
            f"{name!r} must be a {suffix[1:]} file, as its name says, but it is not. "
            "Export it again, or give it the right ending."
        )
    compressed = kind == "gzip"
    if compressed:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            raise InputError(
                f"{name!r} must be a complete gzip file, but it is damaged or cut short. "
                "Copy it again."
            ) from None
    table = parse_delimited(content, name=name, delimiter=delimiter, encoding=encoding)
    written_as: TableFormat = "tsv" if table.delimiter == "\t" else "csv"
    return TableFile(
        table.frame,
        name,
        "csv.gz" if compressed else written_as,
        table.delimiter,
        table.encoding,
        table.missing_marks,
        table.notes,
        spelled=table.spelled if spelled else None,
        dialect=table.dialect,
    )


def write_table(
    frame: pd.DataFrame,
    path: str | Path,
    *,
    dialect: Dialect | None = None,
    announce: Callable[[], None] | None = None,
) -> None:
    """Write a table in the format that the file's name asks for.

    The file appears whole or not at all. An older file of that name is replaced.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows; its index is not written. A missing value is written as an empty field.
    path : str or Path
        Ends in .csv, .csv.gz, .tsv, .parquet, .arrow or .feather.
    dialect : Dialect, optional
        How a text file is written; `frame` then holds text. A tsv file has tabs in any case.
    announce : callable, optional
        Called when the file is whole, before it takes its name.

    Raises
    ------
    InputError
        If the ending is another, or the folder cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> file = Path(tempfile.mkdtemp()) / "survey.csv"
    >>> write_table(pd.DataFrame({"age": [31, 42], "smokes": ["yes", "no"]}), file)
    >>> file.read_text().splitlines()
    ['age,smokes', '31,yes', '42,no']
    """
    target = Path(path)
    suffix = next((end for end in WRITABLE_SUFFIXES if target.name.lower().endswith(end)), None)
    if suffix is None:
        raise InputError(
            f"the output file must end in {', '.join(WRITABLE_SUFFIXES)}, got {target.name!r}. "
            "The ending decides the format."
        )
    with replacing(target, announce=announce) as scratch:
        if suffix == ".parquet":
            frame.to_parquet(scratch, index=False)
        elif suffix in {".arrow", ".feather"}:
            frame.reset_index(drop=True).to_feather(scratch)
        else:
            delimiter = "\t" if suffix == ".tsv" else dialect.delimiter if dialect else ","
            if dialect is not None:
                content = replace(dialect, delimiter=delimiter).write(frame)
            else:
                text = frame.to_csv(index=False, sep=delimiter, lineterminator="\n")
                content = text.encode("utf-8")
            # Without a time stamp the same table always gives the same file.
            scratch.write_bytes(gzip.compress(content, mtime=0) if suffix == ".csv.gz" else content)


# --- The survey that the demonstration uses ---

SURVEY_PROVENANCE = (
    "Redbook survey of 6,366 married women, 1974: R. C. Fair, A Theory of Extramarital Affairs, "
    "Journal of Political Economy 86 (1978), as distributed with statsmodels (public domain)."
)


def load_survey() -> pd.DataFrame:
    """Load the survey on extramarital affairs that the demonstration uses.

    6,366 married women said how they rate their marriage, how old they are, how religious,
    and whether they ever had an affair: an answer many would give only if it were protected.

    Returns
    -------
    pandas.DataFrame
        Eight columns of answers as in the source, and the label `affair`, "yes" or "no".

    References
    ----------
    R. C. Fair, "A Theory of Extramarital Affairs", Journal of Political Economy 86 (1978).

    Examples
    --------
    >>> survey = load_survey()
    >>> survey.shape, int((survey["affair"] == "yes").sum())
    ((6366, 9), 2053)
    """
    import numpy as np
    from statsmodels.datasets import fair

    survey: pd.DataFrame = fair.load_pandas().data
    label = np.where(survey["affairs"].to_numpy() > 0, "yes", "no")
    return survey.drop(columns="affairs").assign(affair=label)

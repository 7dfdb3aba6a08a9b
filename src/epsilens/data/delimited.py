# SPDX-License-Identifier: Apache-2.0
"""Text tables: which encoding, which delimiter, which marks mean "no answer"."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epsilens._validate import require_unique
from epsilens.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["DELIMITERS", "MISSING_MARKS", "DelimitedTable", "parse_delimited"]

DELIMITERS = (",", ";", "\t", "|")
DELIMITER_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}

MISSING_MARKS = (
    *("", "NA", "N/A", "n/a", "#N/A", "<NA>"),
    *("NaN", "nan", "NAN", "null", "NULL", "Null"),
    *("?", "."),
)
"""Marks that mean "no answer". "None", "-" and "na" are left alone: they are answers somewhere."""

_SAMPLE_RECORDS = 50
_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class DelimitedTable:
    """A text table after reading: typed columns, and how it was written."""

    frame: pd.DataFrame
    delimiter: str
    encoding: str
    missing_marks: dict[str, int]
    notes: tuple[str, ...]


def parse_delimited(
    content: bytes,
    *,
    name: str,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> DelimitedTable:
    r"""Read a table from the bytes of a text file.

    The encoding and the delimiter are detected unless they are given. A column becomes numbers
    if every answer in it is one; codes with leading zeros, such as 007, stay text.

    Parameters
    ----------
    content : bytes
        The whole file.
    name : str
        The file's name, for messages.
    delimiter : str, optional
        One character that stands between the columns.
    encoding : str, optional
        For instance "utf-8" or "cp1252".

    Returns
    -------
    DelimitedTable
        The frame, the delimiter and encoding used, and the missing marks with their counts.

    Raises
    ------
    InputError
        If the bytes are no table with a header and at least one row.

    Examples
    --------
    >>> table = parse_delimited(b"age;smokes\n31;yes\n?;no\n", name="survey.csv")
    >>> table.delimiter, table.encoding, table.missing_marks
    (';', 'utf-8', {'?': 1})
    """
    if not content.strip():
        raise InputError(
            f"{name!r} must hold a table, but it is empty. Check that the file was saved."
        )
    used_encoding = _check_encoding(encoding) if encoding else detect_encoding(content, name=name)
    try:
        text = content.decode(used_encoding)
    except UnicodeDecodeError:
        raise InputError(
            f"{name!r} must be text in the encoding {used_encoding!r}, but some bytes are not. "
            "Leave out the encoding to have it detected, or name another."
        ) from None
    text = text.removeprefix("\ufeff")
    _refuse_binary(text, name=name)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '\r\n"'):
        raise InputError(
            f"`delimiter` must be one character, such as ',' or ';', got {delimiter!r}."
        )
    used_delimiter = delimiter or detect_delimiter(text)
    table = _parse_strings(text, used_delimiter, name=name)
    table, header, notes = _check_header(table, used_delimiter, name=name)
    if table.num_rows == 0:
        raise InputError(
            f"{name!r} must have at least one row below its header, got 0 rows. "
            "Check that the file was saved completely."
        )
    frame, marks, decimal_commas = _typed(table, header, decimal_comma=used_delimiter != ",")
    if decimal_commas:
        notes.append(f"numbers with a decimal comma were read in: {', '.join(decimal_commas)}")
    return DelimitedTable(frame, used_delimiter, used_encoding, marks, tuple(notes))


def detect_encoding(content: bytes, *, name: str = "the file") -> str:
    """Say in which encoding a text file was written.

    A byte order mark decides; then UTF-8 if every byte agrees with it; then Windows-1252, and
    Latin-1, which accepts everything, last.

    Parameters
    ----------
    content : bytes
        The whole file.
    name : str
        The file's name, for messages.

    Returns
    -------
    str
        The name of a Python codec.

    Raises
    ------
    InputError
        If the file is no text.

    Examples
    --------
    >>> detect_encoding("prénom".encode("utf-8")), detect_encoding("prénom".encode("cp1252"))
    ('utf-8', 'cp1252')
    """
    if content.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = content[:_SAMPLE_BYTES]
    zeros_even, zeros_odd = sample[0::2].count(0), sample[1::2].count(0)
    half = len(sample) / 2
    if zeros_odd > 0.5 * half and zeros_even == 0:
        return "utf-16-le"
    if zeros_even > 0.5 * half and zeros_odd == 0:
        return "utf-16-be"
    if b"\x00" in content:
        raise _not_text(name)
    for candidate in ("utf-8", "cp1252"):
        try:
            content.decode(candidate)
        except UnicodeDecodeError:
            continue
        return candidate
    return "latin-1"


def detect_delimiter(text: str) -> str:
    r"""Say which character stands between the columns.

    The one that cuts the first records into the same number of fields, more than one; if
    several do, the one that gives the most fields. A file of one column gives a comma.

    Parameters
    ----------
    text : str
        The file, or its beginning.

    Returns
    -------
    str
        One of comma, semicolon, tab and vertical bar.

    Examples
    --------
    >>> detect_delimiter("height;weight\n1,80;70,5\n1,65;58,0\n")
    ';'
    """
    best, best_score = ",", (0.0, 0)
    for candidate in DELIMITERS:
        widths = [len(record) for record in _first_records(text, candidate)]
        if not widths or widths[0] < 2:
            continue
        agreeing = sum(width == widths[0] for width in widths) / len(widths)
        score = (agreeing, widths[0])
        if score > best_score:
            best, best_score = candidate, score
    return best


def _first_records(text: str, delimiter: str) -> list[list[str]]:
    sample = text[:_SAMPLE_BYTES]
    whole_lines = sample.rfind("\n") + 1
    if len(text) > len(sample) and whole_lines:
        sample = sample[:whole_lines]
    records: list[list[str]] = []
    try:
        for record in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter):
            if record:
                records.append(record)
            if len(records) == _SAMPLE_RECORDS:
                break
    except csv.Error:
        return records
    return records


def _check_encoding(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise InputError(
            f"`encoding` must be an encoding that Python knows, got {encoding!r}. "
            "Try 'utf-8', 'utf-16', 'cp1252' or 'latin-1'."
        ) from None


def _not_text(name: str) -> InputError:
    return InputError(
        f"{name!r} must be a text table, parquet or arrow file, but it holds binary data. "
        "Export it as csv or parquet."
    )


def _refuse_binary(text: str, *, name: str) -> None:
    sample = text[:_SAMPLE_BYTES]
    n_control = len(re.findall(r"[\x00-\x08\x0e-\x1f\x7f]", sample))
    if "\x00" in sample or n_control > 0.001 * len(sample) + 1:
        raise _not_text(name)


def _parse_strings(text: str, delimiter: str, *, name: str) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = next(iter(_first_records(text, delimiter)), [])
    ragged: list[int] = []

    def count_ragged(row: arrow_csv.InvalidRow) -> str:
        ragged.append(row.actual_columns)
        return "skip"

    columns = [f"f{index}" for index in range(len(header))]
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(text.encode("utf-8", errors="surrogatepass")),
            read_options=arrow_csv.ReadOptions(column_names=columns, block_size=_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(columns) > 1,
                invalid_row_handler=count_ragged,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException:
        raise InputError(
            f"{name!r} must be a text table, but its rows cannot be told apart. "
            "Check for a quotation mark that is never closed, or name the delimiter."
        ) from None
    if ragged:
        raise InputError(
            f"{name!r} must have {len(header)} fields in every row, as its header has, but "
            f"{len(ragged)} rows have more or fewer. Check the delimiter "
            f"({DELIMITER_NAMES.get(delimiter, delimiter)}) and quote fields that contain it."
        )
    return table


def _check_header(
    table: pa.Table, delimiter: str, *, name: str
) -> tuple[pa.Table, list[str], list[str]]:
    """Return the rows below the header, the column names, and notes on what was left out."""
    import pyarrow.compute as pc

    notes: list[str] = []
    raw = [str(column[0].as_py()) for column in table.columns]
    names = [text.strip() for text in raw]
    body = table.slice(1)
    if len(names) == 1:
        others = [other for other in DELIMITERS if other != delimiter and other in names[0]]
        if others:
            raise InputError(
                f"{name!r} was cut at every {DELIMITER_NAMES.get(delimiter, repr(delimiter))} and "
                f"gives one column only, but its header contains a {DELIMITER_NAMES[others[0]]}. "
                f"Use `--delimiter {others[0]!r}`."
            )
    spaced = len(raw) > 1 and all(text.startswith(" ") for text in raw[1:])
    if spaced:
        for index, field in enumerate(body.schema):
            body = body.set_column(index, field, pc.utf8_trim_whitespace(body.column(index)))
    while names and not names[-1] and _is_blank(body.column(len(names) - 1)):
        body = body.remove_column(len(names) - 1)
        names.pop()
        notes.append("a last column without name and without values was left out")
    _refuse_missing_header(body, names, name=name)
    if "" in names:
        raise InputError(
            f"every column of {name!r} must have a name, but column {names.index('') + 1} has "
            "none. Name it in the header, or leave it out (a table saved with its row numbers "
            "has such a column)."
        )
    require_unique(names, what=f"the column names of {name!r}")
    return body, names, notes


def _refuse_missing_header(body: pa.Table, names: list[str], *, name: str) -> None:
    """Raise if the first row looks like a record: its words must not become column names.

    Most of a record's answers are given by others too; hardly a column has its name as answer.
    """
    import pyarrow.compute as pc

    n_repeated = sum(
        bool(pc.any(pc.equal(pc.utf8_trim_whitespace(column), text)).as_py())
        for text, column in zip(names, body.columns, strict=True)
        if text
    )
    if n_repeated >= max(1, len(names) / 2):
        raise InputError(
            f"the first row of {name!r} must hold the column names, but it looks like a record: "
            "its words are found among the answers. Add a header, or remove a repeated one."
        )


def _is_blank(column: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    return not bool(pc.any(pc.not_equal(pc.utf8_trim_whitespace(column), "")).as_py())


def _typed(
    table: pa.Table, names: list[str], *, decimal_comma: bool
) -> tuple[pd.DataFrame, dict[str, int], list[str]]:
    """Turn text columns into numbers where they are numbers, and count the missing marks."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    marks = pa.array(MISSING_MARKS)
    counts: dict[str, int] = {}
    columns: dict[str, pd.Series] = {}
    with_decimal_comma: list[str] = []
    for name, column in zip(names, table.columns, strict=True):
        trimmed = pc.utf8_trim_whitespace(column)
        is_mark = pc.is_in(trimmed, value_set=marks)
        if pc.any(is_mark).as_py():
            for entry in pc.value_counts(trimmed.filter(is_mark)).to_pylist():
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
        nothing = pa.scalar(None, pa.string())
        answers = pc.if_else(is_mark, nothing, column)
        numbers = _numbers(pc.if_else(is_mark, nothing, trimmed))
        if numbers is None and decimal_comma:
            numbers = _decimal_comma_numbers(pc.if_else(is_mark, nothing, trimmed))
            if numbers is not None:
                with_decimal_comma.append(name)
        columns[name] = numbers if numbers is not None else _words(answers)
    ordered = {mark: counts[mark] for mark in MISSING_MARKS if mark in counts}
    return pd.DataFrame(columns), ordered, with_decimal_comma


def _numbers(column: pa.ChunkedArray) -> pd.Series | None:
    """Return the column as numbers if every answer is one, None otherwise."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return pd.Series([float("nan")] * len(column), dtype="float64")
    # 007 is a code, not seven: read as a number it would not come back as it was.
    if pc.any(pc.match_substring_regex(column, r"^[+-]?0\d")).as_py():
        return None
    whole = r"^[+-]?\d+$"
    if pc.all(pc.match_substring_regex(column, whole)).as_py():
        try:
            integers = pc.cast(pc.utf8_ltrim(column, characters="+"), pa.int64())
        except pa.ArrowInvalid:
            return None  # longer than 64 bits: an identifier
        if column.null_count:
            return pd.Series(integers.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get))
        return pd.Series(integers.to_pandas())
    number = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|Infinity|infinity)$"
    if pc.all(pc.match_substring_regex(column, number)).as_py():
        return pd.Series(pd.to_numeric(column.to_pandas()).astype("float64"))
    return None


def _decimal_comma_numbers(column: pa.ChunkedArray) -> pd.Series | None:
    """Return numbers written as 1,5 if every answer is one and none has a point."""
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(column, r"^[+-]?\d*(,\d+)?$")).as_py():
        return None
    return _numbers(pc.replace_substring(column, ",", "."))


def _words(column: pa.ChunkedArray) -> pd.Series:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == 0:
        truth = pc.is_in(column, value_set=pa.array(["True", "False"]))
        if pc.all(truth).as_py():
            return pd.Series(pc.equal(column, "True").to_pandas())
    return pd.Series(column.to_pandas())

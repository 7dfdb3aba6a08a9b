# SPDX-License-Identifier: Apache-2.0
"""Text tables: which encoding, which delimiter, which marks mean "no answer"."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from epsilens._validate import require_unique
from epsilens.data.dialect import Dialect, are_numbers, detect_dialect, type_fields
from epsilens.errors import InputError, phrase, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


DELIMITERS = (",", ";", "\t", "|")
DELIMITER_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}

_SAMPLE_RECORDS = 50
_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 26
_END = "end"
_NOT_WINDOWS = rb"[\x81\x8d\x8f\x90\x9d]"
"""Bytes that Windows-1252 does not define; Latin-1 has a control character for each."""
_WINDOWS_ONLY = rb"[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]"
"""Bytes that are a character in Windows-1252 and a control character in Latin-1."""


@dataclass(frozen=True)
class DelimitedTable:
    """A text table after reading: typed columns, every field as it is written, and how."""

    frame: pd.DataFrame
    spelled: pa.Table
    delimiter: str
    encoding: str
    missing_marks: dict[str, int]
    notes: tuple[Note, ...]
    dialect: Dialect


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
        The frame, the fields as written, the delimiter and encoding used, and the missing marks
        with their counts.

    Raises
    ------
    InputError
        If the bytes are no table with a header and at least one row, or a stray quotation mark
        makes one field of several rows.

    Examples
    --------
    >>> table = parse_delimited(b"age;smokes\n31;yes\n?;no\n", name="survey.csv")
    >>> table.delimiter, table.encoding, table.missing_marks
    (';', 'utf-8', {'?': 1})
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not content.strip():
        raise InputError(
            f"{name!r} must hold a table, but it is empty. Check that the file was saved."
        )
    used_encoding = _check_encoding(encoding) if encoding else detect_encoding(content, name=name)
    try:
        text = content.decode(used_encoding)
    except UnicodeError:
        if not encoding:
            raise _mixed(name, used_encoding) from None
        raise InputError(
            f"{name!r} must be text in the encoding {used_encoding!r}, but some bytes are not. "
            "Leave out the encoding to have it detected, or name another."
        ) from None
    text = text.removeprefix("\ufeff")
    _refuse_binary(text, name=name)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '\r\n"'):
        raise InputError(
            argument="delimiter", expected="one character, such as ',' or ';'", got=repr(delimiter)
        )
    used_delimiter = delimiter or detect_delimiter(text)
    table = parse_fields(text, used_delimiter, name=name)
    spelled, header, notes = check_header(table, used_delimiter, name=name)
    if spelled.num_rows == 0:
        raise InputError(
            f"{name!r} must have at least one row below its header, got 0 rows. "
            "Check that the file was saved completely."
        )
    if '"' in text:
        notes += _check_line_breaks(spelled, used_delimiter, name=name)
    # A space after every delimiter of the header is no part of an answer.
    first = [str(column[0].as_py()) for column in table.columns]
    is_spaced = len(first) > 1 and all(field.startswith(" ") for field in first[1:])
    fields = [pc.utf8_trim_whitespace(one) if is_spaced else one for one in spelled.columns]
    frame, marks, noted = type_fields(
        pa.table(fields, names=header), header, decimal_comma=used_delimiter != ","
    )
    return DelimitedTable(
        frame,
        spelled,
        used_delimiter,
        used_encoding,
        marks,
        (*notes, *noted),
        detect_dialect(
            text, header, delimiter=used_delimiter, encoding=used_encoding, is_spaced=is_spaced
        ),
    )


def detect_encoding(content: bytes, *, name: str = "the file") -> str:
    """Say in which encoding a text file was written.

    A byte order mark decides; then UTF-8 if every byte agrees with it; then Windows-1252, and
    Latin-1, which accepts everything, last. A file that has letters in UTF-8 and bytes that are not
    UTF-8 is refused: one field would decide how all others are read. So is a file with characters of
    Windows-1252 and bytes that it does not define.

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
        If the file is no text, or its encodings are mixed.

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
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    _refuse_binary(sample.decode("latin-1"), name=name)
    if not content.decode("utf-8", errors="ignore").isascii():
        raise _mixed(name, "UTF-8")
    if not re.search(_NOT_WINDOWS, content):
        return "cp1252"
    # Beyond these bytes and those that Windows-1252 leaves out, the two encodings agree.
    if re.search(_WINDOWS_ONLY, content):
        raise _mixed(name, "Windows-1252")
    return "latin-1"


def _mixed(name: str, encoding: str) -> InputError:
    return InputError(
        f"{name!r} must be in one encoding, but some of its bytes are {encoding} and others are "
        "not. Save it as UTF-8, or name the encoding of all of it, such as "
        f"{setting('encoding', 'cp1252')}."
    )


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
    """Return the first records, each of them whole: the header and a row at least, however long."""
    n_read = 0

    def lines() -> Iterator[str]:
        nonlocal n_read
        for line in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text):
            n_read = line.end()
            yield line[0]

    records: list[list[str]] = []
    try:
        for record in csv.reader(lines(), delimiter=delimiter):
            if record:
                records.append(record)
            if len(records) == _SAMPLE_RECORDS or (n_read > _SAMPLE_BYTES and len(records) > 1):
                break
    except csv.Error:
        return records
    return records


def _check_encoding(encoding: str) -> str:
    try:
        known = codecs.lookup(encoding).name
        # Python also knows encodings that are not of text, such as base64: it refuses them here.
        b"a".decode(known)
    except UnicodeError:
        return known
    except (LookupError, ValueError):
        raise InputError(
            argument="encoding",
            expected="a text encoding that Python knows",
            got=repr(encoding),
            hint="Try 'utf-8', 'utf-16', 'cp1252' or 'latin-1'.",
        ) from None
    return known


def _not_text(name: str) -> InputError:
    return InputError(
        f"{name!r} must be a text table, parquet or arrow file, a workbook, or a file of SPSS, Stata or "
        "SAS, but it holds other binary data. Export it as csv or parquet."
    )


def _refuse_binary(text: str, *, name: str) -> None:
    sample = text[:_SAMPLE_BYTES]
    n_control = len(re.findall(r"[\x00-\x08\x0e-\x1f\x7f]", sample))
    if "\x00" in sample or n_control > 0.001 * len(sample) + 1:
        raise _not_text(name)


def parse_fields(text: str, delimiter: str, *, name: str) -> pa.Table:
    """Cut a text into rows of fields, the header first; refuse one that is not well-formed."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = next(iter(_first_records(text, delimiter)), [])
    if not header:
        raise _open_quotation(name)
    # The parser takes an end inside a quotation for the end of the field. So a last row of our own
    # is added: if it does not come back, a quotation mark was still open and has swallowed it.
    end = [_END] * len(header)
    closing = ("" if text.endswith(("\n", "\r")) else "\n") + delimiter.join(end) + "\n"
    ragged: list[int] = []

    def count_ragged(row: arrow_csv.InvalidRow) -> str:
        ragged.append(row.actual_columns)
        return "skip"

    columns = [f"f{index}" for index in range(len(header))]
    try:
        table = arrow_csv.read_csv(
            io.BytesIO((text + closing).encode("utf-8", errors="surrogatepass")),
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
        raise _open_quotation(name) from None
    n_rows = table.num_rows - 1
    if n_rows < 0 or [column[n_rows].as_py() for column in table.columns] != end:
        raise _open_quotation(name)
    if ragged:
        raise InputError(
            f"{name!r} must have {len(header)} fields in every row, as its header has, but "
            f"{len(ragged)} rows have more or fewer. Check the delimiter "
            f"({DELIMITER_NAMES.get(delimiter, delimiter)}) and quote fields that contain it."
        )
    return table.slice(0, n_rows)


def _open_quotation(name: str) -> InputError:
    return InputError(
        f"{name!r} must be a text table, but its rows cannot be told apart. Check for a quotation mark "
        f"that is never closed, or a column name over {csv.field_size_limit():,} characters, or name the "
        "delimiter."
    )


def check_header(
    table: pa.Table, delimiter: str | None, *, name: str
) -> tuple[pa.Table, list[str], list[Note]]:
    """Return the rows below the header, the column names, and notes on what was left out.

    Of a workbook there is no delimiter, and its numbers have no decimal comma.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    notes: list[Note] = []
    raw = [str(column[0].as_py()) for column in table.columns]
    names = [text.strip() for text in raw]
    body = table.slice(1)
    if len(names) == 1 and delimiter is not None:
        others = [other for other in DELIMITERS if other != delimiter and other in names[0]]
        if others:
            typed = phrase(
                setting("delimiter", others[0]),
                command=f"`--delimiter {others[0]!r}`",
                page=f"“the delimiter {others[0]}”",
            )
            raise InputError(
                f"{name!r} was cut at every {DELIMITER_NAMES.get(delimiter, repr(delimiter))} and "
                f"gives one column only, but its header contains a {DELIMITER_NAMES[others[0]]}. "
                f"Use {typed}."
            )
    while names and not names[-1]:
        last = pc.utf8_trim_whitespace(body.column(len(names) - 1))
        if pc.any(pc.not_equal(last, "")).as_py():
            break
        body = body.remove_column(len(names) - 1)
        names.pop()
        notes.append(
            Note("column-left-out", "a last column without name and without values was left out")
        )
    # A first row that looks like a record: its answers must not become column names. Most of a record's words
    # are given by others too; hardly a column has its name as answer. And a number above numbers is one of them.
    n_answers = 0
    for text, column in zip(names, body.columns, strict=True):
        if text and pc.any(pc.equal(pc.utf8_trim_whitespace(column), text)).as_py():
            n_answers += 1
        elif text:
            both = (pa.chunked_array([[text]]), column)
            n_answers += all(
                are_numbers(part, decimal_comma=delimiter not in (",", None)) for part in both
            )
    if n_answers >= max(1, len(names) / 2):
        raise InputError(
            f"the first row of {name!r} must hold the column names, but it looks like a record: "
            "its fields are found among the answers, or are numbers above numbers. Add a header, "
            "remove a repeated one, or put a letter before names that are numbers."
        )
    if "" in names:
        raise InputError(
            f"every column of {name!r} must have a name, but column {names.index('') + 1} has "
            "none. Name it in the header, or leave it out (a table saved with its row numbers "
            "has such a column)."
        )
    require_unique(names, what=f"the column names of {name!r}")
    return body.rename_columns(names), names, notes


def _check_line_breaks(body: pa.Table, delimiter: str, *, name: str) -> list[Note]:
    """Note fields of several lines; raise if a field seems to hold whole rows.

    A stray quotation mark in one row and another in the same column further down make one field
    of all rows between. Its first line then has the fields of a row's end, its last those of a
    row's beginning, and what stands there fits the columns.
    """
    import pyarrow.compute as pc

    @cache
    def holds_numbers(index: int) -> bool:
        return are_numbers(body.column(index), decimal_comma=delimiter != ",")

    def fits(text: str, index: int) -> bool:
        if holds_numbers(index):
            return bool(re.fullmatch(r"\s*[+-]?[\d.,]+([eE][+-]?\d+)?\s*", text))
        return bool(pc.any(pc.equal(body.column(index), text)).as_py())

    notes: list[Note] = []
    for index, column in enumerate(body.columns):
        broken = column.filter(pc.match_substring_regex(column, r"[\r\n]")).to_pylist()
        if not broken:
            continue
        n_swallowing = 0
        for field in broken:
            cells = _cells_of_rows(field, index, body.num_columns, delimiter)[:_SAMPLE_RECORDS]
            # Prose between quotation marks may be cut like rows, but hardly fits the columns.
            n_fitting = sum(fits(text, place) for text, place in cells)
            n_swallowing += bool(cells) and 2 * n_fitting >= len(cells)
        if n_swallowing:
            raise InputError(
                f"{name!r} must close every quotation mark where its field ends, but "
                f"{n_swallowing} fields of column {body.schema.names[index]!r} seem to hold whole "
                "rows. Look for a stray quotation mark there, or remove line breaks from the field."
            )
        notes.append(
            Note(
                "fields-with-line-breaks",
                f"{body.schema.names[index]}: {len(broken)} fields have several lines; if that is not "
                "meant, look for a stray quotation mark",
                body.schema.names[index],
            )
        )
    return notes


def _cells_of_rows(field: str, index: int, n_columns: int, delimiter: str) -> list[tuple[str, int]]:
    """Cut a field of several lines as if it held rows: cells with their columns, or nothing."""
    lines = [line.split(delimiter) for line in re.split(r"\r\n|\r|\n", field)]
    cells: list[tuple[str, int]] = []
    for number, line in enumerate(lines):
        first = index if number == 0 else 0
        last = index if number == len(lines) - 1 else n_columns - 1
        if len(line) != last - first + 1:
            return []
        cells += [(text, place) for place, text in enumerate(line, first) if place != index]
    return cells

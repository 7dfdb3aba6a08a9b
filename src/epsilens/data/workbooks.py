# SPDX-License-Identifier: Apache-2.0
"""Workbooks: .xlsx, and what else calamine reads (.xlsm, .xlsb, .xls, .ods)."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from datetime import timedelta
from typing import TYPE_CHECKING

from epsilens._validate import require_extra
from epsilens.data.file_kinds import OLD_OFFICE
from epsilens.errors import InputError
from epsilens.notes import Note

if TYPE_CHECKING:
    import pyarrow as pa

MOST_FIELDS = 200_000_000
"""calamine takes memory for every field of the rectangle around all cells, also for empty ones."""

_CELL = re.compile(rb"""[<:](?:c|row)\s[^>]*?\br\s*=\s*["']([A-Z]{0,9})(\d{1,18})""")


def read_workbook(content: bytes, *, name: str) -> tuple[pa.Table, list[Note]]:
    """Read the first visible sheet with data, every cell as the text that a csv file would have.

    Empty rows and cells with an error count as empty. The text of a cell depends on that cell alone.

    Parameters
    ----------
    content : bytes
        The whole file.
    name : str
        The file's name, for messages.

    Returns
    -------
    pyarrow.Table and list of Note
        Columns of text, the header as the first row, and which sheet was read if there are several.

    Raises
    ------
    InputError
        If it is no workbook, has a password, or has no sheet with data.
    MissingExtraError
        If calamine is not installed.
    """
    require_extra("excel", "a workbook", "python_calamine")
    import pyarrow as pa
    from python_calamine import CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

    protected = InputError(
        f"{name!r} must be a workbook without password, but it has one. Save it without password."
    )
    if content.startswith(OLD_OFFICE) and "EncryptedPackage".encode("utf-16-le") in content:
        raise protected
    _check_extent(content, name=name)
    rows: list[list[object]] = []
    sheets, chosen = [], ""
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(content)) as workbook:
            sheets = [s for s in workbook.sheets_metadata if s.typ == SheetTypeEnum.WorkSheet]
            for sheet in sorted(sheets, key=lambda s: s.visible != SheetVisibleEnum.Visible):
                found = workbook.get_sheet_by_name(sheet.name).to_python()
                rows = [row for row in found if any(cell not in ("", None) for cell in row)]
                if rows:
                    chosen = sheet.name
                    break
    except PasswordError:
        raise protected from None
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException:  # a panic of Rust is no Exception
        raise InputError(
            f"{name!r} must be a complete Excel workbook, but it is damaged, cut short or another "
            "kind of file. Save it again as .xlsx or csv."
        ) from None
    if len(rows) < 2:
        raise InputError(
            f"{name!r} must have a sheet with column names and at least one row below them, got "
            f"{len(rows)} rows in {len(sheets)} sheets. Check that the workbook was saved completely."
        )
    columns = {
        str(place): pa.array([as_text(cell) for cell in column], pa.string())
        for place, column in enumerate(zip(*rows, strict=True))
    }
    said = (
        f"of {len(sheets)} sheets the first with data was read: {chosen!r}. To read another, move it "
        "to the front or save it as a file of its own"
    )
    return pa.table(columns), [Note("sheet-read", said)] if len(sheets) > 1 else []


def _check_extent(content: bytes, *, name: str) -> None:
    """Refuse an .xlsx file with a cell so far away that there is no memory for what lies between."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    n_rows, n_columns = 0, 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for part in archive.namelist():
                if not part.endswith(".xml"):
                    continue
                with archive.open(part) as file:
                    rest = b""
                    while piece := file.read(2**20):
                        found = _CELL.findall(rest + piece)
                        n_rows = max([n_rows, *map(int, {row for _, row in found})])
                        for letters in {letters for letters, _ in found}:
                            n_columns = max(n_columns, _place(letters))
                        rest = piece[-200:]
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError):
        return  # who reads it says what is wrong
    if n_rows * n_columns > MOST_FIELDS:
        raise InputError(
            f"the sheets of {name!r} must span at most {MOST_FIELDS // 10**6} million fields, got "
            f"{n_rows:,} rows and {n_columns:,} columns. Delete cells far from the table, or save it as csv."
        )


def _place(letters: bytes) -> int:
    """Return the number of a column, counted from 1: AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def as_text(value: object) -> str:
    """Write a value as a csv file would have it: whole numbers without a point, dates as 2024-01-31.

    Examples
    --------
    >>> as_text(2.0), as_text(0.5), as_text(None)
    ('2', '0.5', '')
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return "" if value is None else str(value)

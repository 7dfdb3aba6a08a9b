# SPDX-License-Identifier: Apache-2.0
"""Workbooks: .xlsx, and what else calamine reads (.xlsm, .xlsb, .xls, .ods)."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

from epsilens._validate import require_extra
from epsilens.data.file_kinds import OLD_OFFICE
from epsilens.errors import InputError
from epsilens.notes import Note

if TYPE_CHECKING:
    import pyarrow as pa


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

# SPDX-License-Identifier: Apache-2.0
"""Files of SPSS, Stata and SAS: codes become what their value labels say."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from epsilens._validate import require_extra
from epsilens.data.columnar import frame_from_arrow
from epsilens.data.file_kinds import FileKind, is_portable
from epsilens.data.schema import LARGEST_NUMERIC_DOMAIN
from epsilens.data.workbooks import as_text
from epsilens.errors import InputError, setting
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_NAMES = {"spss": "SPSS", "stata": "Stata", "sas": "SAS"}


def read_statistics_file(
    content: bytes, kind: FileKind, *, name: str, encoding: str | None = None, spelled: bool = False
) -> tuple[pd.DataFrame, pa.Table | None, int, list[Note]]:
    """Read a file of SPSS, Stata or SAS.

    A column of codes with value labels becomes text. If every code that occurs has a label, the labels are
    the declared answers of the column. Values that the file declares as missing, and blank text, are
    missing. Whole numbers that are stored as floats become whole numbers.

    Parameters
    ----------
    content : bytes
        The whole file.
    kind : {"spss", "stata", "sas"}
    name : str
        The file's name, for messages.
    encoding : str, optional
        Instead of the one that the file declares.
    spelled : bool
        Whether to return every field as text too.

    Returns
    -------
    tuple
        The frame, its fields as text or None, how many texts are blank, and notes.

    Raises
    ------
    InputError
        If the file is damaged.
    MissingExtraError
        If pyreadstat is not installed.
    """
    import pandas as pd
    import pyarrow as pa

    data, meta = open_statistics_file(content, kind, what=repr(name), encoding=encoding)
    columns: list[pa.Array] = []
    texts: list[list[str]] = []
    declared: dict[str, list[str]] = {}
    notes: list[Note] = []
    n_blank = 0
    for column, values in data.items():
        missing = meta.missing_ranges.get(column, ())
        is_text = any(isinstance(value, str) for value in values)
        answers = values
        if missing or is_text:
            n_blank += sum(isinstance(value, str) and not value.strip() for value in values)
            answers = [None if _is_missing(value, missing) else value for value in values]
        labels = {
            code: label.strip()
            for code, label in meta.variable_value_labels.get(column, {}).items()
            # Letters are the codes of text; above numbers they are missing values of their own (.a to .z).
            if label.strip() and isinstance(code, str) == is_text and not _is_missing(code, missing)
        }
        bare = {one for one in answers if one is not None and one not in labels} if labels else ()
        if spelled:
            texts.append([as_text(labels.get(answer, answer)) for answer in answers])
        count = "1 value has" if len(bare) == 1 else f"{len(bare)} values have"
        if len(bare) > LARGEST_NUMERIC_DOMAIN:
            said = f"{column}: {count} no label, so the column keeps its codes"
            notes.append(Note("values-without-label", said, column))
        elif labels:
            written = {code: as_text(code) for code in bare} | labels
            answers = [written.get(one) for one in answers]
            if bare:
                said = f"{column}: {count} no label, and the codes stay for these"
                notes.append(Note("values-without-label", said, column))
            else:
                declared[column] = list(dict.fromkeys(labels.values()))
        columns.append(_array(answers, column=column, name=name))
    frame = frame_from_arrow(pa.table(columns, names=list(data)), name=name)
    for column, possible in declared.items():
        frame[column] = pd.Categorical(frame[column], categories=possible)
    return frame, pa.table(texts, names=list(data)) if spelled else None, n_blank, notes


def open_statistics_file(
    content: bytes, kind: FileKind, *, what: str, encoding: str | None = None, **options: bool
) -> tuple[Mapping[str, list[Any]], Any]:
    """Return the columns as lists, and what the file says of them; with the texts of errors withheld."""
    require_extra("stats", f"a file of {_NAMES[kind]}", "pyreadstat")
    import pyreadstat

    if kind == "stata":
        read = pyreadstat.read_dta
    elif kind == "sas":
        read = pyreadstat.read_xport if content.startswith(b"HEADER") else pyreadstat.read_sas7bdat
    elif is_portable(content):
        read = pyreadstat.read_por
    else:
        read = pyreadstat.read_sav
        options["user_missing"] = True  # only then it says which values are declared as missing
    given = {"encoding": encoding} if encoding and read is not pyreadstat.read_por else {}
    try:
        found: tuple[Mapping[str, list[Any]], Any] = read(
            io.BytesIO(content), output_format="dict", **options, **given
        )
    except MemoryError:
        raise
    except Exception:
        raise InputError(
            f"{what} must be a complete {_NAMES[kind]} file with dates before the year 10000, but it "
            "is damaged, cut short, protected by a password or in another encoding "
            f"({setting('encoding')}). Save it again, or as csv."
        ) from None
    return found


def _is_missing(value: object, missing: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether a value is blank or in a range that the file declares as missing."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    return any(
        value == one["lo"] if isinstance(value, str) else one["lo"] <= value <= one["hi"]
        for one in missing
    )


def _array(values: Sequence[object], *, column: str, name: str) -> pa.Array:
    """Return a column with the type of its values; whole numbers are whole."""
    import pyarrow as pa

    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError):
        raise InputError(
            f"column {column!r} of {name!r} must hold numbers, words or dates, but it holds several "
            "kinds. Drop it before reading."
        ) from None
    try:
        return array.cast(pa.int64()) if pa.types.is_floating(array.type) else array
    except pa.ArrowInvalid:  # some have a fraction
        return array

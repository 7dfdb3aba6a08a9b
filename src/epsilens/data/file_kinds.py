# SPDX-License-Identifier: Apache-2.0
"""What kind of file a table is: by its first bytes, and by the ending of its name."""

from __future__ import annotations

from typing import Literal

FileKind = Literal["text", "gzip", "parquet", "arrow", "excel", "spss", "stata", "sas"]

BY_SUFFIX: dict[str, FileKind] = {
    ".csv": "text",
    ".csv.gz": "gzip",
    ".tsv": "text",
    ".tsv.gz": "gzip",
    ".txt": "text",
    ".txt.gz": "gzip",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".xlsb": "excel",
    ".xls": "excel",
    ".ods": "excel",
    ".sav": "spss",
    ".zsav": "spss",
    ".por": "spss",
    ".dta": "stata",
    ".sas7bdat": "sas",
    ".xpt": "sas",
}

OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""Begins .xls, and every workbook with a password."""

_BEGINNINGS: dict[FileKind, tuple[bytes, ...]] = {
    "gzip": (b"\x1f\x8b",),
    "parquet": (b"PAR1",),
    "arrow": (b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"),
    "excel": (b"PK\x03\x04", OLD_OFFICE),
    "spss": (b"$FL2", b"$FL3"),
    # Its version, the order of bytes, and 1; since version 117 a word.
    "stata": (
        b"<stata_dta>",
        *(
            bytes([version, order, 1])
            for version in (*range(110, 116), 104, 105, 108)
            for order in (1, 2)
        ),
    ),
    "sas": (bytes(12) + b"\xc2\xea\x81\x60", b"HEADER RECORD*******LIB"),
}


def kind_of(start: bytes) -> FileKind | None:
    """Return the kind of a file by its first 600 bytes; None for text and what is unknown.

    Examples
    --------
    >>> kind_of(b"PAR1"), kind_of(b"age,smokes")
    ('parquet', None)
    """
    for kind, signs in _BEGINNINGS.items():
        if start.startswith(signs):
            return kind
    return "spss" if is_portable(start) else None


def is_portable(start: bytes) -> bool:
    """Say whether a file is one of SPSS for every machine (.por): its name comes after 456 letters."""
    return start[:600].replace(b"\r", b"").replace(b"\n", b"")[456:464] == b"SPSSPORT"


def suffix_of(name: str) -> str | None:
    """Return the ending of a table's name, the longest that is known, or None.

    Examples
    --------
    >>> suffix_of("Survey.CSV.gz"), suffix_of("notes.doc")
    ('.csv.gz', None)
    """
    return max((end for end in BY_SUFFIX if name.lower().endswith(end)), key=len, default=None)

# SPDX-License-Identifier: Apache-2.0
"""Files of a data set: how one is read, written, and recognised by its content.

A checksum is of the content in one canonical form (columns in order, rows sorted, numbers in fifteen
digits), not of the bytes of a file, so a copy from OpenML, from the UCI repository or from a folder has the
same one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from epsilens.errors import InputError

__all__ = ["ArraysFile", "DataFile", "JsonFile", "TableFile"]

Kind = Literal["text", "integer", "number"]
_DIGITS = "%.15g"
# What reading a cut or garbled archive may raise.
_DAMAGED = (OSError, EOFError, zlib.error, zipfile.BadZipFile)


class DataFile(Protocol):
    """A file of a data set."""

    @property
    def path(self) -> str:
        """Where it lies inside the data folder."""

    @property
    def sha256(self) -> str:
        """Checksum of the canonical content."""

    def canonical(self, content: Any) -> Any:
        """Bring content into the one form that every source must lead to."""

    def checksum(self, content: Any) -> str:
        """Hash canonical content."""

    def read(self, file: Path) -> Any:
        """Read a file into its canonical content."""

    def write(self, content: Any, file: Path) -> None:
        """Write canonical content."""


@dataclass(frozen=True)
class TableFile:
    """A table as csv or csv.gz.

    Attributes
    ----------
    path : str
    sha256 : str
    columns : mapping of name to {"text", "integer", "number"}
        In their order. A "number" may be missing; an "integer" may not.
    missing : str
        The mark of a missing text.
    """

    path: str
    sha256: str
    columns: Mapping[str, Kind]
    missing: str = ""

    def canonical(self, content: pd.DataFrame) -> pd.DataFrame:
        """Put columns, types, missing marks and the order of the rows as every source must have them."""
        absent = [name for name in self.columns if name not in content]
        if absent:
            raise InputError(
                f"{self.path} must have {len(self.columns)} columns, and {', '.join(absent)} came not. "
                "Get the file again."
            )
        made = {}
        for name, kind in self.columns.items():
            column = content[name]
            if kind == "text":
                texts = column.astype(object).where(column.notna(), self.missing)
                made[name] = texts.astype(str).str.strip()
            else:
                made[name] = self._numbers(name, kind, column)
        table = pd.DataFrame(made)
        return table.sort_values(list(self.columns), ignore_index=True)

    def _numbers(self, name: str, kind: Kind, column: pd.Series) -> pd.Series:
        try:
            # Python's own reading of a number is exact; pandas' is to the last digit but one.
            values = column.astype(object).replace("", np.nan).astype("float64")
        except (ValueError, TypeError):
            values = None
        if values is None or (kind == "integer" and not (values % 1 == 0).all()):
            what = "whole numbers" if kind == "integer" else "numbers"
            raise InputError(
                f"{self.path} must have {what} in {name}, and others came. Get the file again."
            )
        return values.astype("int64" if kind == "integer" else "float64")

    def checksum(self, content: pd.DataFrame) -> str:
        """Hash canonical content."""
        return hashlib.sha256(self._text(content).encode("utf-8")).hexdigest()

    def read(self, file: Path) -> pd.DataFrame:
        """Read a file into its canonical content."""
        try:
            table = pd.read_csv(file, dtype=str, keep_default_na=False)
        except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError, *_DAMAGED):
            raise InputError(
                f"{self.path} must be a csv table, and it cannot be read. Get the file again."
            ) from None
        return self.canonical(table)

    def write(self, content: pd.DataFrame, file: Path) -> None:
        """Write canonical content."""
        text = self._text(content).encode("utf-8")
        # Without a time inside, the same content gives the same file.
        file.write_bytes(gzip.compress(text, mtime=0) if self.path.endswith(".gz") else text)

    @staticmethod
    def _text(content: pd.DataFrame) -> str:
        return content.to_csv(index=False, lineterminator="\n", float_format=_DIGITS)


@dataclass(frozen=True)
class ArraysFile:
    """Named arrays as npz.

    Attributes
    ----------
    path : str
    sha256 : str
    arrays : mapping of name to "text" or a numpy type
    """

    path: str
    sha256: str
    arrays: Mapping[str, str]

    def canonical(self, content: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Give every array its type."""
        absent = [name for name in self.arrays if name not in content]
        if absent:
            raise InputError(
                f"{self.path} must hold {', '.join(self.arrays)}, and {', '.join(absent)} came not. "
                "Get the file again."
            )
        try:
            return {
                name: np.ascontiguousarray(
                    np.asarray(content[name]).astype(str if kind == "text" else kind)
                )
                for name, kind in self.arrays.items()
            }
        except (ValueError, TypeError):
            raise InputError(
                f"{self.path} must hold arrays of numbers, and others came. Get the file again."
            ) from None

    def checksum(self, content: Mapping[str, np.ndarray]) -> str:
        """Hash names, shapes and values."""
        digest = hashlib.sha256()
        for name, kind in self.arrays.items():
            array = content[name]
            digest.update(f"{name} {kind} {array.shape}\n".encode())
            # The width of numpy's texts depends on the longest: hash the texts themselves.
            if kind == "text":
                digest.update("\n".join(array.ravel().tolist()).encode("utf-8"))
            else:
                digest.update(array.tobytes())
        return digest.hexdigest()

    def read(self, file: Path) -> dict[str, np.ndarray]:
        """Read a file into its canonical content."""
        try:
            with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                content = {name: stored[name] for name in stored.files}
        except (ValueError, *_DAMAGED):
            raise InputError(
                f"{self.path} must be an npz file, and it cannot be read. Get the file again."
            ) from None
        return self.canonical(content)

    def write(self, content: Mapping[str, np.ndarray], file: Path) -> None:
        """Write canonical content."""
        held = io.BytesIO()
        np.savez_compressed(held, **content)
        file.write_bytes(held.getvalue())


@dataclass(frozen=True)
class JsonFile:
    """A JSON object as json.gz."""

    path: str
    sha256: str

    def canonical(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return it as it is: JSON has one form."""
        return content

    def checksum(self, content: dict[str, Any]) -> str:
        """Hash the object with its keys sorted."""
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def read(self, file: Path) -> dict[str, Any]:
        """Read a file into its content."""
        try:
            content: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
        except (ValueError, *_DAMAGED):
            raise InputError(
                f"{self.path} must be gzipped JSON, and it cannot be read. Get the file again."
            ) from None
        return content

    def write(self, content: dict[str, Any], file: Path) -> None:
        """Write the object."""
        file.write_bytes(gzip.compress(json.dumps(content).encode("utf-8"), mtime=0))

# SPDX-License-Identifier: Apache-2.0
"""The one door to the data: from a folder, or downloaded once, checked either way."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets.files import DataFile
from datasets.sources import UNREACHABLE, Source
from epsilens.data.atomic import replacing
from epsilens.errors import InputError, MissingExtraError

__all__ = ["DataSet", "cache_folder", "read_or_download", "refuse_other_shape"]


@dataclass(frozen=True)
class DataSet:
    """A data set: its files, where they come from, and the table they make.

    Attributes
    ----------
    name : str
    files : tuple of DataFile
    assemble : callable
        Makes what `load` returns from the contents, in the order of the files.
    sources : tuple of Source
        Tried in order; none for what can only be had from a folder.
    versions : str or None
        Why another version may be about: then an unknown checksum is a warning, not an error.
    """

    name: str
    files: tuple[DataFile, ...]
    assemble: Callable[..., Any]
    sources: tuple[Source, ...] = ()
    versions: str | None = None


def cache_folder() -> Path:
    """Return where downloads are kept: `EPSILENS_DATA`, else `~/.cache/epsilens`."""
    named = os.environ.get("EPSILENS_DATA")
    return Path(named) if named else Path.home() / ".cache" / "epsilens"


def read_or_download(data_set: DataSet, folder: Path | None) -> Any:
    """Return the table of a data set.

    Parameters
    ----------
    data_set : DataSet
    folder : Path or None
        Where the files lie. None: the cache, and what is not there yet is downloaded.

    Raises
    ------
    InputError
        If a file is missing, is not the known one, or no source can be reached.
    MissingExtraError
        If the loader of the only source is not installed.
    """
    root = cache_folder() if folder is None else Path(folder)
    missing = [file for file in data_set.files if not (root / file.path).is_file()]
    if missing and folder is None:
        _download(data_set, root)
    elif missing:
        raise InputError(
            f"{data_set.name} needs {_paths(missing)} in the data folder, and there is no such file. "
            "Put it there, or leave out --data to download it."
        )
    try:
        return _read(data_set, root)
    except InputError:
        # A file in the cache is ours: one that is damaged is fetched again, once.
        if folder is not None or missing:
            raise
    _download(data_set, root)
    return _read(data_set, root)


def _read(data_set: DataSet, root: Path) -> Any:
    contents = [file.read(root / file.path) for file in data_set.files]
    for file, content in zip(data_set.files, contents, strict=True):
        _check(data_set, file, content)
    return data_set.assemble(*contents)


def refuse_other_shape(name: str, shape: tuple[int, int], expected: tuple[int, int] | None) -> None:
    """Stop if a prepared table has not the shape that the paper states."""
    if expected is not None and shape != expected:
        raise InputError(
            f"{name} must be {expected[0]:,} rows × {expected[1]} columns once prepared, got "
            f"{shape[0]:,} × {shape[1]}. Get the data again."
        )


def _download(data_set: DataSet, root: Path) -> None:
    contents = _fetch(data_set)
    canonical = {file.path: file.canonical(contents[file.path]) for file in data_set.files}
    for file in data_set.files:
        _check(data_set, file, canonical[file.path], is_quiet=True)
    for file in data_set.files:
        target = root / file.path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"the cache folder must be writable, got {type(error).__name__}. Set EPSILENS_DATA "
                "to another folder."
            ) from None
        with replacing(target) as scratch:
            file.write(canonical[file.path], scratch)


def _fetch(data_set: DataSet) -> Mapping[str, Any]:
    needed: MissingExtraError | None = None
    tried = []
    for source in data_set.sources:
        try:
            return source.fetch()
        except MissingExtraError as error:
            needed = needed or error
        except UNREACHABLE:
            tried.append(source.name)
    if needed is not None and not tried:
        raise needed
    reason = f"could not reach {' or '.join(tried)}" if tried else "is given by no public loader"
    if needed is not None:
        reason += f" ({needed})"
    raise InputError(
        f"{data_set.name}: {reason}: put {_paths(data_set.files)} under DIR and pass --data DIR."
    )


def _check(data_set: DataSet, file: DataFile, content: Any, *, is_quiet: bool = False) -> None:
    if file.checksum(content) == file.sha256:
        return
    if data_set.versions is None:
        raise InputError(
            f"{file.path} must have the known content, and its checksum is another. Get the file again."
        )
    if not is_quiet:
        warnings.warn(
            f"{file.path} is not the version that the tables were made with ({data_set.versions}): "
            "numbers may differ a little.",
            stacklevel=4,
        )


def _paths(files: Any) -> str:
    return " and ".join(file.path for file in files)

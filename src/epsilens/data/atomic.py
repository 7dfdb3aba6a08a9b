# SPDX-License-Identifier: Apache-2.0
"""Files appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epsilens.errors import InputError

__all__ = ["replacing", "write_text"]


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a scratch file that takes the place of `path` when all has gone well.

    A reader of `path` sees the old file or the complete new one, never a half. If anything
    goes wrong in between, Ctrl-C included, the scratch file is removed and `path` is untouched.

    Parameters
    ----------
    path : str or Path
        The file to be written. Its folder must exist.

    Yields
    ------
    Path
        A file name in the same folder, to be written by the caller.

    Raises
    ------
    InputError
        If the folder does not exist, or cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "answer.txt") as scratch:
    ...     _ = scratch.write_text("42")
    >>> [file.name for file in folder.iterdir()]
    ['answer.txt']
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"the output must be a file, got the folder {target.name!r}. Add a name.")
    if not target.parent.is_dir():
        raise InputError(
            f"the output folder must exist, got {str(target.parent)!r}. Create it first."
        )
    scratch = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        scratch.touch(exist_ok=False)
    except OSError as error:
        raise InputError(
            f"the output folder must be writable, got {type(error).__name__} for "
            f"{str(target.parent)!r}. Choose another place."
        ) from None
    try:
        yield scratch
        with scratch.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def write_text(text: str, path: str | Path) -> None:
    """Write text to a file so that it appears whole or not at all.

    Parameters
    ----------
    text : str
        What the file will hold, in UTF-8.
    path : str or Path
        The file; an older one of that name is replaced.

    Raises
    ------
    InputError
        If the folder does not exist, or cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_text("done", file)
    >>> file.read_text()
    'done'
    """
    with replacing(path) as scratch:
        scratch.write_bytes(text.encode("utf-8"))

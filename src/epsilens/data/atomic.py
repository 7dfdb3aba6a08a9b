# SPDX-License-Identifier: Apache-2.0
"""Files appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epsilens._scratch import announce_scratch
from epsilens.errors import InputError

__all__ = ["replacing", "target_file", "write_text"]

_NAME_SHOWN_IN_SCRATCH = 40
"""Characters of the target's name in the scratch file's: file names have a largest length."""


def target_file(path: str | Path) -> Path:
    """Return the file that writing to `path` would replace, or refuse what is no such file.

    A symbolic link stays a link: the file that it points to is the one that is written. A folder,
    a device or a pipe is refused, since it would be taken away and a file put in its place.

    Parameters
    ----------
    path : str or Path
        What the user named.

    Returns
    -------
    Path
        An absolute path without symbolic links, of a file that exists or can be made.

    Raises
    ------
    InputError
        If the folder does not exist, or `path` is a folder, a device or a pipe.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "latest.txt").symlink_to(folder / "may.txt")
    >>> target_file(folder / "latest.txt").name
    'may.txt'
    """
    target = Path(os.path.realpath(path))
    name = Path(path).name
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not target.parent.is_dir():
            raise InputError(
                f"the output folder must exist, got {str(target.parent)!r}. Create it first."
            ) from None
        return target
    except OSError as error:
        raise InputError(
            f"the output must be a file that can be reached, got {type(error).__name__} for "
            f"{name!r}. Choose another place."
        ) from None
    if stat.S_ISDIR(mode):
        raise InputError(f"the output must be a file, got the folder {name!r}. Add a name.")
    if not stat.S_ISREG(mode):
        raise InputError(
            f"the output must be an ordinary file, but {name!r} is a device or a pipe. "
            "Choose another name."
        )
    return target


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a scratch file that takes the place of `path` when all has gone well.

    A reader of `path` sees the old file or the complete new one, never a half. If anything
    goes wrong in between, Ctrl-C included, the scratch file is removed and `path` is untouched.
    A file that is replaced keeps its permissions, and a symbolic link goes on pointing to it.

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
        If the folder does not exist or cannot be written to, or `path` is no ordinary file.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "answer.txt") as scratch:
    ...     _ = scratch.write_text("42")
    >>> [file.name for file in folder.iterdir()]
    ['answer.txt']
    """
    target = target_file(path)
    scratch = target.with_name(
        f".{target.name[:_NAME_SHOWN_IN_SCRATCH]}.{secrets.token_hex(4)}.part"
    )
    announce_scratch(scratch)
    try:
        _create(scratch, like=target)
        yield scratch
        with scratch.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def _create(scratch: Path, *, like: Path) -> None:
    """Make the scratch file with the replaced file's permissions, else those of a new file."""
    try:
        scratch.touch(exist_ok=False)
        if like.exists():
            # The owner must be able to write it now.
            scratch.chmod((like.stat().st_mode & 0o777) | 0o600)
    except OSError as error:
        raise InputError(
            f"the output folder must be writable, got {type(error).__name__} for "
            f"{str(like.parent)!r}. Choose another place."
        ) from None


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

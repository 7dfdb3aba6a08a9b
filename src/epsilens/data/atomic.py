# SPDX-License-Identifier: Apache-2.0
"""Files appear whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from epsilens._scratch import announce_scratch
from epsilens.errors import InputError, system_refusal

try:
    import fcntl
except ImportError:  # not on Windows, where scratch files of killed processes stay
    fcntl = None  # type: ignore[assignment]


_NAME_SHOWN_IN_SCRATCH = 40
"""Characters of the target's name in the scratch file's: file names have a largest length."""
_SCRATCH = re.compile(r"\..*\.[0-9a-f]{8}\.epsilens\.part", re.DOTALL)


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
        raise system_refusal(
            error, subject=repr(name), must="be a file that can be written"
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
def replacing(
    path: str | Path, *, private: bool = False, announce: Callable[[], None] | None = None
) -> Iterator[Path]:
    """Give a scratch file that takes the place of `path` when all has gone well.

    A reader of `path` sees the old file or the complete new one, never a half. If anything
    goes wrong in between, Ctrl-C included, the scratch file is removed and `path` is untouched.
    Its owner alone can read the scratch file. A file that is replaced keeps its permissions, and a
    symbolic link goes on pointing to it. On return the new file is on the disk.

    Parameters
    ----------
    path : str or Path
        The file to be written. Its folder must exist.
    private : bool
        Whether its owner alone may read the new file, whoever could read the old one.
    announce : callable, optional
        Called when the new file is whole and on the disk, before it takes its name.

    Yields
    ------
    Path
        A file name in the same folder, to be written by the caller.

    Raises
    ------
    InputError
        If the folder does not exist, `path` is no ordinary file, or the operating system refuses.

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
    mode = 0o600
    if not private:
        # The mask cannot be read without setting it: other threads' files are private meanwhile.
        mask = os.umask(0o077)
        os.umask(mask)
        mode = stat.S_IMODE(target.stat().st_mode) & 0o777 if target.exists() else 0o666 & ~mask
    try:
        with scratch_beside(target) as scratch:
            yield scratch
            with scratch.open("rb") as written:
                os.fsync(written.fileno())
            if announce is not None:
                announce()
            scratch.chmod(mode)
            os.replace(scratch, target)
            sync_folder(target.parent)
    except OSError as error:
        # The error may name the scratch file, which nobody asked for.
        raise system_refusal(
            error, subject=repr(Path(path).name), must="be a file that can be written"
        ) from None


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """Give a new, empty file beside a target, for its owner alone; remove it at the end if it is there.

    It is locked meanwhile, so that `remove_stale` of another process leaves it alone.
    """
    remove_stale(target.parent)
    scratch = target.with_name(
        f".{target.name[:_NAME_SHOWN_IN_SCRATCH]}.{secrets.token_hex(4)}.epsilens.part"
    )
    announce_scratch(scratch)
    while True:
        lock = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        with suppress(OSError):  # some network file systems have no locks
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
        if scratch.exists():
            break
        os.close(lock)  # taken for a stale one before it was locked
    if fcntl is None:
        os.close(lock)
    try:
        yield scratch
    finally:
        if fcntl is not None:
            os.close(lock)
        scratch.unlink(missing_ok=True)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time into a block about a folder, where there are locks.

    Examples
    --------
    >>> import tempfile
    >>> with locked_folder(Path(tempfile.mkdtemp())):
    ...     pass
    """
    descriptor = None
    with suppress(OSError):  # some file systems have no locks, or no folders that can be opened
        descriptor = None if fcntl is None else os.open(folder, os.O_RDONLY)
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def remove_stale(folder: Path) -> None:
    """Remove the scratch files that killed processes have left in a folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / ".answer.txt.0123abcd.epsilens.part").touch()
    >>> remove_stale(folder)
    >>> list(folder.iterdir())
    []
    """
    if fcntl is None:
        return
    with suppress(OSError):  # a folder that cannot be listed can be written all the same
        for entry in os.scandir(folder):
            if _SCRATCH.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    """Remove a file unless a living process holds its lock, or it is another user's."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Put the names of a folder on the disk, so that a power cut does not undo a renaming."""
    with suppress(OSError):  # not all file systems can, and the files themselves are on the disk
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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
        If the folder does not exist, or the operating system refuses.

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

# SPDX-License-Identifier: Apache-2.0
"""The folder in which studies are kept: its place, and that nobody else can read it."""

from __future__ import annotations

import os
import re
import secrets
import sys
from pathlib import Path

from epsilens.errors import InputError

DATABASE = "studies.sqlite"
_INSIDE = ("tables", "checkpoints", "temporary")
_SIGNPOST = re.compile(r"open-[0-9a-f]{16}\.html")


def default_folder() -> Path:
    """Return where studies are kept unless another place is named.

    Examples
    --------
    >>> default_folder().name
    'epsilens'
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "epsilens"


def open_folder(path: str | Path) -> Path:
    """Make the folder, or take one that was made by an earlier start; close it to other users.

    Parameters
    ----------
    path : str or Path
        Where.

    Returns
    -------
    Path
        The folder, absolute, with its parts.

    Raises
    ------
    InputError
        If it cannot be made, or holds something else.

    Examples
    --------
    >>> import tempfile
    >>> folder = open_folder(Path(tempfile.mkdtemp()) / "state")
    >>> sorted(part.name for part in folder.iterdir())
    ['checkpoints', 'tables', 'temporary']
    """
    folder = Path(path).expanduser().absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = {entry.name for entry in folder.iterdir()}
        if found - {DATABASE, *_INSIDE} and DATABASE not in found:
            raise InputError(
                f"`--state` must be a new or empty folder, or one of an earlier start, but "
                f"{folder.name!r} holds other files. Choose another place."
            )
        for name in _INSIDE:
            part = folder / name
            # What is in these is cleared away: it must be ours, and here.
            strange = DATABASE not in found and part.is_dir() and any(part.iterdir())
            if part.is_symlink() or strange:
                raise InputError(
                    f"`--state` must be a new or empty folder, or one of an earlier start, but "
                    f"{name!r} in {folder.name!r} is not ours. Choose another place."
                )
        folder.chmod(0o700)
        for name in _INSIDE:
            (folder / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"`--state` must be a folder that can be made and written, got {type(error).__name__} "
            f"for {folder.name!r}. Choose another place."
        ) from None
    return folder


def put_signpost(folder: Path, address: str) -> Path:
    """Write a page that leads to an address, which so stands in no list of processes.

    Parameters
    ----------
    folder : Path
        Opened by `open_folder`.
    address : str
        The link; `clear_signposts` takes the page away once it was used.

    Examples
    --------
    >>> import tempfile
    >>> folder = open_folder(tempfile.mkdtemp())
    >>> path = put_signpost(folder, "http://127.0.0.1:8080/#token=secret")
    >>> "secret" in path.name, "secret" in path.read_text()
    (False, True)
    >>> clear_signposts(folder)
    >>> path.exists()
    False
    """
    path = folder / f"open-{secrets.token_hex(8)}.html"
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>epsilens</title>'
        '<meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0;url={address}">'
        f'<p><a href="{address}">Go on to the page</a></p></html>\n'
    )
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(page)
    return path


def clear_signposts(folder: Path) -> None:
    """Take away the pages of `put_signpost`, of this start and of earlier ones."""
    for file in folder.iterdir():
        if _SIGNPOST.fullmatch(file.name) and file.is_file() and not file.is_symlink():
            file.unlink(missing_ok=True)

# SPDX-License-Identifier: Apache-2.0
"""Where a result may be written: never over what it was computed from."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from epsilens.errors import InputError

__all__ = ["check_new", "check_state", "check_target"]


def check_target(
    out: str | Path | None,
    *,
    sources: Mapping[str, str | Path | None],
    suffixes: Sequence[str] = (),
    option: str = "--out",
) -> None:
    """Refuse, before any work, an `--out` that cannot be written or would destroy a source.

    Parameters
    ----------
    out : str or Path, optional
        What was typed; None is always fine.
    sources : mapping of str to (str, Path or None)
        What the result is computed from, by the words for it in a message. A folder protects all
        that is in it, "-" stands for standard input, and None for nothing.
    suffixes : sequence of str
        The endings that it may have; any by default.
    option : str
        What it was typed for.

    Raises
    ------
    InputError
        If the ending is another, the folder does not exist, the target is a folder, a device or a
        pipe, or it is one of the sources or lies inside one.

    Examples
    --------
    >>> check_target("survey.csv", sources={"the data": "survey.csv"})
    Traceback (most recent call last):
    ...
    epsilens.errors.InputError: `--out` must be another file than the data, which the result would
    replace. Choose another name.
    """
    from epsilens.data.atomic import target_file

    if out is None:
        return
    path = Path(out)
    if suffixes and not path.name.lower().endswith(tuple(suffixes)):
        raise InputError(
            f"`{option}` must end in {', '.join(suffixes)}, got {path.name!r}. The ending decides "
            "what is written."
        )
    if not path.parent.is_dir():
        raise InputError(
            f"`{option}` must be in a folder that exists, got {str(out)!r}. Create it."
        )
    target = target_file(path)
    for words, source in sources.items():
        if source is None:
            continue
        if _is_same(target, source):
            raise InputError(
                f"`{option}` must be another file than {words}, which the result would replace. "
                "Choose another name."
            )
        if os.path.isdir(source) and target.is_relative_to(os.path.realpath(source)):
            raise InputError(
                f"`{option}` must not be inside the folder of {words}: the result would be taken for "
                "a part of them. Choose another folder."
            )


def check_new(out: str | Path, *, force: bool) -> None:
    """Refuse an `--out` that exists already, unless it may be replaced."""
    if Path(out).exists() and not force:
        raise InputError(
            f"`--out` must be a new file, but {Path(out).name!r} exists. Choose another name, or use "
            "`--force`."
        )


def check_state(state: str) -> Path:
    """Return the folder of `--state`, which may be new; refuse what is no folder."""
    from epsilens.data.private_files import writable

    folder = Path(state)
    with writable(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError(
                f"`--state` must be a folder, got the file {folder.name!r}. Choose another place."
            )
    return folder


def _is_same(target: Path, source: str | Path) -> bool:
    """Say whether two names are of one file, be it by a link or by redirected input."""
    if str(source) != "-" and target == Path(os.path.realpath(source)):
        return True
    try:
        read = os.fstat(sys.stdin.fileno()) if str(source) == "-" else os.stat(source)
        return os.path.samestat(target.stat(), read)
    except (AttributeError, OSError, ValueError):
        # One of them does not exist (yet), or standard input is no file.
        return False

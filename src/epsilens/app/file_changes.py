# SPDX-License-Identifier: Apache-2.0
"""Whether a file that is not ours is still the one that was asked about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from epsilens.errors import InputError


def seen(path: Path) -> str:
    """Return what tells a file, or a folder of files, from itself after it was changed.

    Sizes and times of the last change, not contents: a large file is not read once more.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "survey.csv"
    >>> seen(file)
    'gone'
    >>> _ = file.write_text("a,b")
    >>> before = seen(file)
    >>> _ = file.write_text("a,b,c")
    >>> seen(file) == before
    False
    """
    try:
        if not path.is_dir():
            found = path.stat()
            return f"{found.st_size} {found.st_mtime_ns}"
        files = sorted(file for file in path.rglob("*") if file.is_file())
        looks = [f"{file.relative_to(path)} {seen(file)}" for file in files]
    except OSError:
        return "gone"
    return "\n".join(looks)


def look_at(paths: Sequence[str]) -> str | None:
    """Return what tells files from themselves after they were changed; None where there are none."""
    return "\n\n".join(seen(Path(path)) for path in paths) if paths else None


def check_unchanged(paths: Sequence[str], before: str | None) -> None:
    """Refuse to go on with a study whose files are others by now; None: nothing was noted of them."""
    if before is not None and look_at(paths) != before:
        raise InputError(
            "the file of this study has changed since it was asked, and cost and attack would be of "
            "different people. Ask the question again."
        )

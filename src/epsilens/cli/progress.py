# SPDX-License-Identifier: Apache-2.0
"""A progress bar with the time left, on standard error, for a person who is waiting."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from epsilens._types import Progress

__all__ = ["show_progress"]


@contextmanager
def show_progress(*, quiet: bool = False, json: bool = False) -> Iterator[Progress]:
    """Show how far long work has come and how long it will still take.

    Nothing is shown when asked to be quiet, when a machine reads the output, or when standard
    error is no terminal.

    Parameters
    ----------
    quiet : bool
        The command's `--quiet`.
    json : bool
        The command's `--json`.

    Yields
    ------
    callable
        `progress(done, total, what)`, cheap enough to be called often.

    Examples
    --------
    >>> with show_progress(quiet=True) as progress:
    ...     progress(1, 10, "retraining")
    """
    if quiet or json or not sys.stderr.isatty():
        yield _silent
        return

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress

    with RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("·"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    ) as display:
        tasks: dict[str, object] = {}

        def progress(done: int, total: int, what: str) -> None:
            if what not in tasks:
                tasks[what] = display.add_task(what, total=total)
            elif done <= 1:
                # The same kind of pass once more: its time starts again.
                display.reset(tasks[what], total=total)  # type: ignore[arg-type]
            display.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type]

        yield progress


def _silent(done: int, total: int, what: str) -> None:
    """Take the same arguments and show nothing."""

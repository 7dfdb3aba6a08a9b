# SPDX-License-Identifier: Apache-2.0
"""What the user typed and is to be told in this run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from epsilens.errors import COMMAND_LINE
from epsilens.notes import Note, distinct_notes

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "held_warnings",
    "hold_warning",
    "print_json",
    "print_notes",
    "printable",
    "release_warnings",
    "remember",
    "typed_command",
    "withhold_names",
]

WITHHELD_WARNING = (
    "a warning is withheld because it may name columns, groups or categories. "
    "Leave out `--anonymous` to read it."
)

_typed: ContextVar[tuple[str, ...] | None] = ContextVar("typed", default=None)
_held: ContextVar[tuple[Note, ...]] = ContextVar("held", default=())
_without_names: ContextVar[bool] = ContextVar("without_names", default=False)


def remember(arguments: Sequence[str] | None) -> None:
    """Begin a run: keep its arguments; None means those of the process."""
    _typed.set(tuple(sys.argv[1:] if arguments is None else arguments))
    _held.set(())
    _without_names.set(False)


def typed_command() -> str:
    """Return the command that is running, quoted for a shell, without the address of a cluster.

    Examples
    --------
    >>> remember(["inspect", "my survey.csv"])
    >>> typed_command()
    "epsilens inspect 'my survey.csv'"
    >>> remember(["risk", "survey.csv", "--cluster", "ray://10.0.0.7:10001"])
    >>> typed_command()
    'epsilens risk survey.csv --cluster ADDRESS'
    """
    words = list(_typed.get() or ())
    for i, word in enumerate(words):
        if word.startswith("--cluster="):
            words[i] = "--cluster=ADDRESS"
        elif i and words[i - 1] == "--cluster":
            words[i] = "ADDRESS"
    return printable(shlex.join(["epsilens", *words]))


def printable(text: str) -> str:
    r"""Return text that every file can hold: a file name may have bytes that are no UTF-8.

    Examples
    --------
    >>> printable("caf\udce9.csv")
    'caf?.csv'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def print_json(text: str) -> None:
    """Print JSON, which is UTF-8 for whoever reads it, whatever the encoding of the terminal."""
    import typer

    # A stream in memory takes text only.
    typer.echo(text.encode("utf-8") if hasattr(sys.stdout, "buffer") else text)


def print_notes(console: Console, notes: Sequence[Note]) -> None:
    """Print what a document notes, without what will be said on standard error at the end."""
    from rich.text import Text

    held = _held.get()
    for note in distinct_notes([*held, *notes])[len(held) :]:
        console.print(Text(f"Note: {note.render(COMMAND_LINE).rstrip('.')}."))


def hold_warning(warning: Note) -> None:
    """Keep a warning until the command has succeeded: a command that fails says why, no more."""
    _held.set(tuple(distinct_notes([*_held.get(), warning])))


def held_warnings() -> tuple[Note, ...]:
    """Return the warnings that will be shown at the end, so that a document can hold them too."""
    return _held.get()


def withhold_names() -> None:
    """Show no name from the data on standard error either: the command's `--anonymous`."""
    _without_names.set(True)


def release_warnings() -> tuple[str, ...]:
    """Return the warnings to be shown now, in their order, and hold them no longer.

    Examples
    --------
    >>> remember([])
    >>> hold_warning(Note("observed-domain", "the domain of 'smokes' was observed.", "smokes"))
    >>> withhold_names()
    >>> len(release_warnings()), release_warnings()
    (1, ())
    """
    held = tuple(note.render(COMMAND_LINE) for note in _held.get())
    _held.set(())
    return (WITHHELD_WARNING,) if held and _without_names.get() else held

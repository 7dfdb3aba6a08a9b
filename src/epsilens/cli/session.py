# SPDX-License-Identifier: Apache-2.0
"""What the user typed and is to be told in this run."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens._types import Progress
from epsilens.errors import COMMAND_LINE, InputError
from epsilens.notes import Note, distinct_notes

if TYPE_CHECKING:
    from rich.console import Console


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


# --- A progress bar with the time left, on standard error, for a person who is waiting ---


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


# --- Where a result may be written: never over what it was computed from ---


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


# --- `--cluster`: a Ray cluster that is already running does the work ---

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="A running Ray cluster that does the work, such as ray://head:10001, or auto on one of its "
        "nodes. It must be trusted with the data. Needs the extra cluster.",
    ),
]


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Let a cluster carry passes and shadow models while a command works; None: this machine.

    Examples
    --------
    >>> with on_cluster(None):
    ...     pass
    """
    if address is None:
        yield
        return
    from epsilens.cluster import use

    with use(address):
        yield

# SPDX-License-Identifier: Apache-2.0
"""What a command was asked, and what it tells: progress, warnings, files and the printed answer."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from epsilens._types import Progress
from epsilens.cli.option_groups import option, switch
from epsilens.errors import COMMAND_LINE, InputError
from epsilens.notes import Note, distinct_notes

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from epsilens.document import Document

# --- What the user typed and is to be told in this run ---

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


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[Progress]:
    """Show how far long work has come and how long it will still take.

    Nothing is shown when asked to be quiet, or when standard error is no terminal.

    Parameters
    ----------
    quiet : bool
        Whether it was asked for, or a machine reads the output.

    Yields
    ------
    callable
        `progress(done, total, what)`, cheap enough to be called often.

    Examples
    --------
    >>> with show_progress(quiet=True) as progress:
    ...     progress(1, 10, "retraining")
    """
    if quiet or not sys.stderr.isatty():
        yield _silent
        return

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Counted(MofNCompleteColumn):
        """How many are done; of a whole decision, whose numbers are milliseconds, the share."""

        def render(self, task: Task) -> Text:
            if task.description == "decide":
                return Text(f"{task.percentage:3.0f} %", style="progress.download")
            return super().render(task)

    with RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        Counted(),
        TimeElapsedColumn(),
        TextColumn("·"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    ) as display:
        tasks: dict[str, object] = {}
        before: dict[str, int] = {}

        def progress(done: int, total: int, what: str) -> None:
            if what not in tasks:
                tasks[what] = display.add_task(what, total=total)
            elif done <= 1 or done < before[what]:
                # The same kind of pass once more: its time starts again.
                display.reset(tasks[what], total=total)  # type: ignore[arg-type]
            before[what] = done
            display.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type]

        yield progress


def _silent(done: int, total: int, what: str) -> None:
    """Take the same arguments and show nothing."""


# --- What a command writes and prints, and where: never over what it was computed from ---

PANEL = "Output"

_D = TypeVar("_D", bound="Document")

Json = Annotated[bool, switch("--json", "Print the JSON document and nothing else.", panel=PANEL)]
Out = Annotated[str | None, option("Also write the result here.", "FILE", panel=PANEL)]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress bar and no remarks.", rich_help_panel=PANEL),
]
Force = Annotated[bool, switch("--force", "Replace an existing file.", panel=PANEL)]
Anonymous = Annotated[
    bool,
    switch(
        "--anonymous",
        "Replace the names of columns, groups and categories by numbers.",
        panel=PANEL,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Output:
    """How a command gives its answer, as it was typed.

    Examples
    --------
    >>> Output(quiet=True).out is None
    True
    """

    json: Json = False
    out: Out = None
    seed: Annotated[int, option("Seed of what is drawn.", "N", panel=PANEL, min=0)] = 0
    quiet: Quiet = False
    anonymous: Anonymous = False

    def check(self, suffixes: Sequence[str], sources: Mapping[str, str | None]) -> None:
        """Refuse an `--out` that cannot be written, before any work; hide names if that was asked for.

        Parameters
        ----------
        suffixes : sequence of str
            Endings that it may have.
        sources : mapping of str to str or None
            What the result is computed from, as for `check_target`.
        """
        if self.anonymous:
            withhold_names()
        check_target(self.out, sources=sources, suffixes=suffixes)

    def progress(self) -> AbstractContextManager[Progress]:
        """Show how far the work has come, unless that is not wanted."""
        return show_progress(quiet=self.quiet or self.json)

    def announce(self, sentence: str) -> None:
        """Say something on standard error before the work begins, unless that is not wanted."""
        if not (self.quiet or self.json):
            typer.echo(sentence, err=True)

    def settle(self, document: _D, notes: Sequence[Note] = ()) -> _D:
        """Add notes to a document, and the warnings of this run; replace names if that was asked for."""
        from epsilens.document import anonymise

        # What is said on standard error must stand in the document as well: that one travels.
        said = distinct_notes([*notes, *document.notes, *_held.get()])
        noted = cast("_D", document.model_copy(update={"notes": said}))
        return anonymise(noted) if self.anonymous else noted

    def write(
        self,
        document: _D,
        *,
        chart: Callable[[_D], Any],
        frame: Callable[[_D], Any] | None = None,
        question: Mapping[str, str] | None = None,
        recommendation: Mapping[str, object] | None = None,
    ) -> None:
        """Write a document to `--out`, as the ending says: JSON, a picture, a table or the report.

        Parameters
        ----------
        document : Document
        chart, frame : callable
            Chart and table of such a document.
        question, recommendation : mapping, optional
            What the report says of the question, unless it is to have no names, and of the answer.
        """
        from epsilens.data import write_table, write_text
        from epsilens.document import to_json
        from epsilens.show import save_chart, write_report

        if self.out is None:
            return
        suffix = Path(self.out).suffix.lower()
        if suffix == ".json":
            write_text(to_json(document) + "\n", self.out)
        elif suffix == ".html":
            write_report(
                document,  # type: ignore[arg-type]
                self.out,
                question={} if self.anonymous else question,
                recommendation=recommendation,
                command=None if self.anonymous else typed_command(),
            )
        elif suffix in {".png", ".svg"}:
            save_chart(chart(document), self.out)
        elif frame is not None:
            write_table(frame(document), self.out)

    def show(
        self,
        document: _D,
        *,
        places: Iterable[int] = (0,),
        sentences: Iterable[RenderableType] | None = None,
        remarks: Iterable[str] = (),
        written: Sequence[str | None] = (),
        one_line: bool = False,
    ) -> None:
        """Print a document as JSON, or as tables and in words; the words alone if it is to be quiet.

        Parameters
        ----------
        document : Document
        places : iterable of int
            Which of its tables are shown.
        sentences : iterable of str or Text, optional
            Answer in words. None: that of the document's view.
        remarks : iterable of str
            What else is to be known.
        written : sequence of str
            Other files that were written.
        one_line : bool
            Whether a sentence is one line, however long.
        """
        from epsilens.document import to_json, view

        if self.json:
            print_json(to_json(document))
            return
        from rich.console import Console
        from rich.text import Text

        from epsilens.show import document_table

        console = Console()
        if not self.quiet:
            for place in places:
                console.print(document_table(document, place=place))
            print_notes(console, document.notes)
        for sentence in view(document).sentences if sentences is None else sentences:
            text = Text(sentence) if isinstance(sentence, str) else sentence
            console.print(text, soft_wrap=one_line)
        if self.quiet:
            return
        for remark in remarks:
            console.print(Text(remark))
        if files := [name for name in (self.out, *written) if name]:
            console.print(Text(f"Written: {' and '.join(files)}"), soft_wrap=True)


def print_json(text: str) -> None:
    """Print JSON, which is UTF-8 for whoever reads it, whatever the encoding of the terminal."""
    # A stream in memory takes text only.
    typer.echo(text.encode("utf-8") if hasattr(sys.stdout, "buffer") else text)


def print_notes(console: Console, notes: Sequence[Note]) -> None:
    """Print what a document notes, without what will be said on standard error at the end."""
    from rich.text import Text

    held = _held.get()
    for note in distinct_notes([*held, *notes])[len(held) :]:
        console.print(Text(f"Note: {note.render(COMMAND_LINE).rstrip('.')}."))


# --- Where a result may be written ---


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
        # One file may have two names, by a link or by redirected input.
        is_same = str(source) != "-" and target == Path(os.path.realpath(source))
        with suppress(AttributeError, OSError, ValueError):
            # One of them does not exist (yet), or standard input is no file.
            read = os.fstat(sys.stdin.fileno()) if str(source) == "-" else os.stat(source)
            is_same = is_same or os.path.samestat(target.stat(), read)
        if is_same:
            raise InputError(
                f"`{option}` must be another file than {words}, which the result would replace. "
                "Choose another name."
            )
        if os.path.isdir(source) and target.is_relative_to(os.path.realpath(source)):
            raise InputError(
                f"`{option}` must not be inside the folder of {words}: the result would be taken for "
                "a part of them. Choose another folder."
            )


def check_new(out: str | Path, *, force: bool | None, option: str = "--out") -> None:
    """Refuse an `--out` that exists already, unless it may be replaced.

    Parameters
    ----------
    out : str or Path
        What was typed.
    force : bool or None
        Whether it may be replaced; None where the command has no `--force`.
    option : str
        What it was typed for.
    """
    if Path(out).exists() and not force:
        advice = "" if force is None else ", or use `--force`"
        raise InputError(
            f"`{option}` must be a new file, but {Path(out).name!r} exists. Choose another name{advice}."
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

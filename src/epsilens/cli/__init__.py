# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command; each parses, calls the library and prints."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from epsilens._foreign import TYPER_SUGGESTION
from epsilens.cli.ending import (
    ENDED,
    EXIT_BAD_INPUT,
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    INTERRUPTED,
    Ended,
    ends_when_told,
)
from epsilens.errors import (
    ApproximationWarning,
    EstimateNotTrustworthyError,
    InputError,
    MissingExtraError,
    PrivacyLeakWarning,
    system_refusal,
)

__all__ = ["main"]

_RED, _YELLOW = "31", "33"
_PLAIN_SIGNS = {
    "ε": "epsilon",
    "∞": "inf",
    "−": "-",
    "–": "-",
    "“": '"',
    "”": '"',
    "’": "'",
    "·": "|",
}
"""Our own signs for encodings that lack them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Our own errors and those of the operating system become one line on standard error; anything
    else is a mistake of ours and shows its traceback, without the values of variables. Our warnings have a line each once the
    command has done its work; warnings of other libraries, which may quote data, are not shown.

    Parameters
    ----------
    arguments : sequence of str, optional
        What was typed after `epsilens`; taken from the process by default.

    Returns
    -------
    int
        0 done, 2 bad input, 3 ran but the asked-for limit is not met, 130 interrupted, 143
        terminated. Ended by the system inside a library, it does not return.

    Examples
    --------
    >>> main(["--version"])
    epsilens ...
    0
    """
    _print_whatever_comes()
    try:
        with ends_when_told(lambda line: _say(line, _RED), is_program=arguments is None):
            code = _run(arguments)
            if code == EXIT_INTERRUPTED:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        _say(INTERRUPTED + _kept(arguments), _RED)
        return EXIT_INTERRUPTED
    except Ended as ended:
        _say(ENDED + _kept(arguments), _RED)
        return int(str(ended.code))
    except OSError as error:
        _say(f"Error: {_refusal(error)}", _RED)
        return EXIT_BAD_INPUT
    return code


def _kept(arguments: Sequence[str] | None) -> str:
    """Say that finished work is kept, where a checkpoint was asked for."""
    words = sys.argv if arguments is None else arguments
    if not any(word.partition("=")[0] == "--checkpoint" for word in words):
        return ""
    return " What is finished is in the checkpoint; the same command goes on from there."


def _run(arguments: Sequence[str] | None) -> int:
    # Typer takes a tenth of a second to import, within which Ctrl-C may come.
    import typer

    from epsilens.cli.app import TERMINAL, app
    from epsilens.cli.output import release_warnings, remember

    # Typer brings its own copy of click or uses the installed one: ask it for the class.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    remember(arguments)
    try:
        with _warnings_held():
            result = app(args=arguments, prog_name="epsilens", standalone_mode=False)
        if sys.stdout is not None:  # a shell can close it: `>&-`
            sys.stdout.flush()
    except (InputError, MissingExtraError, EstimateNotTrustworthyError) as error:
        _say(f"Error: {error.render(TERMINAL)}", _RED)
        return EXIT_BAD_INPUT
    except usage_error as error:
        return _explain_usage(error)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except Ended:
        raise
    except (BrokenPipeError, SystemExit):  # Typer turns the first into the second
        _forget(sys.stdout)
        result = EXIT_BROKEN_PIPE
    if result != EXIT_INTERRUPTED:
        for text in release_warnings():
            _say(f"Warning: {text}", _YELLOW)
    return result if isinstance(result, int) else 0


def _refusal(error: OSError) -> str:
    """Return an error of the operating system in one line."""
    # What is written to a file has its own message, so a full disk without a name is this.
    if error.filename is None and error.errno in {errno.ENOSPC, errno.EFBIG, errno.EIO}:
        _forget(sys.stdout)
        return str(system_refusal(error, subject="standard output", must="be writable"))
    return str(system_refusal(error, must="be readable and writable"))


def _explain_usage(error: Exception) -> int:
    """Show what was wrong with the typed command in one line, and where help is."""
    message = " ".join(_usage_words(error).split())
    context = getattr(error, "ctx", None)
    if message == "":  # a command group without command has shown its help already
        return EXIT_BAD_INPUT
    path = context.command_path if context is not None else "epsilens"
    end = "" if message.endswith("?") else "."
    _say(f"Error: {message.rstrip('.')}{end} See `{path} --help`.", _RED)
    return EXIT_BAD_INPUT


def _usage_words(error: Any) -> str:
    """Return what a usage error says; what may have been meant in words that are the same in all versions of typer."""
    meant = sorted(getattr(error, "possibilities", None) or ())
    if not meant or TYPER_SUGGESTION in error.message:
        return str(error.message if meant else error.format_message())
    return f"{error.message.rstrip('.')}. Did you mean {' or '.join(map(repr, meant))}?"


@contextmanager
def _warnings_held() -> Iterator[None]:
    """Keep each of our two warnings, once, until the command has succeeded; drop all others."""
    from epsilens.cli.output import hold_warning

    ours = (PrivacyLeakWarning, ApproximationWarning)

    def hold(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        # A library may have set filters of its own for a while, so the category is asked again.
        if isinstance(message, ours):
            from epsilens.notes import note_of_warning

            hold_warning(note_of_warning(message))

    with warnings.catch_warnings():
        warnings.showwarning = hold
        warnings.simplefilter("ignore")
        for category in ours:
            warnings.simplefilter("always", category=category)
        yield


def _print_whatever_comes() -> None:
    """Print signs that the terminal's encoding lacks in another way, instead of failing."""
    codecs.register_error("epsilens", _spell_out)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
            stream.reconfigure(errors="epsilens")


def _spell_out(error: UnicodeError) -> tuple[str, int]:
    """Replace what cannot be encoded. A question mark for a minus would change a number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN_SIGNS.get(sign, "?") for sign in signs), error.end


def _say(text: str, colour: str) -> None:
    """Write one line to standard error, in colour if a person is looking."""
    line = " ".join(text.split())
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    try:
        print(f"\033[{colour}m{line}\033[0m" if coloured else line, file=sys.stderr)  # noqa: T201
    except OSError:  # a full disk; the exit code remains
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    # Otherwise Python reports the error once more when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command; each parses, calls the library and prints."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from epsilens.cli.session import mark_shown, was_shown
from epsilens.errors import (
    ApproximationWarning,
    EstimateNotTrustworthyError,
    InputError,
    MissingExtraError,
    PrivacyLeakWarning,
)

__all__ = ["main"]

EXIT_BAD_INPUT = 2
EXIT_BROKEN_PIPE = 141
EXIT_INTERRUPTED = 130

_RED, _YELLOW = "31", "33"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Our own errors become one line on standard error; anything else is a mistake of ours and
    shows its traceback, without the values of variables.

    Parameters
    ----------
    arguments : sequence of str, optional
        What was typed after `epsilens`; taken from the process by default.

    Returns
    -------
    int
        0 done, 2 bad input, 3 ran but the asked-for limit is not met, 130 interrupted.

    Examples
    --------
    >>> main(["--version"])
    epsilens ...
    0
    """
    import typer

    from epsilens.cli.app import app
    from epsilens.cli.session import remember

    # Typer brings its own copy of click or uses the installed one: ask it for the class.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    remember(arguments)
    try:
        with _own_warnings_as_lines():
            result = app(args=arguments, prog_name="epsilens", standalone_mode=False)
    except (InputError, MissingExtraError, EstimateNotTrustworthyError) as error:
        _say(f"Error: {error}", _RED)
        return EXIT_BAD_INPUT
    except usage_error as error:
        return _explain_usage(error)
    except (KeyboardInterrupt, typer.Abort):
        result = EXIT_INTERRUPTED
    except BrokenPipeError:
        _forget_standard_output()
        return EXIT_BROKEN_PIPE
    if result == EXIT_INTERRUPTED:
        _say("Interrupted: nothing half-written was left behind.", _RED)
        return EXIT_INTERRUPTED
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_standard_output()
        return EXIT_BROKEN_PIPE
    return result if isinstance(result, int) else 0


def _explain_usage(error: Exception) -> int:
    """Show what was wrong with the typed command in one line, and where help is."""
    message = " ".join(str(error.format_message()).split())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if message == "":  # a command group without command has shown its help already
        return EXIT_BAD_INPUT
    path = context.command_path if context is not None else "epsilens"
    _say(f"Error: {message.rstrip('.')}. See `{path} --help`.", _RED)
    return EXIT_BAD_INPUT


@contextmanager
def _own_warnings_as_lines() -> Iterator[None]:
    """Show each of our two warnings once, in a line of its own; leave others to Python."""
    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, PrivacyLeakWarning | ApproximationWarning):
                before(message, category, filename, lineno, file, line)
            elif not was_shown(str(message)):
                mark_shown(str(message))
                _say(f"Warning: {message}", _YELLOW)

        warnings.showwarning = show
        for category in (PrivacyLeakWarning, ApproximationWarning):
            warnings.filterwarnings("always", category=category)
        yield


def _say(text: str, colour: str) -> None:
    """Write one line to standard error, in colour if a person is looking."""
    line = " ".join(text.split())
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    print(f"\033[{colour}m{line}\033[0m" if coloured else line, file=sys.stderr)  # noqa: T201


def _forget_standard_output() -> None:
    # Otherwise Python reports the broken pipe once more when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

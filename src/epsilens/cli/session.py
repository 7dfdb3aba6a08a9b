# SPDX-License-Identifier: Apache-2.0
"""What the user typed and has been told in this run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextvars import ContextVar

__all__ = ["mark_shown", "remember", "typed_command", "was_shown"]

_typed: ContextVar[tuple[str, ...] | None] = ContextVar("typed", default=None)
_shown: ContextVar[frozenset[str]] = ContextVar("shown", default=frozenset())


def remember(arguments: Sequence[str] | None) -> None:
    """Keep the arguments of this run; None means those of the process."""
    _typed.set(tuple(sys.argv[1:] if arguments is None else arguments))
    _shown.set(frozenset())


def typed_command() -> str:
    """Return the command that is running, quoted for a shell.

    Examples
    --------
    >>> remember(["inspect", "my survey.csv"])
    >>> typed_command()
    "epsilens inspect 'my survey.csv'"
    """
    return shlex.join(["epsilens", *(_typed.get() or ())])


def mark_shown(text: str) -> None:
    """Remember that a warning has been shown."""
    _shown.set(_shown.get() | {text})


def was_shown(text: str) -> bool:
    """Return whether a warning has been shown, so that it need not be said again.

    Examples
    --------
    >>> remember([])
    >>> mark_shown("the sky is falling.")
    >>> was_shown("the sky is falling."), was_shown("all is well.")
    (True, False)
    """
    return text in _shown.get()

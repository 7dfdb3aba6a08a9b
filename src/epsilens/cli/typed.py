# SPDX-License-Identifier: Apache-2.0
"""What the user typed, for the line of a report that says how to make it again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextvars import ContextVar

__all__ = ["remember", "typed_command"]

_typed: ContextVar[tuple[str, ...] | None] = ContextVar("typed", default=None)


def remember(arguments: Sequence[str] | None) -> None:
    """Keep the arguments of this run; None means those of the process."""
    _typed.set(tuple(sys.argv[1:] if arguments is None else arguments))


def typed_command() -> str:
    """Return the command that is running, quoted for a shell.

    Examples
    --------
    >>> remember(["inspect", "my survey.csv"])
    >>> typed_command()
    "epsilens inspect 'my survey.csv'"
    """
    return shlex.join(["epsilens", *(_typed.get() or ())])

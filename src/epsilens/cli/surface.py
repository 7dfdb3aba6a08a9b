# SPDX-License-Identifier: Apache-2.0
"""Messages on the command line: a setting is called by the option that sets it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

from epsilens.errors import COMMAND_LINE, PYTHON, Surface, option_of


class _Terminal:
    """The command line; an argument that no command has an option for keeps its name."""

    kind: Literal["python", "command", "page"] = "command"

    def setting(self, name: str, value: str | float | Sequence[str] | None) -> str:
        surface = COMMAND_LINE if option_of(name) in _options() else PYTHON
        return surface.setting(name, value)


TERMINAL: Surface = _Terminal()


@functools.cache
def _options() -> frozenset[str]:
    """Return the options of all commands."""
    import typer.main

    from epsilens.cli.app import app

    found: set[str] = set()
    waiting = [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        found.update(name for parameter in command.params for name in parameter.opts)
    return frozenset(found)

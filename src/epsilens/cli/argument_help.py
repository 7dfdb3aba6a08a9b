# SPDX-License-Identifier: Apache-2.0
"""Commands that explain their arguments, and look whether their files exist before they load anything."""

from __future__ import annotations

import inspect
import os
import re
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from epsilens.errors import InputError

__all__ = ["ExplainedCommand", "must_exist"]

_SOURCES = "epsilens.sources"


class ExplainedCommand(TyperCommand):
    """A command that knows what its function says of its arguments.

    Typer up to 0.20 stores the help of an argument before it calls click's constructor, which from
    click 8.5 on has a help of its own and clears it.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if self.help:
            # A paragraph is broken where the terminal ends, not where a line of the source does.
            self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", self.help)
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            if parameter.param_type_name == "argument" and not parameter.help:
                parameter.help = _said_of(self.callback, parameter.name)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, if the files that it is to read exist."""
        for source in ctx.meta.get(_SOURCES, ()):
            if source != "-" and not (source and os.path.lexists(source)):
                raise InputError(
                    f"the data must be a file that exists, got {source!r}. Check the path."
                )
        return super().invoke(ctx)


def must_exist(ctx: typer.Context, source: str | None) -> str | None:
    """Note a file to be looked for once all that was typed is understood; a parameter's callback."""
    if source is not None:
        ctx.meta.setdefault(_SOURCES, []).append(source)
    return source


def _said_of(callback: Any, name: str) -> str | None:
    """Return the help that a function declares for a parameter."""
    hint = get_type_hints(inspect.unwrap(callback), include_extras=True)[name]
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((extra.help for extra in extras if getattr(extra, "help", None)), None)

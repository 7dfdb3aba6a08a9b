# SPDX-License-Identifier: Apache-2.0
"""Options that belong together, said once in a dataclass and handed to commands as one value."""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import update_wrapper
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from epsilens.errors import InputError

_R = TypeVar("_R")


def option(
    help: str, metavar: str | None = None, *names: str, panel: str | None = None, **settings: Any
) -> Any:
    """Declare an option that takes a value: its help, and what stands for the value there.

    Without names it has that of the parameter. The help shows it in the panel.
    """
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **settings)


def choice(kind: Any, help: str, metavar: str | None = None, *, panel: str | None = None) -> Any:
    """Declare an option whose value is one of a `Literal`, which typer itself knows from 0.19 on."""
    # One that brings its own copy of click is later than that.
    click = importlib.import_module(TyperCommand.__mro__[1].__module__.rpartition(".")[0])
    known = {"click_type": click.Choice(get_args(kind))} if hasattr(click, "Choice") else {}
    return option(help, metavar, panel=panel, **known)


def switch(name: str, help: str, *, panel: str | None = None) -> Any:
    """Declare an option that takes no value."""
    return typer.Option(name, help=help, rich_help_panel=panel)


class Without:
    """Options of a group that a command does not have; the group's defaults stand for them."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Help:
    """Help of options of a group, where a command has its own."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts


def option_groups(command: Callable[..., _R]) -> Callable[..., _R]:
    """Let a command take dataclasses: Typer sees their fields as options, the command one value.

    The options come where the dataclass stands in the signature. A field that the command or another
    group names too is handed to both.

    Parameters
    ----------
    command : callable
        Parameters whose type is a dataclass are gathered.

    Returns
    -------
    callable
        With a signature that Typer can read.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Reading:
    ...     data: str
    ...     delimiter: Annotated[str, "what stands between columns"] = ","
    ...     encoding: Annotated[str, "how letters are written"] = "utf-8"
    >>> @option_groups
    ... def show(data: str, *, reading: Annotated[Reading, Without("encoding")]) -> None:
    ...     print(reading)
    >>> list(inspect.signature(show).parameters)
    ['data', 'delimiter']
    >>> show(data="a.csv", delimiter=";")
    Reading(data='a.csv', delimiter=';', encoding='utf-8')
    """
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    groups: dict[str, tuple[type, set[str]]] = {}
    offered: dict[str, inspect.Parameter] = {}
    for name, parameter in own.items():
        kind, *extras = get_args(hints[name]) if _is_annotated(hints[name]) else (hints[name],)
        if not is_dataclass(kind):
            offered[name] = _option(name, hints[name], parameter.default)
            continue
        assert isinstance(kind, type)  # noqa: S101
        left_out = {name for extra in extras if isinstance(extra, Without) for name in extra.names}
        helps = {
            k: v for extra in extras if isinstance(extra, Help) for k, v in extra.texts.items()
        }
        groups[name] = (kind, left_out)
        of_group = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            hint = of_group[field.name]
            if field.name not in {*own, *left_out} and _is_annotated(hint):
                if field.name in helps:
                    value, info = get_args(hint)
                    info = copy.copy(info)
                    info.help = helps[field.name]
                    hint = Annotated[value, info]
                offered[field.name] = _option(field.name, hint, field.default)

    def run(**typed: Any) -> _R:
        given = {name: typed[name] for name in own if name not in groups}
        for name, (kind, left_out) in groups.items():
            named = {field.name for field in fields(kind)} & typed.keys() - left_out
            given[name] = kind(**{field: typed[field] for field in named})
        return command(**given)

    update_wrapper(run, command)
    # Whoever looks for the function behind a command must find the one with the options.
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__signature__ = inspect.Signature(list(offered.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: option.annotation for name, option in offered.items()}
    return run


def _is_annotated(hint: object) -> bool:
    return get_origin(hint) is Annotated


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    if default is MISSING:
        default = inspect.Parameter.empty
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


# --- Commands that explain their arguments, and look whether their files exist before they load anything ---

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
                hints = get_type_hints(inspect.unwrap(self.callback), include_extras=True)  # type: ignore[arg-type]
                said = (
                    getattr(extra, "help", None) for extra in get_args(hints[parameter.name])[1:]
                )
                parameter.help = next(filter(None, said), None)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, if the files that it is to read exist."""
        for words, source in ctx.meta.get(_SOURCES, ()):
            if source != "-" and not (source and os.path.lexists(source)):
                raise InputError(
                    f"{words} must be a file that exists, got {source!r}. Check the path."
                )
        return super().invoke(ctx)


def must_exist(ctx: typer.Context, param: typer.CallbackParam, source: str | None) -> str | None:
    """Note a file to be looked for once all that was typed is understood; a parameter's callback."""
    if source is not None:
        words = "the data" if param.param_type_name == "argument" else f"`{param.opts[0]}`"
        ctx.meta.setdefault(_SOURCES, []).append((words, source))
    return source


@contextmanager
def current_folder_first(*, is_needed: bool) -> Iterator[None]:
    """Let a module be found in the folder where the command was typed, as Python itself does."""
    before = list(sys.path)
    if is_needed:
        sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path[:] = before

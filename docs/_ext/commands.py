# SPDX-License-Identifier: Apache-2.0
"""`{commands}`: every command with its arguments and options, from the application itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from epsilens.cli.app import app as application


def every_command() -> Iterator[tuple[str, Any]]:
    """Give each command that can be typed, by the words that call it."""
    yield from _below("epsilens", typer.main.get_command(application))


def _below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    for name, child in inner.items():
        yield from _below(f"{words} {name}", child)


def _plain(text: str) -> str:
    """Return help without its marks for the terminal, commands as code."""
    text = re.sub(
        r"\[bold\](.*?)\[/bold\]", lambda m: f"`{' '.join(m[1].split())}`", text, flags=re.S
    )
    return re.sub(r"\[/?\w+\]", "", text)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in _plain(text).split("\n\n") if part.strip()]


def _hint(command: Any, parameter: Any) -> Any:
    """Return how the function declares a parameter; what Typer makes of it changes with its versions."""
    function = inspect.unwrap(command.callback)
    return get_type_hints(function, include_extras=True)[parameter.name]


def _value(annotation: Any) -> str:
    """Return what stands for a value that has no name of its own: its choices, or its type."""
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    for inner in get_args(annotation):
        if inner is not type(None):
            return _value(inner)
    return str(annotation.__name__).upper()


def _names(command: Any, option: Any) -> str:
    """Return how an option is typed, with what stands for its value."""
    shown = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return shown
    return f"{shown} `{option.metavar or _value(_hint(command, option))}`"


def _default(option: Any) -> str:
    if option.required:
        return " *Required.*"
    value = option.default
    if value is None or callable(value) or isinstance(value, bool) or value in ((), [], ""):
        return ""
    return f" Default: `{value}`."


def describe(words: str, command: Any) -> list[str]:
    """Return a command as Markdown."""
    lines = [f"## {words}", ""]
    for part in _paragraphs(command.help or ""):
        lines += [part, ""]
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        given = getattr(parameter, "rich_help_panel", None)
        is_argument = parameter.param_type_name == "argument"
        panels.setdefault(given or ("Arguments" if is_argument else "Options"), []).append(
            parameter
        )
    for panel, parameters in panels.items():
        lines += [f"**{panel}**", ""]
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                term = f"`{parameter.metavar or parameter.name.upper()}`"
            else:
                term = _names(command, parameter)
            lines += [term, f": {' '.join(_paragraphs(parameter.help))}{_default(parameter)}", ""]
    return lines


class Commands(SphinxDirective):
    """One section a command."""

    def run(self) -> list[nodes.Node]:
        """Return what Sphinx shows."""
        lines = [line for words, command in every_command() for line in describe(words, command)]
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(StringList(lines), self.content_offset, holder, match_titles=True)
        return holder.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}

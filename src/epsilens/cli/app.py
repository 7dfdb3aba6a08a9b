# SPDX-License-Identifier: Apache-2.0
"""The Typer application. Command modules import typer alone, so that `--help` answers at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Literal

import typer
import typer.main

from epsilens import __version__
from epsilens.cli.audit import audit
from epsilens.cli.decide import decide
from epsilens.cli.demo import demo
from epsilens.cli.federate import federate
from epsilens.cli.federate_coordinator import (
    apply,
    register,
    remove,
    server,
    status,
    unregister,
)
from epsilens.cli.federate_coordinator import train as federate_train
from epsilens.cli.federate_coordinator import value as federate_value
from epsilens.cli.federate_site import key, request, site
from epsilens.cli.inspect import inspect
from epsilens.cli.mask import mask
from epsilens.cli.option_groups import ExplainedCommand
from epsilens.cli.randomise import randomise
from epsilens.cli.risk import risk
from epsilens.cli.serve import serve
from epsilens.cli.train import train
from epsilens.cli.value import value
from epsilens.cli.whatif import whatif
from epsilens.errors import COMMAND_LINE, PYTHON, Surface, option_of

COMMANDS = (demo, inspect, whatif, risk, decide, train, mask, randomise, serve)
"""In the order of the help."""

app = typer.Typer(
    name="epsilens",
    help="See what a privacy budget costs and what it buys, before you spend it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    # Local variables in a traceback would print data.
    pretty_exceptions_show_locals=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"epsilens {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and stop.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """See what a privacy budget costs and what it buys, before you spend it."""


for _command in COMMANDS:
    app.command(name=_command.__name__, cls=ExplainedCommand)(_command)
app.add_typer(value)
app.add_typer(audit)
_AT_THE_COORDINATOR = (
    server,
    register,
    unregister,
    federate_train,
    apply,
    remove,
    federate_value,
    status,
)
for _part in (key, site, request, *_AT_THE_COORDINATOR):
    federate.command(name=_part.__name__, cls=ExplainedCommand)(_part)
app.add_typer(federate)


# --- Messages on the command line: a setting is called by the option that sets it ---


class _Terminal:
    """The command line; an argument that no command has an option for keeps its name."""

    kind: Literal["python", "command", "page"] = "command"

    def setting(self, name: str, value: str | float | Sequence[str] | None) -> str:
        surface = COMMAND_LINE if option_of(name) in _option_names() else PYTHON
        return surface.setting(name, value)


TERMINAL: Surface = _Terminal()


@functools.cache
def _option_names() -> frozenset[str]:
    """Return the options of all commands."""
    found: set[str] = set()
    waiting = [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        found.update(name for parameter in command.params for name in parameter.opts)
    return frozenset(found)

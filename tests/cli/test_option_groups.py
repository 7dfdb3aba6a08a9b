# SPDX-License-Identifier: Apache-2.0
"""Options that are said once in a dataclass reach a command as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from epsilens.cli.option_groups import Without, option_groups

Colour = Annotated[str, typer.Option("--colour", help="Colour of the table.")]


@dataclass(frozen=True, kw_only=True)
class Reading:
    data: str
    seed: int = 0
    first: Annotated[int, typer.Option("--first", min=0)] = 1
    colour: Colour = "red"
    names: Annotated[list[str] | None, typer.Option("--name")] = None


def run(command: object, *arguments: str) -> object:
    app = typer.Typer(add_completion=False)
    app.command()(command)  # type: ignore[type-var]
    return app(args=list(arguments), standalone_mode=False)


@option_groups
def show(
    data: Annotated[str, typer.Argument()],
    *,
    reading: Reading,
    seed: Annotated[int, typer.Option("--seed")] = 7,
) -> tuple[str, Reading, int]:
    """Show what came."""
    return data, reading, seed


def test_defaults_are_those_of_the_dataclass_and_of_the_command() -> None:
    assert run(show, "a.csv") == ("a.csv", Reading(data="a.csv", seed=7), 7)


def test_what_is_typed_arrives_in_one_value() -> None:
    _, reading, _ = run(
        show,
        "a.csv",
        "--first",
        "2",
        "--colour",
        "blue",
        "--name",
        "x",
        "--name",
        "y",
        "--seed",
        "3",
    )  # type: ignore[misc]
    assert reading == Reading(data="a.csv", seed=3, first=2, colour="blue", names=["x", "y"])


def test_limits_of_an_option_hold() -> None:
    with pytest.raises(Exception, match=r"-1 is not in the range|greater than or equal to 0"):
        run(show, "a.csv", "--first", "-1")


def test_options_come_where_the_dataclass_stands(capsys: pytest.CaptureFixture[str]) -> None:
    run(show, "--help")
    shown = capsys.readouterr().out
    places = [shown.index(name) for name in ("--first", "--colour", "--name", "--seed")]
    assert places == sorted(places)
    assert "Colour of the table." in shown
    assert "Show what came." in shown


def test_a_command_can_leave_options_out() -> None:
    @option_groups
    def short(
        data: Annotated[str, typer.Argument()],
        *,
        reading: Annotated[Reading, Without("colour", "names")],
    ) -> Reading:
        return reading

    assert run(short, "a.csv", "--first", "5") == Reading(data="a.csv", first=5)
    with pytest.raises(Exception, match="No such option"):
        run(short, "a.csv", "--colour", "blue")

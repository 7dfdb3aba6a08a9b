# SPDX-License-Identifier: Apache-2.0
"""`epsilens --help` answers at once because nothing heavy is imported before it is needed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from epsilens import __version__
from epsilens.cli import main
from epsilens.cli.app import COMMANDS, app

NAMES = [command.__name__ for command in COMMANDS]
HEAVY = (
    *("numpy", "scipy", "pandas", "sklearn", "pyarrow", "narwhals", "polars"),
    *("altair", "vl_convert", "opendp", "statsmodels", "jinja2", "epsilens.document"),
)


def modules_after(*arguments: str) -> set[str]:
    code = (
        "import sys; from epsilens.cli import main; "
        f"code = main({list(arguments)!r}); "
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("inspect", "--help")])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert not modules_after(*arguments) & set(HEAVY)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"epsilens {__version__}\n"


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in NAMES:
        assert command in shown


@pytest.mark.parametrize("command", NAMES)
def test_the_help_of_every_command_has_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    assert f"epsilens {command} " in capsys.readouterr().out.split("Usage:")[1].split("\n", 1)[1]


def every_command(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    if not inner:
        yield words, command
    for name, child in inner.items():
        yield from every_command((*words, name), child)


WITH_ARGUMENTS = [
    (words, parameter)
    for words, command in every_command((), typer.main.get_command(app))
    for parameter in command.params
    if parameter.param_type_name == "argument"
]


def test_there_are_commands_with_arguments() -> None:
    assert len(WITH_ARGUMENTS) >= 12


@pytest.mark.parametrize(
    ("words", "parameter"),
    WITH_ARGUMENTS,
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value.name,
)
def test_the_help_of_every_command_explains_its_arguments(
    words: tuple[str, ...],
    parameter: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERMINAL_WIDTH", "300")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 300)
    assert parameter.help
    assert main([*words, "--help"]) == 0
    assert parameter.help in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["inspect"], ["inspect", "--nonsense"], ["inspect", "a", "b"]]
)
def test_a_wrong_command_is_one_line_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "--help" in captured.err


def test_no_command_shows_the_help_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage" in capsys.readouterr().out


def test_control_c_while_the_program_starts_is_one_line() -> None:
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from epsilens.cli import main\n"
        "sys.exit(main(['--version']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "Interrupted: nothing half-written was left behind.\n"


def test_a_document_can_be_caught_in_memory(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "survey.csv"
    table.write_text("a,b\n" + "1,x\n2,y\n" * 20)
    caught = io.StringIO()
    monkeypatch.setattr(sys, "stdout", caught)
    assert main(["inspect", str(table), "--json"]) == 0
    assert json.loads(caught.getvalue())["kind"] == "inspect"


def test_paragraphs_of_the_help_fill_the_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["randomise", "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    first = next(line for line in lines if line.startswith("All other columns are written"))
    assert first.endswith("Leave out")


def test_names_of_options_of_a_simulation_are_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["federate", "simulate", "--help"]) == 0
    assert "--i-know-it-is-not-private" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "no.csv"),
        ("whatif", "no.csv", "--label", "a"),
        ("whatif", __file__, "--label", "a", "--test", "no.csv"),
        ("decide", "no.csv", "--label", "a"),
        ("risk", "no.csv", "--label", "a"),
        ("mask", "no.csv", "--label", "a", "--identity", "b"),
        ("mask", __file__, "--label", "a", "--identity", "b", "--public", "no.csv"),
        ("randomise", "no.csv", "--epsilon", "1", "--protect", "a", "--out", "b.csv"),
        ("value", "local", "no.csv", "--label", "a"),
        ("value", "local", __file__, "--label", "a", "--candidates", "no.csv"),
    ],
    ids=" ".join,
)
def test_a_missing_file_is_found_before_anything_heavy_is_imported(
    arguments: tuple[str, ...],
) -> None:
    code = (
        "import sys; from epsilens.cli import main; "
        f"assert main({list(arguments)!r}) == 2; "
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    option = arguments[-2] if arguments[-1] == "no.csv" and len(arguments) > 3 else None
    named = "the data" if option is None else f"`{option}`"
    assert (
        done.stderr == f"Error: {named} must be a file that exists, got 'no.csv'. Check the path.\n"
    )
    # The words of a message need numpy's types; what takes long is not loaded.
    assert not set(done.stdout.split()) & (set(HEAVY) - {"numpy", "epsilens.document"})

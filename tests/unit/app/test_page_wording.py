"""Messages of the library in the words of the page: no option is left that cannot be typed there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import epsilens
from epsilens.app.wording import in_page_words
from epsilens.data.description import NEEDS_BINS

ROOT = Path(epsilens.__file__).parent
ROOMS = ("data", "models", "influence", "whatif", "risk", "decision")
MODULES = ("channels/budget.py",)


def texts_of(tree: ast.Module) -> list[str]:
    """Texts as they are written, an x where a value goes; docstrings are not said to anybody."""
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in whole for part in ast.walk(node)}
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    plain = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in parts | spoken
    ]
    return plain + [
        "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        for node in whole
    ]


def messages() -> list[tuple[str, str]]:
    """Every text with an option in it that a question of the page can lead to."""
    files = [file for room in ROOMS for file in sorted((ROOT / room).glob("*.py"))]
    found = []
    for file in [*files, *(ROOT / name for name in MODULES)]:
        texts = texts_of(ast.parse(file.read_text(encoding="utf-8")))
        # A bare option is what is declared for the command line, not a message.
        found += [
            (file.name, text)
            for text in texts
            if re.search(r"--[a-z]", text) and not re.fullmatch(r"--[a-z-]+", text)
            if text != NEEDS_BINS  # a mark in the document, for which the page has words of its own
        ]
    return found


def test_no_option_of_the_command_line_reaches_the_page() -> None:
    texts = messages()
    assert len(texts) > 15
    left = [
        (name, said) for name, text in texts if re.search(r"--[a-z]", said := in_page_words(text))
    ]
    assert left == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "the domain of 'sex' is taken from the observed values. Declare it with `categories`, or by "
            "bins with bounds.",
            "the domain of 'sex' is taken from the observed values. Tick “everybody may know” at the "
            "column, or give it bins with bounds.",
        ),
        ("Bring more rows, or a test file with `--test`.", "Bring more rows."),
        (
            "Put it into bins (on the command line: --bins age=LOW:HIGH:10).",
            "Put it into bins (“bins” such as 0:100:10).",
        ),
        (
            "got 30. Use `--positive VALUE` for one value against the others, or put the numbers into classes; "
            "as numbers, `epsilens whatif` and `epsilens value local` predict them with `--model ridge`.",
            "got 30. Use “the answer that counts as yes” for one value against the others, or predict the numbers.",
        ),
        ("Start with a larger `--max-upload`.", "Start with a larger `--max-upload`."),
        (
            "`epsilon` must be greater than 0, got 0.0. Use `math.inf` for no privacy.",
            "“the budgets” must be greater than 0, got 0.0.",
        ),
        ("`sample_weight` must be numbers.", "“the weight of a row” must be numbers."),
    ],
)
def test_messages_say_what_to_do_on_the_page(message: str, said: str) -> None:
    assert in_page_words(message) == said

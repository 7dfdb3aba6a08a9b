# SPDX-License-Identifier: Apache-2.0
"""No module looks for words in a message to decide what to do: facts have a type, a code or a field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import epsilens

ROOT = Path(epsilens.__file__).parent

FOREIGN = "_foreign.py"
"""Texts of other libraries that offer nothing else to go by. No other module may match prose."""

METHODS = frozenset(
    {
        "count",
        "endswith",
        "find",
        "index",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rfind",
        "rindex",
        "rpartition",
        "rsplit",
        "split",
        "startswith",
    }
)
PATTERNS = frozenset(
    {"compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"}
)


def is_prose(text: str) -> bool:
    """Say whether a text is words of a sentence: two of them, or one with a space at its side."""
    if "<" in text:  # markup
        return False
    return (
        re.search(r"[A-Za-z]{2,}[,.:;]? +[A-Za-z]{2,}|^ ?[A-Za-z]{3,} $|^ [A-Za-z]{3,}", text)
        is not None
    )


def _value(node: ast.AST | None, known: dict[str, ast.AST]) -> ast.AST | None:
    return known.get(node.id, node) if isinstance(node, ast.Name) else node


def texts(node: ast.AST | None, known: dict[str, ast.AST]) -> Iterator[str]:
    """Yield the texts that an expression consists of; a constant of the module stands for its value."""
    node = _value(node, known)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for part in node.elts:
            yield from texts(part, known)
    elif isinstance(node, ast.BinOp):
        yield from texts(node.left, known)
        yield from texts(node.right, known)


def compared(node: ast.Compare) -> Iterator[ast.expr]:
    """Yield what a comparison looks for."""
    for left, operator in zip([node.left, *node.comparators], node.ops, strict=False):
        if isinstance(operator, ast.In | ast.NotIn):
            yield left


def looked_for(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a piece of code looks for in a text."""
    if isinstance(node, ast.Compare):
        yield from compared(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        is_pattern = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        is_free = any("VERBOSE" in ast.unparse(argument) for argument in node.args[1:])
        if (is_pattern and node.func.attr in PATTERNS and not is_free) or (
            not is_pattern and node.func.attr in METHODS
        ):
            yield node.args[0]


def prose_in(source: str) -> list[tuple[int, str]]:
    """Return the lines of a module that look for prose, and for which."""
    tree = ast.parse(source)
    known: dict[str, ast.AST] = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    # What a loop such as `any(words in text for words in _WORDS)` goes through.
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension | ast.For) and isinstance(node.target, ast.Name):
            known.setdefault(node.target.id, _value(node.iter, known))
    return [
        (what.lineno, text)
        for node in ast.walk(tree)
        for what in looked_for(node)
        for text in texts(what, known)
        if is_prose(text)
    ]


def test_no_module_looks_for_words_of_a_message() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}": text
        for path in sorted(ROOT.rglob("*.py"))
        if path.name != FOREIGN
        for line, text in prose_in(path.read_text(encoding="utf-8"))
    }
    assert found == {}


def test_what_is_found_and_what_is_not() -> None:
    assert prose_in('"too few models" in words')
    assert prose_in('text.partition(" Declare it")')
    assert prose_in('sentence.startswith("No evidence")')
    assert prose_in('_WORDS = ("is not", "was not")\nany(said in text for said in _WORDS)')
    assert prose_in('re.sub(r"`x` must be (.*)", "", text)')
    assert not prose_in('text.split(", ")')
    assert not prose_in('"label" in given')
    assert not prose_in('re.compile(r"[a-z]+=[0-9]+")')
    assert not prose_in('what == "retrain"')

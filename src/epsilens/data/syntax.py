# SPDX-License-Identifier: Apache-2.0
"""The grammar of group expressions and the parser that reads it.

Loosest binding first::

    expression = conjunction {"or" conjunction}
    conjunction = negation {"and" negation}
    negation   = "not" negation | comparison
    comparison = operand [operator operand {operator operand} | ["not"] "in" list]
    operand    = "(" expression ")" | column | literal
    list       = "[" literal {"," literal} "]"
    column     = a bare word, or any text between backticks
    literal    = "text" | 'text' | number | true | false, or as Python writes them, True | False
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NoReturn

from epsilens.errors import InputError, setting

_MAXIMUM_DEPTH = 50
_TRUTHS = {"true": True, "True": True, "false": False, "False": False}
_KEYWORDS = ("and", "or", "not", "in", *_TRUTHS)

_PATTERN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
  | (?P<text>"[^"]*"|'[^']*')
  | (?P<quoted>`[^`]+`)
  | (?P<operator>==|!=|<=|>=|<|>)
  | (?P<mark>[()\[\],])
  | (?P<word>[^\W\d]\w*(?:\.\w+)*)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A word of the expression and where it stands."""

    kind: str
    text: str
    position: int


@dataclass(frozen=True)
class ColumnName:
    """A column, by name."""

    name: str
    position: int


@dataclass(frozen=True)
class Constant:
    """Text, a number or a truth that the user typed."""

    value: str | float | bool
    position: int


@dataclass(frozen=True)
class Compare:
    """Two operands and what stands between them."""

    operator: str
    left: ColumnName | Constant
    right: ColumnName | Constant
    position: int


@dataclass(frozen=True)
class Member:
    """Whether a column's answer is one of a list."""

    column: ColumnName
    values: tuple[Constant, ...]
    negated: bool


@dataclass(frozen=True)
class Not:
    """The opposite of its part."""

    part: Node


@dataclass(frozen=True)
class Join:
    """All of the parts, or any of them."""

    word: Literal["and", "or"]
    parts: tuple[Node, ...]


Node = Compare | Member | Not | Join | ColumnName | Constant


class Parser:
    """Recursive descent, one method for each line of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: set[str] = set()
        self._tokens = self._tokenise()
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        """Read the whole text as one condition."""
        if len(self._tokens) == 1:
            raise InputError(
                argument="groups",
                expected='an expression such as sex == "Female"',
                got="an empty text",
            )
        tree = self._expression()
        if self._peek().kind != "end":
            self._stop("`and`, `or` or the end was expected", self._peek().position)
        self._require_condition(tree)
        return tree

    def _tokenise(self) -> list[Token]:
        tokens: list[Token] = []
        position = 0
        while position < len(self.text):
            found = _PATTERN.match(self.text, position)
            if found is None:
                self._explain_character(position)
            if found.lastgroup != "space":
                tokens.append(Token(str(found.lastgroup), found.group(), position))
            position = found.end()
        return [*tokens, Token("end", "", len(self.text))]

    def _explain_character(self, position: int) -> NoReturn:
        character = self.text[position]
        if character in "\"'`":
            self._stop(f"the {character} is never closed", position)
        if character == "=":
            self._stop("two equals signs (==) compare", position)
        if character in "&|~":
            self._stop("use the words `and`, `or`, `not`", position)
        if character.isdigit() or character in "-+":
            self._stop("this is no number; put a column name like it in backticks", position)
        self._stop("this character has no meaning here", position)

    def _stop(self, why: str, position: int) -> NoReturn:
        # One line: the expression again, with a mark where reading stopped.
        shown = " ".join(f"{self.text[:position]}»{self.text[position:]}".split())
        raise InputError(
            f"{setting('groups')} must be an expression, but it is not valid at » in `{shown}`: {why}."
        )

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _at(self, *texts: str) -> bool:
        token = self._peek()
        return token.kind in {"word", "operator", "mark"} and token.text in texts

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAXIMUM_DEPTH:
            self._stop("too many brackets inside one another", self._peek().position)
        try:
            return self._joined("or", lambda: self._joined("and", self._negation))
        finally:
            self._depth -= 1

    def _joined(self, word: Literal["and", "or"], part: Callable[[], Node]) -> Node:
        start = self._peek().position
        parts = [part()]
        while self._at(word):
            self._take()
            self._require_condition(parts[-1], start)
            start = self._peek().position
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        self._require_condition(parts[-1], start)
        return Join(word, tuple(parts))

    def _negation(self) -> Node:
        n_negations = 0
        while self._at("not"):
            self._take()
            n_negations += 1
        start = self._peek().position
        part = self._comparison()
        if n_negations:
            self._require_condition(part, start)
        return Not(part) if n_negations % 2 else part

    def _comparison(self) -> Node:
        start = self._peek().position
        left = self._operand()
        if self._at("in", "not"):
            negated = self._take().text == "not"
            if negated and not (self._at("in") and self._take()):
                self._stop("`in` was expected after `not`", self._peek().position)
            if not isinstance(left, ColumnName):
                self._stop("a column must stand before `in`", start)
            return Member(left, self._list(), negated)
        links: list[Compare] = []
        while self._peek().kind == "operator":
            operator = self._take()
            position = self._peek().position
            right = self._operand()
            if not isinstance(left, ColumnName | Constant):
                self._stop("only columns, text and numbers can be compared", start)
            if not isinstance(right, ColumnName | Constant):
                self._stop("only columns, text and numbers can be compared", position)
            links.append(Compare(operator.text, left, right, operator.position))
            left, start = right, position
        if not links:
            return left
        return links[0] if len(links) == 1 else Join("and", tuple(links))

    def _operand(self) -> Node:
        token = self._take()
        if token.kind == "mark" and token.text == "(":
            inside = self._expression()
            if not self._at(")"):
                self._stop("a closing bracket was expected", self._peek().position)
            self._take()
            return inside
        if token.kind == "quoted" or (token.kind == "word" and token.text not in _KEYWORDS):
            name = token.text.strip("`")
            self.columns.add(name)
            return ColumnName(name, token.position)
        constant = self._constant(token)
        if constant is not None:
            return constant
        what = "the end" if token.kind == "end" else f"`{token.text}`"
        self._stop(f"a column, text or number was expected, got {what}", token.position)

    @staticmethod
    def _constant(token: Token) -> Constant | None:
        if token.kind == "text":
            return Constant(token.text[1:-1], token.position)
        if token.kind == "number":
            return Constant(float(token.text), token.position)
        if token.kind == "word" and token.text in _TRUTHS:
            return Constant(_TRUTHS[token.text], token.position)
        return None

    def _list(self) -> tuple[Constant, ...]:
        if not self._at("["):
            self._stop('a list such as ["a", "b"] was expected', self._peek().position)
        self._take()
        values: list[Constant] = []
        while True:
            token = self._take()
            constant = self._constant(token)
            if constant is None:
                self._stop("text or a number was expected in the list", token.position)
            values.append(constant)
            if self._at("]"):
                self._take()
                return tuple(values)
            if not self._at(","):
                self._stop("a comma or ] was expected", self._peek().position)
            self._take()

    def _require_condition(self, node: Node, position: int = 0) -> None:
        if isinstance(node, Constant):
            self._stop("a comparison was expected", position)

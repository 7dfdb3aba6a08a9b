# SPDX-License-Identifier: Apache-2.0
"""A small safe language for naming groups of people: `sex == "Female" and age >= 40`.

Parsed by hand, never `eval`ed: `syntax` has the grammar.
"""

from __future__ import annotations

import operator as operators
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from epsilens._types import BoolArray
from epsilens._validate import require_column
from epsilens.data.syntax import ColumnName, Compare, Constant, Join, Member, Node, Not, Parser
from epsilens.errors import InputError, InputTypeError, setting

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


QUOTE_TEXT = "Put text in quotation marks."
"""For a word in an expression that is no column."""

_ORDERINGS = ("<", "<=", ">", ">=")

_OPERATIONS: dict[str, Callable[[Any, Any], object]] = {
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


@dataclass(frozen=True)
class Expression:
    """A condition on the columns of a table, such as `sex == "Female" and age >= 40`.

    Made by `parse_expression`. Its text, with `str()`, is what the user typed.

    Parameters
    ----------
    text : str
        The condition as it was typed.
    columns : frozenset of str
        The columns it looks at.
    """

    text: str
    columns: frozenset[str]
    _tree: Node = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def mask(self, frame: object) -> BoolArray:
        """Say for each row whether the condition holds.

        A comparison with a missing answer does not hold, and neither does `!=` or `not in`: who
        has not answered belongs to no group that the answer defines. `not` turns the whole
        outcome round, so `not (age >= 40)` includes those whose age is missing.

        Parameters
        ----------
        frame : pandas or polars DataFrame, or pyarrow Table
            The rows.

        Returns
        -------
        array of bool, shape (n_rows,)
            True where the condition holds.

        Raises
        ------
        InputError
            If a column does not exist, or numbers are compared with words.

        Examples
        --------
        >>> import pandas as pd
        >>> people = pd.DataFrame({"sex": ["Female", "Male"], "age": [41, 52]})
        >>> parse_expression('sex == "Female" and age >= 40').mask(people).tolist()
        [True, False]
        """
        from epsilens.data.frames import to_pandas

        table = to_pandas(frame)
        for name in sorted(self.columns):
            require_column(name, table.columns, argument="group", advice=QUOTE_TEXT)
        return _Evaluation(self.text, table).truth(self._tree)

    def with_answers(self, answers: Mapping[str, Mapping[str, str | float | bool]]) -> Expression:
        """Return the same condition where other words stand for some answers.

        Parameters
        ----------
        answers : mapping of column to mapping of str to answer
            What each word stands for in its column; other words stand for themselves.

        Examples
        --------
        >>> import pandas as pd
        >>> people = pd.DataFrame({"sex": ["Female", "Male"]})
        >>> shown = parse_expression('sex == "category 2"')
        >>> shown.with_answers({"sex": {"category 2": "Male"}}).mask(people).tolist()
        [False, True]
        """
        return replace(self, _tree=_renamed(self._tree, answers))


def parse_expression(text: str) -> Expression:
    """Read a condition on columns, such as `sex == "Female" and age >= 40`.

    Words are joined by `and`, `or`, `not` and brackets; columns are compared by `==`, `!=`, `<`,
    `<=`, `>`, `>=`, `in ["a", "b"]` and `not in [...]`. Text stands in quotation marks; a column
    whose name is more than letters, digits and underscores stands in backticks.

    Parameters
    ----------
    text : str
        The condition.

    Returns
    -------
    Expression
        Its `mask(frame)` says for which rows it holds.

    Raises
    ------
    InputError
        If the text is no such condition; the message shows where reading stopped.

    Examples
    --------
    >>> expression = parse_expression('`capital-gain` > 0 or 18 <= age < 30')
    >>> sorted(expression.columns)
    ['age', 'capital-gain']
    """
    if not isinstance(text, str):
        raise InputTypeError(
            argument="groups", expected="an expression in text", got=type(text).__name__
        )
    parser = Parser(text)
    tree = parser.whole()
    return Expression(text.strip(), frozenset(parser.columns), tree)


def parse_group(text: str) -> tuple[str, Expression]:
    """Read `NAME=EXPRESSION`, or an expression alone, which is then its own name.

    Parameters
    ----------
    text : str
        For instance `women=sex == "Female"`. A name may hold anything but `=`, quotation marks,
        `<`, `>`, `!` and brackets.

    Returns
    -------
    tuple of str and Expression
        The group's name and its condition.

    Raises
    ------
    InputError
        If there is no valid expression.

    Examples
    --------
    >>> parse_group('women=sex == "Female"')[0], parse_group('sex == "Female"')[0]
    ('women', 'sex == "Female"')
    """
    if not isinstance(text, str):
        raise InputTypeError(
            argument="groups", expected="`NAME=EXPRESSION`", got=type(text).__name__
        )
    named = re.match(r"""\s*([^=<>!"'`()\[\]]+?)\s*=(?!=)(.*)\Z""", text, re.DOTALL)
    if named is None:
        expression = parse_expression(text)
        return expression.text, expression
    try:
        return named[1], parse_expression(named[2])
    except InputError as error:
        if re.fullmatch(r"""\s*("[^"]*"|'[^']*'|[\w.+-]+)\s*""", named[2]):
            raise InputError(
                argument="groups",
                expected="`NAME=EXPRESSION` or an expression",
                got=repr(text),
                hint="To compare, write two equals signs: ==",
            ) from None
        raise error from None


def compared_as(values: pd.Series) -> Literal["text", "number", "truth"]:
    """Say with what a column can be compared: words in quotation marks, numbers, or true and false.

    Parameters
    ----------
    values : pandas Series
        The column.

    Examples
    --------
    >>> import pandas as pd
    >>> compared_as(pd.Series(["01", "02"])), compared_as(pd.Series([1, 2]))
    ('text', 'number')
    """
    import pandas as pd

    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if pd.api.types.is_bool_dtype(dtype):
        return "truth"
    if pd.api.types.is_numeric_dtype(dtype):
        return "number"
    if pd.api.types.is_object_dtype(dtype):
        kinds = {type(value) for value in values.dropna()}
        if kinds and kinds <= {bool}:
            return "truth"
        if kinds and kinds <= {int, float}:
            return "number"
    # Dates compare with ISO text ("2024-01-31"), whose order is the order of time.
    return "text"


def _renamed(node: Node, answers: Mapping[str, Mapping[str, str | float | bool]]) -> Node:
    """Put answers in the place of the words that stand for them, column by column."""

    def meant(side: ColumnName | Constant, beside: ColumnName | Constant) -> ColumnName | Constant:
        if (
            isinstance(side, Constant)
            and isinstance(side.value, str)
            and isinstance(beside, ColumnName)
        ):
            known = answers.get(beside.name, {})
            return replace(side, value=known.get(side.value, side.value))
        return side

    match node:
        case Join(parts=parts):
            return replace(node, parts=tuple(_renamed(part, answers) for part in parts))
        case Not(part=part):
            return replace(node, part=_renamed(part, answers))
        case Member(column=column, values=values):
            found = [meant(value, column) for value in values]
            return replace(node, values=tuple(one for one in found if isinstance(one, Constant)))
        case Compare(left=left, right=right):
            return replace(node, left=meant(left, right), right=meant(right, left))
        case _:
            return node


class _Evaluation:
    """One pass over the tree for one table."""

    def __init__(self, text: str, frame: pd.DataFrame) -> None:
        self._text = text
        self._frame = frame

    def truth(self, node: Node) -> BoolArray:
        import numpy as np

        match node:
            case Join(word=word, parts=parts):
                operation = np.logical_and if word == "and" else np.logical_or
                masks = [self.truth(part) for part in parts]
                result: BoolArray = operation.reduce(masks)
                return result
            case Not(part=part):
                return np.logical_not(self.truth(part))
            case Member(column=column, values=values, negated=negated):
                found = np.zeros(len(self._frame), dtype=np.bool_)
                for value in values:
                    found |= self._compare("==", column, value)
                return ~found & self._present(column) if negated else found
            case Compare(operator=operator, left=left, right=right):
                return self._compare(operator, left, right)
            case ColumnName():
                return self._compare("==", node, Constant(True, node.position))
            case _:
                raise AssertionError("the parser lets no bare constant through")

    def _present(self, column: ColumnName) -> BoolArray:
        present: BoolArray = self._frame[column.name].notna().to_numpy(dtype="bool")
        return present

    def _compare(
        self, operator: str, left: ColumnName | Constant, right: ColumnName | Constant
    ) -> BoolArray:
        import numpy as np

        left_kind, right_kind = self._kind(left), self._kind(right)
        if {left_kind, right_kind} == {"text", "truth"} and all(
            self._spells_truth(side) for side in (left, right)
        ):
            # A text file may spell its truths "true" and "false": compare them as such.
            left_kind = right_kind = "truth"
        if left_kind != right_kind:
            raise InputError(
                f"{setting('groups')} must compare like with like, but `{self._text}` compares "
                f"{_name(left)} ({left_kind}) with {_name(right)} ({right_kind}). Put text in quotation "
                "marks, numbers not."
            )
        if left_kind == "truth" and operator in _ORDERINGS:
            raise InputError(
                f"{setting('groups')} must not put true and false in order, but `{self._text}` does. Use "
                "== or !=."
            )
        first, second = self._values(left, left_kind), self._values(right, left_kind)
        present = np.ones(len(self._frame), dtype=np.bool_)
        for side in (left, right):
            if isinstance(side, ColumnName):
                present &= self._present(side)
        result = np.zeros(len(self._frame), dtype=np.bool_)
        outcome = _OPERATIONS[operator](first[present], second[present])
        result[present] = np.asarray(outcome, dtype=np.bool_)
        return result

    def _kind(self, side: ColumnName | Constant) -> Literal["text", "number", "truth"]:
        if isinstance(side, Constant):
            if isinstance(side.value, bool):
                return "truth"
            return "number" if isinstance(side.value, float) else "text"
        return compared_as(self._frame[side.name])

    def _spells_truth(self, side: ColumnName | Constant) -> bool:
        words = (
            [side.value] if isinstance(side, Constant) else self._frame[side.name].dropna().unique()
        )
        return all(str(word).lower() in {"true", "false"} for word in words)

    def _values(self, side: ColumnName | Constant, kind: str) -> NDArray[np.generic]:
        import numpy as np
        import pandas as pd

        n_rows = len(self._frame)
        if isinstance(side, Constant):
            value = side.value
            if kind == "truth" and isinstance(value, str):
                value = value.lower() == "true"
            return np.full(n_rows, value, dtype=object if kind == "text" else None)
        values = self._frame[side.name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            of = values.dtype.categories.dtype
            values = values.astype("float64" if kind == "number" else of)
        if kind == "number":
            numbers: NDArray[np.generic] = values.to_numpy(dtype="float64", na_value=np.nan)
            return numbers
        if kind == "truth":
            truths: NDArray[np.generic] = (
                values.astype(object).map(lambda value: str(value).lower() == "true").to_numpy()
            )
            return truths
        if pd.api.types.is_datetime64_any_dtype(values.dtype):
            values = values.map(lambda value: value.isoformat().removesuffix("T00:00:00"))
        words: NDArray[np.generic] = values.astype(object).map(str).to_numpy(dtype=object)
        return words


def _name(side: ColumnName | Constant) -> str:
    return f"column {side.name!r}" if isinstance(side, ColumnName) else "a constant"

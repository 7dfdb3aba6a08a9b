# SPDX-License-Identifier: Apache-2.0
"""Laws of the group language, against a slow obvious twin that asks row by row."""

from __future__ import annotations

import operator

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilens.data.expressions import parse_expression
from epsilens.errors import InputError

FRAME = pd.DataFrame(
    {
        "a": [0.0, 1.0, 2.0, 3.0, None],
        "b b": [3.0, 2.0, None, 1.0, 0.0],
        "c": ["x", "y", "z", "x", None],
    }
)
ROWS = [
    {name: None if pd.isna(value) else value for name, value in row.items()}
    for row in FRAME.to_dict("records")
]
OPERATORS = {
    **{"==": operator.eq, "!=": operator.ne, "<": operator.lt},
    **{"<=": operator.le, ">": operator.gt, ">=": operator.ge},
}


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> tuple[str, list[bool]]:
    """An expression's text together with its outcome for each row."""
    kind = draw(
        st.sampled_from(["number", "word", "in", "not", "and", "or"] if depth else ["number"])
    )
    if kind in {"number", "word"}:
        sign = draw(st.sampled_from(list(OPERATORS)))
        column = draw(st.sampled_from(["a", "b b"])) if kind == "number" else "c"
        value = draw(st.integers(-1, 4)) if kind == "number" else draw(st.sampled_from("wxyz"))
        shown = str(value) if kind == "number" else f'"{value}"'
        outcome = [
            row[column] is not None and bool(OPERATORS[sign](row[column], value)) for row in ROWS
        ]
        return f"`{column}` {sign} {shown}", outcome
    if kind == "in":
        values = draw(st.lists(st.sampled_from("wxyz"), min_size=1, max_size=3))
        negated = draw(st.booleans())
        listed = ", ".join(f"'{value}'" for value in values)
        outcome = [row["c"] is not None and (row["c"] in values) != negated for row in ROWS]
        return f"c {'not ' if negated else ''}in [{listed}]", outcome
    left_text, left = draw(conditions(depth=depth - 1))
    if kind == "not":
        return f"not ({left_text})", [not value for value in left]
    right_text, right = draw(conditions(depth=depth - 1))
    joined = all if kind == "and" else any
    outcome = [joined(pair) for pair in zip(left, right, strict=True)]
    return f"({left_text}) {kind} ({right_text})", outcome


@given(conditions())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_mask_is_what_each_row_answers(condition: tuple[str, list[bool]]) -> None:
    text, expected = condition
    assert parse_expression(text).mask(FRAME).tolist() == expected


@given(conditions(depth=1), conditions(depth=1), conditions(depth=1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_and_binds_tighter_than_or(
    first: tuple[str, list[bool]], second: tuple[str, list[bool]], third: tuple[str, list[bool]]
) -> None:
    parts = [f"({part[0]})" for part in (first, second, third)]
    bare = parse_expression(f"{parts[0]} or {parts[1]} and {parts[2]}").mask(FRAME)
    bracketed = parse_expression(f"{parts[0]} or ({parts[1]} and {parts[2]})").mask(FRAME)
    assert bare.tolist() == bracketed.tolist()


@given(st.text(alphabet="ab c()[]=<>!\"'`&.,0123456789-_and or not in", max_size=40))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_text_is_a_condition_or_one_clear_line(text: str) -> None:
    # Anything but an InputError of one line, such as a RecursionError, fails here.
    try:
        outcome: object = parse_expression(text).mask(FRAME).shape
    except InputError as error:
        outcome = str(error)
    assert outcome == (len(FRAME),) or "\n" not in str(outcome)


@pytest.mark.parametrize("text", ["(lambda: 1)()", "a.b()", "[x for x in a]", "a if b else c"])
def test_python_is_not_the_language(text: str) -> None:
    with pytest.raises(InputError):
        parse_expression(text).mask(FRAME)

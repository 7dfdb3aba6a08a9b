# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from epsilens.data.expressions import parse_expression, parse_group
from epsilens.errors import InputError, InputTypeError

PEOPLE = pd.DataFrame(
    {
        "sex": ["F", "M", "M", None],
        "age": [31, 42, 53, None],
        "capital-gain": [0, 5, 60, 7],
        "member": [True, False, True, False],
        "vote": ["true", "False", None, "TRUE"],
        "visit": pd.to_datetime(
            ["2024-01-31", "2024-02-01", "2024-03-01 12:00", None], format="ISO8601"
        ),
        "größe": [1.5, 2.5, 3.5, 4.5],
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('sex == "F"', [1, 0, 0, 0]),
        ("sex != 'F'", [0, 1, 1, 0]),
        ('not sex == "F"', [0, 1, 1, 1]),
        ("age >= 42", [0, 1, 1, 0]),
        ("42 <= age", [0, 1, 1, 0]),
        ("31 < age <= 42", [0, 1, 0, 0]),
        ("`capital-gain` > age", [0, 0, 1, 0]),
        ("`capital-gain` > -1", [1, 1, 1, 1]),
        ("age == 4.2e1", [0, 1, 0, 0]),
        ("age in [31, 53]", [1, 0, 1, 0]),
        ("age not in [31, 53]", [0, 1, 0, 0]),
        ('sex in ["F"]', [1, 0, 0, 0]),
        ("member", [1, 0, 1, 0]),
        ("not member", [0, 1, 0, 1]),
        ("not not member", [1, 0, 1, 0]),
        ("member == false", [0, 1, 0, 1]),
        ("vote == true", [1, 0, 0, 1]),
        ("vote == True", [1, 0, 0, 1]),
        ("vote == False", [0, 1, 0, 0]),
        ("vote", [1, 0, 0, 1]),
        ('visit >= "2024-02-01"', [0, 1, 1, 0]),
        ("größe < 2", [1, 0, 0, 0]),
        # and binds tighter than or, not tighter than and
        ('member or sex == "M" and age > 50', [1, 0, 1, 0]),
        ('(member or sex == "M") and age > 50', [0, 0, 1, 0]),
        ("not member and age > 40", [0, 1, 0, 0]),
    ],
)
def test_conditions(text: str, expected: list[int]) -> None:
    expression = parse_expression(text)
    assert str(expression) == text
    for frame in (PEOPLE, pl.from_pandas(PEOPLE), pa.Table.from_pandas(PEOPLE)):
        assert expression.mask(frame).tolist() == [bool(value) for value in expected]


def test_categories_and_nullable_numbers_compare_as_what_they_hold() -> None:
    frame = pd.DataFrame(
        {
            "size": pd.Series(["s", "l", None], dtype="category"),
            "level": pd.Series([1, 2, None], dtype="category"),
            "n": pd.array([1, None, 3], dtype="Int64"),
        }
    )
    assert parse_expression('size == "s"').mask(frame).tolist() == [True, False, False]
    assert parse_expression("level >= 2").mask(frame).tolist() == [False, True, False]
    assert parse_expression("n != 1").mask(frame).tolist() == [False, False, True]


def test_the_columns_are_known() -> None:
    expression = parse_expression('`capital-gain` > 0 and (sex == "F" or not member)')
    assert expression.columns == {"capital-gain", "sex", "member"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty text"),
        ("age >", "`age >»`"),
        ("(age > 1", "closing bracket"),
        ("age > 1)", "the end was expected"),
        ("age = 1", "two equals signs"),
        ("age > 1 & member", "use the words"),
        ("age > 1 member", "`age > 1 »member`"),
        ('sex == "F', "never closed"),
        ('"F"', "a comparison was expected"),
        ("3", "a comparison was expected"),
        ("member and 3", "`member and »3`"),
        ("not 3", "a comparison was expected"),
        ("age in 3", "a list such as"),
        ("age in [", "text or a number"),
        ("age in [1 2]", "comma or ]"),
        ("age not 3", "`in` was expected"),
        ("3 in [3]", "a column must stand before"),
        ("(age > 1) == true", "only columns, text and numbers"),
        ("2x > 1", "backticks"),
        ("age > 1; import os", "no meaning here"),
        ("__import__('os')", "the end was expected"),
        ("age.__class__ ", None),
        ("(" * 80 + "member" + ")" * 80, "too many brackets"),
    ],
)
def test_errors_show_the_place_in_one_line(text: str, words: str | None) -> None:
    with pytest.raises(InputError) as caught:
        parse_expression(text).mask(PEOPLE)
    assert "\n" not in str(caught.value)
    if words is not None:
        assert words in str(caught.value)


@pytest.mark.parametrize("text", ['age == "x"', "sex > 3", 'member == "F"', "sex == true", "sex"])
def test_words_and_numbers_do_not_compare(text: str) -> None:
    with pytest.raises(InputError, match="compares"):
        parse_expression(text).mask(PEOPLE)


def test_truths_have_no_order_and_columns_must_exist() -> None:
    with pytest.raises(InputError, match="in order"):
        parse_expression("member < true").mask(PEOPLE)
    with pytest.raises(InputError, match="Did you mean 'member'"):
        parse_expression("membr").mask(PEOPLE)
    with pytest.raises(InputTypeError):
        parse_expression(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name", "expression"),
    [
        ('women=sex == "F"', "women", 'sex == "F"'),
        ('sex == "F"', 'sex == "F"', 'sex == "F"'),
        ("old people = age >= 65", "old people", "age >= 65"),
        ("age>=65", "age>=65", "age>=65"),
        ("age<=65", "age<=65", "age<=65"),
        ("sex!='F'", "sex!='F'", "sex!='F'"),
        ("40+=age >= 40", "40+", "age >= 40"),
        ("`a=b` == 1", "`a=b` == 1", "`a=b` == 1"),
        ("members=member", "members", "member"),
    ],
)
def test_group_names(text: str, name: str, expression: str) -> None:
    found, parsed = parse_group(text)
    assert (found, str(parsed)) == (name, expression)


@pytest.mark.parametrize("text", ['sex="F"', "age = 3", "sex = 'F'"])
def test_a_single_equals_sign_is_explained(text: str) -> None:
    with pytest.raises(InputError, match="two equals signs"):
        parse_group(text)

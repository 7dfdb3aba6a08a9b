# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest

from epsilens.channels import Budget, parse_grid
from epsilens.errors import InputError, InputTypeError


def test_per_record_is_the_sum() -> None:
    budget = Budget({"sex": 1, "income": 2.5})
    assert dict(budget.per_column) == {"sex": 1.0, "income": 2.5}
    assert list(budget.per_column) == ["sex", "income"]
    assert budget.per_record == 3.5
    assert Budget({"sex": 1.0, "income": math.inf}).per_record == math.inf
    # Ten times 0.1 is 1, not 0.9999999999999999.
    assert Budget.uniform([f"c{i}" for i in range(10)], 0.1).per_record == 1.0


def test_budget_is_a_value() -> None:
    given = {"sex": 1.0}
    budget = Budget(given)
    given["sex"] = 9.0
    assert budget == Budget({"sex": 1.0})
    assert hash(budget) == hash(Budget({"sex": 1.0}))
    assert budget != Budget({"sex": 2.0})
    assert pickle.loads(pickle.dumps(budget)) == budget
    assert repr(budget) == "Budget({'sex': 1.0})"
    with pytest.raises(TypeError):
        budget.per_column["sex"] = 3.0  # type: ignore[index]
    with pytest.raises(AttributeError):
        budget.per_column = {}  # type: ignore[misc]


def test_spending_again_adds_per_column() -> None:
    total = Budget({"sex": 1.0, "income": 2.0}) + Budget({"income": 0.5, "age": 1.0})
    assert dict(total.per_column) == {"sex": 1.0, "income": 2.5, "age": 1.0}
    with pytest.raises(TypeError):
        total + 1  # type: ignore[operator]


def test_to_dict_is_json() -> None:
    text = json.dumps(Budget({"sex": 1.0, "income": math.inf}).to_dict(), allow_nan=False)
    assert json.loads(text) == {"per_column": {"sex": 1.0, "income": "inf"}, "per_record": "inf"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sex=1,income=2", {"sex": 1.0, "income": 2.0}),
        (" sex = 0.5 , income=inf ", {"sex": 0.5, "income": math.inf}),
        ("a=b=1", {"a=b": 1.0}),
        ('"age, grouped=1",sex=2', {"age, grouped": 1.0, "sex": 2.0}),
    ],
)
def test_parse_budget(text: str, expected: dict[str, float]) -> None:
    assert dict(Budget.parse(text).per_column) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "got nothing"),
        ("sex", "COLUMN=EPSILON, got 'sex'"),
        ("=1", "COLUMN=EPSILON"),
        ("sex=1,,income=2", "COLUMN=EPSILON, got ''"),
        ("sex=one", "`epsilon` of column sex must be a number greater than 0, got 'one'"),
        ("sex=0", "greater than 0, got 0.0"),
        ("sex=-1", "greater than 0, got -1.0"),
        ("sex=nan", "got nan"),
        ("sex=1,sex=2", "'sex' stands more than once"),
    ],
)
def test_parse_budget_refuses(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Budget.parse(text)


@pytest.mark.parametrize(
    ("per_column", "words"),
    [
        ({}, "at least one column"),
        ([("sex", 1.0)], "map column names to epsilon, got list"),
        ({1: 1.0}, "column names as keys, got int"),
        ({"": 1.0}, "got an empty name"),
        ({"sex": 0.0}, "greater than 0"),
        ({"sex": "1"}, "must be a number"),
    ],
)
def test_budget_refuses(per_column: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Budget(per_column)  # type: ignore[arg-type]


def test_uniform_refuses() -> None:
    with pytest.raises(InputTypeError, match="list of column names, got str"):
        Budget.uniform("sex", 1.0)
    with pytest.raises(InputError, match="more than once"):
        Budget.uniform(["sex", "sex"], 1.0)
    with pytest.raises(InputError, match="at least one column"):
        Budget.uniform([], 1.0)


def test_grid_geometric_has_both_ends() -> None:
    grid = parse_grid("0.1:10:30")
    assert len(grid) == 30
    assert (grid[0], grid[-1]) == (0.1, 10.0)
    np.testing.assert_allclose(np.diff(np.log(grid)), math.log(100) / 29, rtol=1e-12)


def test_grid_linear_has_both_ends() -> None:
    grid = parse_grid("lin:0.001:10:30")
    assert len(grid) == 30
    assert (grid[0], grid[-1]) == (0.001, 10.0)
    np.testing.assert_allclose(np.diff(grid), 9.999 / 29, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", (1.0,)),
        ("inf", (math.inf,)),
        ("3, 1,inf, 2,1e0", (1.0, 2.0, 3.0, math.inf)),
        ("10:0.1:3", (0.1, 1.0, 10.0)),
        ("2:2:1", (2.0,)),
        ("2:2:5", (2.0,)),
        ("8:8:3", (8.0,)),
        (" LIN:1:3:3 ", (1.0, 2.0, 3.0)),
    ],
)
def test_grid_forms(text: str, expected: tuple[float, ...]) -> None:
    assert parse_grid(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "got nothing"),
        ("  ", "got nothing"),
        ("0", "greater than 0, got 0.0"),
        ("1,-2", "greater than 0, got -2.0"),
        ("nan", "got nan"),
        ("1,,2", "greater than 0, got ''"),
        ("abc", "got 'abc'"),
        ("0:1:5", "greater than 0, got 0.0"),
        ("lin:0:1:5", "greater than 0, got 0.0"),
        ("nan:1:5", "got nan"),
        ("1:inf:5", "finite ends"),
        ("lin:1:inf:5", "finite ends"),
        ("1:2", "START:STOP:COUNT, got '1:2'"),
        ("1:2:3:4", "START:STOP:COUNT"),
        ("lin:1,2", "lin:START:STOP:COUNT, got 'lin:1,2'"),
        ("lin:5", "lin:START:STOP:COUNT"),
        ("log:1:2:3", "START:STOP:COUNT"),
        ("1:2:0", "from 2 to 10000, got '0'"),
        ("1:2:-3", "from 2 to 10000"),
        ("1:2:1", "from 2 to 10000, got '1'"),
        ("2:2:0", "from 1 to 10000"),
        ("1:2:2.5", "from 2 to 10000, got '2.5'"),
        ("1:2:99999999999", "from 2 to 10000"),
    ],
)
def test_grid_refuses_in_one_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_grid(text)
    assert "\n" not in str(caught.value)


def test_grid_wants_text() -> None:
    with pytest.raises(InputTypeError, match="typed as text, got float"):
        parse_grid(1.0)  # type: ignore[arg-type]

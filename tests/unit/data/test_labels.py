# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pandas as pd
import pytest

from epsilens.data.parts import read_labels, read_numbers
from epsilens.errors import COMMAND_LINE, InputError


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (["yes", "no", "yes"], ("no", "yes")),
        ([0, 1, 1], (0, 1)),
        ([2.0, 1.0, 1.0], (1.0, 2.0)),
        ([True, False, True], (False, True)),
        ([10, 9, 10], (9, 10)),
    ],
)
def test_two_answers_keep_their_values_and_the_last_is_yes(
    values: list[object], categories: tuple[object, ...]
) -> None:
    labels = read_labels(pd.Series(values, name="y"), name="y")
    assert labels.values.tolist() == values
    assert labels.categories == categories
    assert labels.positive == categories[1]


def test_a_chosen_value_of_two_keeps_both_names() -> None:
    labels = read_labels(pd.Series([0, 1, 1], name="y"), name="y", positive="0")
    assert labels.values.tolist() == [0, 1, 1]
    assert labels.positive == 0


@pytest.mark.parametrize(
    ("values", "positive", "expected"),
    [
        (["a", "b", "c"], "b", ["other", "b", "other"]),
        ([1, 2, 3], "2", ["other", "2", "other"]),
        ([1.0, 2.0, 3.0], "2", ["other", "2", "other"]),
        (["other", "b", "c"], "other", ["other", "not other", "not other"]),
    ],
)
def test_one_against_the_others(values: list[object], positive: str, expected: list[str]) -> None:
    labels = read_labels(pd.Series(values, name="y"), name="y", positive=positive)
    assert labels.values.tolist() == expected
    assert labels.positive == positive
    assert "2 values were joined" in labels.notes[0].text
    again = labels.read_again(pd.Series(values, name="y"), what="test data")
    assert again.tolist() == expected


def test_labels_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="got 1"):
        read_labels(pd.Series(["HIV", "HIV"]), name="y")
    with pytest.raises(InputError, match=r"got 26.*task='regression'") as caught:
        read_labels(pd.Series(range(26)), name="y")
    said = caught.value.render(COMMAND_LINE)
    assert re.search(r"got 26.*`--positive VALUE`.*`--model ridge`", said)
    with pytest.raises(InputError, match=r"got 26.*`positive='VALUE'`.*join values") as caught:
        read_labels(pd.Series(list("abcdefghijklmnopqrstuvwxyz")), name="y")
    # A number that it is not cannot be predicted.
    assert "ridge" not in str(caught.value)
    several = read_labels(pd.Series(["b", "a", "c"]), name="y")
    assert (several.categories, several.positive) == (("a", "b", "c"), None)
    with pytest.raises(InputError, match="stands in no row"):
        read_labels(pd.Series(["a", "b"]), name="y", positive="c")
    with pytest.raises(InputError, match="holds words"):
        read_numbers(pd.Series(["a", "b"]), name="y")
    with pytest.raises(InputError, match="1 are not"):
        read_numbers(pd.Series([1.0, float("inf")]), name="y")


def test_new_values_in_test_data_are_counted_not_named() -> None:
    labels = read_labels(pd.Series(["a", "b"], name="y"), name="y")
    with pytest.raises(InputError, match="2 rows have another") as caught:
        labels.read_again(pd.Series(["HIV", "a", "HIV"], name="y"), what="test data")
    assert "HIV" not in str(caught.value)

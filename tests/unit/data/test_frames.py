# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from epsilens.data.frames import like, series_name, to_pandas, to_vector
from epsilens.errors import InputError, InputTypeError

COLUMNS = {"age": [31, 42], "sex": ["F", "M"]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_every_library_comes_in_and_goes_out(make: type) -> None:
    brought = make(COLUMNS)
    frame = to_pandas(brought)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == COLUMNS
    returned = like(pd.DataFrame({"epsilon": [1.0, np.inf]}, index=[3, 4]), brought)
    assert type(returned) is type(brought)
    assert to_pandas(returned).columns.tolist() == ["epsilon"]
    assert to_pandas(returned)["epsilon"].tolist() == [1.0, np.inf]


def test_polars_categories_keep_their_order() -> None:
    sizes = pl.Series("size", ["small", "big"], dtype=pl.Enum(["small", "big"]))
    assert to_pandas(sizes.to_frame())["size"].cat.categories.tolist() == ["small", "big"]


def test_an_array_gets_names_and_comes_back_as_pandas() -> None:
    frame = to_pandas(np.eye(2))
    assert frame.columns.tolist() == ["x0", "x1"]
    assert isinstance(like(frame, np.eye(2)), pd.DataFrame)


def test_names_become_text_and_must_be_unique() -> None:
    assert to_pandas(pd.DataFrame([[1, 2]])).columns.tolist() == ["0", "1"]
    with pytest.raises(InputError, match="more than once"):
        to_pandas(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InputError, match="several levels"):
        to_pandas(pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])))


@pytest.mark.parametrize("wrong", [[1, 2], "text", None, np.zeros(3), pl.LazyFrame(COLUMNS)])
def test_what_is_no_table_is_refused(wrong: object) -> None:
    with pytest.raises(InputTypeError, match="a table must be"):
        to_pandas(wrong)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a", "b"], name="q"),
        pd.Series(["a", "b"], name="q", dtype="category"),
        pl.Series("q", ["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
        pa.array(["a", "b"]),
        np.array(["a", "b"]),
        ["a", "b"],
        pd.DataFrame({"q": ["a", "b"]}),
        pl.DataFrame({"q": ["a", "b"]}),
        pa.table({"q": ["a", "b"]}),
        np.array([["a"], ["b"]]),
    ],
)
def test_every_column_becomes_a_vector(column: object) -> None:
    vector = to_vector(column)
    assert vector.dtype == object
    assert vector.tolist() == ["a", "b"]
    assert series_name(column) in {"q", None}


def test_names_of_columns() -> None:
    assert series_name(pl.Series("q", [1])) == "q"
    assert series_name(pl.Series([1])) is None
    assert series_name(pa.table({"q": [1]})) == "q"
    assert series_name(pd.DataFrame({"q": [1], "r": [2]})) is None


@pytest.mark.parametrize("wrong", ["text", np.zeros((2, 2)), pd.DataFrame(COLUMNS), 3])
def test_what_is_no_column_is_refused(wrong: object) -> None:
    with pytest.raises(InputTypeError, match="a column must be"):
        to_vector(wrong)

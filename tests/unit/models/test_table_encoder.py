# SPDX-License-Identifier: Apache-2.0
"""The encoder that is written down: total, row by row, and equal to scikit-learn's where both apply."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from epsilens.data import Bins, infer_schema
from epsilens.data.encoding import build_encoder
from epsilens.errors import InputError
from epsilens.models.table_encoder import (
    CategoryColumn,
    NumberColumn,
    TableEncoder,
    category_codes,
    learnt_columns,
)

NASTY = [
    "",
    None,
    "?",
    "abc",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "9" * 500,
    "1e308",
    "2020-02-30",
    " 7 ",
]


@pytest.fixture
def people():
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": random.integers(17, 90, 50),
            "sex": random.choice(["F", "M"], 50),
            "job": random.choice(["a", "b", "c"], 50),
            "wage": random.lognormal(size=50),
            "member": random.random(50) < 0.5,
        }
    )


def test_it_is_the_default_encoder_of_unprotected_columns(people):
    schema = infer_schema(people)
    columns = learnt_columns(people, schema, {})
    ours = TableEncoder(columns)
    theirs = build_encoder(schema).fit(people)
    names = [str(name) for name in theirs.get_feature_names_out()]
    order = [list(ours.get_feature_names_out()).index(name) for name in names]
    np.testing.assert_allclose(
        ours.transform(people)[:, order], theirs.transform(people), rtol=1e-12, atol=1e-12
    )


def test_every_row_is_encoded_by_itself_and_nothing_is_refused(people):
    columns = (
        NumberColumn.of_range("age", 17.0, 90.0),
        CategoryColumn("sex", ("F", "M")),
        NumberColumn("wage", 1.0, 1e-300),
        NumberColumn.of_range("born", 0.0, 20000.0, is_date=True),
        NumberColumn.of_range("score", 0.0, 10.0, n_bins=5),
    )
    encoder = TableEncoder(columns)
    names = [column.name for column in columns]
    rows = pd.DataFrame([[value] * len(names) for value in NASTY], columns=names, dtype=object)
    together = encoder.fit_transform(rows)
    assert np.isfinite(together).all()
    assert np.abs(together[:, 0]).max() <= math.sqrt(3.0) * (1 + 1e-12)
    for number in range(len(rows)):
        alone = encoder.transform(rows.iloc[[number]])
        np.testing.assert_array_equal(alone, together[[number]])
    shuffled = rows.sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(encoder.transform(shuffled), together[shuffled.index])


def test_a_declared_range_cuts_and_scales():
    age = NumberColumn.of_range("age", 20.0, 80.0)
    encoded = age.encode(pd.Series([20.0, 50.0, 80.0, 1e9, -math.inf, math.nan])).ravel()
    root = math.sqrt(3.0)
    np.testing.assert_allclose(encoded, [-root, 0.0, root, root, -root, 0.0], atol=1e-15)
    # Evenly spread numbers have unit variance.
    even = age.encode(pd.Series(np.linspace(20.0, 80.0, 100_001)))
    assert even.std() == pytest.approx(1.0, abs=1e-4)
    days = NumberColumn.of_range("born", 0.0, 100.0, is_date=True)
    np.testing.assert_array_equal(
        days.encode(pd.Series(["1970-01-11", "1970-13-01"])),
        days.encode(pd.Series(pd.to_datetime(["1970-01-11", None]))),
    )


def test_bins_of_a_column_that_may_be_looked_at(people):
    bins = {"wage": Bins(4)}
    columns = {c.name: c for c in learnt_columns(people, infer_schema(people, bins=bins), bins)}
    encoded = columns["wage"].encode(people["wage"])
    assert len(np.unique(encoded)) <= 4
    assert encoded.mean() == pytest.approx(0.0, abs=1e-12)
    assert encoded.std() == pytest.approx(1.0)


@pytest.mark.parametrize("values", [["1", "2", "x"], [1.0, 2.0, 9.0], [1, 2, 9]])
def test_a_category_is_found_however_it_is_stored(values):
    assert category_codes(pd.Series(values), [1, 2]).tolist() == [0, 1, -1]
    truths = pd.Series([True, False, None], dtype=object)
    assert category_codes(truths, [False, True]).tolist() == [1, 0, -1]
    assert category_codes(pd.Series(["a", None, ""]), ["a", "(missing)"]).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: NumberColumn("a", 0.0, 0.0),
        lambda: NumberColumn("a", math.nan, 1.0),
        lambda: NumberColumn("a", 0.0, 1.0, 2.0, 1.0),
        lambda: NumberColumn("a", 0.0, 1.0, n_bins=3),
        lambda: CategoryColumn("a", ("x",)),
        lambda: CategoryColumn("a", ("x", "x")),
    ],
)
def test_an_encoding_that_makes_no_sense_is_refused(make):
    with pytest.raises(InputError, match="column 'a'"):
        make()


def test_a_table_without_the_columns_is_refused(people):
    with pytest.raises(InputError, match="1 are missing: height"):
        TableEncoder([NumberColumn("height", 0.0, 1.0)]).transform(people)

# SPDX-License-Identifier: Apache-2.0
"""A contract from what the sites declare: all their answers, or a word that names site and column."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epsilens.errors import InputError
from epsilens.federated import DeclaredColumn, FederationSchema
from epsilens.federated.declare import agree

from .conftest import contract, table_of, truth


def with_column(schema: FederationSchema, column: DeclaredColumn) -> FederationSchema:
    columns = tuple(column if c.name == column.name else c for c in schema.columns)
    return replace(schema, columns=columns)


def test_what_any_site_declares_is_possible_for_all(schema):
    less = with_column(schema, DeclaredColumn("region", ("s", "n")))
    less = with_column(less, DeclaredColumn("class", ("low", "high"), "code", centre=0.5))
    less = with_column(less, DeclaredColumn("age", encoding="number", centre=60.0, scale=5.0))
    less = replace(less, label=DeclaredColumn("smokes", ("answer 1", "answer 0")))
    found = agree({"a": schema, "b": less})
    columns = {column.name: column for column in found.columns}
    assert columns["region"].categories == ("n", "e", "s", "w")
    assert columns["class"].categories == ("low", "mid", "high")
    assert (columns["age"].centre, columns["age"].scale) == (60.0, 10.0)
    assert found.label == schema.label
    assert found.protected == schema.protected
    assert found.encode(table_of(schema, truth(schema, 9, seed=1))).n == 9
    assert agree({"a": schema, "b": schema}) == schema


def test_numbers_in_bins_are_put_in_order_and_limits_cover_all(schema):
    def site(answers, limit):
        bins = DeclaredColumn("class", answers, "code", centre=1.0)
        age = DeclaredColumn("age", encoding="number", centre=40.0, scale=10.0, limit=limit)
        return with_column(with_column(schema, bins), age)

    found = agree({"a": site(("5", "25"), 2.0), "b": site(("10", "25"), 4.0)})
    columns = {column.name: column for column in found.columns}
    assert columns["class"].categories == ("5", "10", "25")
    assert (columns["class"].centre, columns["age"].limit) == (1.0, 4.0)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            lambda s: replace(
                s, label=DeclaredColumn("drinks", ("no", "yes")), protected=("drinks", "region")
            ),
            "b must have the same label as a, 'smokes', got 'drinks'",
        ),
        (lambda s: replace(s, columns=s.columns[1:]), "b must declare the column 'sex', as a does"),
        (lambda s: replace(s, protected=("smokes",)), "b must protect the column 'region', as a"),
        (lambda s: replace(s, intercept=False), "b must have an intercept"),
        (
            lambda s: with_column(s, DeclaredColumn("age", ("30", "60"))),
            "b must declare the column 'age' as number, as a does, got one-hot",
        ),
        (
            lambda s: with_column(s, DeclaredColumn("class", ("high", "low"), "code")),
            "b must name the answers of the column 'class' in the order",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_site_and_column(other, words):
    schema = contract()
    with pytest.raises(InputError, match=words):
        agree({"a": schema, "b": other(schema)})

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from epsilens.errors import InputError
from epsilens.federated import DeclaredColumn, FederationSchema
from epsilens.federated.declare import rounded_scale

AGE = DeclaredColumn("age", encoding="number", centre=40.0, scale=10.0)
SMOKES = DeclaredColumn("smokes", ("no", "yes"))


def table(**columns: object) -> pd.DataFrame:
    plain = {
        "sex": ["f", "m", "f"],
        "region": ["n", "w", "s"],
        "age": [30.0, 40.0, 60.0],
        "class": ["mid", "low", "high"],
        "smokes": ["answer 1", "answer 0", "answer 1"],
    }
    return pd.DataFrame({**plain, **columns})


def test_a_design_has_indicators_codes_numbers_and_the_intercept(schema: FederationSchema) -> None:
    matrix = schema.design(schema.encode(table())).matrix
    np.testing.assert_allclose(
        matrix,
        [
            [0, 0, 0, 0, -1, 0, 1],
            [1, 0, 0, 1, 0, -1, 1],
            [0, 0, 1, 0, 2, 1, 1],
        ],
    )
    assert schema.n_features == 7


def test_a_column_order_of_its_own_changes_nothing(schema: FederationSchema) -> None:
    turned = table()[["smokes", "age", "class", "region", "sex"]]
    assert np.array_equal(schema.encode(turned).codes, schema.encode(table()).codes)


def test_the_contract_survives_a_file(schema: FederationSchema, tmp_path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema.to_dict()), encoding="utf-8")
    read = FederationSchema.read(path)
    assert read == schema
    assert read.fingerprint == schema.fingerprint


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"region": ["n", "w", "Atlantis"]}, "1 of 3 rows have another"),
        ({"age": [30.0, np.nan, 60.0]}, "no missing values, got 1"),
        ({"age": [30.0, np.inf, 60.0]}, "1 of 3 rows do not"),
        ({"age": ["thirty", "x", "y"]}, "declared as a number"),
    ],
)
def test_a_table_that_breaks_the_contract_is_refused_without_a_value(
    schema: FederationSchema, change: dict[str, list[object]], words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        schema.encode(table(**change))
    assert "Atlantis" not in str(caught.value)
    assert "thirty" not in str(caught.value)


def test_missing_column_and_empty_table(schema: FederationSchema) -> None:
    with pytest.raises(InputError, match="must have the declared column 'sex'"):
        schema.encode(table().drop(columns="sex"))
    with pytest.raises(InputError, match="at least one record"):
        schema.encode(table().iloc[:0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FederationSchema((AGE,), SMOKES, ()), "at least one protected"),
        (lambda: FederationSchema((AGE,), SMOKES, ("age",)), "'age' is not"),
        (lambda: FederationSchema((), SMOKES, ("smokes",)), "at least one column"),
        (lambda: FederationSchema((AGE,), AGE, ("age",)), "declared columns"),
        (lambda: FederationSchema((SMOKES,), AGE, ("smokes",)), "must have `categories`"),
        (lambda: DeclaredColumn("a", ("x",)), "at least two different"),
        (lambda: DeclaredColumn("a", ("x", "x")), "at least two different"),
        (lambda: DeclaredColumn("a"), "must either name"),
        (lambda: DeclaredColumn("a", encoding="number", scale=0.0), "scale of column a"),
        (lambda: DeclaredColumn("a", ("x", "y"), "ordinal"), "must be one of"),
        (lambda: FederationSchema.from_dict({"columns": []}), "an object with columns"),
        (
            lambda: FederationSchema.from_dict({"columns": [3], "label": {}, "protected": []}),
            "a column of a schema",
        ),
    ],
)
def test_a_contract_that_cannot_be_meant_is_refused(make, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_an_unreadable_schema_file_says_so(tmp_path) -> None:
    path = tmp_path / "schema.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="readable JSON"):
        FederationSchema.read(path)
    with pytest.raises(InputError, match="FileNotFoundError"):
        FederationSchema.read(tmp_path / "none.json")


def test_a_made_up_scale_is_never_zero() -> None:
    assert rounded_scale(np.full(5, 3.7)) == (3.7, 1.0)
    centre, scale = rounded_scale(np.array([1e-9, 3e-9]))
    assert scale > 0
    assert centre == pytest.approx(2e-9, rel=0.1)

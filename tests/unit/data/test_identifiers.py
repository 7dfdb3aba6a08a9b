# SPDX-License-Identifier: Apache-2.0
"""Which columns identify people: one rule for inspect, the models and the release."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from epsilens.data import infer_schema, prepare
from epsilens.data.schema import Values, identifier_reason, is_identifier_name
from epsilens.errors import InputError

N_ROWS = 400


def court_records() -> pd.DataFrame:
    """400 records with the columns of a court's file: every kind of identifier, and none."""
    random = np.random.default_rng(0)
    rows = np.arange(N_ROWS)
    days = pd.to_datetime("1950-01-01") + pd.to_timedelta(random.integers(0, 18_000, N_ROWS), "D")
    jailed = pd.to_datetime("2013-01-01") + pd.to_timedelta(random.permutation(10**7)[:N_ROWS], "s")
    return pd.DataFrame(
        {
            "id": random.permutation(N_ROWS),
            "name": [f"person {min(row, 390)}" for row in rows],
            "first": [f"first {row % 60}" for row in rows],
            "last": [f"last {row % 230}" for row in rows],
            "dob": days.strftime("%Y-%m-%d"),
            "c_case_number": [f"13{row:06d}CF10A" for row in rows],
            "c_jail_in": jailed.strftime("%Y-%m-%d %H:%M:%S"),
            "screened": [f"2013-0{1 + row % 9}-14" for row in rows],
            "visitor_mail": [f"p{row % 30}@example.org" for row in rows],
            "household_id": rows % 80,
            "age": random.integers(18, 90, N_ROWS),
            "income": 100 * random.integers(100, 900, N_ROWS),
            "height": random.normal(1.7, 0.1, N_ROWS),
            "width": random.integers(0, 1000, N_ROWS),
            "postcode": random.integers(10_000, 10_150, N_ROWS),
            "charge": random.choice(["theft", "battery", "other"], N_ROWS),
            "recid": random.integers(0, 2, N_ROWS),
        }
    )


IDENTIFIERS = {
    *("id", "name", "first", "last", "dob", "c_case_number", "c_jail_in"),
    *("visitor_mail", "household_id"),
}


def test_names_birth_dates_case_numbers_and_time_stamps_identify():
    found = {column.name for column in infer_schema(court_records()).columns if column.identifies}
    assert found == IDENTIFIERS


def test_nearly_unique_text_is_no_feature_and_its_values_are_counted():
    column = infer_schema(court_records())["name"]
    assert (column.kind, column.encoding, column.protectable) == ("identifier", "left out", False)
    assert column.note == "left out: 391 of 400 values differ, as in an identifier"


def test_the_model_leaves_identifiers_out_and_says_so_but_dates_stay_numbers():
    prepared = prepare(court_records(), label="recid")
    kept = set(prepared.X_train.columns)
    assert not kept & (IDENTIFIERS - {"dob", "c_jail_in"})
    assert {"dob", "c_jail_in", "income", "charge"} <= kept
    assert "name: left out: 391 of 400 values differ, as in an identifier" in [
        note.text for note in prepared.notes
    ]


def test_a_named_code_is_used_but_nothing_to_hide_among():
    column = infer_schema(court_records(), categorical=["name"])["name"]
    assert (column.encoding, column.protectable) == ("one-hot", False)
    assert column.identifies


def test_declared_categories_are_a_feature_but_identify_all_the_same():
    frame = court_records()
    frame["name"] = frame["name"].astype("category")
    column = infer_schema(frame)["name"]
    assert (column.encoding, column.protectable) == ("one-hot", True)
    assert column.identifies


@pytest.mark.parametrize(
    "name",
    [
        *("id", "ID", "userId", "patient_id", "c_case_number", "SSN", "e-mail", "E-Mail 2"),
        *("Kundennummer", "Geburtsdatum", "Nachname", "Straße", "date_de_naissance", "prénom"),
    ],
)
def test_names_of_identifiers(name: str) -> None:
    assert is_identifier_name(name, "text")


@pytest.mark.parametrize(
    "name", ["width", "paid", "number_of_cases", "country_name", "last_contact", "birth_weight"]
)
def test_names_that_only_contain_one(name: str) -> None:
    assert not is_identifier_name(name, "text")


@pytest.mark.parametrize(
    ("values", "identifies"),
    [
        (Values("income", "whole number", 399, 400), False),
        (Values("a", "whole number", 400, 400), True),
        (Values("height", "number", 400, 400), False),
        (Values("user_id", "number", 200, 400), True),
        (Values("a", "text", 380, 400), True),
        (Values("a", "text", 201, 400), True),
        (Values("a", "text", 200, 400), False),
        (Values("a", "text", 15, 20), False),
        (Values("store_id", "text", 45, 4000), False),
        (Values("name", "text", 12, 15), True),
        (Values("born", "date", 60, 1000), True),
        (Values("seen", "date", 60, 1000), False),
    ],
)
def test_where_the_line_is(values: Values, identifies: bool) -> None:
    assert (identifier_reason(values) is not None) == identifies


def test_german_birth_dates_are_dates():
    days = pd.date_range("1950-01-01", periods=300).strftime("%d.%m.%Y").tolist()
    frame = pd.DataFrame({"geboren": days[:150] * 4})
    assert infer_schema(frame)["geboren"].identifies


def test_everything_left_out_is_one_line():
    with pytest.raises(InputError, match="identifiers"):
        prepare(court_records()[["name", "recid"]], label="recid")


def test_a_few_whole_numbers_that_may_differ_by_chance_identify_nobody() -> None:
    # Ten ages from 25 to 70 all differ with a probability of about a third; 1 to 10 hardly ever do.
    ages = [58, 31, 44, 70, 25, 39, 62, 51, 28, 47]
    frame = pd.DataFrame({"age": ages, "place": range(10)})
    assert [bool(column.identifies) for column in infer_schema(frame).columns] == [False, True]
    many = pd.DataFrame({"amount": [1000 * number for number in range(60)]})
    assert infer_schema(many).columns[0].identifies


@pytest.mark.parametrize("extra", [np.nan, np.inf, 1e308])
@pytest.mark.parametrize("dtype", ["float64", "Float64"])
def test_numbers_stored_as_floats_identify_but_stay_numbers_of_the_model(
    extra: float, dtype: str
) -> None:
    # One missing insurance number makes floats of all others.
    random = np.random.default_rng(1)
    for n_rows in (40, N_ROWS):
        values = random.permutation(n_rows).astype(np.float64)
        values[7] = extra
        measured = random.normal(70, 9, n_rows)
        frame = pd.DataFrame({"insurance": values, "weight": measured}).astype(dtype)
        insurance, weight = infer_schema(frame).columns
        # Forty numbers as far apart as 1e308 differ by chance.
        assert bool(insurance.identifies) == (n_rows == N_ROWS or extra != 1e308)
        assert (insurance.kind, insurance.encoding) == ("numeric", "number")
        assert weight.identifies is None


def test_amounts_stored_as_floats_identify_nobody_unless_all_differ() -> None:
    amounts = [100.0 * (number % 90) for number in range(200)]
    frame = pd.DataFrame({"amount": amounts, "weight": np.linspace(50, 90, 200)})
    assert [column.identifies for column in infer_schema(frame).columns] == [None, None]

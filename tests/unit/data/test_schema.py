# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from epsilens.data.binning import Bins
from epsilens.data.schema import days, infer_schema, is_date
from epsilens.errors import InputError

N = 40


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "code": [f"c{index}" for index in range(N)],
            "income": np.linspace(1.0, 2.0, N),
            "children": np.arange(N) % 4,
            "smokes": np.arange(N) % 2,
            "job": np.resize(["nurse", "clerk", "cook"], N),
            "sex": np.resize(["F", "M"], N),
            "member": np.resize([True, False], N),
            "country": ["NL"] * N,
            "nothing": [np.nan] * N,
            "visit": pd.date_range("2024-01-01", periods=N).astype(str),
        }
    )


def test_kinds_uses_and_domains() -> None:
    schema = infer_schema(frame())
    kinds = {column.name: (column.kind, column.encoding) for column in schema.columns}
    assert kinds == {
        "id": ("identifier", "left out"),
        "code": ("identifier", "left out"),
        "income": ("numeric", "number"),
        "children": ("numeric", "number"),
        "smokes": ("binary", "number"),
        "job": ("categorical", "one-hot"),
        "sex": ("binary", "one-hot"),
        "member": ("binary", "one-hot"),
        "country": ("constant", "left out"),
        "nothing": ("constant", "left out"),
        "visit": ("numeric", "number"),
    }
    domains = {column.name: column.domain for column in schema.columns if column.protectable}
    assert domains == {
        "children": (0, 1, 2, 3),
        "smokes": (0, 1),
        "job": ("clerk", "cook", "nurse"),
        "sex": ("F", "M"),
        "member": (False, True),
    }
    assert "date" in str(schema["visit"].note)
    assert schema["nothing"].n_missing == N


def test_numbers_can_be_declared_codes() -> None:
    schema = infer_schema(frame(), categorical=["children", "id"])
    assert schema["children"].encoding == "one-hot"
    assert schema["id"].kind == "categorical"
    assert infer_schema(frame())["children"].encoding == "number"


def test_twenty_values_are_a_domain_and_twenty_one_are_not() -> None:
    for n_distinct, protectable in [(20, True), (21, False)]:
        column = infer_schema(pd.DataFrame({"a": np.arange(100) % n_distinct})).columns[0]
        assert column.protectable is protectable


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["Alice", "Bob", "Cara"], "identifier"),
        (["Alice", "Bob", None, "Cara"], "identifier"),
        (np.arange(10), "identifier"),
        (np.arange(9), "numeric"),
        (np.linspace(0, 1, 15), "numeric"),
        ([0.5, 1.5], "numeric"),
        ([True, False], "binary"),
        (np.array([True, None, False], dtype=object), "binary"),
    ],
)
def test_values_that_all_differ_are_records_and_no_domain(values: object, kind: str) -> None:
    column = infer_schema(pd.DataFrame({"a": values})).columns[0]
    assert column.kind == kind
    if kind == "binary":
        # Truths are a domain that everybody knows.
        assert column.domain == (False, True)
    else:
        assert column.categories is None
        assert not column.protectable


def test_codes_that_all_differ_are_for_the_model_only() -> None:
    column = infer_schema(pd.DataFrame({"a": [5, 6, 7]}), categorical=["a"]).columns[0]
    assert (column.kind, column.encoding, column.domain) == ("categorical", "one-hot", None)


def test_a_declared_domain_counts_even_where_nobody_gave_the_answer() -> None:
    series = pd.Series(["yes", "no"], dtype=pd.CategoricalDtype(["no", "yes", "refused"]))
    assert infer_schema(pd.DataFrame({"a": series})).columns[0].domain == ("no", "refused", "yes")


def test_bins_make_a_number_protectable() -> None:
    column = infer_schema(frame(), bins={"income": Bins(4, low=0.0, high=4.0)})["income"]
    assert column.domain == (0.5, 1.5, 2.5, 3.5)
    assert column.encoding == "number"
    with pytest.raises(InputError, match="numeric column"):
        infer_schema(frame(), bins={"job": Bins(4)})
    with pytest.raises(InputError, match="not both"):
        infer_schema(frame(), bins={"income": Bins(4)}, categorical=["income"])


def test_the_fingerprint_sees_names_kinds_and_counts_but_no_values() -> None:
    same = pd.DataFrame({"sex": ["F", "M", "F"], "age": [1.5, 2.5, 1.5]})
    other_values = pd.DataFrame({"sex": ["x", "y", "x"], "age": [7.5, 9.5, 7.5]})
    other_name = same.rename(columns={"sex": "gender"})
    more_rows = pd.concat([same, same])
    fingerprint = infer_schema(same).fingerprint
    assert infer_schema(other_values).fingerprint == fingerprint
    assert infer_schema(other_name).fingerprint != fingerprint
    assert infer_schema(more_rows).fingerprint != fingerprint
    assert len(fingerprint) == 64


def test_mixed_and_unhashable_columns_are_refused_without_values() -> None:
    mixed = pd.DataFrame({"a": pd.Series([1, "HIV", 2, "HIV"], dtype=object)})
    with pytest.raises(InputError, match="mixes both") as caught:
        infer_schema(mixed)
    assert "HIV" not in str(caught.value)
    with pytest.raises(InputError, match="lists"):
        infer_schema(pd.DataFrame({"a": [[1], [2]]}))


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(InputError, match="Did you mean 'children'"):
        infer_schema(frame(), categorical=["childen"])


def test_dates_become_days() -> None:
    assert days(pd.Series(["1970-01-02T12:00", None])).tolist()[0] == 1.5
    assert is_date(pd.Series(pd.to_datetime(["2024-01-31"])))
    assert not is_date(pd.Series(["2024-13-45", "2024-01-01"]))
    assert not is_date(pd.Series([20240131]))


def test_dates_beyond_the_range_of_nanoseconds_are_counted() -> None:
    seconds = np.array([0, 10**15, 86_400], dtype="datetime64[s]")
    far = pd.Series(seconds, name="when")
    assert days(far).tolist() == [0.0, 10**15 / 86_400, 1.0]
    assert days(far.dt.tz_localize("UTC")).tolist() == [0.0, 10**15 / 86_400, 1.0]
    assert np.isnan(days(pd.Series([pd.NaT, pd.Timestamp("1970-01-02")]))[0])


def test_a_date_that_cannot_be_counted_is_not_shown() -> None:
    with pytest.raises(InputError, match="'when' must hold dates") as caught:
        days(pd.Series(["999999-01-01"], name="when"))
    assert "999999" not in str(caught.value)
    assert caught.value.__suppress_context__

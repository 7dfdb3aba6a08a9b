# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pandas as pd
import pytest

from epsilens.channels.domain import domain_of, typed_categories
from epsilens.errors import InputError


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["no", "yes"], ["no", "yes"]),
        (["0", "-1", "20"], [0, -1, 20]),
        (["1", "1.5", "-2e3"], [1.0, 1.5, -2000.0]),
        (["true", "FALSE"], [True, False]),
        (["01", "10"], ["01", "10"]),
        (["1", "refused"], ["1", "refused"]),
        (["True", "1"], ["True", "1"]),
        (["1", "1e400"], ["1", "1e400"]),
        (["1", "nan"], ["1", "nan"]),
        (["1", str(2**70)], [1.0, float(2**70)]),
    ],
)
def test_the_type_follows_from_what_was_typed(texts: list[str], values: list[object]) -> None:
    typed = typed_categories(texts)
    assert typed == values
    assert [type(value) for value in typed] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("given", "answers", "codes"),
    [
        (["1", "2"], ["1", " 2", "1.0", "02", "+1"], [0, 1, 0, 1, 0]),
        (["1", "2"], [1.0, 2.0], [0, 1]),
        (["01", "1"], ["1", "01"], [1, 0]),
        (["01", "10"], ["1", "10"], [0, 1]),
        (["True", "False", "Unknown"], ["true", "False", "Unknown"], [0, 1, 2]),
        (["1", "2", "refused"], [1, "refused", "2"], [0, 2, 1]),
        (["no", "yes"], ["yes ", "no"], [1, 0]),
    ],
)
def test_answers_are_found_by_text_truth_or_number(
    given: list[str], answers: list[object], codes: list[int]
) -> None:
    series = pd.Series(answers, dtype=object, name="a")
    domain = domain_of(series, given=given, bins=None, with_missing=False)
    assert domain.codes(series).tolist() == codes


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        # 1.0 may mean either code.
        (["01", "1"], "1.0"),
        (["1", "0"], True),
        (["no", "yes"], "No"),
        ([str(2**53), "1"], str(2**53 + 1)),
        (["1", "2"], "1e400"),
    ],
)
def test_other_answers_are_counted_and_not_shown(given: list[str], answer: object) -> None:
    series = pd.Series([answer], dtype=object, name="a")
    domain = domain_of(series, given=given, bins=None, with_missing=False)
    with pytest.raises(InputError, match="1 of 1 rows have another") as caught:
        domain.codes(series)
    assert str(answer) not in str(caught.value).replace("1 of 1", "")


def test_observed_values_do_not_tell_by_their_type_who_is_missing() -> None:
    complete = pd.Series([2, 1, 2], name="a")
    gaps = pd.Series([2, 1, 2, None], dtype="Int64", name="a").dropna()
    for series in (complete, gaps):
        domain = domain_of(series, given=None, bins=None, with_missing=False)
        assert (domain.values.tolist(), str(domain.values.dtype)) == ([1, 2], "int64")

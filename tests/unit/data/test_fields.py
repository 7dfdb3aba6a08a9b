# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pyarrow as pa
import pytest

from epsilens.data.dialect import are_numbers, written_answers


@pytest.mark.parametrize(
    ("fields", "decimal_comma", "expected"),
    [
        (["1", "-2.5", "1e3"], False, True),
        (["1", "?"], False, True),
        (["?", ""], False, False),
        (["1,5"], False, False),
        (["1,5"], True, True),
        (["1", "x"], True, False),
    ],
)
def test_columns_of_numbers(fields: list[str], decimal_comma: bool, expected: bool) -> None:
    assert are_numbers(pa.chunked_array([fields]), decimal_comma=decimal_comma) is expected


def test_written_answers_keep_their_spelling() -> None:
    fields = pa.chunked_array([[" 01", "1.50", "?", "NA", "1,5", ""]])
    answers = written_answers(fields, name="a", possible=["01", "NA"], decimal_comma=False)
    assert answers.isna().tolist() == [False, False, True, False, False, True]
    assert answers.dropna().tolist() == ["01", "1.50", "NA", "1,5"]
    with_comma = written_answers(fields, name="a", possible=["01"], decimal_comma=True)
    assert with_comma.dropna().tolist() == ["01", "1.50", "1.5"]
    announced = written_answers(fields, name="a", possible=["1,5"], decimal_comma=True)
    assert announced.dropna().tolist() == ["01", "1.50", "1,5"]

# SPDX-License-Identifier: Apache-2.0
"""Tables read without a guess: one record changes its own row alone."""

from __future__ import annotations

import gzip
import io
import sys

import pandas as pd
import pytest

from epsilens.data import read_table
from epsilens.data.fields import read_fields
from epsilens.errors import InputError

ROWS = [["31", "yes"], ["42", "no"], ["58", "no"]]
NASTY = [
    ["", ""],
    ["age", "smokes"],
    ["1e999", "?"],
    ["a;b;c;d", "x,y"],
    ['"', "two\nlines"],
    ["\x01\x02", "é"],
    ["NA", "True"],
]


def written(rows, delimiter=","):
    frame = pd.DataFrame(rows, columns=["age", "smokes"])
    return frame.to_csv(index=False, sep=delimiter, quoting=1).encode()


@pytest.mark.parametrize("record", NASTY)
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_record_changes_its_own_row_alone(tmp_path, record, delimiter):
    file = tmp_path / "survey.csv"
    file.write_bytes(written([*ROWS, record], delimiter))
    found = read_fields(file)
    frame = found.written
    assert found.delimiter == delimiter
    assert frame.to_numpy().tolist() == [*ROWS, record]
    assert frame.dtypes.nunique() == 1


def test_compressed_text_standard_input_and_parquet(tmp_path, monkeypatch):
    packed = tmp_path / "survey.csv.gz"
    packed.write_bytes(gzip.compress(written(ROWS)))
    assert read_fields(packed).written.to_numpy().tolist() == ROWS
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written(ROWS))))
    assert read_fields("-").written.to_numpy().tolist() == ROWS
    columns = tmp_path / "survey.parquet"
    pd.DataFrame({"age": [31.5, None]}).to_parquet(columns)
    found = read_fields(columns)
    assert (found.written["age"].iloc[0], found.delimiter) == (31.5, None)
    assert found.typed() is found.written


def test_types_are_those_of_a_table_that_is_read_as_usual(tmp_path):
    file = tmp_path / "survey.csv"
    file.write_text("age;height;smokes;in\n31;1,5;yes;True\n;2;?;False\n", encoding="utf-8")
    pd.testing.assert_frame_equal(read_fields(file).typed(), read_table(file).frame)


def test_last_columns_without_a_name_are_left_out_whatever_they_hold(tmp_path):
    file = tmp_path / "survey.csv"
    for field in ("", "x"):
        file.write_text(f"age;smokes;;\n31;yes;{field};\n", encoding="utf-8")
        assert read_fields(file).written.to_numpy().tolist() == [["31", "yes"]]


def test_an_encoding_is_detected_where_that_is_asked_for(tmp_path):
    file = tmp_path / "survey.csv"
    file.write_bytes("prénom,a\né,1\n".encode("cp1252"))
    assert list(read_fields(file, detect=True).written.columns) == ["prénom", "a"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("prénom,a\né,1\n".encode("latin-1"), "must be text in the encoding"),
        (b"a,a\n1,2\n", "column names"),
        (b"a,b\n", "rows below it"),
        (b"a,b\n1\n", "2 fields in every row"),
        (b"\x1f\x8bnothing", "complete gzip"),
    ],
)
def test_a_file_that_is_not_well_formed_is_refused(tmp_path, content, words):
    file = tmp_path / "survey.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_fields(file)

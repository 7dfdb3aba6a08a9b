# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epsilens.data.columnar import frame_from_arrow, partition_columns, read_parquet_folder
from epsilens.data.files import read_table
from epsilens.errors import InputError


def frame(column: pa.Array) -> object:
    return frame_from_arrow(pa.table({"a": column}), name="survey")["a"]


def test_dictionaries_become_plain_values() -> None:
    series = frame(pa.array(["b", "a", None, "b"]).dictionary_encode())
    assert series.dropna().tolist() == ["b", "a", "b"]  # type: ignore[attr-defined]
    assert str(series.dtype) != "category"  # type: ignore[attr-defined]
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1]), pa.array(["a", None, "b"]))
    assert frame(with_null).isna().tolist() == [False, True, False, True]  # type: ignore[attr-defined]
    codes = frame(pa.array([3, 1, 3]).dictionary_encode())
    assert codes.tolist() == [3, 1, 3]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"SECRET"], pa.binary()),
        pa.array([b"SECRET"], pa.large_binary()),
        pa.array([b"SECRET"], pa.binary(6)),
        pa.array([b"SECRET"]).dictionary_encode(),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([["SECRET"]]),
        pa.array([{"a": "SECRET"}]),
    ],
    ids=lambda column: str(column.type),
)
def test_what_is_no_answer_is_refused(column: pa.Array) -> None:
    with pytest.raises(
        InputError, match="column 'a' of 'survey' must hold numbers, words or dates"
    ):
        frame(column)


def test_far_dates_and_lengths_of_time() -> None:
    dates = frame(pa.array([datetime.date(9999, 12, 31), None, datetime.date(1, 1, 1)]))
    assert dates.dt.year.tolist()[::2] == [9999, 1]  # type: ignore[attr-defined]
    moments = frame(pa.array([0, 10**15], pa.timestamp("s")))
    assert moments.tolist()[0].year == 1970  # type: ignore[attr-defined]
    lengths = frame(pa.array([90, None], pa.duration("s")))
    assert lengths.tolist()[0] == 90.0  # type: ignore[attr-defined]


def test_files_of_a_folder_may_differ_in_width_but_not_in_type(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"a": pa.array([1], pa.int32()), "b": pa.nulls(1)}), tmp_path / "1.parquet"
    )
    pq.write_table(pa.table({"a": pa.array([2**40]), "b": ["x"]}), tmp_path / "2.parquet")
    assert read_parquet_folder(tmp_path).to_pydict() == {"a": [1, 2**40], "b": [None, "x"]}
    pq.write_table(pa.table({"a": ["SECRET"], "b": ["x"]}), tmp_path / "3.parquet")
    with pytest.raises(InputError, match="same types, but those of column 'a' differ") as caught:
        read_parquet_folder(tmp_path)
    assert "SECRET" not in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_the_columns_that_divide_a_folder_are_named(tmp_path: Path) -> None:
    part = tmp_path / "data" / "smoking%20now=yes" / "year=2024"
    part.mkdir(parents=True)
    pq.write_table(pa.table({"age": [31]}), part / "p.parquet")
    assert partition_columns(tmp_path / "data") == ("smoking now", "year")
    assert read_table(tmp_path / "data").partitions == ("smoking now", "year")
    assert read_table(part / "p.parquet").partitions == ()

# SPDX-License-Identifier: Apache-2.0
"""A table that is no larger than one block is decoded once; nothing else differs by that."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pandas as pd
import pytest

from epsilens.data.parquet_pieces import open_parquet
from epsilens.errors import InputError
from epsilens.models.streamed_records import RowReading


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "y"])
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=70, index=False)
    return tmp_path / "rows.parquet"


def reading(file):
    return RowReading(open_parquet(file, piece_rows=100), ("a", "b"), "y", None, "training")


@pytest.fixture
def decoded(monkeypatch):
    """Count how often rows are decoded."""
    seen = []
    matrix = RowReading.matrix
    monkeypatch.setattr(
        RowReading, "matrix", lambda self, table: seen.append(1) or matrix(self, table)
    )
    return seen


@pytest.mark.parametrize(("most", "times"), [(8 * 300 * 3, 1), (8 * 300 * 3 - 1, 2)])
def test_a_small_table_is_decoded_once_and_gives_the_same_rows(
    file, monkeypatch, decoded, most, times
):
    monkeypatch.setattr("epsilens.data.parquet_pieces._BATCH_BYTES", most)
    rows = reading(file)
    once, again = ([one for piece in rows.pieces for one in rows.records(piece)] for _ in range(2))
    assert len(decoded) == times * len(once)
    for name in ("features", "y", "codes", "weights", "positions"):
        first, second = (
            np.concatenate([getattr(one, name) for one in found]) for found in (once, again)
        )
        np.testing.assert_array_equal(first, second)
    assert [one.piece for one in once] == [one.piece for one in again]


def test_kept_rows_cannot_be_changed_and_do_not_travel(file):
    rows = reading(file)
    (kept,) = rows.records(rows.pieces[0])
    with pytest.raises(ValueError, match="read-only"):
        kept.features[0, 0] = 1.0
    assert "_kept" in vars(rows)
    assert "_kept" not in vars(pickle.loads(pickle.dumps(rows)))


def test_a_file_that_changed_or_went_is_noticed_although_its_rows_are_kept(file):
    rows = reading(file)
    list(rows.records(rows.pieces[0]))
    os.utime(file, ns=(1, 1))
    with pytest.raises(InputError, match="must stay as it is while it is read"):
        list(rows.records(rows.pieces[0]))
    file.unlink()
    with pytest.raises(InputError, match="it was not found"):
        list(rows.records(rows.pieces[0]))

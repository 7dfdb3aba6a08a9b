from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from epsilens.data.parquet_pieces import open_parquet
from epsilens.models import streamed_encoder
from epsilens.models.streamed_encoder import streamed_estimator
from epsilens.models.streamed_records import RowReading


@pytest.fixture
def reading(tmp_path):
    """Return a table whose pieces have very different means."""
    n = 900
    frame = pd.DataFrame({"wage": np.arange(n) ** 2 / 7.0, "person": np.arange(n)[::-1]})
    frame["y"] = np.arange(n) % 2
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=110, index=False)
    source = open_parquet(tmp_path / "table.parquet", piece_rows=110)
    return RowReading(source, ("wage", "person"), "y", None, "training"), frame


def test_scales_are_those_of_all_pieces_together(reading):
    rows, frame = reading
    pipeline, _ = streamed_estimator(rows, model="logistic")
    scaler = pipeline[0].named_transformers_["numbers"]
    assert scaler.mean_[0] == pytest.approx(frame["wage"].mean(), rel=1e-12)
    assert scaler.var_[0] == pytest.approx(frame["wage"].var(ddof=0), rel=1e-12)


def test_identifiers_are_looked_for_among_so_many_rows_and_that_is_said(reading, monkeypatch):
    note = streamed_estimator(reading[0], model="logistic")[1]["person"].note
    assert note.startswith("left out: every value differs, as in an identifier")
    monkeypatch.setattr(streamed_encoder, "_MOST_COMPARED", 200)
    note = streamed_estimator(reading[0], model="logistic")[1]["person"].note
    assert "every value differs in the first 220 rows" in note

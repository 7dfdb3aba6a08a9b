# SPDX-License-Identifier: Apache-2.0
"""The default model is refused before its matrices are too large for memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from epsilens.data import prepare
from epsilens.errors import InputError
from epsilens.models import scikit_learn
from epsilens.models.scikit_learn import require_factorisable


def places(n_classes: int = 2) -> pd.DataFrame:
    """1,200 records: 300 places, 90 jobs, a label."""
    rows = np.arange(1200)
    return pd.DataFrame(
        {
            "place": [f"place {row % 300}" for row in rows],
            "job": [f"job {row % 90}" for row in rows],
            "age": rows % 60 + 18.0,
            "answer": [f"answer {row % 7 % n_classes}" for row in rows],
        }
    )


def test_a_model_too_wide_for_memory_names_its_widest_columns(monkeypatch):
    prepared = prepare(places(), label="answer")
    require_factorisable(prepared, what="an attack")
    monkeypatch.setattr(scikit_learn, "MOST_FACTORISED", 389)
    with pytest.raises(InputError) as caught:
        require_factorisable(prepared, what="an attack")
    assert str(caught.value) == (
        "an attack takes a model of at most 389 parameters, to stay below 3 GB of memory, but this "
        "one has 390. Leave out the widest columns with `drop`, or join their categories: "
        "place (300 categories), job (90 categories)."
    )
    require_factorisable(prepare(places(), label="answer", drop=["place"]), what="an attack")


def test_dense_records_count_too(monkeypatch):
    prepared = prepare(places(), label="answer")
    monkeypatch.setattr(scikit_learn, "MOST_DENSE_CATEGORIES", 10)
    monkeypatch.setattr(scikit_learn, "_MOST_CELLS", 900 * 300)
    require_factorisable(prepared, what="masking")
    with pytest.raises(InputError, match="masking takes a model of at most 300 parameters"):
        require_factorisable(prepared, what="masking", is_dense=True)

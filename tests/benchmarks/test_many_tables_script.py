# SPDX-License-Identifier: Apache-2.0
"""The benchmark over many tables, on two generated ones."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import many_tables
import whatif_many_tables
from epsilens.data import prepare

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::epsilens.errors.ApproximationWarning"),
    pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning"),
]


def generated(name: str, n: int, seed: int) -> many_tables.Table:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(size=n), "sex": rng.choice(["f", "m"], n)})
    score = frame["age"] + (frame["sex"] == "f") + rng.logistic(size=n)
    frame["ill"] = np.where(score > 0.5, "yes", "no")
    return many_tables.Table(name, "ill", "sex", prepare(frame, label="ill"))


@pytest.fixture
def two_tables(monkeypatch):
    made = [generated("generated/small", 160, 0), generated("generated/larger", 900, 1)]
    monkeypatch.setattr(
        whatif_many_tables,
        "tables",
        lambda most, every: ((table, table.study()) for table in made),
    )
    monkeypatch.setattr(sys, "argv", ["bench", "--quick", "--repeats", "12"])


def test_the_script_prints_what_its_bars_are_about(two_tables, capsys):
    whatif_many_tables.main()
    printed = capsys.readouterr().out
    assert "| tables, cells of labels, of these trusted | 2, 18, 18 |" in printed
    assert "| trusted points outside their interval | 0 | 0 |" in printed
    for kind in ("label", "forward", "feature", "both"):
        assert f"| {kind} |" in printed
    for method in whatif_many_tables.METHODS:
        assert f"| {method} |" in printed


def test_a_grid_moves_nothing_and_no_point_lies_outside():
    found = whatif_many_tables.grid_against_single(generated("generated/small", 160, 0).study())
    assert found["largest_shift"] <= 0.05
    assert found["points_outside"] == 0


def test_a_table_is_chosen_by_rule_not_by_result():
    frame = pd.DataFrame(
        {
            "two": np.tile(["a", "b"], 100),
            "number": np.arange(200.0),
            "last": np.tile([0, 1, 2, 3], 50),
            "name": [f"n{j}" for j in range(200)],
        }
    )
    assert many_tables._label_of(frame) == "last"
    assert "name" not in many_tables._readable(frame, None)

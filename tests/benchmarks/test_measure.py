# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks measure, against slow twins and numbers made by hand."""

from __future__ import annotations

import json
import sys
import warnings
from argparse import Namespace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import measure
from epsilens.errors import InputError
from p1 import SIZES, draw_groups, expected_changes, grid, table_3

EPSILON = [0.5, 1.0, 2.0]


def runs_of(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"group": "g", "epsilon": epsilon, "repeat": repeat, "loss_change": value}
            for epsilon, row in zip(EPSILON, values, strict=True)
            for repeat, value in enumerate(row)
        ]
    )


def frame_of(changes: list[float], low: float = -1.0, high: float = 1.0) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "group": "g",
            "epsilon": EPSILON,
            "record_epsilon": [2 * epsilon for epsilon in EPSILON],
            "loss_change": changes,
            "loss_change_low": low,
            "loss_change_high": high,
            "trusted": [True, False, True],
        }
    )


def row_of(values: np.ndarray, expected: list[float], **ends: float) -> measure.Row:
    estimates = {"paper": frame_of([-0.2, 0.0, 0.0]), "exact": frame_of([0.1, 0.0, 0.0], **ends)}
    return measure.measure_group("b", "g", estimates, runs_of(values), np.array(expected), seed=0)


def test_halves_are_all_the_halves():
    values = np.random.default_rng(0).normal(size=(3, 6))
    slow = [
        abs(values[i, list(half)].mean() - values[i, sorted(set(range(6)) - set(half))].mean())
        for half in combinations(range(6), 3)
        for i in range(3)
    ]
    assert measure.halves_apart(values) == pytest.approx(np.mean(slow))


def test_a_perfect_estimator_shows_about_half_the_distance():
    # Over 400 ε: means of ten have √(1/10) of a run's spread, two halves √(2/5), so 0.5; the error of
    # the ratio is about 0.5·√(2·0.57/400) = 0.027, and three times that is allowed.
    values = np.random.default_rng(1).normal(size=(400, 10))
    ratio, error = measure._ratio(np.zeros(400), values, seed=0)
    assert ratio == pytest.approx(0.5, abs=0.08)
    assert 0 < error < 0.15


def test_errors_signed_and_as_p1_counts_them():
    values = np.array([[-0.1, -0.3, -0.1, -0.3], [0.1, -0.1, 0.1, -0.1], [0.0, 0.0, 0.0, 0.0]])
    row = row_of(values, [100, 100, 100])
    # Means −0.2, 0, 0; means of absolute changes 0.2, 0.1, 0.
    assert row.error["paper"] == pytest.approx(0.0)
    assert row.error_as_p1 == pytest.approx((0.4 + 0.1) / 3)
    assert row.error["exact"] == pytest.approx(0.3 / 3)
    assert (row.trusted_cells, row.cells) == (2, 3)


def test_coverage_counts_cells_with_enough_changes_and_clusters_by_repeat():
    values = np.array([[0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]])
    row = row_of(values, [100, 20, 19.9])
    by_repeat = [1.0, 1.0, 0.5, 0.0]
    assert row.covered_cells == 2
    assert row.coverage == pytest.approx(np.mean(by_repeat))
    assert row.coverage_standard_error == pytest.approx(np.std(by_repeat, ddof=1) / 2)
    none = row_of(values, [1, 1, 1])
    assert none.coverage is None
    assert "–" in measure.markdown([none])


def test_retrainings_that_are_all_alike_give_no_ratio():
    row = row_of(np.ones((3, 4)), [100, 100, 100])
    assert (row.halves, row.ratio) == (0.0, None)
    assert "| – |" in measure.markdown([row])


def test_the_curve_has_what_a_figure_needs():
    values = np.arange(12.0).reshape(3, 4)
    curve = row_of(values, [100, 100, 100], low=-3.0, high=4.0).curve
    assert {name: column[1] for name, column in curve.items()} == {
        "epsilon": 2.0,
        "retrained": 5.5,
        "retrained_standard_error": pytest.approx(np.std([4, 5, 6, 7], ddof=1) / 2),
        "paper": 0.0,
        "exact": 0.0,
        "low": -3.0,
        "high": 4.0,
        "trusted": False,
    }
    assert {len(column) for column in curve.values()} == {3}


def test_the_table_quotes_the_paper_where_it_has_a_number():
    row = row_of(np.random.default_rng(0).normal(size=(3, 4)), [100, 100, 100])
    text = measure.markdown([row], quoted="P1", paper={"g": 0.0123})
    head, rule, line = text.splitlines()
    assert head.endswith("| P1 |")
    assert line.endswith("| 2 of 3 | 0.0123 |")
    assert head.count("|") == rule.count("|") == line.count("|")
    assert "Newton" not in head
    assert measure.markdown([row], quoted="P1", paper={"h": 1.0}).endswith("|  |")


def test_a_way_of_another_name_has_its_own_column():
    values = np.random.default_rng(0).normal(size=(3, 4))
    estimates = {"first order, CG": frame_of([0.0] * 3), "exact": frame_of([0.0] * 3)}
    row = measure.measure_group("b", "g", estimates, runs_of(values), np.ones(3), seed=0)
    head = measure.markdown([row]).splitlines()[0]
    assert head.startswith("| group | first order, CG | exact | two halves apart |")
    assert row.error_as_p1 is None


def test_results_are_written_unless_it_was_quick(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "results")
    row = row_of(np.random.default_rng(0).normal(size=(3, 4)), [100, 100, 100])
    measure.write("n", Namespace(quick=True), "a table", [row], {})
    assert not (tmp_path / "results").exists()
    measure.write("n", Namespace(quick=False), "a table", [row], {"n_train": 7, "third": 1 / 3})
    result = json.loads((tmp_path / "results" / "n.json").read_text())
    assert (result["n_train"], result["third"]) == (7, 0.3333333)
    assert result["rows"][0]["curve"]["epsilon"] == [1.0, 2.0, 4.0]
    assert (tmp_path / "results" / "n.md").read_text() == "a table\n"
    assert capsys.readouterr().out == "a table\na table\n"


def test_bad_input_is_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def fails():
        raise InputError("mnist: could not reach OpenML 554: put mnist.npz under DIR.")

    with pytest.raises(SystemExit) as caught:
        measure.run(fails)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("error: mnist: could not reach")


def test_a_warning_is_said_once(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def warns():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning("twice", UserWarning, "f", 1)
            warnings.showwarning("twice", UserWarning, "f", 1)

    measure.run(warns)
    assert capsys.readouterr().err == "note: twice\n"


def test_data_may_be_left_out(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench", "--quick"])
    settings = measure.arguments("about")
    assert settings.data is None
    monkeypatch.setattr(sys, "argv", ["bench", "--repeats", "1"])
    with pytest.raises(SystemExit):
        measure.arguments("about")


def test_sizes_grid_and_groups_are_p1s():
    assert [float(size[:-1]) for size in SIZES] == pytest.approx(np.linspace(1, 30, 10), abs=0.005)
    assert grid(Namespace(quick=False)) == pytest.approx(np.linspace(0.001, 10, 30))
    assert table_3("adult", "labels")["17.11%"] == 0.0132
    men = np.arange(0, 1000, 2)
    groups = draw_groups(1000, men, ("1.00%", "30.00%"), np.random.default_rng(0))
    assert [int(mask.sum()) for mask in groups.values()] == [5, 150]
    assert not groups["30.00%"][1::2].any()
    # ε = 0 flips a binary value half the time; of two columns at least one changes in 3 of 4.
    changed = expected_changes(groups, np.zeros(1), columns=2)
    assert changed["30.00%"] == pytest.approx(112.5)

# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of scores: their truths agree with each other, and they print what they promise."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import batch_correction
import datasets
import loo
import p4
import private_valuation
import refits
import valuation_attacks
from datasets import adult
from epsilens.valuation import batch_correction as expected_factor


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3)) * [1, 100, 0.01] + [0, 1000, 5]
    y = X @ [1.0, 0.01, 100.0] + rng.normal(size=90)
    return p4.Sample("sample", LinearRegression(), X[:60], y[:60], X[60:], y[60:])


def test_the_truths_of_two_precisions_agree(sample):
    data = (sample.X, sample.y, sample.X_test, sample.y_test)
    double = refits.without_each(LinearRegression(), *data)
    wide = refits.in_long_double(*data)
    if wide is None:
        pytest.skip("no type longer than double on this machine")
    assert np.abs(double - wide).max() <= 1e-9 * np.abs(wide).max()
    some = refits.without_each(LinearRegression(), *data, rows=np.array([5, 2]))
    assert some == pytest.approx(double[[5, 2]])


def test_a_logistic_truth_is_in_nats():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + rng.logistic(size=80) > 0).astype(int)
    truth = refits.without_each(LogisticRegression(), X[:40], y[:40], X[40:], y[40:])
    model = p4.Sample("classes", LogisticRegression(), X[:40], y[:40], X[40:], y[40:])
    row = loo.accuracy_of(model)
    assert row["exact_mean"] == pytest.approx(truth.mean())
    assert row["exact"]["largest_relative_error"] <= 1e-6
    assert "exact_against_extended_precision" not in row


def test_a_row_of_table_1_has_the_papers_numbers_beside(sample):
    row = loo.accuracy_of(sample) | {"data": "red wine", "paper": p4.TABLE_1["red wine"]}
    table = loo.accuracy_table([row])
    assert "(2.62e-06)" in table[-1]
    assert row["exact"]["largest_relative_error"] <= 1e-8
    assert table[-1].count("|") == table[-2].count("|")


def test_samples_are_of_the_papers_sizes(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(p4, "wine", lambda folder, colour: p4.linear_generated(1800, rng))
    monkeypatch.setattr(p4, "air_quality", lambda folder: p4.linear_generated(1800, rng))
    monkeypatch.setattr(p4, "banknote", lambda folder: p4.logistic_generated(1372, rng))
    found = {sample.name: sample for sample in p4.samples(None, 0)}
    assert set(p4.TABLE_1) <= set(found)
    assert {name: len(s.y) for name, s in found.items() if s.is_linear} == {
        "linear generated": 1500,
        "red wine": 1399,
        "white wine": 1500,
        "air quality": 1500,
    }
    assert len(found["banknote"].y) == 500
    assert all(len(sample.y_test) == 200 for sample in found.values())


def test_ratios_are_of_sums_with_a_jackknife_error():
    trials = [np.array([[9.0], [2.0], [1.0]]), np.array([[9.0], [4.0], [3.0]])]
    value, error = batch_correction.ratios(trials, 1)
    assert value == pytest.approx([6 / 4])
    # Without one trial the ratio is 4/3 or 2: n − 1 = 1 over n = 2 times the squares around 5/3.
    assert error == pytest.approx([np.sqrt(0.5 * (2 / 9))])


def test_a_trial_lies_near_the_expected_factor():
    rng = np.random.default_rng(2)
    X, y = p4.linear_generated(1700, rng)
    sums = batch_correction.trial(X, y, rng)
    assert [sums[size].shape for size in batch_correction.SIZES] == [(3, 33), (3, 10), (3, 3)]
    first = sums[300][1, 0] / sums[300][2, 0]
    # One trial with a large shift; thirty of them have a standard error of two per cent.
    assert first == pytest.approx(expected_factor(500, 300, 1), rel=0.4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::epsilens.errors.ApproximationWarning")
def test_planted_errors_are_looked_for_in_three_tables(monkeypatch):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 3)), columns=list("abc"))
    y = pd.Series((X["a"] * 3 + rng.logistic(size=1500) > 0).astype(int)).astype("category")
    monkeypatch.setattr(datasets, "load", lambda name, *, folder: None)
    monkeypatch.setattr(adult, "as_p1", lambda raw: (X, y))
    monkeypatch.setattr(loo, "banknote", lambda folder: (X.to_numpy(), y.astype(int).to_numpy()))
    monkeypatch.setattr(sys, "argv", ["loo", "--quick"])
    rows = loo.planted(loo.arguments())
    assert [row["data"] for row in rows] == ["banknote", "survey", "Adult"]
    assert rows[0]["found"]["score"]["mean"] > 0.2  # by chance a tenth
    table = loo.planted_table(rows)
    assert len({line.count("|") for line in table[2:]}) == 1


def test_scores_between_parties_are_measured_beside_one_ciphertext_an_item(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["private_valuation", "--quick"])
    private_valuation.main()
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(table) == 6
    assert [len({line.count("|") for line in part}) for part in (table[:3], table[3:])] == [1, 1]
    assert "| 10 | 65 |" in table[2]


def test_what_curious_parties_find_out_is_as_the_page_says():
    *known, alone = valuation_attacks.statistics(seed=0)
    unknown = {row["n_scores"]: row["unknown"] for row in known}
    # Half of the directions leave about 0.7 of the length unknown; all pairs leave nothing.
    assert min(unknown[15], alone["unknown"]) > 0.5
    assert unknown[495] < 1e-2
    found = valuation_attacks.records(4, seed=0)
    assert found["tester_alone"] < found["tester_and_coordinator"] == 1.0
    assert found["question_made_for_it"] == 1.0
    assert valuation_attacks.subtraction(seed=0)["cosine"] > 1 - 1e-9

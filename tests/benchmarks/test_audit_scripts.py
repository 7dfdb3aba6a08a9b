# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of the audit: their points, their tables, and what happens without the peer."""

from __future__ import annotations

import argparse
import math

import numpy as np
import pytest

import audit_coverage
import one_run


@pytest.fixture(scope="module")
def small():
    point = one_run.Point("epsilon", 16, 60, 80, 2)
    found = one_run.Found()
    given = [one_run.audit(point, seed, found) for seed in range(2)]
    return point, found, given


def test_an_audit_gives_every_bound_for_both_scores(small):
    _, found, given = small
    for scores in ("P3", "ours"):
        for bound in one_run.OURS:
            expected = 0 if (scores, bound) == ("ours", "as printed") else 2
            assert len(found.bounds.get((scores, bound), [])) == expected
    assert set(given[0]) == {"included", "P3", "ours"}
    assert found.mean("P3", "as printed") >= found.mean("P3", "pure")


def test_tables_without_the_peer(small, tmp_path):
    point, found, _ = small
    said = one_run.ask_the_peer({}, tmp_path)
    assert said == "environment 'jax' is not there: run `make peers`"
    text = one_run.markdown([(point, found)], {16: [1.0, 2.0]}, "–")
    row = next(line for line in text.splitlines() if line.startswith("| 16 | 18.31 |"))
    assert row.count("|") == 13
    assert " – " in row
    assert "| 16 | 18.31 | 1.50 ± 0.50 |" in text
    kept = one_run.as_json([(point, found)], {16: [1.0, 2.0]}, "–")
    for pair in one_run.PAIRS:
        assert math.isnan(kept["ratios_at_the_bars"][pair]["f-dp at 16"]["ratio"])
    assert "| f-dp | 16 | – | – | – | 2 |" in text


def test_ratios_are_of_means():
    found = one_run.Found()
    for value in (1.0, 2.0):
        found.add("ours", "f-dp", value)
        found.add("P3", "jax f-DP", 1.0)
    assert found.ratio(("ours", "f-dp"), ("P3", "jax f-DP")) == 1.5
    assert found.standard_error("ours", "f-dp") == pytest.approx(0.5)


def test_ratios_at_the_bars_have_errors_and_are_told_apart():
    found = one_run.Found()
    rng = np.random.default_rng(0)
    for theirs in rng.normal(2.0, 0.2, 400):
        for scores in ("P3", "ours"):
            more = 1.0 if scores == "P3" else 1.1
            found.add(scores, "jax one-run", theirs)
            found.add(scores, "approximate", more * (1.23 * theirs + rng.normal(0.0, 0.1)))
    point = one_run.Point("epsilon", 8, 60, 80, 400)
    bars = one_run.ratios_at_the_bars([(point, found)])
    same, _, unlike = (bars[pair]["approximate at 8"] for pair in one_run.PAIRS)
    # Noise of 0.1 in 400 audits over a mean of 2; what both bounds share cancels.
    assert same["standard_error"] == pytest.approx(0.0025, rel=0.1)
    assert same["ratio"] == pytest.approx(1.23, abs=0.01)
    assert unlike["ratio"] == pytest.approx(1.353, abs=0.01)
    table, words = one_run.at_the_bars([(point, found)])
    assert "not like with like" in table
    assert f"| (ε, δ) | 8 | {same['ratio']:.3f} ± {same['standard_error']:.3f} |" in table
    assert f"(ε, δ) at ε = 8: {same['ratio']:.3f} ± 0.002, below 1.25." in words


def test_points_are_p3s():
    full = one_run.points(argparse.Namespace(quick=False, repeats=20))
    assert [p.epsilon for p in full if p.sweep == "epsilon"] == [1, 2, 4, 8, 16]
    assert min(p.repeats for p in full if p.sweep == "epsilon" and p.epsilon in one_run.BARS) >= 60
    assert [p.m for p in full if p.sweep == "canaries"] == [2**6, 2**8, 2**10, 2**12, 2**14]
    assert [p.d for p in full if p.sweep == "dimension"] == [10, 100, 1_000, 10_000, 100_000]


def test_coverage_table_marks_what_is_too_often():
    row = {
        "channels": "gaussian",
        "delta": 1e-6,
        "method": "f-dp",
        "selection": "100",
        "audits": 100,
        "rate": 0.04,
        "standard_error": 0.02,
        "within_two_standard_errors": True,
        "mean_bound": 0.5,
        "refused": 0,
    }
    rows = [{**row, "epsilon": epsilon} for epsilon in audit_coverage.EPSILONS]
    rows[2] |= {"rate": 0.3, "within_two_standard_errors": False, "refused": 7}
    text = audit_coverage.table(rows, 1000)
    assert text.count("**too often**") == 1
    assert "4.0% of 100 (mean bound 0.50)" in text
    assert "30.0% of 100, 7 refused (mean bound 0.50)" in text


def test_every_honest_choice_is_covered_by_the_harness():
    claimed = {
        (method, selection) for _, _, method, selection, holds in audit_coverage.ROWS if holds
    }
    for method in ("pure", "approximate"):
        for selection in ("path", "bonferroni", "split", 100):
            assert (method, selection) in claimed
    assert {"f-dp", "independent-gdp"} <= {method for method, _ in claimed}

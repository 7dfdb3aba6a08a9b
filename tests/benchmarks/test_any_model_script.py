# SPDX-License-Identifier: Apache-2.0
"""The benchmark of models that are trained again: errors, coverage and agreement are what they are called."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")

from sklearn.ensemble import RandomForestClassifier

import any_model
from frontier import Kept, collected

pytestmark = pytest.mark.filterwarnings(
    "ignore::epsilens.errors.PrivacyLeakWarning",
    "ignore::FutureWarning",
    "ignore:`sklearn.utils.parallel.delayed`:UserWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)


def known(losses: np.ndarray, clean: np.ndarray) -> dict:
    return {"losses": np.vstack([losses, clean]).tolist(), "seconds": 1.0}


def curve(change: np.ndarray) -> dict:
    is_node = [number % 2 == 0 for number in range(len(change))]
    return {"change": change.tolist(), "is_node": is_node, "n_fits": 20, "seconds": 0.1}


def test_an_error_is_counted_from_the_reference_and_its_own_baseline():
    rng = np.random.default_rng(0)
    truth = np.linspace(0.5, 0.0, 6)
    # Losses of 1 before anything is randomised; the noise of a run is 0.1.
    reference = known(
        1 + truth[1::3, None] + 0.1 * rng.standard_normal((2, 4_000)), np.ones((1, 4_000))
    )
    naive = {
        "losses": (1 + truth[:, None] + 0.1 * rng.standard_normal((6, 6))).tolist(),
        "seconds": 9.0,
    }
    found = any_model.compared([curve(truth), curve(truth + 0.02)], naive, reference, [1, 4])
    # The reference is off by about 0.1 / √4000 = 0.0016.
    assert found["error"] == pytest.approx(0.01, abs=0.005)
    assert found["errors"] == pytest.approx([0.0, 0.02], abs=0.006)
    assert found["error_of_mean_curve"] == pytest.approx(0.01, abs=0.005)
    # Means of three apart: √(2/3) · 0.1 · √(2/π).
    assert found["halves"] == pytest.approx(0.065, abs=0.01)
    assert found["ratio"] == pytest.approx(found["error"] / found["halves"])
    assert (found["n_fits"], found["naive_fits"]) == (20, 36)
    assert found["reference"] == pytest.approx(truth[[1, 4]], abs=0.01)


def test_coverage_counts_fresh_runs_inside_by_both_baselines():
    one = {
        "low": [-1.0, -1.0],
        "high": [1.0, 1.0],
        "baseline": 5.0,
        "fresh": [5.5, 6.5],
        "accuracy_low": [0.5, 0.5],
        "accuracy_high": [0.7, 0.7],
        "accuracy_fresh": [0.7, 0.71],
        "is_node": [True, False],
        "trusted": [True, True],
        "n_fits": 30,
    }
    found = any_model.covered([one, one], 5.6, np.array([100.0, 3.0]))
    assert (found["coverage"], found["at_nodes"], found["between_nodes"]) == (0.5, 1.0, 0.0)
    assert (found["many_changes"], found["few_changes"]) == (1.0, 0.0)
    assert (found["above"], found["below"]) == (0.5, 0.0)
    assert found["from_mean_baseline"] == 1.0
    assert found["accuracy"] == 0.5


def test_agreement_is_in_standard_errors_of_the_mean_where_enough_changes():
    found = {
        "exact": [0.0, 0.0, 0.0],
        "trusted": [True, True, False],
        "expected_changes": [100.0, 20.0, 0.1],
        "curves": [
            {"change": [0.1, 0.4, 9.0], "standard_error": [0.1, 0.1, 0.0], "is_node": [True] * 3},
            {"change": [0.1, -0.4, 9.0], "standard_error": [0.1, 0.1, 0.0], "is_node": [True] * 3},
        ],
    }
    found["curves"][1]["change"][0] = 0.0
    one = any_model.agreed(found)
    assert one["cells"] == 2
    assert one["worst"] == pytest.approx(4.0)
    assert one["within_two"] == 0.5
    assert one["largest_mean_difference"] == 9.0
    # A mean of 0.05 with a standard error of 0.05, and a mean of 0.
    assert one["mean_worst"] == pytest.approx(1.0)


def test_expected_changes_are_those_of_randomised_response():
    assert any_model.expected_changes([1e-9], 100, 4)[0] == pytest.approx(75)
    assert any_model.expected_changes([math.log(3)], 100, 2)[0] == pytest.approx(25)


@pytest.mark.parametrize("family", list(any_model.FAMILIES))
def test_every_family_takes_words_and_numbers(family):
    table = any_model.generated(None, 80, 40)
    model = any_model.pipeline(family, table)
    names = np.unique(table.y, return_inverse=True)[1]
    assert model.fit(table.X, names).predict_proba(table.X_test).shape == (40, 2)


def test_a_whole_run_of_a_tiny_size(tmp_path, monkeypatch):
    monkeypatch.setitem(
        any_model.COVERAGE_MODELS, "tiny", lambda: RandomForestClassifier(2, max_depth=2)
    )
    monkeypatch.setitem(
        any_model.FAMILIES, "RandomForest", lambda: RandomForestClassifier(2, max_depth=2)
    )
    size = any_model.Size(
        grid=[0.5, 1.0, 2.0],
        curves=2,
        naive=2,
        reference=3,
        rows=80,
        test_rows=40,
        repetitions=2,
        block=1,
        clean=2,
        agreement_curves=2,
        comparisons=(("generated", "RandomForest", "label"), ("generated", "MLP", "telephone")),
        coverage=("tiny",),
        agreement=("two classes",),
    )
    work = any_model.planned(size, None)
    kept = Kept(tmp_path)
    # All but the second comparison.
    wanted = [part for part in work if part.settings.get("protected") != "telephone"]
    collected(wanted, kept)
    parts = collected(work, Kept(tmp_path, is_stored_only=True))
    result = any_model.result_of(parts, size)
    assert json.loads(json.dumps(result)) == result
    assert [row["family"] for row in result["rows"]] == ["RandomForest"]
    assert result["not_run"] == ["generated, MLP, telephone"]
    assert result["rows"][0]["n_fits"] <= 2 * 3 + 2
    assert result["coverage"]["tiny"]["repetitions"] == 2
    # `exact` and the curve are two ways to the same mean.
    one = result["agreement"]["two classes"]
    assert one["mean_difference"] < 0.2 * one["largest_change"]
    text = any_model.markdown(result)
    assert "Not run: generated, MLP, telephone." in text
    assert text.count("| generated | label | RandomForest |") == 1

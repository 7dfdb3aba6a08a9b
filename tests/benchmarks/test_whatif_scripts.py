# SPDX-License-Identifier: Apache-2.0
"""Each what-if benchmark runs from end to end, on generated people."""

from __future__ import annotations

import importlib
import sys
import types

import numpy as np
import pandas as pd
import pytest

import datasets
from datasets import adult, census, digits
from epsilens.influence import wide

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::epsilens.errors.ApproximationWarning"),
]


def people(columns: list[str], label: str, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (1500, len(columns))), columns=columns)
    score = X.sum(axis=1) - len(columns) / 2 + rng.logistic(size=len(X))
    return X, (score > 0).astype(int).astype("category").rename(label)


@pytest.fixture(autouse=True)
def generated(monkeypatch):
    monkeypatch.setattr(datasets, "load", lambda name, *, folder: None)
    few = people(["sex", "race", "age"], "income")
    monkeypatch.setattr(adult, "as_p1", lambda raw: few)
    words = few[0].assign(sex=np.where(few[0]["sex"] == 1, "Male", "Female"))
    monkeypatch.setattr(adult, "ordinary", lambda raw: (words, few[1]))
    covered = people(["MAR", "SEX", "AGEP"], "PUBCOV")
    monkeypatch.setattr(census, "pubcov_as_p1", lambda raw: covered)
    rng = np.random.default_rng(0)
    y = np.repeat(digits.DIGITS_OF_P1, 600)
    X = rng.random((len(y), 784)) * 0.5 + y[:, None] * np.linspace(0, 0.05, 784)
    monkeypatch.setattr(digits, "as_p1", lambda raw, part: (X, y))
    monkeypatch.setattr(sys, "argv", ["bench", "--quick", "--repeats", "3"])


@pytest.mark.parametrize(
    ("script", "blocks", "rows"),
    [
        ("whatif_adult", ["men.", "everybody.", "men, ordinary coding."], 6),
        ("whatif_flc", ["men.", "everybody."], 4),
        ("whatif_pubcov", ["PubCov, labels.", "PubCov, labels, corrected."], 4),
        ("whatif_features", ["| features |", "| both |"], 2),
        pytest.param("whatif_mnist", ["MNIST 1, 3, 7, 8"], 3, marks=pytest.mark.nightly),
    ],
)
def test_a_script_prints_its_tables(script, blocks, rows, capsys):
    importlib.import_module(script).main()
    printed = capsys.readouterr().out
    for words in blocks:
        assert words in printed
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    heads = [line for line in lines if line.startswith("| group |")]
    assert len(lines) - 2 * len(heads) == rows
    assert "3 retrainings a cell" in printed


def test_models_without_noise_have_their_scores_beside_those_of_the_paper(capsys):
    importlib.import_module("whatif_data").main()
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in lines[1:]] == [
        "| Adult",
        "| PubCov",
        "| MNIST 1, 3, 7, 8",
    ]
    # Four fifths of 1,500 to train on and a fifth to test on; then ours and P1's.
    assert "| Adult | 1,200 | 300 | 3 |" in printed
    accuracy = float(lines[1].split(" | ")[4].partition(" (")[0])
    assert 0 < accuracy < 100
    assert lines[1].endswith("(74) |")


def test_scores_are_those_of_the_test_records():
    whatif = importlib.import_module("whatif_data")
    settings = types.SimpleNamespace(quick=True, data=None, seed=0)
    study, _ = whatif.adult_study(settings, np.random.default_rng(0))
    found = whatif.scores(study)
    assert found["accuracy"] == pytest.approx(study.baseline_.outcomes.accuracy)
    assert found["n_classes"] == 2


def test_a_ratio_to_the_bare_pass_is_of_the_best_times():
    whatif = importlib.import_module("whatif_scale")
    best = {
        "seconds": {"bare pass": 2.0, "fit": 14.0},
        "cpu_seconds": {"bare pass": 4.0, "fit": 20.0},
    }
    assert whatif.to_bare(best, "fit") == {"seconds": 7.0, "cpu_seconds": 5.0}


def test_a_network_is_set_against_its_head_and_itself(monkeypatch, capsys):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    y = np.arange(240) % 10
    X = rng.random((len(y), 1, 28, 28)) + (y / 10)[:, None, None, None]
    monkeypatch.setattr(digits, "as_images", lambda *_, **__: (X.astype(np.float32), y))
    importlib.import_module("whatif_deep").main()
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("| 30.00% |")]
    # A line an ε, then the errors, those under a strong penalty and the lines of two estimates.
    assert len(lines) == 7 + 2 + 2 + 2
    assert "0.0283, ρ 0.838" in printed


def test_wide_models_are_set_beside_factorised_ones(monkeypatch, capsys):
    script = importlib.import_module("whatif_wide")
    monkeypatch.setattr(wide, "MOST_FACTORISED", wide.MOST_FACTORISED)  # the script moves it
    monkeypatch.setattr(script, "in_a_process", lambda case: script.one(**{**case, "n": 300}))
    monkeypatch.setattr(sys, "argv", ["bench", "--quick"])
    script.main()
    printed = capsys.readouterr().out
    rows = [line.split("|") for line in printed.splitlines() if "| conjugate gradient |" in line]
    assert len(rows) == 3
    assert all(float(cells[8]) < 1e-5 for cells in rows)  # off the factorised change


def test_the_solvers_are_compared(capsys):
    importlib.import_module("inverse_hessian").main()
    printed = capsys.readouterr().out
    for data in ("Adult", "MNIST 1, 3, 7, 8"):
        for solver in ("cholesky", "cg", "stochastic"):
            assert any(
                line.startswith(f"| {data} |") and f"| {solver} |" in line
                for line in printed.splitlines()
            )

# SPDX-License-Identifier: Apache-2.0
"""`epsilens mask`, and masking as a lever of `epsilens decide`."""

from __future__ import annotations

import re
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from epsilens.cli import main
from epsilens.document import load_document


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Write a table whose gait and voice recognise people, and whose age and income serve the task."""
    rng = np.random.default_rng(1)
    n = 900
    who = rng.integers(0, 5, n)
    table = pd.DataFrame(
        {
            "gait": 0.8 * who + 0.4 * rng.normal(size=n),
            "voice": 1.5 * (who % 3) + 0.5 * rng.normal(size=n),
            "age": rng.normal(size=n),
            "income": rng.normal(size=n),
            "always": 1.0,
            "person": [f"p{k}" for k in who],
        }
    )
    score = 1.5 * table["age"] - table["income"] + rng.logistic(size=n)
    table["smokes"] = np.where(score > 0, "yes", "no")
    path = tmp_path_factory.mktemp("people") / "people.csv"
    table.to_csv(path, index=False)
    return path


def run(people, *arguments):
    typed = ["mask", people, "--label", "smokes", "--identity", "person", *arguments]
    return main([str(word) for word in typed])


def test_json_is_the_document_alone(people, capfd):
    assert run(people, "--json", "--alpha", 0.5) == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    document = load_document(shown.out)
    assert (document.kind, document.masked) == ("mask", ["gait", "voice"])
    assert document.kept == ["age", "income"]
    assert (document.alpha, document.solver) == (0.5, "exact")
    assert document.provenance.settings["identity"] == "person"
    assert document.privacy_kept <= 0.5
    assert any("always" in note for note in document.warnings)


def test_words_files_and_a_relaxed_budget(people, tmp_path, capsys):
    out = tmp_path / "mask.csv"
    asked = ("--epsilon", "4", "--delta", "1e-5", "--shadow-models", 40, "--out", out)
    assert run(people, *asked) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "Mask gait, voice (2 of 4 features)",
        "as many at random",
        "ε = 4 does with all of them",
        "Masking changes no proven guarantee",
        "In other commands: --drop gait,voice",
    ):
        assert words in text
    assert pd.read_csv(out)["kept_share"].tolist() == [0, 0, 1, 1]


@pytest.mark.slow
def test_trees_are_explained_and_trained_on_fewer_columns(people, capfd):
    asked = ("--model", "hist-gradient-boosting", "--alpha", 0.5, "--seconds", 10, "--max-rows", 40)
    assert run(people, "--json", *asked) == 0
    document = load_document(capfd.readouterr().out)
    assert {"gait", "voice"} <= set(document.masked)
    assert document.outcomes[0].identity_accuracy > document.outcomes[-1].identity_accuracy


def test_names_can_be_withheld_and_charts_written(people, tmp_path, capsys):
    out = tmp_path / "mask.svg"
    assert run(people, "--anonymous", "--out", out, "--json") == 0
    shown = capsys.readouterr().out + out.read_text()
    for name in ("gait", "voice", "income", "person", "smokes"):
        assert name not in shown
    assert "neither is private itself" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--identity", "smokes"), "`--identity` must be another column than `--label`"),
        (("--identity", "persn"), "Did you mean 'person'?"),
        (("--identity", "always"), "`--identity` must have at least two different values"),
        (("--identity", "age"), "every record has a value of its own"),
        (("--drop", "person"), "`--identity` must not be dropped"),
        (("--model", "ridge"), "must hold numbers for a model that predicts numbers"),
        (("--alpha", "1.2"), "`--alpha` must lie from 0 to 1, got 1.2"),
        (("--epsilon", "1"), "`--epsilon` and `--delta` together"),
        (("--keep", "height"), "`--keep` must name a column"),
        (("--out", "mask.txt"), "`--out` must end in .json"),
        (
            ("--scope", "identity", "--epsilon", "1", "--delta", "1e-5"),
            "needs one mask for everybody",
        ),
        (("--scope", "identity", "--method", "random"), "must be chosen by `knapsack`"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_code_2(people, capsys, arguments, words):
    assert run(people, *arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in " ".join(shown.err.split())


@pytest.mark.filterwarnings("ignore::epsilens.errors.PrivacyLeakWarning")
def test_masking_is_a_lever_of_a_decision(people, tmp_path, capsys):
    out = tmp_path / "report.html"
    base = (
        "decide",
        people,
        "--label",
        "smokes",
        "--categories",
        "smokes=no|yes",
        "--drop",
        "always",
    )
    asked = ("--epsilon", "1,2", "--shadow-models", 20, "--identity", "person", "--out", out)
    assert main([str(word) for word in (*base, *asked, "--max-loss-increase", 0.2)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    # What recognises people does not help to guess their answer here: nothing is gained, and that is said.
    said = re.search(
        r"Masking gait, voice: (Without these columns no larger|How well an answer)", text
    )
    assert said
    assert said.group(0) in " ".join(out.read_text().split())
    assert main([str(word) for word in (*base, "--alpha", 0.3)]) == 2
    assert "`--alpha` needs `--identity`" in " ".join(capsys.readouterr().err.split())


def test_a_missing_extra_is_named_before_the_table_is_read(tmp_path, capsys, monkeypatch):
    table = tmp_path / "junk.csv"
    table.write_bytes(bytes(range(256)))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for command in ("mask", "decide"):
        assert main([command, str(table), "--label", "a", "--identity", "b"]) == 2
        shown = capsys.readouterr().err
        assert shown.startswith("Error: explaining a model by SHAP needs shap")
        assert 'pip install "epsilens[explain]"' in shown


def test_a_time_that_is_too_short_is_kept_and_said(people, capsys, monkeypatch):
    monkeypatch.setattr("epsilens.masking.judging.PILOT_RECORDS", 100)
    # Every look at the clock takes a second, whatever the machine does.
    clock = count()
    slow = SimpleNamespace(perf_counter=lambda: float(next(clock)))
    monkeypatch.setattr("epsilens.masking.judging.time", slow)
    assert run(people, "--json", "--seconds", 1) == 0
    document = load_document(capsys.readouterr().out)
    assert document.provenance.settings["n_trained"] == 100
    assert any("models were trained on 100 of 675 records" in note for note in document.warnings)
    assert any("0 of 11 other values of α" in note for note in document.warnings)
    assert any("`--seconds`" in note for note in document.warnings)
    assert document.curve == []

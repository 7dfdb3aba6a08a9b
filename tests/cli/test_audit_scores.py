# SPDX-License-Identifier: Apache-2.0
"""`epsilens audit scores`: what a file of scores may hold, and what is said about the rest."""

from __future__ import annotations

import json

import numpy as np
import pytest

from epsilens.cli import main


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    included = (rng.random(400) < 0.5).astype(int)
    return included, included + rng.normal(0.0, 0.5, 400)


def write(path, included, scores, header="included,score"):
    rows = [f"{one},{score}" for one, score in zip(included, scores, strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def run(*arguments):
    return main(["audit", "scores", *map(str, arguments)])


def codes(capsys):
    return [note["code"] for note in json.loads(capsys.readouterr().out)["notes"]]


@pytest.mark.parametrize("header", ["Included,Score", "INCLUDED,score", " included ,Score"])
def test_capitals_do_not_matter(header, table, tmp_path, capsys):
    assert run(write(tmp_path / "a.csv", *table, header=header), "--epsilon", 9, "--quiet") == 0
    assert "No evidence of a breach" in capsys.readouterr().out


@pytest.mark.parametrize("times", [2, 3])
def test_repeated_rows_are_named(times, table, tmp_path, capsys):
    included, scores = (np.repeat(column, times) for column in table)
    assert run(write(tmp_path / "a.csv", included, scores), "--epsilon", 9, "--json") == 0
    shown = capsys.readouterr()
    notes = json.loads(shown.out)["notes"]
    assert [note["code"] for note in notes] == ["repeated-canaries"]
    assert f"Most canaries are there {times} times" in notes[0]["text"]


@pytest.mark.parametrize("decimals", [None, 3, 2, 1, 0])
def test_scores_that_are_equal_by_chance_or_by_nature_are_not(decimals, table, tmp_path, capsys):
    included, scores = table
    for strength in (1.0, 8.0):  # scores that tell little, and scores that tell nearly all
        values = scores + (strength - 1.0) * included
        values = values if decimals is None else values.round(decimals)
        assert run(write(tmp_path / "a.csv", included, values), "--epsilon", 9, "--json") == 0
        assert codes(capsys) == []


@pytest.mark.parametrize("score", ["1e999", "-1e999", "inf"])
def test_a_score_that_is_not_finite_is_refused(score, table, tmp_path, capsys):
    included, scores = table
    values = [score, *scores[1:]]
    assert run(write(tmp_path / "a.csv", included, values), "--epsilon", 9) == 2
    shown = capsys.readouterr().err
    assert "must hold finite numbers, but 1 of 400 rows" in shown
    assert len(shown.splitlines()) == 1


def test_the_folder_one_stands_in_is_named(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert run(".", "--epsilon", 1) == 2
    assert "'here' has none" in capsys.readouterr().err
    (folder / "a.parquet").write_bytes(b"PAR1")
    assert run(".", "--epsilon", 1) == 2
    assert "'here' must be a complete parquet file" in capsys.readouterr().err

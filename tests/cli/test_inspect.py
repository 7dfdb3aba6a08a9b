# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from epsilens.cli import main
from epsilens.document import load_document

N = 60


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    frame = pd.DataFrame(
        {
            "person id": np.arange(N),
            "age": np.linspace(20, 80, N),
            "job": np.resize(["nurse", "clerk", "cook"], N),
            "country": "NL",
            "smokes daily": np.resize(["no", "yes", "no"], N),
        }
    )
    frame.loc[:1, "job"] = "?"
    file = tmp_path / "my survey.csv"
    frame.to_csv(file, index=False)
    return file


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["inspect", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    document: dict[str, object] = json.loads(captured.out)
    return document


def test_the_document_says_what_is_there(survey: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(capsys, str(survey))
    assert (document["kind"], document["rows"]) == ("inspect", N)
    columns = {column["name"]: column for column in document["columns"]}  # type: ignore[attr-defined]
    assert {name: column["kind"] for name, column in columns.items()} == {
        "person id": "identifier",
        "age": "numeric",
        "job": "categorical",
        "country": "constant",
        "smokes daily": "binary",
    }
    assert columns["job"]["n_missing"] == 2
    assert columns["job"]["categories"] == ["clerk", "cook", "nurse"]
    assert columns["age"]["protectable"] is False
    assert columns["smokes daily"]["protectable"] is True
    assert "taken as missing values: '?' 2" in document["warnings"]  # type: ignore[operator]


def test_the_suggestion_is_ready_for_the_shell(
    survey: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(str(run_json(capsys, str(survey))["suggestion"]))
    assert words == [
        *("epsilens", "whatif", str(survey)),
        *("--label", "smokes daily", "--protect", "smokes daily"),
        "--categories=smokes daily=no|yes",
    ]


def test_the_suggestion_settles_missing_values_and_many_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    pd.DataFrame({"x": ["p", None, None, "q"] * 10, "y": ["a", "b", "c", "a"] * 10}).to_csv(
        file, index=False
    )
    suggestion = str(run_json(capsys, str(file))["suggestion"])
    assert suggestion.endswith("--label y --protect y --positive c --missing category")
    pd.DataFrame({"x": [1.5, None, 2.5, None] * 10, "y": ["a", "b"] * 20}).to_csv(file, index=False)
    assert str(run_json(capsys, str(file))["suggestion"]).endswith(
        "--protect y '--categories=y=a|b' --missing drop"
    )
    pd.DataFrame({"x": [1.5, 2.5] * 20, "z": np.arange(40) % 30}).to_csv(file, index=False)
    assert "--label x" in str(run_json(capsys, str(file))["suggestion"])
    pd.DataFrame({"z": np.linspace(0, 1, 40)}).to_csv(file, index=False)
    assert run_json(capsys, str(file))["suggestion"] is None


def test_the_terminal_shows_table_notes_and_command(
    survey: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["inspect", str(survey)]) == 0
    shown = capsys.readouterr().out
    for words in ("my survey.csv", "60 rows", "clerk, cook, nurse", "identifier", "--bins"):
        assert words in shown
    assert f"epsilens whatif {shlex.quote(str(survey))} --label 'smokes daily'" in shown
    assert main(["inspect", str(survey), "--quiet"]) == 0
    assert "epsilens whatif" not in capsys.readouterr().out


def test_out_writes_the_document(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "inspect.json"
    assert main(["inspect", str(survey), "--out", str(out), "--quiet"]) == 0
    assert load_document(out).kind == "inspect"
    capsys.readouterr()


def test_anonymous_shows_no_name(survey: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--json"], []):
        assert main(["inspect", str(survey), "--anonymous", *arguments]) == 0
        shown = capsys.readouterr().out
        for name in ("person id", "smokes", "nurse", "NL", "survey"):
            assert name not in shown


def test_codes_and_bins(survey: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(capsys, str(survey), "--bins", "age=0:100:4", "--categorical", "person id")
    columns = {column["name"]: column for column in document["columns"]}  # type: ignore[attr-defined]
    assert columns["age"]["protectable"] is True
    assert len(columns["age"]["categories"]) == 4
    assert columns["person id"]["kind"] == "categorical"
    assert "--bins=age=0:100:4" in shlex.split(str(document["suggestion"]))


def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a;b\n1;x\n2;y\n")))
    document = run_json(capsys, "-", "--delimiter", "semicolon")
    assert [column["name"] for column in document["columns"]] == ["a", "b"]  # type: ignore[attr-defined]


def test_a_small_table_shows_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.csv"
    file.write_text("name,salary,smokes\nAlice,51234,yes\nBob,48111,no\nCara,39999,no\n")
    assert main(["inspect", str(file)]) == 0
    shown = capsys.readouterr().out
    for value in ("Alice", "Bob", "51234", "48111", "39999"):
        assert value not in shown
    assert "identifier" in shown


def test_a_file_of_numbers_without_header_shows_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "numbers.csv"
    numbers = np.random.default_rng(0).normal(size=(50, 4)).round(6)
    pd.DataFrame(numbers).to_csv(file, index=False, header=False)
    for arguments in (["inspect", str(file)], ["whatif", str(file), "--label=y", "--epsilon=1"]):
        assert main(arguments) == 2
        shown = capsys.readouterr()
        assert "looks like a record" in shown.err
        assert not any(str(number) in shown.err + shown.out for number in numbers[0])


def test_a_name_of_the_usual_length_is_not_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "a.csv"
    pd.DataFrame(
        {
            "marital-status": ["Married-civ-spouse", "Never-married", "Widowed"] * 10,
            "hours-per-week": np.arange(30) % 29,
        }
    ).to_csv(file, index=False)
    assert main(["inspect", str(file)]) == 0
    shown = capsys.readouterr().out
    for word in ("marital-status", "hours-per-week", "Married-civ-spouse"):
        assert word in shown

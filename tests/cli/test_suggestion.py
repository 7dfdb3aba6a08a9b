# SPDX-License-Identifier: Apache-2.0
"""The command that `inspect` suggests works on the table that it looked at."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epsilens.cli import main

N = 200


def survey(folder: Path, **missing: float) -> str:
    """Write a survey in which such a share of each column is missing, each in rows of its own."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": generator.normal(size=N),
            "income": generator.normal(size=N),
            "job": generator.choice(["nurse", "clerk", "cook"], N),
            "smokes": generator.choice(["no", "yes"], N),
        }
    )
    for name, share in missing.items():
        frame.loc[generator.random(N) < share, name] = np.nan
    frame.to_csv(folder / "survey.csv", index=False)
    return str(folder / "survey.csv")


def pasted(capsys: pytest.CaptureFixture[str], words: list[str], *options: str) -> str:
    """Run a suggested command, which must work without a warning; return what it prints."""
    assert main([*words[1:], *options]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def suggestion(capsys: pytest.CaptureFixture[str], data: str, *options: str) -> list[str]:
    assert main(["inspect", data, *options, "--json"]) == 0
    return shlex.split(json.loads(capsys.readouterr().out)["suggestion"])


CASES: dict[str, tuple[dict[str, float], list[str]]] = {
    "a few": ({"age": 0.02}, []),
    "some": ({"age": 0.3}, ["--missing", "drop"]),
    "most of a column": ({"age": 0.8}, ["--drop=age"]),
    "most of one and some of another": (
        {"age": 0.8, "income": 0.3},
        ["--drop=age", "--missing", "drop"],
    ),
    "most of two": ({"age": 0.9, "income": 0.8}, ["--drop=age", "--drop=income"]),
    "words": ({"job": 0.8}, ["--missing", "category"]),
    "numbers and words": (
        {"age": 0.8, "job": 0.4},
        ["--drop=age", "--missing", "category"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_most_rows_are_never_given_up(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing, expected = CASES[case]
    words = suggestion(capsys, survey(tmp_path, **missing))
    assert words[words.index("--protect") + 2 :] == ["--categories=smokes=no|yes", *expected]
    pasted(capsys, words, "--epsilon", "1", "--quiet")


def test_a_column_that_the_user_named_is_not_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = suggestion(capsys, survey(tmp_path, age=0.8), "--bins", "age=-3:3:4")
    assert words[-3:] == ["--bins=age=-3:3:4", "--missing", "drop"]
    assert main([*words[1:], "--epsilon", "1", "--quiet"]) == 0


def test_a_withheld_suggestion_is_called_withheld(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = survey(tmp_path)
    assert main(["inspect", data, "--anonymous"]) == 0
    shown = capsys.readouterr().out
    assert "The suggested command is withheld" in shown
    assert "No column has" not in shown
    options = ["--bins", "age=-3:3:4", "--categorical", "job", "--anonymous", "--json"]
    assert main(["inspect", data, *options]) == 0
    settings = json.loads(capsys.readouterr().out)["provenance"]["settings"]
    assert settings["bins"] == ["column 1=-3:3:4"]
    assert settings["categorical"] == ["column 3"]


def test_a_table_without_answers_has_no_suggestion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    pd.DataFrame({"z": np.linspace(0, 1, 40)}).to_csv(file, index=False)
    for options in ([], ["--anonymous"]):
        assert main(["inspect", str(file), *options]) == 0
        assert "No column has a few answers" in capsys.readouterr().out


def test_a_few_numbers_can_be_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    z = random.normal(size=300)
    grade = np.clip(np.round(2 * z + random.normal(size=300)), -2, 2).astype(int) + 5
    file = tmp_path / "graded.csv"
    pd.DataFrame({"z": z, "grade": grade, "w": random.normal(size=300)}).to_csv(file, index=False)
    words = suggestion(capsys, str(file))
    assert words[words.index("--label") :] == [
        *("--label", "grade", "--protect", "grade", "--categories=grade=3|4|5|6|7"),
    ]
    pasted(capsys, words, "--epsilon", "4", "--quiet")


def test_a_name_with_a_comma_can_be_typed_and_is_suggested_as_it_must_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(survey(tmp_path, job=0.8))
    frame = frame.rename(columns={"smokes": "smokes, daily = much", "age": "age, years"})
    frame = frame.rename(columns={"job": '"job", now'})
    file = str(tmp_path / "named.csv")
    frame.to_csv(file, index=False)
    words = suggestion(capsys, file)
    assert words[words.index("--protect") + 1] == '"smokes, daily = much"'
    assert main([*words[1:], "--epsilon", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["provenance"]["settings"]
    assert found["protect"] == ["smokes, daily = much"]

    typed = [file, "--label", "income", "--model", "ridge", "--missing", "category", "--json"]
    typed += ["--protect", '"smokes, daily = much","age, years"', "--bins", '"age, years=-4:4:4"']
    typed += ["--epsilon", '"smokes, daily = much=1","age, years=2"']
    assert main(["whatif", *typed, "--drop", '"""job"", now"']) == 0
    cell = json.loads(capsys.readouterr().out)["cells"][0]
    assert (cell["epsilon"], cell["record_epsilon"]) == (None, 3.0)


def test_a_budget_too_large_to_read_is_refused_behind_a_comma_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "named.csv", tmp_path / "out.csv"
    pd.DataFrame({"smokes, daily": ["no", "yes"] * 20, "age": range(40)}).to_csv(file, index=False)
    typed = ["--protect", '"smokes, daily"', "--epsilon", '"smokes, daily=1e999"']
    assert main(["randomise", str(file), *typed, "--out", str(out)]) == 2
    assert "at most 40 or inf" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("other", [np.arange(100, 300), ["the same"] * 200])
def test_a_label_with_nothing_to_predict_it_from_is_not_suggested(
    other: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    pd.DataFrame({"person": other, "smokes": ["no", "yes"] * 100}).to_csv(file, index=False)
    assert main(["inspect", str(file)]) == 0
    assert "could predict from the others" in capsys.readouterr().out


def test_one_column_may_be_a_delimiter_that_was_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("age:smokes\n" + "".join(f"{20 + i}:no\n" for i in range(40)))
    assert main(["inspect", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "--delimiter" in shown
    assert "1 column\n" in "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"


NUMBERS: dict[str, tuple[dict[str, object], list[str]]] = {
    "an hour to protect": (
        {"hour": [f"{i % 24}h" for i in range(N)]},
        [
            *("--label", "ozone", "--model", "ridge", "--protect", "hour"),
            "--categories=hour=" + "|".join(sorted(f"{i}h" for i in range(24))),
        ],
    ),
    "numbers alone": (
        {"heat": np.linspace(0, 1, N) ** 2},
        ["--label", "ozone", "--model", "ridge", "--protect", "heat", "--bins=heat=0:1:5"],
    ),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_where_nothing_has_a_few_answers_a_number_is_predicted(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, expected = NUMBERS[case]
    ozone = np.random.default_rng(0).normal(size=N)
    file = tmp_path / "air.csv"
    pd.DataFrame({**columns, "ozone": ozone}).to_csv(file, index=False)
    words = suggestion(capsys, str(file))
    assert words[words.index("--label") :] == expected
    pasted(capsys, words, "--epsilon", "1", "--quiet")
    assert main(["inspect", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "so a number is predicted" in shown
    assert "epsilens decide" not in shown


def test_what_comes_after_the_suggestion_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", survey(tmp_path)]) == 0
    assert "`epsilens decide`" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["smo\tkes", "smo\nkes", 'smo,"kes', "-smokes"])
def test_names_with_odd_signs_can_be_pasted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As printed, and not only as it stands in the document; from a file whose name looks like an option."""
    monkeypatch.chdir(tmp_path)
    pd.read_csv(survey(tmp_path)).rename(columns={"smokes": name}).to_csv("-s.csv", index=False)
    assert main(["inspect", "--", "-s.csv"]) == 0
    printed = capsys.readouterr().out.partition("try:\n")[2].partition("\n--label is")[0]
    assert main([*shlex.split(printed)[1:], "--epsilon", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cells"][0]["epsilon"] == 1


ANSWERS: dict[str, list[object]] = {
    "words": ["no", "yes"],
    "truths": [True, False],
    "numbers": [0, 1],
    "numbers with a point": [0.5, 1.5],
    "signs of a shell": ["$HOME", "it's `rare`"],
    "signs of a list": ["never|seldom", 'so-called "often"'],
    "commas": ["yes, daily", "no; never"],
    "like options": ["--yes", "-no"],
    "several": ["a", "b|c", "d", "e"],
}


@pytest.mark.parametrize("case", ANSWERS)
def test_whatever_the_answers_the_command_runs_without_a_warning(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(survey(tmp_path))
    drawn = np.random.default_rng(1).integers(0, len(ANSWERS[case]), N)
    frame = frame.drop(columns=["job", "smokes"]).assign(
        smokes=[ANSWERS[case][place] for place in drawn]
    )
    frame.to_csv(tmp_path / "my survey.csv", index=False)
    words = suggestion(capsys, str(tmp_path / "my survey.csv"))
    assert words[words.index("--label") + 1] == "smokes"
    document = json.loads(pasted(capsys, words, "--epsilon", "1", "--json"))
    assert not any("domain" in note for note in document["warnings"])


def test_it_is_said_that_the_answers_are_those_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", survey(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--categories holds the answers of this table: add those that could" in shown

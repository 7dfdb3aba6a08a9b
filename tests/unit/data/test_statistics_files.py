# SPDX-License-Identifier: Apache-2.0
"""Files of SPSS, Stata and SAS: value labels, missing values, dates, damage."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epsilens.data import prepare
from epsilens.data.fields import read_fields
from epsilens.data.files import read_table
from epsilens.data.schema import infer_schema
from epsilens.errors import InputError

pyreadstat = pytest.importorskip("pyreadstat")

SECRET = "HIV-positive-7731"
ANSWERS = {1: "yes", 2: "no", 3: "unsure"}
FRAME = pd.DataFrame({"smokes": [1.0, 2.0, np.nan, 1.0], "age": [31.0, 42.0, 53.0, 64.0]})


def save(path: Path, frame: pd.DataFrame = FRAME, **options: Any) -> Path:
    how = {
        ".sav": pyreadstat.write_sav,
        ".zsav": pyreadstat.write_sav,
        ".por": pyreadstat.write_por,
        ".dta": pyreadstat.write_dta,
        ".xpt": pyreadstat.write_xport,
    }[path.suffix]
    if path.suffix == ".zsav":
        options["compress"] = True
    how(frame, path, **options)
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.sav", "spss"),
        ("a.zsav", "spss"),
        ("a.por", "spss"),
        ("a.dta", "stata"),
        ("a.xpt", "sas"),
    ],
)
def test_every_format_is_told_by_its_first_bytes(tmp_path: Path, name: str, kind: str) -> None:
    path = save(tmp_path / name)
    for other in (name, "b.data"):
        path = path.rename(tmp_path / other)
        table = read_table(path)
        assert table.format == kind
        frame = table.frame.rename(columns=str.lower)  # a .por file has capital letters only
        assert frame["age"].tolist() == [31, 42, 53, 64]
        assert frame["age"].dtype == "int64"
        assert frame["smokes"].isna().tolist() == [False, False, True, False]
        assert frame["smokes"].dtype == "Int64"


@pytest.mark.parametrize("version", [8, 10, 12, 13, 14, 15])
def test_every_version_of_stata_is_told(tmp_path: Path, version: int) -> None:
    assert read_table(save(tmp_path / "a.dta", version=version)).format == "stata"


@pytest.mark.parametrize("name", ["a.sav", "a.zsav", "a.dta"])
def test_labels_become_the_declared_answers(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / name, variable_value_labels={"smokes": ANSWERS})
    table = read_table(path, spelled=True)
    smokes = table.frame["smokes"]
    assert smokes.dropna().tolist() == ["yes", "no", "yes"]
    assert smokes.dtype.categories.tolist() == ["yes", "no", "unsure"]
    assert infer_schema(table.frame)["smokes"].domain == ("no", "unsure", "yes")
    assert table.notes == ()
    assert table.spelled.column("smokes").to_pylist() == ["yes", "no", "", "yes"]
    assert read_fields(path).written["age"].tolist() == ["31", "42", "53", "64"]


def test_a_value_without_label_stays_and_is_counted(tmp_path: Path) -> None:
    frame = FRAME.assign(smokes=[1.0, 2.5, 9.0, 9.0])
    table = read_table(save(tmp_path / "a.sav", frame, variable_value_labels={"smokes": ANSWERS}))
    assert table.frame["smokes"].tolist() == ["yes", "2.5", "9", "9"]
    assert not isinstance(table.frame["smokes"].dtype, pd.CategoricalDtype)
    (note,) = table.notes
    assert note.code == "values-without-label"
    assert note.text == "smokes: 2 values have no label, and the codes stay for these"


def test_a_number_with_a_named_value_stays_a_number(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": np.arange(30.0)})
    labels = {"age": {29: "29 or older"}}
    table = read_table(save(tmp_path / "a.sav", frame, variable_value_labels=labels))
    assert table.frame["age"].tolist() == list(range(30))
    assert [note.text for note in table.notes] == [
        "age: 29 values have no label, so the column keeps its codes"
    ]


def test_text_may_have_labels_and_two_codes_the_same_one(tmp_path: Path) -> None:
    frame = pd.DataFrame({"sex": ["M", "F", "", "M"], "job": [1.0, 2.0, 3.0, 1.0]})
    labels = {"sex": {"M": "Male", "F": "Female"}, "job": {1: "other", 2: "cook", 3: "other"}}
    table = read_table(save(tmp_path / "a.sav", frame, variable_value_labels=labels))
    assert table.frame["sex"].dropna().tolist() == ["Male", "Female", "Male"]
    assert table.missing_marks == {"": 1}
    assert table.frame["job"].tolist() == ["other", "cook", "other", "other"]
    assert table.frame["job"].dtype.categories.tolist() == ["other", "cook"]


def test_values_that_spss_declares_as_missing_are_missing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"q": [1.0, 2.0, -9.0, 99.0], "word": ["a", "b", "zz", "a"]})
    path = save(
        tmp_path / "a.sav",
        frame,
        variable_value_labels={"q": {1: "yes", 2: "no", 99: "refused", -9: "not asked"}},
        missing_ranges={"q": [{"lo": -99, "hi": -1}, 99], "word": ["zz"]},
    )
    read = read_table(path).frame
    assert read["q"].dropna().tolist() == ["yes", "no"]
    assert read["q"].dtype.categories.tolist() == ["yes", "no"]
    assert read["word"].isna().tolist() == [False, False, True, False]


def test_special_missing_values_of_stata_are_missing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"q": [1, 2, "a", "z"]})
    labels = {"q": {1: "yes", 2: "no", "a": "refused"}}
    missing = {"q": ["a", "z"]}
    path = save(
        tmp_path / "a.dta", frame, variable_value_labels=labels, missing_user_values=missing
    )
    read = read_table(path).frame["q"]
    assert read.dropna().tolist() == ["yes", "no"]
    assert read.dtype.categories.tolist() == ["yes", "no"]


@pytest.mark.parametrize("name", ["a.sav", "a.dta", "a.xpt"])
def test_dates_are_dates(tmp_path: Path, name: str) -> None:
    days = [dt.date(2024, 1, 31), dt.date(1875, 2, 1), None]
    frame = pd.DataFrame({"day": days, "n": [0.5, 1.5, 2.0]})
    read = read_table(save(tmp_path / name, frame)).frame
    assert read["day"].dt.strftime("%Y-%m-%d").tolist()[:2] == ["2024-01-31", "1875-02-01"]
    assert read["day"].isna().tolist() == [False, False, True]
    assert read["n"].tolist() == [0.5, 1.5, 2.0]


def test_declared_answers_reach_a_study_where_the_model_knows_them(tmp_path: Path) -> None:
    codes = np.resize([1.0, 2.0], 40)
    frame = pd.DataFrame({"a": codes, "b": np.roll(codes, 3), "c": codes, "n": np.arange(40.0) % 7})
    labels = {name: {1: "yes", 2: "no"} for name in "ab"} | {"c": ANSWERS}
    table = read_table(save(tmp_path / "a.sav", frame, variable_value_labels=labels))
    every = ("yes", "no", "unsure")
    assert prepare(table, label="a").declared == {
        "a": ("yes", "no"),
        "b": ("yes", "no"),
        "c": every,
    }
    # A class that does not occur is none: the label has no declared answers then.
    assert prepare(table, label="c").declared == {"a": ("yes", "no"), "b": ("yes", "no")}
    assert prepare(table.frame, label="a").declared == {}


@pytest.mark.parametrize("name", ["a.sav", "a.zsav", "a.por", "a.dta", "a.xpt", "a.sas7bdat"])
def test_a_bad_file_gives_one_line_without_values(tmp_path: Path, name: str) -> None:
    contents = [f"a,b\n1,{SECRET}\n".encode()]
    if not name.endswith("sas7bdat"):
        path = save(tmp_path / f"whole{Path(name).suffix}", FRAME.assign(word=SECRET))
        whole = path.read_bytes()
        contents += [whole[: len(whole) // 2], whole[:620]]
    else:
        contents += [bytes(12) + b"\xc2\xea\x81\x60" + SECRET.encode()]
    for content in contents:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_table(tmp_path / name)
        message = str(caught.value)
        assert "as its name says" in message or "damaged, cut short" in message
        assert SECRET not in message
        assert "\n" not in message
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one row"):
        read_table(save(tmp_path / "a.sav", FRAME.iloc[:0]))


def test_the_encoding_of_an_old_file_can_be_named(tmp_path: Path) -> None:
    path = save(tmp_path / "a.sav", pd.DataFrame({"name": ["Zoë", "Björn"], "n": [1.0, 2.0]}))
    content = path.read_bytes().replace("ë".encode(), b"\xeb ").replace("ö".encode(), b"\xf6 ")
    path.write_bytes(content)
    with pytest.raises(InputError, match="another encoding"):
        read_table(path)
    assert read_table(path, encoding="cp1252").frame["name"].str[:3].tolist() == ["Zoë", "Bjö"]

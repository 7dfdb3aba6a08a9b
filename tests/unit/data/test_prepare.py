# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from epsilens.data.binning import Bins
from epsilens.data.encoding import build_encoder
from epsilens.data.files import TableFile
from epsilens.data.prepare import prepare
from epsilens.errors import InputError
from epsilens.notes import Note

SECRET = "HIV-positive-7731"
N = 200


def survey() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "age": generator.integers(18, 90, N),
            "income": generator.normal(size=N),
            "sex": np.resize(["F", "M"], N),
            "job": generator.choice(["nurse", "clerk", "cook"], N),
            "country": "NL",
            "visit": pd.date_range("2024-01-01", periods=N).astype(str),
            "weight": generator.uniform(0.5, 2.0, N),
            "smokes": generator.choice(["no", "yes"], N, p=[0.7, 0.3]),
        }
    )


def test_the_split_is_scikit_learns_stratified_split() -> None:
    prepared = prepare(survey(), label="smokes", seed=3)
    _, rows = train_test_split(
        np.arange(N), test_size=0.25, random_state=3, stratify=survey()["smokes"]
    )
    assert prepared.y_test.tolist() == survey()["smokes"].iloc[np.sort(rows)].tolist()
    assert (len(prepared.X_train), len(prepared.X_test)) == (150, 50)
    assert abs((prepared.y_test == "yes").mean() - (survey()["smokes"] == "yes").mean()) < 0.02
    assert prepared.y_train.name == "smokes"
    assert prepared.label_categories == ("no", "yes")
    assert prepared.positive == "yes"


def test_what_is_left_out_is_said() -> None:
    prepared = prepare(survey(), label="smokes", drop=["weight"])
    assert list(prepared.X_train.columns) == ["age", "income", "sex", "job", "visit"]
    notes = " | ".join(note.text for note in prepared.notes)
    for words in ("id: left out: every value differs", "country: left out", "visit: a date"):
        assert words in notes
    assert prepared.X_train["visit"].dtype == np.float64
    assert prepared.schema.label is not None
    assert prepared.schema.label.name == "smokes"


def test_the_default_model_runs_on_it() -> None:
    prepared = prepare(survey(), label="smokes", weight="weight")
    model = make_pipeline(build_encoder(prepared.schema), LogisticRegression())
    model.fit(
        prepared.X_train,
        prepared.y_train,
        logisticregression__sample_weight=prepared.sample_weight,
    )
    assert model.classes_.tolist() == list(prepared.label_categories)
    assert 0 < model.score(prepared.X_test, prepared.y_test) <= 1


def test_weights_follow_their_rows() -> None:
    prepared = prepare(survey(), label="smokes", weight="weight")
    assert prepared.sample_weight is not None
    assert prepared.sample_weight_test is not None
    by_income = survey().set_index("income")["weight"]
    for part, weights in (
        (prepared.X_train, prepared.sample_weight),
        (prepared.X_test, prepared.sample_weight_test),
    ):
        np.testing.assert_array_equal(by_income.loc[part["income"]].to_numpy(), weights)
    assert "weight" not in prepared.X_train


def test_groups_follow_their_rows_and_may_look_at_dropped_columns() -> None:
    prepared = prepare(
        survey(), label="smokes", drop=["sex"], groups=['women=sex == "F"', "age >= 40"]
    )
    assert list(prepared.groups) == ["women", "age >= 40"]
    assert prepared.group_columns["women"] == {"sex"}
    for part, masks in (
        (prepared.X_train, prepared.groups),
        (prepared.X_test, prepared.test_groups),
    ):
        np.testing.assert_array_equal(masks["age >= 40"], part["age"] >= 40)
        women = survey().set_index("income")["sex"].loc[part["income"]] == "F"
        np.testing.assert_array_equal(masks["women"], women)


def test_a_missing_answer_belongs_to_no_group_even_as_a_category() -> None:
    frame = survey()
    frame.loc[:49, "job"] = None
    prepared = prepare(frame, label="smokes", missing="category", groups=['job != "cook"'])
    n_members = sum(
        masks['job != "cook"'].sum() for masks in (prepared.groups, prepared.test_groups)
    )
    assert n_members == (frame["job"].notna() & (frame["job"] != "cook")).sum()


def test_missing_answers_are_dropped_and_said() -> None:
    frame = survey()
    frame.loc[:3, "age"] = np.nan
    frame.loc[2:5, "smokes"] = None
    prepared = prepare(frame, label="smokes")
    assert len(prepared.X_train) + len(prepared.X_test) == N - 6
    assert "6 of 200 rows were dropped for missing values (age 4, smokes 4)" in [
        note.text for note in prepared.notes
    ]
    frame.loc[:30, "age"] = np.nan
    with pytest.raises(InputError, match="31 of 200 do"):
        prepare(frame, label="smokes")
    assert len(prepare(frame, label="smokes", drop=["age"]).X_train) > 140


def test_a_column_that_is_left_out_costs_no_rows() -> None:
    frame = survey().assign(nothing=np.nan, id=survey()["id"].astype("Int64"))
    frame.loc[:99, ["id", "country"]] = None
    prepared = prepare(frame, label="smokes", missing="error")
    assert any("nothing: left out: no answers" in note.text for note in prepared.notes)
    assert len(prepared.y_train) == 150


def test_missing_marks_of_a_file_are_said() -> None:
    table = TableFile(survey(), "survey.csv", "csv", missing_marks={"?": 3, "": 1})
    notes = prepare(table, label="smokes").notes
    assert Note("missing-marks", "taken as missing values: '?' 3, empty 1") in notes


def test_bins_replace_numbers_in_training_and_test_alike() -> None:
    prepared = prepare(survey(), label="smokes", bins={"age": Bins(4, 10.0, 90.0), "income": 3})
    assert prepared.schema["age"].domain == (20.0, 40.0, 60.0, 80.0)
    for part in (prepared.X_train, prepared.X_test):
        assert set(part["age"]) <= {20.0, 40.0, 60.0, 80.0}
        assert set(part["income"]) <= set(prepared.schema["income"].domain or ())


def test_nullable_numbers_become_plain_ones() -> None:
    frame = survey().assign(age=survey()["age"].astype("Int64"))
    frame.loc[0, "age"] = None
    assert prepare(frame, label="smokes").X_train["age"].dtype == np.int64


def test_a_polars_frame_gives_the_same() -> None:
    ours, theirs = (prepare(f, label="smokes") for f in (survey(), pl.from_pandas(survey())))
    assert ours.X_train.to_dict("list") == theirs.X_train.to_dict("list")


def test_a_number_as_label() -> None:
    prepared = prepare(survey(), label="income", task="regression", drop=["smokes"])
    assert prepared.label_categories == ()
    assert prepared.positive is None
    assert prepared.y_train.dtype == np.float64


def test_a_test_file_is_read_in_the_same_way() -> None:
    test = survey().iloc[:30].drop(columns=["id", "country"])
    prepared = prepare(
        survey(), label="smokes", weight="weight", test=test, groups=["sex == 'F'"], bins={"age": 4}
    )
    assert (len(prepared.X_train), len(prepared.X_test)) == (N, 30)
    assert list(prepared.X_train.columns) == list(prepared.X_test.columns)
    assert prepared.test_groups["sex == 'F'"].sum() == 15
    assert prepared.sample_weight_test is not None
    np.testing.assert_array_equal(prepared.sample_weight_test, test["weight"])
    assert set(prepared.X_test["age"]) <= set(prepared.schema["age"].domain or ())


def test_a_gap_on_one_side_does_not_change_how_categories_are_spelled() -> None:
    frame = survey().assign(member=np.resize([True, False], N), code=np.arange(N) % 3)
    gaps = frame.astype({"member": object, "code": "Int64"})
    gaps.loc[:1, ["member", "code"]] = None
    settings = {"label": "smokes", "categorical": ["code"], "missing": "category"}
    prepared = prepare(gaps, test=frame, **settings)  # type: ignore[arg-type]
    model = make_pipeline(build_encoder(prepared.schema), LogisticRegression())
    model.fit(prepared.X_train, prepared.y_train)
    assert prepared.schema["code"].categories == ("(missing)", "0", "1", "2")
    assert prepared.X_test["member"].value_counts().to_dict() == {"True": 100, "False": 100}
    assert model.predict(prepared.X_test).shape == (N,)
    words = frame.astype({"member": str})
    again = prepare(frame, label="smokes", test=words)
    assert again.X_test["member"].dtype == bool


def test_truths_with_gaps_are_encoded_after_dropping() -> None:
    gaps = survey().assign(member=np.resize([True, False], N)).astype({"member": object})
    gaps.loc[:1, "member"] = None
    prepared = prepare(gaps, label="smokes")
    encoded = build_encoder(prepared.schema).fit(prepared.X_train).transform(prepared.X_test)
    assert encoded.shape[0] == len(prepared.y_test)


def one_class(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(smokes=SECRET)


def many_classes(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(smokes=np.resize([f"{SECRET}{i}" for i in range(25)], N))


def with_cell(column: str, value: object) -> Any:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(
            **{column: frame[column].astype(object).where(frame.index != 7, value)}
        ).infer_objects()

    return change


BAD = {
    "unknown label": (None, {"label": "smoke"}, "Did you mean 'smokes'"),
    "unknown drop": (None, {"drop": ["ags"]}, "`drop` must name"),
    "dropped label": (None, {"drop": ["smokes"]}, "is the label and cannot be named in `drop`"),
    "label as weight": (None, {"weight": "smokes"}, "cannot be named in `weight`"),
    "binned and dropped": (None, {"bins": {"age": 3}, "drop": ["age"]}, "`bins` cannot name it"),
    "one class": (one_class, {}, "got 1"),
    "many classes": (many_classes, {}, "`positive='VALUE'`"),
    "positive unknown": (None, {"positive": "maybe"}, "stands in no row"),
    "positive of a number": (
        None,
        {"label": "income", "task": "regression", "positive": "1"},
        "two answers",
    ),
    "word as number": (None, {"task": "regression"}, "holds words"),
    "empty group": (None, {"groups": ["old=age > 900"]}, "group 'old' is empty"),
    "group on unknown column": (None, {"groups": ["ag > 9"]}, "`group` must name"),
    "group twice": (None, {"groups": ["a=age > 9", "a=age > 8"]}, "group names must be unique"),
    "negative weight": (with_cell("weight", -77.25), {"weight": "weight"}, "1 of 200"),
    "zero weights": (lambda f: f.assign(weight=0), {"weight": "weight"}, "all in column"),
    "words as weights": (None, {"weight": "job"}, "column of numbers"),
    "infinite": (with_cell("income", np.inf), {}, "1 are infinite"),
    "too few rows": (lambda f: f.head(9), {}, "at least 10 complete rows"),
    "rare label": (
        lambda f: f.assign(smokes=["yes"] + ["no"] * (N - 1)),
        {},
        "1 of the rarest label",
    ),
    "nothing to learn from": (lambda f: f[["id", "country", "smokes"]], {}, "got 0"),
    "bad share": (None, {"test_share": 1.5}, "`test_share` must lie between"),
    "bad task": (None, {"task": "ranking"}, "`task` must be one of"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_one_line_without_values(case: str) -> None:
    change, arguments, words = BAD[case]
    frame = survey() if change is None else change(survey())
    with pytest.raises(InputError) as caught:
        prepare(frame, **{"label": "smokes", **arguments})
    message = str(caught.value)
    assert words in message
    assert SECRET not in message
    assert "-77.25" not in message
    assert "\n" not in message


BAD_TESTS = {
    "lacking columns": (lambda f: f.drop(columns=["age", "job"]), "2 are missing: age, job"),
    "unseen category": (with_cell("job", SECRET), "1 rows have 1 others"),
    "unseen label": (with_cell("smokes", SECRET), "1 rows have another"),
    "other kind": (lambda f: f.assign(age="old"), "must hold numbers in the test data"),
    "one word among numbers": (
        lambda f: with_cell("age", SECRET)(
            f.assign(age=[f"{a:.1f}".replace(".", ",") for a in f["age"]])
        ),
        "but 1 of 200 rows hold words. Correct or remove those rows.",
    ),
    "numbers for words": (lambda f: f.assign(job=7), "must hold words in the test data"),
    "missing values": (lambda f: f.assign(age=f["age"].where(f.index > 20)), "of the test data"),
    "no dates": (with_cell("visit", SECRET), "must hold dates"),
    "no rows": (lambda f: f.head(0), "at least one row"),
}


@pytest.mark.parametrize("case", BAD_TESTS)
def test_a_bad_test_file_is_refused_in_one_line_without_values(case: str) -> None:
    change, words = BAD_TESTS[case]
    with pytest.raises(InputError) as caught:
        prepare(survey(), label="smokes", test=change(survey()))
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_group_without_test_rows_is_said() -> None:
    test = survey().assign(sex="M").replace({"sex": {"M": "F"}})
    prepared = prepare(survey(), label="smokes", test=test, groups=['men=sex == "M"'])
    assert any("'men' has no test rows" in note.text for note in prepared.notes)


def test_training_rows_keep_their_numbers():
    table = pd.DataFrame(
        {"age": np.arange(40.0), "work": ["a", "b"] * 20, "smokes": ["no", "no", "yes", "yes"] * 10}
    )
    table.loc[5, "age"] = np.nan
    prepared = prepare(table, label="smokes", seed=1)
    assert 5 not in prepared.rows
    assert prepared.X_train["age"].tolist() == prepared.rows.tolist()
    assert prepared.candidates is None


def test_candidates_are_read_like_test_data():
    table = pd.DataFrame(
        {"age": np.arange(40.0), "work": ["a", "b"] * 20, "smokes": ["no", "no", "yes", "yes"] * 10}
    )
    offer = table[:6].copy()
    offer.loc[2, "work"] = None
    prepared = prepare(table, label="smokes", test=table, candidates=offer, missing="drop")
    assert prepared.candidates.rows.tolist() == [0, 1, 3, 4, 5]
    assert prepared.candidates.y.tolist() == ["no", "no", "yes", "no", "no"]
    assert any("rows of the candidates were dropped" in note.text for note in prepared.notes)
    with pytest.raises(InputError, match="the candidates must have the columns"):
        prepare(table, label="smokes", test=table, candidates=offer.drop(columns="age"))
    with pytest.raises(InputError, match="must hold numbers in the candidates too"):
        prepare(table, label="smokes", test=table, candidates=table.assign(age="old"))

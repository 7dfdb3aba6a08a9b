# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from epsilens.channels import Budget
from epsilens.channels.release import release_table
from epsilens.data import Bins
from epsilens.errors import InputError, PrivacyLeakWarning

SECRET = "unmistakable-secret"
EVERYTHING = Budget({"answer": math.inf})


def table(answers: object, **columns: object) -> pd.DataFrame:
    return pd.DataFrame({"answer": answers, **columns})


def open_release(frame: pd.DataFrame, **settings: object) -> pd.Series:
    """Release at an infinite epsilon: what comes out must be what went in."""
    with pytest.warns(PrivacyLeakWarning) as caught:
        released = release_table(frame, budget=EVERYTHING, **settings).frame["answer"]  # type: ignore[arg-type]
    assert any("ε is infinite for answer" in str(warning.message) for warning in caught)
    return released


@pytest.mark.parametrize(
    ("answers", "categories"),
    [
        (["yes", "no", "no"], ["no", "yes", "perhaps"]),
        ([1, 2, 1], ["1", "2", "3"]),
        ([1, 2, 1], ["1.0", "2.0", "3"]),
        ([0.5, 1.0, 0.5], ["1", "0.5"]),
        ([True, False, True], ["true", "False"]),
        (np.array([True, False, True], dtype=object), ["true", "False"]),
        (pd.array([True, False, True], dtype="boolean"), ["true", "False"]),
        (pd.Categorical([True, False, True]), ["False", "True"]),
        (pd.array([1, 2, 1], dtype="Int64"), ["2", "1"]),
        (np.array([1, 2, 1], dtype=np.int8), ["2", "1"]),
        (pd.Categorical(["b", "a", "b"]), ["a", "b", "c"]),
        (pd.Categorical([3, 1, 3]), ["1", "3", "5"]),
    ],
)
def test_values_and_types_survive(answers: object, categories: list[str]) -> None:
    frame = table(answers)
    released = open_release(frame, categories={"answer": categories})
    assert released.tolist() == frame["answer"].tolist()
    if isinstance(frame["answer"].dtype, pd.CategoricalDtype):
        # The given domain is what the released column declares.
        assert [str(value) for value in released.cat.categories] == categories
    else:
        assert released.dtype == frame["answer"].dtype


@pytest.mark.parametrize(
    "answers",
    [
        ["yes", None, "no"],
        pd.array([1, None, 2], dtype="Int64"),
        [0.5, None, 1.5],
        pd.Categorical(["b", None, "a"]),
        pd.array([True, None, False], dtype="boolean"),
    ],
)
def test_missing_can_be_one_more_answer(answers: object) -> None:
    frame = table(answers)
    released = open_release(frame, missing="category")
    assert released.isna().tolist() == [False, True, False]
    assert released.dropna().tolist() == frame["answer"].dropna().tolist()


def test_missing_is_reported_for_people_who_answered() -> None:
    # 300 reports at a tiny epsilon, three values: none missing has probability (2/3)^300.
    frame = table([1, 2] * 150)
    release = release_table(
        frame,
        budget=Budget({"answer": 1e-6}),
        categories={"answer": ["1", "2"]},
        missing="category",
    )
    assert release.n_categories == {"answer": 3}
    assert release.missing_is_category == ("answer",)
    assert release.frame["answer"].dtype == "Int64"
    assert release.frame["answer"].isna().any()
    assert set(release.frame["answer"].dropna()) == {1, 2}


@pytest.mark.parametrize("bins", [None, {"answer": Bins(2)}])
def test_observed_domains_have_no_missing_answer_unless_it_occurs(
    bins: dict[str, Bins] | None,
) -> None:
    budget = Budget({"answer": 1.0})
    for answers, columns in (([1, 2, 2], ()), ([1, 2, None], ("answer",))):
        with pytest.warns(PrivacyLeakWarning):
            release = release_table(table(answers), budget=budget, bins=bins, missing="category")
        assert release.missing_is_category == columns


def test_rows_without_answer_can_be_left_out() -> None:
    frame = table(["yes", None, "no", None], age=[1, 2, 3, 4])
    with pytest.warns(PrivacyLeakWarning, match=r"left out \(answer 2 of 4\)"):
        release = release_table(
            frame,
            budget=Budget({"answer": 1.0}),
            categories={"answer": ["yes", "no"]},
            missing="drop",
        )
    assert release.frame["age"].tolist() == [1, 3]
    assert release.kept.tolist() == [True, False, True, False]
    # The receipt travels with the data: no count of the people who gave no answer.
    assert not any(character.isdigit() for character in " ".join(release.warnings))


def test_missing_answers_are_refused_with_their_count() -> None:
    with pytest.raises(InputError, match=r"answer 2 of 3 rows.*--missing category"):
        release_table(table(["yes", None, None]), budget=Budget({"answer": 1.0}))
    with pytest.raises(InputError, match="at least one row"), pytest.warns(PrivacyLeakWarning):
        release_table(table(["yes"] * 0 + [None]), budget=Budget({"answer": 1.0}), missing="drop")


def test_only_the_named_columns_change() -> None:
    frame = table(
        ["yes", "no"] * 100,
        other=["yes", "no"] * 100,
        number=np.linspace(0, 1, 200),
        when=pd.date_range("2024-01-01", periods=200),
    )
    before = frame.copy(deep=True)
    release = release_table(
        frame, budget=Budget({"answer": 0.1}), categories={"answer": ["no", "yes"]}
    )
    pd.testing.assert_frame_equal(frame, before)
    assert list(release.frame.columns) == list(frame.columns)
    pd.testing.assert_frame_equal(
        release.frame.drop(columns="answer"), frame.drop(columns="answer")
    )
    # Unchanged by chance with probability 0.525^200.
    assert (release.frame["answer"] != frame["answer"]).any()
    assert release.warnings == ()
    assert not release.simulated


def test_truth_is_kept_as_often_as_promised() -> None:
    # Seeded: 40 000 answers, the share kept has a standard error of 0.0025.
    frame = table(np.repeat(["a", "b", "c", "d"], 10_000))
    with pytest.warns(PrivacyLeakWarning):
        release = release_table(frame, budget=Budget({"answer": 1.0}), random_state=0)
    kept = (release.frame["answer"] == frame["answer"]).mean()
    assert kept == pytest.approx(math.e / (math.e + 3), abs=5 * 0.0025)
    assert release.simulated


def test_observed_answers_leak_and_are_said_to() -> None:
    with pytest.warns(PrivacyLeakWarning, match="shows which answers occur"):
        release = release_table(table(["yes", "no"]), budget=Budget({"answer": 1.0}))
    assert release.origin == {"answer": "observed"}
    assert len(release.warnings) == 1


def test_declared_categories_are_the_domain() -> None:
    frame = table(pd.Categorical(["a", "a"], categories=["a", "b", "c"]))
    release = release_table(frame, budget=Budget({"answer": 1.0}))
    assert (release.origin, release.n_categories) == ({"answer": "declared"}, {"answer": 3})
    assert release.warnings == ()


def test_bins_release_midpoints() -> None:
    frame = table([-5.0, 12.0, 49.0, 1000.0])
    bins = {"answer": Bins(2, 0.0, 100.0)}
    assert open_release(frame, bins=bins).tolist() == [25.0, 25.0, 25.0, 75.0]
    with pytest.warns(PrivacyLeakWarning, match="smallest and the largest value"):
        release = release_table(frame, budget=Budget({"answer": 1.0}), bins={"answer": Bins(2)})
    assert (release.bins["answer"].low, release.bins["answer"].high) == (-5.0, 1000.0)


def test_bins_with_missing_answers() -> None:
    frame = table(pd.array([10, None, 90], dtype="Int64"))
    released = open_release(frame, bins={"answer": Bins(2, 0.0, 100.0)}, missing="category")
    assert released.isna().tolist() == [False, True, False]
    assert released.dropna().tolist() == [25.0, 75.0]


@pytest.mark.parametrize(
    ("answers", "settings", "words"),
    [
        ([SECRET, "no"], {"categories": {"answer": ["no", "yes"]}}, "1 of 2 rows have another"),
        ([SECRET, "no"], {"categories": {"answer": ["no", "no"]}}, "stands twice"),
        ([SECRET, SECRET], {"categories": {"answer": [SECRET]}}, "two possible answers, got 1"),
        ([SECRET, SECRET], {}, "two possible answers, got 1"),
        ([1, 2], {"categories": {"answer": ["1", SECRET]}}, "of the column's type"),
        ([1, 2], {"categories": {"answer": ["1", "2.5"]}}, "of the column's type"),
        ([True, False], {"categories": {"answer": ["1", "0"]}}, "of the column's type"),
        (range(100), {}, "every value differs"),
        ([f"{SECRET}{i}" for i in range(30)], {}, "every value differs"),
        (np.linspace(0, 1, 30), {}, "at most 20 different numbers .* got 30"),
        (["2024-01-01", "2024-01-02"], {}, "holds dates"),
        ([SECRET, "no"], {"bins": {"answer": Bins(2)}}, "must name a numeric column"),
        ([1, 2], {"bins": {"other": Bins(2)}}, "`bins` must name protected columns, got 'other'"),
        ([1, 2], {"categories": {"other": ["1"]}}, "`categories` must name protected columns"),
        (
            [1, 2],
            {"bins": {"answer": Bins(2)}, "categories": {"answer": ["1", "2"]}},
            "not both",
        ),
        ([1, 2], {"missing": "auto"}, "`missing` must be one of"),
    ],
)
def test_what_cannot_be_released_is_refused_without_values(
    answers: object, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        release_table(table(answers), budget=Budget({"answer": 1.0}), **settings)  # type: ignore[arg-type]
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_column_is_guessed() -> None:
    with pytest.raises(InputError, match="Did you mean 'answer'"):
        release_table(table([1, 2]), budget=Budget({"anser": 1.0}))


def test_large_finite_epsilon_is_refused() -> None:
    budget = Budget({"answer": math.inf, "other": 41.0})
    with (
        pytest.raises(InputError, match="at most 40"),
        pytest.warns(PrivacyLeakWarning),
    ):
        release_table(table([1, 2], other=[1, 2]), budget=budget)

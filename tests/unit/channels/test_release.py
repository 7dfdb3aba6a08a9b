# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest

from epsilens.channels import Budget
from epsilens.channels.release import release_table
from epsilens.data import Bins
from epsilens.errors import COMMAND_LINE, InputError, PrivacyLeakWarning

SECRET = "unmistakable-secret"
EVERYTHING = Budget({"answer": math.inf})


def table(answers: object, **columns: object) -> pd.DataFrame:
    return pd.DataFrame({"answer": answers, **columns})


def open_release(frame: pd.DataFrame, **settings: object) -> pd.Series:
    """Release at an infinite epsilon: what comes out must be what went in."""
    with pytest.warns(PrivacyLeakWarning) as caught:
        released = release_table(frame, budget=EVERYTHING, keep_order=True, **settings).frame[
            "answer"
        ]  # type: ignore[arg-type]
    assert any("ε is infinite for answer" in str(warning.message) for warning in caught)
    return released


@pytest.mark.parametrize(
    ("answers", "categories", "dtype"),
    [
        (["yes", "no", "no"], ["no", "yes", "perhaps"], None),
        ([1, 2, 1], ["1", "2", "3"], "int64"),
        ([1, 2, 1], ["1.0", "2.0", "3"], "float64"),
        ([0.5, 1.0, 0.5], ["1", "0.5"], "float64"),
        (np.array([0.1, 1.0, 0.1], dtype=np.float32), ["1", "0.1"], "float64"),
        ([True, False, True], ["true", "False"], "bool"),
        (np.array([True, False, True], dtype=object), ["true", "False"], "bool"),
        (pd.array([True, False, True], dtype="boolean"), ["true", "False"], "bool"),
        (pd.Categorical([True, False, True]), ["False", "True"], None),
        (pd.array([1, 2, 1], dtype="Int64"), ["2", "1"], "int64"),
        (np.array([1, 2, 1], dtype=np.int8), ["2", "1"], "int64"),
        ([2**53 + 1, 2**53, 2**53], [str(2**53), str(2**53 + 1)], "int64"),
        (pd.Categorical(["b", "a", "b"]), ["a", "b", "c"], None),
        (pd.Categorical([3, 1, 3]), ["1", "3", "5"], None),
    ],
)
def test_values_survive_in_the_type_of_the_categories(
    answers: object, categories: list[str], dtype: str | None
) -> None:
    frame = table(answers)
    released = open_release(frame, categories={"answer": categories})
    np.testing.assert_allclose(
        np.unique(frame["answer"], return_inverse=True)[1],
        np.unique(released, return_inverse=True)[1],
    )
    if dtype is None:
        assert released.tolist() == frame["answer"].tolist()
    else:
        np.testing.assert_allclose(released.astype(float), frame["answer"].astype(float))
        assert released.dtype == dtype
    if isinstance(frame["answer"].dtype, pd.CategoricalDtype):
        # The given domain is what the released column declares.
        assert [str(value) for value in released.cat.categories] == categories


@pytest.mark.parametrize(
    "pair",
    [
        # Two true columns that differ in one person's answer, of the types that pandas gives them.
        ([1, 2, 1], [1.0, 2.0, 1.5], ["1", "2", "1.5"]),
        ([1, 2, 1], ["1", "2", "refused"], ["1", "2", "refused"]),
        ([True, False, True], [True, False, "unknown"], ["True", "False", "unknown"]),
        (["10", "20", "10"], ["10", "20", "01"], ["01", "10", "20"]),
        ([1, 2, 1], ["1", "2", "1.0"], ["1", "2"]),
    ],
)
@pytest.mark.parametrize("missing", ["error", "category"])
def test_the_released_type_tells_nothing_of_one_answer(
    pair: tuple[object, object, list[str]], missing: str
) -> None:
    one, other, categories = pair
    budget = Budget({"answer": 1.0})
    given = {"answer": categories}
    released = [
        release_table(table(answers), budget=budget, categories=given, missing=missing)  # type: ignore[arg-type]
        for answers in (one, other)
    ]
    assert released[0].frame["answer"].dtype == released[1].frame["answer"].dtype
    for release in released:
        assert {str(value) for value in release.frame["answer"].dropna()} <= {
            *categories,
            *(str(float(text)) for text in categories if text.replace(".", "").isdigit()),
        }
        assert set(release.as_typed["answer"]) <= {*categories, ""}


@pytest.mark.parametrize(
    ("answered", "unanswered", "categories"),
    [
        ([True, False, True], [True, False, None], ["True", "False"]),
        ([1, 2, 1], [1, 2, None], ["1", "2"]),
        (["a", "b", "a"], ["a", "b", None], ["a", "b"]),
    ],
)
def test_the_released_type_does_not_tell_whether_somebody_gave_no_answer(
    answered: list[object], unanswered: list[object], categories: list[str]
) -> None:
    types = {
        str(
            release_table(
                table(answers),
                budget=Budget({"answer": 1.0}),
                categories={"answer": categories},
                missing="category",
            )
            .frame["answer"]
            .dtype
        )
        for answers in (answered, unanswered)
    }
    assert len(types) == 1
    assert "object" not in types or categories == ["a", "b"]


@pytest.mark.parametrize(
    "answers",
    [
        ["yes", None, "no", "no"],
        pd.array([1, None, 2, 2], dtype="Int64"),
        [0.5, None, 1.5, 1.5],
        pd.Categorical(["b", None, "a", "a"]),
        pd.array([True, None, False, False], dtype="boolean"),
        np.array([True, None, False, False], dtype=object),
    ],
)
def test_missing_can_be_one_more_answer(answers: object) -> None:
    frame = table(answers)
    released = open_release(frame, missing="category")
    assert released.isna().tolist() == [False, True, False, False]
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
    for answers, columns in (([1, 2, 2, 1], ()), ([1, 2, 2, None], ("answer",))):
        with pytest.warns(PrivacyLeakWarning):
            release = release_table(table(answers), budget=budget, bins=bins, missing="category")
        assert release.missing_is_category == columns


def test_rows_without_answer_can_be_left_out() -> None:
    frame = table(["yes", None, "no", None], age=[1, 2, 3, 4])
    settings = {"categories": {"answer": ["yes", "no"]}, "missing": "drop"}
    with pytest.warns(PrivacyLeakWarning, match=r"left out.*answer 2 of 4"):
        release = release_table(frame, budget=Budget({"answer": 1.0}), **settings)  # type: ignore[arg-type]
    assert sorted(release.frame["age"].tolist()) == [1, 3]
    assert sorted(release.rows.tolist()) == [0, 2]
    # The receipt travels with the data: it does not tell whether anybody gave no answer.
    complete = table(["yes", "no", "no", "yes"], age=[1, 2, 3, 4])
    everybody = release_table(complete, budget=Budget({"answer": 1.0}), **settings)  # type: ignore[arg-type]
    assert everybody.warnings == release.warnings
    assert not any(character.isdigit() for character in " ".join(release.warnings))


def test_missing_answers_are_refused_with_their_count() -> None:
    with pytest.raises(InputError, match=r"answer 2 of 3 rows.*missing='category'"):
        release_table(table(["yes", None, None]), budget=Budget({"answer": 1.0}))
    with pytest.raises(InputError, match="at least one row"), pytest.warns(PrivacyLeakWarning):
        release_table(table(["yes"] * 0 + [None]), budget=Budget({"answer": 1.0}), missing="drop")


def test_only_the_named_columns_change() -> None:
    random = np.random.default_rng(0)
    frame = table(
        random.choice(["yes", "no"], 200),
        other=random.choice(["yes", "no"], 200),
        number=random.permutation(np.linspace(0, 1, 200)),
        when=random.permutation(pd.date_range("2024-01-01", periods=200)),
    )
    frame.attrs["mean"] = "of the true answers"
    before = frame.copy(deep=True)
    release = release_table(
        frame, budget=Budget({"answer": 0.1}), categories={"answer": ["no", "yes"]}
    )
    pd.testing.assert_frame_equal(frame, before)
    assert list(release.frame.columns) == list(frame.columns)
    moved = frame.iloc[release.rows].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        release.frame.drop(columns="answer"), moved.drop(columns="answer")
    )
    # Unchanged by chance with probability 0.525^200.
    assert (release.frame["answer"] != moved["answer"]).any()
    assert release.frame.attrs == {}
    assert release.warnings == ()
    assert not release.simulated
    assert release.shuffled


def test_truth_is_kept_as_often_as_promised() -> None:
    # Seeded: 40 000 answers, the share kept has a standard error of 0.0025.
    frame = table(np.repeat(["a", "b", "c", "d"], 10_000))
    with pytest.warns(PrivacyLeakWarning):
        release = release_table(
            frame, budget=Budget({"answer": 1.0}), keep_order=True, random_state=0
        )
    kept = (release.frame["answer"] == frame["answer"]).mean()
    assert kept == pytest.approx(math.e / (math.e + 3), abs=5 * 0.0025)
    assert release.simulated


def test_observed_answers_leak_and_are_said_to() -> None:
    with pytest.warns(PrivacyLeakWarning, match="shows which answers occur"):
        release = release_table(table(["yes", "no", "no"]), budget=Budget({"answer": 1.0}))
    assert release.origin == {"answer": "observed"}
    assert len(release.warnings) == 1


def test_declared_categories_are_the_domain() -> None:
    frame = table(pd.Categorical(["a", "a"], categories=["a", "b", "c"]))
    release = release_table(frame, budget=Budget({"answer": 1.0}))
    assert (release.origin, release.n_categories) == ({"answer": "declared"}, {"answer": 3})
    assert release.warnings == ()


def test_the_order_of_declared_categories_is_not_that_of_the_data() -> None:
    dtype = pd.CategoricalDtype(["c", "a", "b"])
    frame = table(pd.Series(["c", "a", "b", "a"], dtype=dtype))
    release = release_table(frame, budget=Budget({"answer": 1.0}))
    assert release.frame["answer"].cat.categories.tolist() == ["a", "b", "c"]
    # An order that the caller declared has a meaning and stays.
    ordered = frame.astype({"answer": pd.CategoricalDtype(["c", "a", "b"], ordered=True)})
    release = release_table(ordered, budget=Budget({"answer": 1.0}))
    assert release.frame["answer"].cat.categories.tolist() == ["c", "a", "b"]
    assert release.frame["answer"].cat.ordered


@pytest.mark.parametrize(
    "answers", [["no"] * 30 + ["yes"] * 30, ["no", "yes"] * 30, ["no", "no", "yes", "no"] * 15]
)
def test_rows_are_shuffled_whatever_their_order(answers: list[str]) -> None:
    ages = np.random.default_rng(0).permutation(60)
    frame = table(answers, age=ages)
    settings = {"budget": Budget({"answer": 1.0}), "categories": {"answer": ["no", "yes"]}}
    release = release_table(frame, **settings)  # type: ignore[arg-type]
    assert release.shuffled
    assert release.warnings == ()
    assert sorted(release.rows.tolist()) == list(range(60))
    # In the old order with probability 1/60!.
    assert release.rows.tolist() != list(range(60))
    # The rows stay whole, and no label of a row tells where it stood.
    assert release.frame["age"].tolist() == ages[release.rows].tolist()
    assert release.frame.index.tolist() == list(range(60))
    assert release.as_typed["answer"].tolist() == release.frame["answer"].tolist()
    with pytest.warns(PrivacyLeakWarning, match="order of the rows is kept, as asked for"):
        kept = release_table(frame, keep_order=True, **settings)  # type: ignore[arg-type]
    assert kept.frame["age"].tolist() == ages.tolist()
    assert not kept.shuffled
    assert len(kept.warnings) == 1


def test_reports_move_with_their_rows() -> None:
    frame = table(["no"] * 30 + ["yes"] * 30, age=np.random.default_rng(0).permutation(60))
    with pytest.warns(PrivacyLeakWarning):
        release = release_table(
            frame,
            # Lies have a probability of about 2⁻⁵⁷ each.
            budget=Budget({"answer": 40.0}),
            categories={"answer": ["no", "yes"]},
            random_state=0,
        )
    assert release.shuffled
    truth = dict(zip(frame["age"], frame["answer"], strict=True))
    assert release.frame["answer"].tolist() == [truth[age] for age in release.frame["age"]]


@pytest.mark.parametrize("answers", [["no"] * 30 + ["yes"] * 30, ["no", "yes", "yes"] * 20])
def test_columns_that_follow_the_order_are_left_out_or_the_order_is_kept(
    answers: list[str],
) -> None:
    ages = np.random.default_rng(0).permutation(60)
    ids = [f"{SECRET}{number}" for number in range(60)]
    frame = table(answers, **{"id, old": ids, "number": np.arange(60), "age": ages})
    settings = {"budget": Budget({"answer": 1.0}), "categories": {"answer": ["no", "yes"]}}
    with pytest.raises(InputError, match="but 'id, old', 'number' do") as caught:
        release_table(frame, **settings)  # type: ignore[arg-type]
    assert "`drop=['id, old', 'number']`, or `keep_order=True`" in str(caught.value)
    typed = caught.value.render(COMMAND_LINE)
    assert '`--drop "id, old",number`, or `--keep-order`' in typed
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    release = release_table(frame, drop=["id, old", "number"], **settings)  # type: ignore[arg-type]
    assert list(release.frame.columns) == ["answer", "age"]
    with pytest.warns(PrivacyLeakWarning, match="order of the rows is kept"):
        kept = release_table(frame, keep_order=True, **settings)  # type: ignore[arg-type]
    assert kept.frame["number"].tolist() == list(range(60))


def test_an_open_column_of_the_budget_may_not_follow_the_order_either() -> None:
    frame = table(["no", "yes", "yes"] * 20, batch=np.repeat([1, 2, 3], 20))
    settings = {"categories": {"answer": ["no", "yes"], "batch": ["1", "2", "3"]}}
    with pytest.raises(InputError, match="'batch' does"):
        release_table(frame, budget=Budget({"answer": 1.0, "batch": math.inf}), **settings)  # type: ignore[arg-type]
    # With nothing to hide there is nothing to undo.
    with pytest.warns(PrivacyLeakWarning, match="ε is infinite"):
        release_table(frame, budget=Budget({"answer": math.inf, "batch": math.inf}), **settings)  # type: ignore[arg-type]


def test_column_names_that_stand_twice_are_refused() -> None:
    frame = pd.DataFrame([["no", 1, 2]], columns=["answer", "age", "age"])
    with pytest.raises(InputError, match="column names"):
        release_table(frame, budget=Budget({"answer": 1.0}))


def copies_named(frame: pd.DataFrame, **settings: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = release_table(frame, budget=Budget({"answer": 1.0}), **settings)  # type: ignore[arg-type]
    texts = [str(warning.message) for warning in caught]
    named = [text.split(" has ")[0] for text in texts if "same content" in text]
    # For the curator alone: whether there is a copy depends on the true answers.
    assert not any("same content" in text for text in release.warnings)
    return named


def test_copies_of_a_protected_column_are_named() -> None:
    random = np.random.default_rng(0)
    answers = pd.Series(random.choice(["no", "yes", "perhaps"], 40))
    frame = table(
        answers,
        copy=answers,
        recoded=answers.map({"no": 0, "yes": 1, "perhaps": 7}),
        other=random.permutation(answers),
        nearly=["no" if row == 0 else answer for row, answer in enumerate(answers)],
        constant=1,
        lists=[[1]] * 40,
    )
    frame.loc[0, "answer"] = frame.loc[0, "copy"] = "yes"
    frame.loc[0, "recoded"] = 1
    given = {"answer": ["no", "yes", "perhaps"]}
    assert copies_named(frame, categories=given) == ["copy", "recoded"]
    assert copies_named(frame, categories=given, drop=["copy", "recoded"]) == []
    # In four rows two columns agree by chance.
    assert copies_named(frame.head(4), categories=given) == []


def test_copies_of_a_number_in_bins_are_named() -> None:
    income = np.random.default_rng(0).random(40)
    frame = table(income, copy=income, id=np.random.default_rng(1).permutation(40))
    assert copies_named(frame, bins={"answer": Bins(2, 0.0, 1.0)}) == ["copy"]


def test_one_answer_does_not_decide_what_another_means() -> None:
    # 1 equals True: the first of them must not stand for both.
    for first in (True, "no"):
        frame = table(pd.Series([first, 1, 1], dtype=object))
        released = open_release(frame, categories={"answer": ["True", "1", "no"]})
        assert released.tolist() == [str(first), "1", "1"]


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
        ([SECRET, "no"], {"categories": {"answer": ["no", ""]}}, "is empty"),
        ([1, 2], {"categories": {"answer": ["1", "1.0"]}}, "stands twice"),
        ([1, 2], {"categories": {"answer": ["1", SECRET]}}, "1 of 2 rows have another"),
        ([1, 2], {"categories": {"answer": ["1", "2.5"]}}, "1 of 2 rows have another"),
        ([True, False], {"categories": {"answer": ["1", "0"]}}, "2 of 2 rows have another"),
        ([SECRET, "no"], {}, "every value differs"),
        ([SECRET, "no", "yes"], {}, "every value differs"),
        ([0.5, 1.5], {}, "every value differs"),
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
    # No warning either: it is the first thing that is looked at.
    with pytest.raises(InputError, match="'other' must be at most 40"):
        release_table(table([1, 2], other=[1, 2]), budget=budget)

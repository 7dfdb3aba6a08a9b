# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from epsilens.data.missing import MISSING_CATEGORY, settle_missing
from epsilens.errors import COMMAND_LINE, InputError, MissingAnswersError
from epsilens.notes import Note


def survey(n_missing: int, n_rows: int = 100) -> pd.DataFrame:
    job = ["nurse", "clerk"] * (n_rows // 2)
    age = [float(index) for index in range(n_rows)]
    frame = pd.DataFrame({"job": job, "age": age})
    frame.loc[: n_missing - 1, "job"] = None
    return frame


def test_auto_drops_five_per_cent_and_says_so() -> None:
    settled = settle_missing(survey(5))
    assert len(settled.frame) == 95
    assert settled.kept.sum() == 95
    assert settled.notes == (
        Note("rows-dropped", "5 of 100 rows were dropped for missing values (job 5)"),
    )


def test_auto_refuses_more_and_names_the_choices() -> None:
    with pytest.raises(InputError, match=r"6 of 100 do \(job 6\).*drop.*category"):
        settle_missing(survey(6))


def test_drop_drops_any_number_but_not_all() -> None:
    assert len(settle_missing(survey(60), policy="drop").frame) == 40
    with pytest.raises(InputError, match="all 100 have"):
        settle_missing(survey(100), policy="drop")


def test_error_refuses_one() -> None:
    with pytest.raises(InputError, match="1 of 100 rows"):
        settle_missing(survey(1), policy="error")


def test_nothing_missing_needs_nothing() -> None:
    frame = survey(0)
    for policy in ("auto", "error", "category", "drop"):
        settled = settle_missing(frame, policy=policy)
        assert settled.notes == ()
        assert settled.frame is frame
        assert settled.kept.all()


def test_category_makes_missing_an_answer_of_words_only() -> None:
    settled = settle_missing(survey(60), policy="category")
    assert (settled.frame["job"] == MISSING_CATEGORY).sum() == 60
    assert len(settled.frame) == 100
    assert "job 60" in settled.notes[0].text
    numbers = pd.DataFrame({"age": [1.0, np.nan]})
    with pytest.raises(InputError, match="missing amount is no amount"):
        settle_missing(numbers, policy="category")


def test_category_keeps_a_declared_domain_and_codes() -> None:
    frame = pd.DataFrame(
        {
            "size": pd.Series(["s", None, "l"], dtype="category"),
            "code": pd.array([1, None, 3], dtype="Int64"),
        }
    )
    settled = settle_missing(frame, policy="category", categorical=["code"])
    assert settled.frame["size"].tolist() == ["s", MISSING_CATEGORY, "l"]
    assert settled.frame["code"].tolist() == ["1", MISSING_CATEGORY, "3"]


def test_a_label_is_never_given_a_missing_category() -> None:
    settled = settle_missing(survey(3), policy="category", required=["job"])
    assert len(settled.frame) == 97
    # A label cannot be dropped either.
    with pytest.raises(InputError, match=r"Choose `missing='drop'`\.$"):
        settle_missing(survey(30), policy="category", required=["job"])


def gaps(**columns: int) -> pd.DataFrame:
    """Return 100 rows, of which so many miss each column: `age` a number, the others words."""
    frame = pd.DataFrame({"job": ["nurse", "clerk"] * 50, "sex": ["F", "M"] * 50, "age": 1.5})
    for name, count in columns.items():
        frame.loc[: count - 1, name] = np.nan
    return frame


WAYS = {
    "words": (
        {"job": 30},
        "Choose `--missing drop`, `--missing category`, or `--drop` the column.",
    ),
    "numbers": ({"age": 30}, "Choose `--missing drop`, or `--drop` the column."),
    "both": ({"age": 30, "job": 40}, "Choose `--missing drop`, or `--drop` columns, 'job' first."),
    "all rows": ({"age": 100}, "`--drop` the column."),
    "the label": ({"sex": 30}, "Choose `--missing drop`."),
    "the label too": ({"sex": 30, "job": 30}, "Choose `--missing drop`, or `--drop` the column."),
}


@pytest.mark.parametrize("case", WAYS)
@pytest.mark.parametrize("policy", ["auto", "error"])
def test_only_ways_that_work_are_offered(case: str, policy: str) -> None:
    missing, choices = WAYS[case]
    with pytest.raises(MissingAnswersError) as caught:
        settle_missing(gaps(**missing), policy=policy, required=["sex"])  # type: ignore[arg-type]
    assert caught.value.render(COMMAND_LINE).endswith(f"). {choices}")
    remedies = caught.value.remedies
    named = [one.missing for one in remedies if one.missing]
    assert re.findall(r"--missing (\w+)", choices) == named
    for one in remedies:
        frame = gaps(**missing) if one.column is None else gaps(**missing).drop(columns=one.column)
        settle_missing(frame, policy=one.missing or "auto", required=["sex"])
        assert one.n_rows == max(missing.values())


def test_a_label_that_nobody_answered_has_no_way_out() -> None:
    with pytest.raises(InputError, match="Complete these columns"):
        settle_missing(gaps(sex=100), required=["sex"])


def test_columns_that_do_not_matter_may_be_missing() -> None:
    assert len(settle_missing(survey(60), columns=["age"]).frame) == 100


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InputError, match="must be one of 'auto'"):
        settle_missing(survey(1), policy="guess")  # type: ignore[arg-type]

# SPDX-License-Identifier: Apache-2.0
"""Tables prepared as P1's code does, against slow obvious twins."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from datasets import adult, census, digits
from epsilens.errors import InputError


def slow_adult(raw: pd.DataFrame) -> list[dict[str, int]]:
    """Prepare Adult person by person."""
    people = []
    for part in ("train", "test"):
        seen, kept = set(), []
        for person in raw[raw["file"] == part].to_dict("records"):
            del person["fnlwgt"], person["education"], person["file"]
            if tuple(person.values()) not in seen:
                seen.add(tuple(person.values()))
                kept.append(person)
        means = {
            name: sum(person[name] for person in kept) / len(kept)
            for name in ("age", "capital-gain", "capital-loss", "hours-per-week")
        }
        for person in kept:
            for name, mean in means.items():
                person[name] = 1 if person[name] >= mean else 0
        people += kept
    rows = []
    for person in people:
        work = person["workclass"]
        if work.endswith("-gov"):
            work = "Government"
        elif work.startswith("Self-emp"):
            work = "Self-Employed"
        elif work == "Private":
            work = "Privately-Employed"
        trade = person["occupation"]
        wed = person["marital-status"].startswith("Married")
        ones = {
            f"workclass_{work}",
            f"education-num_{person['education-num']}",
            f"marital-status_{'Married' if wed else 'Not-married'}",
            f"occupation_{'Protective-serv' if trade == 'Armed-Forces' else trade}",
            f"relationship_{person['relationship']}",
            f"native-country_{person['native-country']}",
        }
        rows.append(
            {
                "age": person["age"],
                "race": int(person["race"] == "White"),
                "sex": int(person["sex"] == "Male"),
                "capital-gain": person["capital-gain"],
                "capital-loss": person["capital-loss"],
                "hours-per-week": person["hours-per-week"],
                **{name: 1 for name in ones if not name.endswith("_?") and "Holand" not in name},
                "income": int(person["income"] == ">50K"),
            }
        )
    return rows


def test_adult_against_its_slow_twin(make_adult):
    raw = pd.concat(
        [make_adult(300, seed=0).assign(file="train"), make_adult(200, seed=1).assign(file="test")],
        ignore_index=True,
    )
    # The same answers twice in a file, and once in the other.
    raw = pd.concat([raw, raw.iloc[[0, 0]].assign(fnlwgt=1), raw.iloc[[0]].assign(file="test")])
    X, y = adult.as_p1(raw.reset_index(drop=True), shape=None)
    rows = slow_adult(raw)
    twin = pd.DataFrame(rows).fillna(0).astype(int)
    assert list(y.astype(int)) == list(twin.pop("income"))
    pd.testing.assert_frame_equal(X[sorted(X)], twin[sorted(twin)], check_dtype=False)
    assert list(y.cat.categories) == [0, 1]


def test_the_shape_of_the_paper_is_insisted_on(make_adult):
    raw = make_adult(50, seed=0).assign(file="train")
    with pytest.raises(InputError, match=r"44,355 rows × 88 columns once prepared, got \d+ × \d+"):
        adult.as_p1(raw)


def test_ordinary_adult_keeps_whole_answers_only(make_adult):
    X, y = adult.ordinary(make_adult(200, seed=0).assign(file="train"))
    assert not (X == "?").to_numpy().any()
    assert 0 < len(X) == len(y) < 200


def test_public_coverage_against_its_slow_twin():
    rng = np.random.default_rng(0)
    raw = pd.DataFrame(
        rng.integers(1, 7, (200, len(census._PUBCOV.columns))), columns=list(census._PUBCOV.columns)
    ).astype(float)
    raw.loc[rng.random(200) < 0.2, "ESR"] = np.nan
    raw = pd.concat([raw, raw.iloc[:30]], ignore_index=True)
    X, y = census.pubcov_as_p1(raw, shape=None)
    kept = list(dict.fromkeys(tuple(row) for row in raw.fillna(0).to_numpy().tolist()))
    people = [dict(zip(raw.columns, row, strict=True)) for row in kept]
    ages = [person["AGEP"] for person in people]
    pays = [person["PINCP"] for person in people]
    assert len(X) == len(people) == 200
    for row, answer, person in zip(X.to_dict("records"), y, people, strict=True):
        assert row == {
            "AGEP": int(person["AGEP"] >= sum(ages) / len(ages)),
            "MAR": int(person["MAR"] == 1),
            "SEX": int(person["SEX"] == 1),
            "DIS": int(person["DIS"] == 1),
            "CIT": int(person["CIT"] in (1, 3)),
            "PINCP": int(person["PINCP"] >= sum(pays) / len(pays)),
            "ESR": int(person["ESR"] in (1, 2, 4, 5)),
            "RAC1P": int(person["RAC1P"] == 1),
            "MIL": int(person["MIL"] in (1, 2, 3)),
            "NATIVITY": int(person["NATIVITY"] == 1),
        }
        assert answer == int(person["PUBCOV"] == 1)
    with pytest.raises(InputError, match="55,277 rows × 10 columns"):
        census.pubcov_as_p1(raw)


def test_four_digits_of_mnist():
    raw = {
        "x_train": np.full((5, 2, 2), 51, dtype=np.uint8),
        "y_train": np.array([0, 1, 3, 8, 9], dtype=np.uint8),
    }
    X, y = digits.as_p1(raw, "train")
    assert y.tolist() == [1, 3, 8]
    assert X.tolist() == [[0.2] * 4] * 3
    with pytest.raises(InputError, match="24,989 rows × 784"):
        digits.as_p1(raw, "train", shape=digits.P1_SHAPE)

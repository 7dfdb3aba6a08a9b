# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epsilens.data.encoding import build_encoder, category_columns, check_categories
from epsilens.data.schema import infer_schema
from epsilens.errors import InputError, InputTypeError


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [31.5, 42.0, 53.0, 64.5, 20.0, 20.0],
            "job": ["cook", "nurse", "clerk", "cook", "nurse", "cook"],
            "country": ["NL"] * 6,
            "sex": ["F", "M", "M", "F", "F", "F"],
            "member": [True, False, True, True, False, True],
        }
    )


def check_against_transform(encoder: object, frame: pd.DataFrame, columns: list[str]) -> None:
    """The slow obvious twin: encode every row and look where its categories went."""
    encoded = encoder.transform(frame)  # type: ignore[attr-defined]
    dense = np.asarray(encoded.todense() if hasattr(encoded, "todense") else encoded)
    found = category_columns(encoder)
    assert set(columns) == set(found)
    for column in columns:
        used = {index for index in found[column].values() if index is not None}
        for row, value in enumerate(frame[column].tolist()):
            expected = found[column][value]
            for index in used:
                assert dense[row, index] == (1.0 if index == expected else 0.0)


def test_the_default_encoder() -> None:
    frame = people()
    encoder = build_encoder(infer_schema(frame)).fit(frame)
    encoded = encoder.transform(frame)
    assert encoded.shape == (6, 5)
    assert encoder.get_feature_names_out().tolist() == [
        *("job_cook", "job_nurse", "sex_M", "member_True", "age")
    ]
    assert np.allclose(encoded[:, -1].mean(), 0)
    check_against_transform(encoder, frame, ["job", "sex", "member"])
    assert category_columns(encoder)["member"] == {False: None, True: 3}


def test_many_categories_make_it_sparse() -> None:
    words = [f"w{index}" for index in range(600)] * 2
    frame = pd.DataFrame({"word": words})
    assert hasattr(build_encoder(infer_schema(frame)).fit_transform(frame), "tocsr")


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
@pytest.mark.parametrize(
    "columns",
    [
        ["job", "sex"],
        [1, 3],
        np.array([False, True, False, True, False]),
        make_column_selector(pattern="job|sex"),
        slice("job", "job"),
        slice(3, 4),
        lambda frame: ["sex"],
    ],
)
def test_any_column_transformer_can_be_read(drop: str | None, columns: object) -> None:
    frame = people()
    encoder = ColumnTransformer(
        [("numbers", StandardScaler(), ["age"]), ("words", OneHotEncoder(drop=drop), columns)],
        remainder="drop",
    ).fit(frame)
    names = [name for name in ("job", "sex") if name in category_columns(encoder)]
    check_against_transform(encoder, frame, names)


def test_rare_categories_share_a_column_and_keep_their_order() -> None:
    frame = pd.DataFrame({"job": ["a"] * 9 + ["b"] * 9 + ["c"] * 2 + ["d"]})
    for drop in (None, "first", ["b"]):
        encoder = OneHotEncoder(min_frequency=5, drop=drop, sparse_output=False).fit(frame)
        check_against_transform(encoder, frame, ["job"])
        rare_first = frame.replace({"a": "d", "d": "a"})
        encoder = OneHotEncoder(min_frequency=5, drop=drop, sparse_output=False).fit(rare_first)
        check_against_transform(encoder, rare_first, ["job"])
    assert category_columns(OneHotEncoder(min_frequency=5).fit(frame))["job"] == {
        **{"a": 0, "b": 1, "c": 2, "d": 2}
    }


def test_pipelines_inside_and_around() -> None:
    frame = people()[["job", "sex"]]
    inner = ColumnTransformer(
        [("w", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["sex"])]
    ).fit(frame)
    check_against_transform(inner, frame, ["sex"])
    remainder = ColumnTransformer(
        [("w", OneHotEncoder(), ["sex"])], remainder=OneHotEncoder(drop="first")
    ).fit(frame)
    check_against_transform(remainder, frame, ["sex", "job"])


def test_what_is_no_fitted_encoder_is_refused() -> None:
    with pytest.raises(InputTypeError, match="must be fitted"):
        category_columns(OneHotEncoder())
    with pytest.raises(InputTypeError, match="got StandardScaler"):
        category_columns(StandardScaler())


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(InputError, match="got 0"):
        build_encoder(infer_schema(people()[["country"]]))


def test_unseen_categories_are_counted_not_named() -> None:
    schema = infer_schema(people())
    other = people().assign(job=["cook", "HIV", "cook", "HIV2", "cook", "cook"])
    with pytest.raises(InputError, match=r"'job' of the test data.*2 rows have 2 others") as caught:
        check_categories(schema, other)
    assert "HIV" not in str(caught.value)
    check_categories(schema, people())

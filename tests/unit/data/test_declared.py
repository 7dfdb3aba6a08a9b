# SPDX-License-Identifier: Apache-2.0
"""Domains that are declared by categories, by bins with bounds, or by the answer that counts as yes."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest

from epsilens.data import Bins, Prepared, declared_domains, prepare
from epsilens.errors import InputError, PrivacyLeakWarning

BINS = {"age": Bins(2, 0.0, 100.0)}


@pytest.fixture(scope="module")
def people() -> Prepared:
    n = 60
    return prepare(
        pd.DataFrame(
            {
                "age": [20.0 + row % 50 + 0.25 for row in range(n)],
                "sex": ["F", "M", "M"] * (n // 3),
                "children": [row % 4 for row in range(n)],
                "smokes": ["no", "yes"] * (n // 2),
            }
        ),
        label="smokes",
        bins=BINS,
    )


def test_nothing_is_declared(people: Prepared) -> None:
    assert declared_domains(people, ["smokes"], bins={}) is None


def test_a_feature_whose_domain_is_observed_is_warned_of(people: Prepared) -> None:
    with pytest.warns(PrivacyLeakWarning, match="the domain of 'sex' is taken from the observed"):
        assert declared_domains(people, ["sex"], bins={}) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert declared_domains(people, ["sex"], bins={}, warn=False) is None


def test_bins_with_bounds_declare(people: Prepared) -> None:
    assert declared_domains(people, ["age"], bins=BINS) == {"age": [25.0, 75.0]}
    with pytest.warns(PrivacyLeakWarning, match="'age'"):
        assert declared_domains(people, ["age"], bins={"age": Bins(2)}) is None


def test_an_answer_that_counts_as_yes_declares_the_label(people: Prepared) -> None:
    found = declared_domains(people, ["smokes"], bins={}, positive="yes")
    assert found == {"smokes": list(people.label_categories)}


def test_typed_answers_have_the_type_of_the_column(people: Prepared) -> None:
    typed = {"sex": ["F", "M", "X"], "children": ["0", "1", "2", "3", "4"]}
    assert declared_domains(people, ["sex", "children"], bins={}, categories=typed) == {
        "sex": ["F", "M", "X"],
        "children": [0.0, 1.0, 2.0, 3.0, 4.0],
    }
    with pytest.raises(InputError, match="`categories` of 'children' must be numbers"):
        declared_domains(people, ["children"], bins={}, categories={"children": ["none", "1"]})

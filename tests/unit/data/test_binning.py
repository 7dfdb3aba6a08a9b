# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from epsilens.data.binning import Bins, parse_bins
from epsilens.errors import InputError


def test_numbers_go_to_the_middle_of_their_bin() -> None:
    bins = Bins(5, low=0.0, high=10.0)
    values = np.array([-np.inf, -3.0, 0.0, 1.99, 2.0, 9.99, 10.0, 11.0, np.inf, np.nan])
    expected = [1.0, 1.0, 1.0, 1.0, 3.0, 9.0, 9.0, 9.0, 9.0, np.nan]
    np.testing.assert_array_equal(bins.apply(values), expected)


def test_bounds_come_from_the_data_only_if_none_are_given() -> None:
    assert Bins(2).bounded_by(np.array([1.0, np.nan, 3.0])) == Bins(2, 1.0, 3.0)
    given = Bins(2, 0.0, 100.0)
    assert given.bounded_by(np.array([1.0, 3.0])) is given
    with pytest.raises(InputError, match="two different numbers"):
        Bins(2).bounded_by(np.array([1.0, 1.0]))
    with pytest.raises(InputError, match="no bounds yet"):
        Bins(2).apply(np.array([1.0]))


def test_parsing() -> None:
    assert parse_bins("age=10") == ("age", Bins(10))
    assert parse_bins("capital-gain=-1:2.5:3") == ("capital-gain", Bins(3, -1.0, 2.5))
    assert parse_bins("a=b=4") == ("a=b", Bins(4))


@pytest.mark.parametrize("text", ["age", "age=", "=10", "age=ten", "age=1:2", "age=0:1:2:3"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="must look like COL=10"):
        parse_bins(text)


@pytest.mark.parametrize("text", ["age=1", "age=-3", "age=5:5:10", "age=9:1:10", "age=0:inf:2"])
def test_impossible_bins_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="`bins` must"):
        parse_bins(text)


def test_so_many_bins_are_refused_before_they_are_made() -> None:
    assert len(Bins(1000, 0.0, 1.0).midpoints) == 1000
    with pytest.raises(InputError, match="at most 1000, got 1000000000"):
        parse_bins("age=0:100:1000000000")


@pytest.mark.parametrize(
    "text", ["age=-1e308:1e308:3", "age=0:1e-323:9", "age=1e16:10000000000000004:9"]
)
def test_bounds_that_numbers_cannot_divide_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="too far apart or too close"):
        parse_bins(text)


def test_bounds_from_the_data_are_not_repeated_in_the_refusal() -> None:
    with pytest.raises(InputError, match="too far apart") as caught:
        Bins(3).bounded_by(np.array([-1.7e308, 1.7e308]))
    assert "1.7" not in str(caught.value)

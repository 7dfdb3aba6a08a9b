# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from epsilens import _validate
from epsilens.errors import InputError, InputTypeError, MissingExtraError

HUGE = 10**400  # a whole number that no float can hold


@pytest.mark.parametrize("given", [1, 1.0, np.float32(1.0), np.int64(1), Fraction(1)])
def test_any_real_number_is_a_budget(given):
    found = _validate.as_epsilon(given)
    assert found == 1.0
    assert type(found) is float


def test_infinity_is_a_budget_and_zero_only_where_it_is_allowed():
    assert _validate.as_epsilon(math.inf) == math.inf
    assert _validate.as_epsilon(np.float64("inf")) == math.inf
    assert _validate.as_epsilon(0, allow_zero=True) == 0.0
    with pytest.raises(InputError, match=r"`epsilon` must be greater than 0, got 0\.0\. Use"):
        _validate.as_epsilon(0)
    with pytest.raises(InputError, match=r"`tau` must be at least 0, got -1\.0"):
        _validate.as_epsilon(-1, name="tau", allow_zero=True)


def test_a_finite_number_is_never_taken_for_no_privacy():
    """As a float it would be infinite, and an infinite budget releases the truth."""
    with pytest.raises(InputError, match=r"`epsilon` must be a number that 64 bits can hold"):
        _validate.as_epsilon(HUGE)


CHECKS = {
    "as_epsilon": _validate.as_epsilon,
    "as_share": _validate.as_share,
    "as_unit": _validate.as_unit,
    "as_positive": _validate.as_positive,
    "as_finite": _validate.as_finite,
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("given", [True, np.bool_(True), "1", None, [1.0], 1j])
def test_what_is_no_number_is_named_by_its_type_alone(check, given):
    with pytest.raises(
        InputTypeError, match=rf"`it` must be a number.*, got {type(given).__name__}"
    ):
        check(given, name="it")


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("given", [math.nan, HUGE, -HUGE])
def test_no_number_is_too_large_for_one_clear_line(check, given):
    with pytest.raises(InputError, match=r"^`it` must .*, got"):
        check(given, name="it")


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        (_validate.as_share, [1e-9, 0.5], [0, 1, -0.1, math.inf]),
        (_validate.as_unit, [0, 0.5, 1], [-1e-9, 1.0000001, math.inf]),
        (_validate.as_positive, [5e-324, 1e308], [0, -1, math.inf]),
        (_validate.as_finite, [-1e308, 0, 3], [math.inf, -math.inf]),
    ],
)
def test_the_ends_of_a_range_are_in_it_or_not(check, inside, outside):
    for value in inside:
        assert check(value, name="it") == value
    for value in outside:
        with pytest.raises(InputError):
            check(value, name="it")


def test_a_count_is_a_whole_number():
    assert _validate.as_count(np.int32(3), name="n") == 3
    with pytest.raises(InputTypeError, match="`n` must be a whole number, got float"):
        _validate.as_count(3.0, name="n")
    with pytest.raises(InputError, match="`n` must be at least 2, got 1"):
        _validate.as_count(1, name="n", least=2)


def test_a_name_that_is_not_there_is_answered_with_what_was_meant():
    columns = ["age", "income"]
    assert _validate.require_column("age", columns, argument="drop") == "age"
    with pytest.raises(InputError, match=r"`drop` must name a column of the data.*'income'\?"):
        _validate.require_column("incone", columns, argument="drop")
    with pytest.raises(InputError, match=r"The columns are: age, income\.$"):
        _validate.require_column("zebra", columns, argument="drop")


@pytest.mark.parametrize(
    ("what", "one", "several"),
    [
        ("column", "column of the data", "columns"),
        ("protected column", "protected column", "protected columns"),
        ("group", "group of the result", "groups"),
    ],
)
def test_what_may_be_named_is_said(what, one, several):
    expected = f"`it` must name a {one}, got 'zebra'. The {several} are: a, b."
    with pytest.raises(InputError, match=re.escape(expected)):
        _validate.require_column("zebra", ["a", "b"], argument="it", what=what)


def test_codes_are_counted_and_never_shown():
    with pytest.raises(InputError, match="2 of 3 lie outside") as caught:
        _validate.as_codes([0, 7, -5], n_categories=3)
    assert "7" not in str(caught.value)
    assert _validate.as_codes([], n_categories=3).dtype == np.int64
    with pytest.raises(InputTypeError, match="got values of type float64"):
        _validate.as_codes([0.0], n_categories=3)


def test_a_channel_is_a_read_only_copy():
    given = np.eye(2)
    found = _validate.as_channel_matrix(given)
    given[0, 0] = 5.0
    assert found[0, 0] == 1.0
    assert not found.flags.writeable


def test_a_missing_extra_is_named_with_the_command_that_brings_it():
    with pytest.raises(MissingExtraError, match=r'Run: pip install "epsilens\[torch\]" or not$'):
        _validate.require_extra("torch", "this", "no_such_package", otherwise=" or not")

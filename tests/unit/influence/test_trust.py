from __future__ import annotations

import pytest

from epsilens.influence import is_trustworthy

GOOD = {"converged": True, "logit_noise": 0.1, "condition": 1e3}


def test_a_good_cell_is_trusted():
    assert is_trustworthy(**GOOD)


@pytest.mark.parametrize(
    "bad",
    [
        {"converged": False},
        {"logit_noise": 0.51},
        {"condition": 1e11},
        {"omitted": 0.02, "half_width": 0.01, "change": 0.05},
        {"wild_loss": 0.02, "half_width": 0.01, "change": 0.05},
    ],
)
def test_each_check_can_fail(bad):
    assert not is_trustworthy(**{**GOOD, **bad})


def test_an_omission_smaller_than_the_interval_is_borne():
    assert is_trustworthy(**GOOD, omitted=0.009, half_width=0.01, change=0.0)
    assert is_trustworthy(**GOOD, omitted=-0.009, half_width=0.0, change=0.1)

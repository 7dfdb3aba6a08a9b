from __future__ import annotations

import pytest
from scipy.stats import norm

from epsilens.influence import is_trustworthy
from epsilens.influence.evaluation import LARGEST_OMISSION

GOOD = {"converged": True, "logit_noise": 0.1, "condition": 1e3}


def test_a_good_cell_is_trusted():
    assert is_trustworthy(**GOOD)


@pytest.mark.parametrize(
    "bad",
    [
        {"converged": False},
        {"logit_noise": 0.51},
        {"condition": 1e11},
        {"omitted": 0.007, "half_width": 0.01},
        {"omitted": -0.007, "half_width": 0.01},
        {"undetermined_loss": 0.007, "half_width": 0.01},
    ],
)
def test_each_check_can_fail(bad):
    assert not is_trustworthy(**{**GOOD, **bad})


def test_an_omission_that_leaves_most_runs_in_the_interval_is_borne():
    assert is_trustworthy(**GOOD, omitted=0.005, half_width=0.01)
    assert is_trustworthy(**GOOD, omitted=-0.005, half_width=0.01)
    # A normal run around a centre that is off by 0.6 of the half-width of a 90 % interval.
    off = LARGEST_OMISSION * norm.ppf(0.95)
    assert norm.cdf(norm.ppf(0.95) - off) - norm.cdf(-norm.ppf(0.95) - off) > 0.74

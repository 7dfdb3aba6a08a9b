# SPDX-License-Identifier: Apache-2.0
"""How many canaries and runs an audit takes, and how often several runs err."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilens.audit import OneRunAudit, one_hot_directions
from epsilens.audit.plan import MARGIN, bound_without_noise, plan_audit
from epsilens.errors import InputError


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("level", [1e-4, 0.05])
def test_a_plan_finds_a_mechanism_without_noise(epsilon, delta, level):
    method = "approximate" if delta else "pure"
    plan = plan_audit(epsilon, delta, method=method, level=level)
    assert plan.n_each <= 1000
    assert plan.n_runs <= 100
    part_level = level ** (1.0 / plan.n_parts)
    n_canaries = plan.n_each * plan.runs_each
    reached = bound_without_noise(n_canaries, delta=delta, method=method, level=part_level)
    assert reached >= epsilon + MARGIN


@pytest.mark.parametrize(
    ("claim", "asked", "words"),
    [
        ((20.0, 1e-6), {}, "set `runs` above 100"),
        ((1.0, 0.1), {}, "ε = 0, and a claim of 1 needs 1.1. To make an audit, use a smaller δ"),
        ((8.0, 1e-6), {"n_each": 50}, "leave out `canaries`"),
        ((8.0, 1e-6), {"most_each": 20}, "set `runs` above 100"),
        ((1.0, 1e-5), {"n_each": 1000, "n_runs": 1}, "leave out `runs`"),
        ((1.0, 1e-5), {"method": "residual", "n_runs": 7}, "`runs` must be at most 6"),
        ((1.0, 1e-5), {"method": "pure"}, "at δ = 0"),
    ],
)
def test_what_no_plan_reaches_is_refused(claim, asked, words):
    with pytest.raises(InputError) as caught:
        plan_audit(*claim, **{"method": "approximate", "level": 1e-4} | asked)
    assert words in str(caught.value)


def test_more_runs_have_more_canaries():
    asked = {"method": "approximate", "level": 1e-4}
    few, many = (plan_audit(1.0, 1e-6, n_runs=n, **asked) for n in (2, 4))
    assert (few.n_each * few.runs_each, many.n_each * many.runs_each) == (1000, 2000)
    assert many.n_runs == 4


@pytest.mark.parametrize(("n_parts", "runs_each"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_several_runs_err_no_more_often_than_the_confidence_allows(n_parts, runs_each):
    """Randomised response with ε = 1 that publishes everything with probability δ."""
    rng = np.random.default_rng(n_parts + 10 * runs_each)

    def mechanism(rows):
        truth = rows.sum(axis=0)
        if rng.random() < 0.01:
            return truth
        return np.where(rng.random(truth.size) < 1.0 / (1.0 + math.e), 1.0 - truth, truth)

    audit = OneRunAudit(
        mechanism,
        canaries=one_hot_directions(10),
        claimed_epsilon=1.0,
        claimed_delta=0.01,
        confidence=0.8,
    )
    n = 400
    broken = sum(audit.run_parts(n_parts, runs_each).is_broken for _ in range(n))
    assert broken <= 0.2 * n + 3.0 * (0.2 * 0.8 * n) ** 0.5

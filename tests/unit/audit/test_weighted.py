# SPDX-License-Identifier: Apache-2.0
"""The weighted sum of guesses: its law against brute force, how often it errs, and what it gains."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.stats import binom

from epsilens.audit import Weighted, measure_coverage, one_run_bound
from epsilens.audit.weighted import _ends, _surely_refuted, sum_tail, weighted_bound, weighted_test
from epsilens.errors import InputError


@pytest.mark.parametrize("chance", [0.5, 0.731, 0.97])
def test_the_law_of_the_sum_is_that_of_all_outcomes(chance):
    values = [1, 1, 2, 5, 5, 7, 0, 3]
    tail = sum_tail(np.bincount(values), chance)
    slow = np.zeros(sum(values) + 1)
    for heads in itertools.product((0, 1), repeat=len(values)):
        total = sum(value * head for value, head in zip(values, heads, strict=True))
        odds = chance ** sum(heads) * (1 - chance) ** (len(values) - sum(heads))
        slow[: total + 1] += odds
    np.testing.assert_allclose(tail, slow, atol=1e-12)


def test_weights_fall_with_the_rank_and_keep_the_error():
    for epsilon in (0.0, 0.5, 2.0, 5.0):
        weights, threshold = weighted_test(1000, epsilon, n_canaries=1000, delta=1e-6, level=0.05)
        assert (np.diff(weights) <= 0).all()
        assert (weights[0], weights.min() >= 0) == (64, True)
        # Drawn as coins that keep ε with equality, the sum reaches its threshold as often as is allowed.
        rng = np.random.default_rng(0)
        chance = 1.0 / (1.0 + math.exp(-epsilon))
        sums = (rng.random((4000, 1000)) < chance) @ weights
        assert np.mean(sums >= threshold) <= 0.05 + 3.0 * math.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.parametrize("n_canaries", [7, 400, 5000])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_what_the_cheap_bound_refutes_the_exact_law_refutes(n_canaries, epsilon):
    asked = {"n_canaries": n_canaries, "delta": 1e-6, "level": 0.05}
    found = weighted_test(n_canaries, epsilon, **asked)
    if found is None:
        return
    weights, threshold = found
    ends = _ends(n_canaries, epsilon, **asked)
    np.testing.assert_array_equal(ends, [(weights >= w).sum() for w in range(1, 65)])
    left = 0.05 - n_canaries * 1e-6 / (1.0 + math.exp(epsilon))
    surely = [
        total
        for total in range(int(weights.sum()) + 1)[:: max(int(weights.sum()) // 200, 1)]
        if _surely_refuted(total, ends, epsilon, left=left)
    ]
    assert min(surely, default=threshold) >= threshold
    assert n_canaries == 7 or surely


def test_the_law_of_many_guesses_is_binomial():
    tail = sum_tail(np.array([0, 0, 100_000]), 0.731)
    exact = binom.sf(np.arange(0, 200_001, 2) // 2 - 1, 100_000, 0.731)
    np.testing.assert_allclose(tail[::2], exact, atol=1e-10)


def test_a_hundred_thousand_canaries_take_seconds():
    rng = np.random.default_rng(0)
    right = rng.random(100_000) < np.linspace(0.99, 0.5, 100_000)
    started = time.perf_counter()
    assert weighted_bound(right, n_canaries=100_000, delta=1e-8, level=0.05) > 3.0
    assert time.perf_counter() - started < 20.0  # 0.1 on an idle machine


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channels", "delta"),
    [("randomised-response", 0.0), ("leaky-response", 1e-5), ("gaussian", 1e-6)],
)
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_the_bound_is_above_the_truth_in_five_of_a_hundred_audits_at_most(channels, delta, epsilon):
    report = measure_coverage(
        channels, epsilon=epsilon, delta=delta, selection="weighted", n_audits=300, n_canaries=400
    )
    assert report.holds, report


@pytest.mark.filterwarnings("ignore:exactly half:epsilens.errors.ApproximationWarning")
def test_it_proves_more_than_one_number_of_guesses_where_scores_are_normal():
    weighted, path = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        included = rng.random(1000) < 0.5
        scores = 1.5 * included + rng.normal(size=1000)
        both = [
            one_run_bound(included, scores, delta=1e-6, selection=selection)
            for selection in (Weighted(), "path")
        ]
        weighted.append(both[0].epsilon_lower_bound)
        path.append(both[1].epsilon_lower_bound)
    assert np.mean(weighted) > 1.03 * np.mean(path)
    assert both[0].selection == "weighted"


def test_it_needs_pure_or_approximate_privacy():
    included = np.random.default_rng(0).random(200) < 0.5
    with pytest.raises(InputError, match="pure and approximate bounds only"):
        one_run_bound(included, 1.0 * included, delta=1e-6, method="f-dp", selection="weighted")
    # So large a δ that nothing can be refuted.
    assert weighted_bound(included, n_canaries=200, delta=0.9, level=0.05) == 0.0

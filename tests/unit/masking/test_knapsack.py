from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilens.errors import InputError
from epsilens.masking import (
    choose_mask,
    mask_at_random,
    mask_curve,
    mask_most_identifying,
    solve_mask,
)
from epsilens.masking.knapsack import ROUNDING

# Small whole numbers give many ties and limits that are met exactly; floats give none.
importances = st.one_of(
    st.integers(0, 6).map(float), st.floats(0, 1e3, allow_nan=False, allow_subnormal=False)
)
problems = st.lists(st.tuples(importances, importances), min_size=1, max_size=9)
levels = st.one_of(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.8, 1.0]), st.floats(0, 1))


def brute_force(u, s, alpha):
    """Return the largest utility within the limit, in rational arithmetic."""
    u, s = [Fraction(value) for value in u], [Fraction(value) for value in s]
    limit = (1 - Fraction(repr(alpha)) + ROUNDING) * sum(s)
    return max(
        sum(a for a, m in zip(u, mask, strict=True) if m)
        for mask in product((0, 1), repeat=len(u))
        if sum(b for b, m in zip(s, mask, strict=True) if m) <= limit
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problems, levels)
def test_no_choice_within_the_limit_is_better(problem, alpha):
    u, s = np.array(problem).T
    choice = solve_mask(u, s, alpha=alpha)
    kept = choice.kept
    assert choice.solver == "exact"
    limit = (1 - Fraction(repr(alpha)) + ROUNDING) * sum(map(Fraction, s))
    assert sum(map(Fraction, s[kept])) <= limit
    best = brute_force(u, s, alpha)
    # The solver's own gap is 1e-12 of the sum of utilities.
    assert sum(map(Fraction, u[kept])) >= best - Fraction(1, 10**11) * sum(map(Fraction, u))
    assert kept[s == 0].all()
    assert not kept[(u == 0) & (s > 0)].any()
    if u.sum() > 0:
        assert choice.utility_bound >= choice.utility_kept - 1e-9


def test_near_ties_are_told_apart():
    """Importances alike to eight digits, which a solver in floating point takes for equal."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        u, s = 1 + 1e-8 * rng.random((2, 8))
        choice = solve_mask(u, s, alpha=0.5)
        assert choice.solver == "exact"
        assert sum(map(Fraction, u[choice.kept])) == brute_force(u, s, 0.5)


def test_what_must_be_kept_counts():
    held = solve_mask([5, 4, 3], [4, 4, 2], alpha=0.4, keep=[False, True, False])
    assert held.kept.tolist() == [False, True, True]
    assert (held.privacy_kept, held.solver) == (0.6, "exact")
    # More than the limit by itself: nothing else that identifies stays.
    beyond = solve_mask([5, 4, 3, 0], [4, 4, 2, 0], alpha=0.9, keep=[False, True, False, False])
    assert beyond.kept.tolist() == [False, True, False, True]
    with pytest.raises(InputError, match="`keep` must be True or False for each of the 1"):
        solve_mask([1.0], [1.0], alpha=0.5, keep=[True, False])


def test_many_features_keep_the_limit_and_nothing_else_is_printed(capfd):
    rng = np.random.default_rng(0)
    u = rng.exponential(size=300)
    s = u + 0.1 * rng.random(300)  # nearly alike: the hard kind, at which HiGHS talks
    choice = solve_mask(u, s, alpha=0.3)
    assert choice.solver == "exact"
    assert choice.privacy_kept <= 0.7 + 1e-12
    assert choice.utility_kept <= choice.utility_bound + 1e-12
    assert choice.utility_bound - choice.utility_kept < 1e-3  # 300 small pieces fill a sack well
    assert capfd.readouterr().out == ""


def test_out_of_time_the_best_so_far_is_used_and_said():
    rng = np.random.default_rng(0)
    u = rng.exponential(size=2000)
    choice = solve_mask(u, u + 0.1 * rng.random(2000), alpha=0.3, seconds=1e-3)
    assert choice.solver == "greedy"
    assert choice.privacy_kept <= 0.7 + 1e-12
    assert choice.utility_kept > choice.utility_bound - 0.01


def test_the_ends_of_alpha():
    assert choose_mask([1.0, 2.0], [3.0, 1.0], alpha=0).all()
    assert choose_mask([1.0, 2.0], [0.0, 1.0], alpha=1).tolist() == [True, False]
    assert choose_mask([1.0, 2.0], [0.0, 0.0], alpha=1).all()
    # Negative importances speak against the class and count as none.
    assert choose_mask([1.0, -2.0], [-1.0, 1.0], alpha=0.5).tolist() == [True, False]
    kept = [choice.utility_kept for choice in mask_curve([3, 2, 1], [1, 2, 3])]
    assert kept == sorted(kept, reverse=True)


@pytest.mark.parametrize(
    ("utility", "privacy", "alpha", "words"),
    [
        ([1.0, np.nan], [1.0, 1.0], 0.2, "`utility` must be finite, but 1 of 2"),
        ([1.0, 1.0], [1.0, np.inf], 0.2, "`privacy` must be finite"),
        ([1.0], [1.0, 2.0], 0.2, "got 1 and 2"),
        ([], [], 0.2, "one number for every feature"),
        (["a"], [1.0], 0.2, "values that are no numbers"),
        ([1.0], [1.0], 1.5, "`alpha` must lie from 0 to 1, got 1.5"),
        ([1.0], [1.0], float("nan"), "`alpha` must lie from 0 to 1"),
        ([1.0], [1.0], "much", "`alpha` must be a number"),
    ],
)
def test_bad_problems_are_refused(utility, privacy, alpha, words):
    with pytest.raises(InputError, match=words):
        choose_mask(utility, privacy, alpha=alpha)


def test_plain_masks():
    assert mask_most_identifying([0.0, 3.0, 1.0, 2.0], share=0.5).tolist() == [1, 0, 1, 0]
    assert mask_most_identifying([0.0, 0.0], share=1.0).all()
    drawn = mask_at_random(50, n_masked=20, random_state=1)
    assert drawn.sum() == 30
    assert (drawn != mask_at_random(50, n_masked=20, random_state=2)).any()
    held = np.arange(50) < 25
    assert mask_at_random(50, n_masked=20, random_state=1, keep=held)[held].all()
    with pytest.raises(InputError, match="at most the number of features that may go, 5"):
        mask_at_random(5, n_masked=6)
    with pytest.raises(InputError, match="that may go, 25, got 26"):
        mask_at_random(50, n_masked=26, keep=held)

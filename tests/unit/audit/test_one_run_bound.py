"""The public door of the bounds: choices, refusals, words."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

from epsilens.audit import (
    AsPrinted,
    Bonferroni,
    Fixed,
    Path,
    Split,
    one_run_bound,
)
from epsilens.audit.bound import as_selection
from epsilens.audit.coins import own_stream
from epsilens.audit.inputs import make_guesses
from epsilens.audit.pure import pure_p_value
from epsilens.channels import RandomizedResponse
from epsilens.errors import ApproximationWarning, InputError, InputTypeError


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(3)
    included = rng.random(1000) < 0.5
    return included, included + rng.normal(0.0, 0.4, 1000)


def test_defaults_follow_delta(audit):
    pure = one_run_bound(*audit)
    assert (pure.method, pure.selection, pure.delta) == ("pure", "path", 0.0)
    approximate = one_run_bound(*audit, delta=1e-6)
    assert (approximate.method, approximate.selection) == ("approximate", "path")
    assert approximate.epsilon_lower_bound <= pure.epsilon_lower_bound
    assert one_run_bound(*audit, delta=1e-6, method="f-dp").assumptions == ["gaussian trade-off"]


@pytest.mark.parametrize("method", ["pure", "approximate", "f-dp", "independent-gdp"])
@pytest.mark.parametrize("selection", ["bonferroni", "split", 100, Bonferroni(n_counts=2)])
def test_every_method_takes_every_honest_choice(audit, method, selection):
    if method == "independent-gdp" and selection == "bonferroni":
        selection = Bonferroni(n_counts=2, smallest=0.05, largest=0.2)
    delta = 0.0 if method == "pure" else 1e-6
    found = one_run_bound(*audit, delta=delta, method=method, selection=selection)
    assert found.is_confidence_bound
    assert 0.5 < found.epsilon_lower_bound < 40.0
    assert found.n_correct <= found.n_guesses <= found.n_canaries == 1000


@pytest.mark.parametrize("method", ["pure", "approximate", "f-dp"])
def test_each_of_several_counts_has_its_share_of_the_error(audit, method):
    several = Bonferroni(n_counts=4, smallest=0.05, largest=0.4)
    question = {"delta": 0.0 if method == "pure" else 1e-6, "method": method}
    counts = several.counts(1000).tolist()
    assert len(counts) == 4
    alone = [
        one_run_bound(
            *audit, **question, selection=count, confidence=1 - 0.05 / 4
        ).epsilon_lower_bound
        for count in counts
    ]
    found = one_run_bound(*audit, **question, selection=several)
    assert found.epsilon_lower_bound == pytest.approx(max(alone), abs=1e-9)
    assert found.n_guesses == 2 * counts[int(np.argmax(alone))]


def test_a_split_tests_on_canaries_that_had_no_say(audit):
    included, scores = audit
    found = one_run_bound(included, scores, selection=Split(fraction=0.3, seed=1))
    tested = own_stream(1, purpose="parts").random(1000) >= 0.3
    alone = one_run_bound(included[tested], scores[tested], selection=found.n_guesses // 2)
    assert found.epsilon_lower_bound == alone.epsilon_lower_bound
    turned = np.where(tested, -scores, scores)
    again = one_run_bound(included, turned, selection=Split(fraction=0.3, seed=1))
    assert (again.n_guesses, again.epsilon_lower_bound) == (found.n_guesses, 0.0)


def test_as_printed_says_that_it_is_no_bound(audit):
    printed = one_run_bound(*audit, selection="as_printed")
    assert not printed.is_confidence_bound
    for honest in ("path", "bonferroni", 100):
        assert one_run_bound(*audit, selection=honest).epsilon_lower_bound <= (
            printed.epsilon_lower_bound
        )


def test_an_int_fixes_the_guesses_on_each_side(audit):
    found = one_run_bound(*audit, selection=100)
    assert (found.n_guesses, found.selection) == (200, "100")
    assert one_run_bound(*audit, selection=Fixed(100)) == found
    assert one_run_bound(*audit, selection=np.int64(100)) == found


def test_zeros_and_ones_are_coins(audit):
    included, scores = audit
    for kind in (np.int64, np.uint8):
        assert one_run_bound(included.astype(kind), scores) == one_run_bound(included, scores)
    assert one_run_bound(included.astype(int).tolist(), scores) == one_run_bound(included, scores)


@pytest.mark.parametrize("seed", [5, 6, 8])  # where another look is best by Bonferroni
def test_the_guesses_of_the_path_are_those_of_its_smallest_p_value(seed):
    rng = np.random.default_rng(seed)
    included = rng.random(1000) < 0.5
    scores = included + rng.normal(0.0, 1.0, 1000)
    found = one_run_bound(included, scores)
    counts = Path().counts(1000)
    right = make_guesses(included, scores).n_correct(counts)
    p_values = pure_p_value(right, 2 * counts, found.epsilon_lower_bound)
    own = pure_p_value(found.n_correct, found.n_guesses, found.epsilon_lower_bound)
    assert own == p_values.min()


def test_scores_count_by_their_order_alone(audit):
    included, scores = audit
    assert one_run_bound(included, np.exp(scores)) == one_run_bound(included, scores)


def test_more_confidence_proves_less(audit):
    bounds = [
        one_run_bound(*audit, confidence=level).epsilon_lower_bound for level in (0.5, 0.9, 0.999)
    ]
    assert bounds == sorted(bounds, reverse=True)


def test_a_search_that_starts_late_is_among_the_conditions(audit):
    included, scores = audit
    usual = one_run_bound(included, scores, delta=1e-6)
    assert len(usual.conditions) == 2
    sure = one_run_bound(included, scores, delta=1e-6, confidence=0.9999)
    assert sure.epsilon_lower_bound > 2.31
    assert sure.conditions[:2] == usual.conditions
    assert sure.conditions[2].startswith("the search for the bound starts at ε = 2.31")
    other = one_run_bound(included, scores, delta=1e-6, confidence=0.9999, selection=100)
    assert other.conditions == usual.conditions
    most = one_run_bound(included, scores, delta=1 - 1e-9, confidence=1 - 1e-9)
    assert (most.epsilon_lower_bound, len(most.conditions)) == (0.0, 3)


def test_equal_scores_are_not_ordered_by_position():
    # Sorted by inclusion and all scores equal: nothing is known, so nothing must be proved.
    included = np.arange(1000) < 497
    assert one_run_bound(included, np.zeros(1000)).epsilon_lower_bound == 0.0


def test_guesses_take_turns_from_both_ends():
    included = np.array([True, False, True, False, True])
    guesses = make_guesses(included, np.array([5.0, 1.0, 4.0, 2.0, 3.0]))
    assert guesses.right.tolist() == [True, True, True, True]
    assert guesses.n_canaries == 5
    assert guesses.n_correct(np.array([1, 2])).tolist() == [2, 4]


def test_infinite_scores_are_the_surest(audit):
    included, _ = audit
    certain = np.where(included, np.inf, -np.inf)
    assert one_run_bound(included, certain).epsilon_lower_bound > 5.0


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        (([0, 2], [0.0, 1.0]), {}, "True and False, or 1 and 0"),
        (([-1, 1], [0.0, 1.0]), {}, "True and False, or 1 and 0"),
        (([0.0, 1.0], [0.0, 1.0]), {}, "True and False"),
        (([[True], [True, False]], [0.0, 1.0]), {}, "one entry per canary"),
        (([], []), {}, "`included` must have at least 2 canaries, got 0"),
        (([True, False], [0.0]), {}, "same length"),
        (([True], [0.0]), {}, "at least 2"),
        (([True, False], ["a", "b"]), {}, "array of numbers"),
        (([True, False], ["1", "2"]), {}, "array of numbers"),
        (([True, False], [10**400, 1]), {}, "`scores` must fit into double precision"),
        (
            ([True, False], np.ma.array([0.0, 1.0], mask=[True, False])),
            {},
            "`scores` must have an entry for every canary, got a masked array",
        ),
        (
            (np.ma.array([True, False], mask=[True, False]), [0.0, 1.0]),
            {},
            "`included` must have an entry for every canary, got a masked array",
        ),
        (([True, False], [1j, 2.0]), {}, "array of numbers, got values of type complex"),
        (([True, False], [[1.0], [1.0, 2.0]]), {}, "array of numbers"),
        (
            ([True, False], [0.0, 1.0]),
            {"method": "pure", "delta": 1e-6},
            "Use method 'approximate'",
        ),
        (([True, False], [0.0, np.nan]), {}, "1 of 2 are NaN"),
        (([True, False], [0.0, 1.0]), {"delta": 1.0}, "below 1"),
        (([True, False], [0.0, 1.0]), {"delta": "x"}, "`delta` must be a number"),
        (([True, False], [0.0, 1.0]), {"confidence": 1.0}, "between 0 and 1"),
        (([True, False], [0.0, 1.0]), {"confidence": 1 - 1e-17}, "Use for instance 0.95"),
        (([True, False], [0.0, 1.0]), {"confidence": 1 - 1e-15}, "1e-09 away from both"),
        (([True, False], [0.0, 1.0]), {"confidence": 1e-17}, "1e-09 away from both"),
        (([True, False], [0.0, 1.0]), {"confidence": "high"}, "`confidence` must be a number"),
        (([True, False], [0.0, 1.0]), {"method": "guess"}, "one of 'pure'"),
        (([True, False], [0.0, 1.0]), {"method": "f-dp"}, "greater than 0 for method 'f-dp'"),
        (([True, False], [0.0, 1.0]), {"selection": "best"}, "one of 'path'"),
        (([True, False], [0.0, 1.0]), {"selection": 2}, "at most half"),
        (([True, False], [0.0, 1.0]), {"selection": 0}, "at least 1"),
        (([True, False], [0.0, 1.0]), {"selection": 0.5}, "whole number of guesses"),
        (([True, False], [0.0, 1.0]), {"selection": "split"}, "both parts"),
    ],
)
def test_bad_input_is_refused_in_a_line(arguments, settings, words):
    with pytest.raises(InputError, match=words):
        one_run_bound(*arguments, **settings)


def test_the_path_is_refused_where_it_is_not_proved(audit):
    with pytest.raises(InputError, match="proved for pure and approximate"):
        one_run_bound(*audit, delta=1e-6, method="f-dp", selection="path")


def test_coins_that_cannot_be_fair_are_refused():
    with pytest.raises(InputError, match="fair coins"):
        one_run_bound(np.ones(100, dtype=bool), np.zeros(100))


def test_exactly_half_is_said():
    included = np.arange(1000) % 2 == 0
    with pytest.warns(ApproximationWarning, match="exactly half of the 1000 canaries"):
        one_run_bound(included, included * 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one_run_bound(np.arange(1000) < 501, np.zeros(1000))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_exactly_half_breaks_the_theory(epsilon):
    """Two canaries, each bit reported by randomised response: ε-private in each, all outcomes enumerated.

    Independent coins: given any output, a guess is right with at most q = e^ε/(1 + e^ε), both with q².
    With exactly one of the two in, what is said of one canary is said of the other as well.
    """
    report = RandomizedResponse(2, epsilon).matrix
    q = report[1, 1]

    def both_right(worlds):
        """For each output, how sure the better guess about both canaries is."""
        return [
            max(report[s, o1] * report[t, o2] for s, t in worlds)
            / sum(report[s, o1] * report[t, o2] for s, t in worlds)
            for o1, o2 in itertools.product((0, 1), repeat=2)
        ]

    assert max(both_right(list(itertools.product((0, 1), repeat=2)))) <= q**2 + 1e-12
    fixed = both_right([(1, 0), (0, 1)])
    odds = math.exp(2 * epsilon)
    assert max(fixed) == pytest.approx(odds / (1 + odds))
    assert max(fixed) > q > q**2


def test_strategies_check_themselves():
    assert as_selection("path") == Path()
    assert Bonferroni(n_counts=1, smallest=0.1, largest=0.1).counts(1000).tolist() == [100]
    assert AsPrinted().counts(5000).size == 500
    assert Path().counts(3).tolist() == [1]
    for wrong in ({"smallest": 0.0}, {"largest": 0.6}, {"smallest": 0.4, "largest": 0.3}):
        with pytest.raises(InputError, match="shares of the canaries"):
            Path(**wrong)
    with pytest.raises(InputError, match="fraction"):
        Split(fraction=1.0)
    with pytest.raises(InputTypeError, match="n_each_side"):
        Fixed(1.5)

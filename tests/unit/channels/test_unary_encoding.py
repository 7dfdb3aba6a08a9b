# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from epsilens.channels import RandomizedResponse, UnaryEncoding
from epsilens.channels.draw import WORD_RANGE, generator_words, operating_system_words
from epsilens.channels.unary_encoding import UnaryKind, bit_masses, optimal_threshold
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning

# Operating-system draws cannot be seeded: tests on them raise a false alarm once in a million.
FALSE_ALARM_RATE = 1e-6
KINDS: list[UnaryKind] = ["oue", "rappor", "the"]


def exponential_lower_bound(epsilon: float) -> Fraction:
    """A bound on e^epsilon from the Taylor series in rational numbers, no library involved."""
    x = Fraction(epsilon)
    term = total = Fraction(1)
    # Any number of terms bounds from below; tiny epsilons need few, and have long denominators.
    for n in range(1, 260 if epsilon >= 0.001 else 4):
        term = term * x / n
        total += term
    return total


def listed_words(*words: int) -> Callable[[int], NDArray[np.uint64]]:
    """A source that gives out the listed words in order."""
    left = list(words)

    def source(n: int) -> NDArray[np.uint64]:
        taken, left[:] = left[:n], left[n:]
        assert len(taken) == n
        return np.array(taken, dtype=np.uint64)

    return source


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 10.0, 20.0])
def test_probabilities_are_the_textbook_ones(epsilon: float) -> None:
    oue, rappor, the = (UnaryEncoding(3, epsilon, kind=kind) for kind in KINDS)
    assert oue.p == 0.5
    assert oue.q == pytest.approx(1 / (math.exp(epsilon) + 1), rel=1e-9)
    assert rappor.p == pytest.approx(math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1), rel=1e-14)
    assert rappor.p + rappor.q == pytest.approx(1.0, rel=1e-15)
    theta = the.threshold
    assert theta is not None
    assert the.p == pytest.approx(1 - math.exp(epsilon * (theta - 1) / 2) / 2, rel=1e-13)
    assert the.q == pytest.approx(math.exp(-epsilon * theta / 2) / 2, rel=1e-13)
    assert oue.threshold is None
    assert rappor.threshold is None


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 5.0, 20.0, 40.0])
def test_threshold_minimises_the_variance(epsilon: float) -> None:
    def variance_of_a_rare_answer(theta: float) -> float:
        p = 1 - math.exp(epsilon * (theta - 1) / 2) / 2
        q = math.exp(-epsilon * theta / 2) / 2
        return q * (1 - q) / (p - q) ** 2

    found = optimize.minimize_scalar(
        variance_of_a_rare_answer, bounds=(0.5, 1.0), method="bounded", options={"xatol": 1e-10}
    )
    # A minimum can be found to the root of the machine precision only, more roughly if it is flat.
    assert optimal_threshold(epsilon) == pytest.approx(found.x, abs=1e-6)


def test_threshold_is_that_of_laplace_noise() -> None:
    # Seeded: 200 000 noisy bits of each sort, 5 standard errors of at most 0.0011.
    encoding, generator = UnaryEncoding(2, 1.5, kind="the"), np.random.default_rng(1)
    noise = generator.laplace(scale=2 / 1.5, size=(2, 200_000))
    assert (1 + noise[0] > encoding.threshold).mean() == pytest.approx(encoding.p, abs=5 * 0.0011)
    assert (noise[1] > encoding.threshold).mean() == pytest.approx(encoding.q, abs=5 * 0.0011)


def test_threshold_ends() -> None:
    assert optimal_threshold(math.inf) == 1.0
    assert optimal_threshold(1e-12) == pytest.approx(0.5, rel=1e-10)
    assert optimal_threshold(700.0) == pytest.approx(1 - 2 * math.log(1.5) / 700, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "epsilon", [5e-324, 1e-300, 1e-19, 1e-12, 0.001, 0.1, 1.0, math.pi, 10.0, 30.0, 39.9, 40.0]
)
def test_realised_ratio_never_exceeds_epsilon(epsilon: float, kind: UnaryKind) -> None:
    yes, no = bit_masses(kind, epsilon)
    p, q = Fraction(yes, WORD_RANGE), Fraction(no, WORD_RANGE)
    assert 0 < q <= p < 1
    assert p * (1 - q) <= exponential_lower_bound(epsilon) * q * (1 - p)
    assert UnaryEncoding(2, epsilon, kind=kind).effective_epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [0.001, 1.0, 10.0, 30.0, 40.0])
def test_masses_are_not_more_private_than_they_need_be(epsilon: float) -> None:
    below = exponential_lower_bound(epsilon)
    above = below * (1 + Fraction(1, 10**50))
    for kind in ("oue", "rappor"):
        yes, no = bit_masses(kind, epsilon)
        more_yes = yes + (kind == "rappor")
        ratio = Fraction(more_yes * (WORD_RANGE - no + 1), (no - 1) * (WORD_RANGE - more_yes))
        assert ratio > above


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
def test_thresholded_bits_are_rounded_towards_privacy(epsilon: float) -> None:
    # At powers of two the distances to the threshold are found again without rounding error.
    y = epsilon * optimal_threshold(epsilon) / 2
    yes, no = bit_masses("the", epsilon)
    for mass, distance in ((no, y), (WORD_RANGE - yes, epsilon / 2 - y)):
        twice = 2 * exponential_lower_bound(distance)
        assert (mass - 1) * twice < WORD_RANGE <= mass * twice


def test_rounding_to_nearest_would_break_the_promise() -> None:
    nearest = round(WORD_RANGE / (exponential_lower_bound(40.0) + 1))
    assert Fraction(WORD_RANGE - nearest, nearest) > exponential_lower_bound(40.0) * (
        1 + Fraction(1, 10**50)
    )


def test_effective_epsilon_says_what_the_bits_show() -> None:
    assert UnaryEncoding(3, 2.0, kind="oue").effective_epsilon == pytest.approx(2.0, rel=1e-14)
    assert UnaryEncoding(3, 2.0, kind="rappor").effective_epsilon == pytest.approx(2.0, rel=1e-14)
    the = UnaryEncoding(3, 2.0, kind="the")
    by_hand = math.log(the.p * (1 - the.q) / (the.q * (1 - the.p)))
    assert the.effective_epsilon == pytest.approx(by_hand, rel=1e-14)
    assert the.effective_epsilon < 1.7


@pytest.mark.parametrize(
    ("kind", "p"), [("oue", 0.5), ("rappor", 1.0), ("the", pytest.approx(2 / 3, rel=1e-15))]
)
def test_infinite_epsilon_has_no_false_yes(kind: UnaryKind, p: float) -> None:
    encoding = UnaryEncoding(3, math.inf, kind=kind)
    assert (encoding.p, encoding.q, encoding.effective_epsilon) == (p, 0.0, math.inf)
    # The probabilities approach their values at infinity.
    assert UnaryEncoding(3, 40.0, kind=kind).p == pytest.approx(encoding.p, rel=1e-8)
    codes = np.arange(900) % 3
    bits = encoding.perturb(codes)
    truth = np.eye(3, dtype=bool)[codes]
    assert not (bits & ~truth).any()
    # Some true bit of 900 is reported, unless with probability 2^-900.
    assert (bits & truth).any()
    if kind == "rappor":
        np.testing.assert_array_equal(bits, truth)


def test_bits_turn_exactly_at_their_masses() -> None:
    encoding = UnaryEncoding(3, 1.0, kind="rappor")
    yes, no = bit_masses("rappor", 1.0)
    words = listed_words(no - 1, yes - 1, no, no, yes, 0)
    bits = encoding.draw(np.array([1, 1]), words)
    assert bits.astype(int).tolist() == [[1, 1, 0], [0, 0, 1]]


def test_draws_cross_the_border_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilens.channels.unary_encoding.WORDS_AT_ONCE", 7)
    codes = np.arange(50).reshape(10, 5) % 3
    for k in (3, 12):
        encoding = UnaryEncoding(k, math.inf, kind="rappor")
        bits = encoding.draw(codes, operating_system_words)
        np.testing.assert_array_equal(bits, np.eye(k, dtype=bool)[codes])


@pytest.mark.parametrize("shape", [(0,), (5,), (2, 3), ()])
def test_shape_of_the_bits(shape: tuple[int, ...]) -> None:
    bits = UnaryEncoding(4, 1.0).perturb(np.zeros(shape, dtype=np.uint8))
    assert (bits.shape, bits.dtype) == ((*shape, 4), np.bool_)


@pytest.mark.parametrize("kind", KINDS)
def test_release_has_the_right_law(kind: UnaryKind) -> None:
    # All eight patterns of three bits: the bits are independent, with the expected shares.
    encoding, n_draws = UnaryEncoding(3, 1.0, kind=kind), 50_000
    for truth, expected in enumerate(encoding.expected()):
        bits = encoding.perturb(np.full(n_draws, truth))
        counts = np.bincount(bits @ np.array([4, 2, 1]), minlength=8)
        law = [
            math.prod(
                share if bit else 1 - share for bit, share in zip(pattern, expected, strict=True)
            )
            for pattern in itertools.product((0, 1), repeat=3)
        ]
        assert stats.chisquare(counts, n_draws * np.array(law)).pvalue > FALSE_ALARM_RATE / 9


def audited_epsilon(bits_of_0: NDArray[np.bool_], bits_of_1: NDArray[np.bool_]) -> float:
    """Lower bound on epsilon from released bits: Clopper-Pearson at 99.9999 % for all patterns."""
    patterns_of_0, patterns_of_1 = (bits @ np.array([2, 1]) for bits in (bits_of_0, bits_of_1))
    alpha, bounds = FALSE_ALARM_RATE / 16, []
    for pattern, first in itertools.product(range(4), (True, False)):
        likely, unlikely = (
            (patterns_of_0, patterns_of_1) if first else (patterns_of_1, patterns_of_0)
        )
        often, seldom = int((likely == pattern).sum()), int((unlikely == pattern).sum())
        low = stats.beta.ppf(alpha, often, likely.size - often + 1) if often else 0.0
        high = stats.beta.ppf(1 - alpha, seldom + 1, unlikely.size - seldom)
        bounds.append(math.log(low / high) if low > 0 else -math.inf)
    return max(bounds)


def audit(encoding: UnaryEncoding, n_draws: int = 200_000) -> float:
    bits = [encoding.perturb(np.full(n_draws, truth)) for truth in (0, 1)]
    return audited_epsilon(bits[0], bits[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_audit_of_the_release_stays_below_epsilon(epsilon: float, kind: UnaryKind) -> None:
    encoding = UnaryEncoding(2, epsilon, kind=kind)
    audited = audit(encoding)
    assert audited <= encoding.effective_epsilon <= epsilon
    # The audit is no empty gesture: it proves nearly all of what the bits show.
    assert audited > encoding.effective_epsilon - 0.2


def test_audit_catches_a_broken_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    # A common slip: each bit at the whole epsilon, though two bits differ between answers.
    masses = bit_masses("rappor", 2.0)
    monkeypatch.setattr("epsilens.channels.unary_encoding.bit_masses", lambda *_: masses)
    assert audit(UnaryEncoding(2, 1.0, kind="rappor")) > 1.0


def test_expected_bits() -> None:
    encoding = UnaryEncoding(3, 1.0, kind="the")
    expected = encoding.expected()
    np.testing.assert_array_equal(np.diag(expected), encoding.p)
    np.testing.assert_array_equal(expected[~np.eye(3, dtype=bool)], encoding.q)


@pytest.mark.parametrize("kind", KINDS)
def test_frequencies_and_their_covariance_match_many_draws(kind: UnaryKind) -> None:
    encoding, n_repeats = UnaryEncoding(3, 1.0, kind=kind), 3000
    codes, truth = np.repeat([0, 1, 2], [120, 60, 20]), np.array([0.6, 0.3, 0.1])
    words = generator_words(np.random.default_rng(0))
    counts = encoding.draw(np.tile(codes, (n_repeats, 1)), words).sum(axis=1)
    answers = [encoding.estimate_frequencies(row, 200) for row in counts]
    estimates = np.stack([pi for pi, _ in answers])
    covariance = np.mean([covariance for _, covariance in answers], axis=0)

    standard_error = estimates.std(axis=0) / math.sqrt(n_repeats)
    assert (np.abs(estimates.mean(axis=0) - truth) < 5 * standard_error).all()
    # A variance over 3000 draws has a relative standard error of sqrt(2/3000) = 2.6 %.
    drawn = np.cov(estimates.T)
    scale = np.sqrt(np.outer(np.diag(drawn), np.diag(drawn)))
    assert (np.abs(covariance - drawn) < 5 * 0.026 * scale).all()


def test_covariance_is_the_formula() -> None:
    encoding = UnaryEncoding(3, 1.0, kind="the")
    p, q = encoding.p, encoding.q
    pi, covariance = encoding.estimate_frequencies([50, 40, 45], 100)
    np.testing.assert_allclose(pi, (np.array([0.5, 0.4, 0.45]) - q) / (p - q), rtol=1e-12)
    variance = (pi * p * (1 - p) + (1 - pi) * q * (1 - q)) / (100 * (p - q) ** 2)
    np.testing.assert_allclose(covariance, np.diag(variance), rtol=1e-12)


def test_two_answers_of_rappor_are_as_good_as_theory_says() -> None:
    # For k = 2 half of epsilon is spent on each bit, so each share is known worse than from one
    # randomised response.
    _, unary = UnaryEncoding(2, 1.0, kind="rappor").estimate_frequencies([50, 50], 100)
    _, response = RandomizedResponse(2, 1.0).estimate_frequencies([50, 50])
    _, half = RandomizedResponse(2, 0.5).estimate_frequencies([50, 50])
    assert unary[0, 0] > response[0, 0]
    assert unary[0, 0] == pytest.approx(half[0, 0], rel=1e-12)


def test_true_bits_have_no_uncertainty() -> None:
    encoding = UnaryEncoding(3, math.inf, kind="rappor")
    pi, covariance = encoding.estimate_frequencies([1, 2, 1], 4)
    np.testing.assert_array_equal(pi, [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(covariance, 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_cannot_be_undone(kind: UnaryKind) -> None:
    with pytest.raises(InputError, match="pure noise"):
        UnaryEncoding(2, 1e-25, kind=kind).estimate_frequencies([3, 4], 7)


@pytest.mark.parametrize(
    ("counts", "n", "words"),
    [
        ([1, 2], 5, r"one entry per bit \(3\)"),
        ([1, -2, 3], 5, r"between 0 and the number of reports `n` \(5\)"),
        ([1, 6, 3], 5, "got entries that do not"),
        ([1, math.nan, 3], 5, "got entries that do not"),
        (["a", "b", "c"], 5, "must be numbers"),
        ([1, 2, 3], 0, "`n` must be at least 1, got 0"),
        ([1, 2, 3], 5.5, "`n` must be a whole number"),
    ],
)
def test_bad_counts_are_refused(counts: list[object], n: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        UnaryEncoding(3, 1.0).estimate_frequencies(counts, n)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 1}, "`k` must be at least 2, got 1"),
        ({"k": 2.5}, "`k` must be a whole number"),
        ({"epsilon": 0.0}, r"`epsilon` must be greater than 0, got 0\.0"),
        ({"epsilon": -1.0}, "greater than 0"),
        ({"epsilon": math.nan}, "got nan"),
        ({"epsilon": 40.1}, r"at most 40 or infinite, got 40\.1"),
        ({"kind": "sue"}, "`kind` must be one of 'oue', 'rappor', 'the', got 'sue'"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        UnaryEncoding(**{"k": 3, "epsilon": 1.0, **arguments})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_codes_are_checked() -> None:
    with pytest.raises(InputError, match="but 1 of 2 lie outside"):
        UnaryEncoding(3, 1.0).perturb([0, 3])
    with pytest.raises(InputTypeError, match="got values of type float64"):
        UnaryEncoding(3, 1.0).perturb([0.5])


def test_a_seed_simulates_and_says_so() -> None:
    encoding, codes = UnaryEncoding(3, 0.5), np.arange(300) % 3
    with pytest.warns(PrivacyLeakWarning, match="simulated and protect nobody") as caught:
        seeded = encoding.perturb(codes, random_state=1)
    assert caught[0].filename == __file__
    drawn = encoding.draw(codes, generator_words(np.random.default_rng(1)))
    np.testing.assert_array_equal(seeded, drawn)


def test_release_does_not_use_numpys_generator() -> None:
    encoding, codes = UnaryEncoding(2, 0.1), np.zeros(200, dtype=int)
    # Two releases of 400 nearly fair coins are equal with probability below 2^-380.
    assert (encoding.perturb(codes) != encoding.perturb(codes)).any()


def test_values() -> None:
    encoding = UnaryEncoding(3, 1, kind="the")
    assert encoding == UnaryEncoding(3, 1.0, kind="the")
    assert hash(encoding) == hash(UnaryEncoding(3, 1.0, kind="the"))
    assert encoding != UnaryEncoding(3, 1.0)
    assert pickle.loads(pickle.dumps(encoding)) == copy.deepcopy(encoding) == encoding
    assert repr(encoding) == "UnaryEncoding(k=3, epsilon=1.0, kind='the')"
    with pytest.raises(dataclasses.FrozenInstanceError):
        encoding.epsilon = 2.0  # type: ignore[misc]

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from epsilens.channels import Channel, LocalHashing, ProductChannel, RandomizedResponse, simulate
from epsilens.channels.draw import WORD_RANGE, exponential_below, is_uniform, response_threshold
from epsilens.channels.local_hashing import HashingKind
from epsilens.errors import InputError, InputTypeError, PrivacyLeakWarning

# Operating-system draws cannot be seeded: tests on them raise a false alarm once in a million.
FALSE_ALARM_RATE = 1e-6
KINDS: list[HashingKind] = ["olh", "blh"]


def listed_words(*words: int) -> Callable[[int], NDArray[np.uint64]]:
    """A source that gives out the listed words in order."""
    left = list(words)

    def source(n: int) -> NDArray[np.uint64]:
        taken, left[:] = left[:n], left[n:]
        assert len(taken) == n
        return np.array(taken, dtype=np.uint64)

    return source


def matrix_of_all_hashes(k: int, g: int, epsilon: float) -> NDArray[np.float64]:
    """The slow obvious twin: every hash, every reported cell, every answer the collector picks."""
    false_cell = 1 / (math.exp(epsilon) + g - 1)
    matrix = np.zeros((k, k))
    for cells in itertools.product(range(g), repeat=k):
        for true, reported in itertools.product(range(k), range(g)):
            chance = (1 if cells[true] != reported else math.exp(epsilon)) * false_cell
            support = [v for v in range(k) if cells[v] == reported] or list(range(k))
            matrix[true, support] += chance / len(support) / g**k
    return matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "epsilon"), [(2, 0.3), (3, 1.0), (4, 1.5), (5, 0.1)])
def test_matrix_is_the_mean_over_all_hashes(k: int, epsilon: float, kind: HashingKind) -> None:
    channel = LocalHashing(k, epsilon, kind=kind)
    expected = matrix_of_all_hashes(k, channel.n_cells, epsilon)
    np.testing.assert_allclose(channel.matrix, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 3, 16])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_matrix_is_the_printed_formula(epsilon: float, k: int, kind: HashingKind) -> None:
    channel = LocalHashing(k, epsilon, kind=kind)
    g = channel.n_cells
    p, r = math.exp(epsilon) / (math.exp(epsilon) + g - 1), 1 - 1 / g
    truth = p * g / k * (1 - r**k) + (1 - p) * r ** (k - 1) / k
    expected = np.full((k, k), (1 - truth) / (k - 1))
    np.fill_diagonal(expected, truth)
    # The printed formula loses some digits where 1/g is small.
    np.testing.assert_allclose(channel.matrix, expected, rtol=1e-10)


def test_effective_epsilon_of_the_specification() -> None:
    # To the digits given there.
    assert LocalHashing(16, 3.0, kind="olh").effective_epsilon == pytest.approx(2.18, abs=5e-3)
    assert LocalHashing(16, 3.0, kind="blh").effective_epsilon == pytest.approx(0.71, abs=5e-3)


@pytest.mark.parametrize(("epsilon", "g"), [(1e-9, 2), (0.4, 2), (0.41, 3), (1.0, 4), (3.0, 21)])
def test_number_of_cells(epsilon: float, g: int) -> None:
    assert LocalHashing(5, epsilon).n_cells == g
    assert LocalHashing(5, epsilon, kind="blh").n_cells == 2


def test_olh_never_passes_more_than_half_of_the_truth() -> None:
    # With g = e^ε + 1 cells the true cell is reported half of the time, however large ε is.
    for k in (2, 16):
        channel = LocalHashing(k, 40.0)
        assert channel.a == pytest.approx(0.5, rel=1e-9)
        assert channel.effective_epsilon == pytest.approx(math.log(k + 1), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1e-12, 0.5, 3.0, 40.0])
def test_reported_cells_keep_epsilon_exactly(epsilon: float, kind: HashingKind) -> None:
    g = LocalHashing(4, epsilon, kind=kind).n_cells
    threshold = response_threshold(g, epsilon)
    keep, lie = 1 - Fraction(threshold, WORD_RANGE), Fraction(threshold, WORD_RANGE * (g - 1))
    assert is_uniform(g, threshold) or lie <= keep <= exponential_below(epsilon) * lie


def test_protocol_by_hand() -> None:
    channel = LocalHashing(3, 1.0, kind="blh")
    threshold = response_threshold(2, 1.0)
    first = np.array([2])
    # Cells 0, 1, 1; the true cell 1 is reported; of its answers 1 and 2 the second is picked.
    assert channel.draw(first, listed_words(0, 1, 1, threshold, 1)).tolist() == [2]
    # A lie: cell 0 is reported, in which only answer 0 falls.
    assert channel.draw(first, listed_words(0, 1, 1, threshold - 1, 0, 7)).tolist() == [0]
    # A lie about a cell into which nothing falls: any answer, here 4 modulo 3.
    assert channel.draw(first, listed_words(1, 1, 1, threshold - 1, 0, 4)).tolist() == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (5, 2.0)])
def test_release_has_the_law_of_the_matrix(k: int, epsilon: float, kind: HashingKind) -> None:
    channel, n_draws = LocalHashing(k, epsilon, kind=kind), 50_000
    for truth in range(k):
        counts = np.bincount(channel.perturb(np.full(n_draws, truth)), minlength=k)
        test = stats.chisquare(counts, n_draws * channel.matrix[truth])
        assert test.pvalue > FALSE_ALARM_RATE / (4 * k)


def test_many_cells_can_be_drawn() -> None:
    # At 40 there are 2.4e17 cells: collisions do not happen, half of the reports are noise.
    reports = LocalHashing(4, 40.0).perturb(np.full(40_000, 3))
    test = stats.chisquare(np.bincount(reports, minlength=4), [5_000, 5_000, 5_000, 25_000])
    assert test.pvalue > FALSE_ALARM_RATE


@pytest.mark.parametrize("kind", KINDS)
def test_audit_of_the_release_stays_below_the_effective_epsilon(kind: HashingKind) -> None:
    channel, n_draws, alpha = LocalHashing(3, 3.0, kind=kind), 100_000, FALSE_ALARM_RATE / 4
    often, seldom = (int((channel.perturb(np.full(n_draws, truth)) == 0).sum()) for truth in (0, 1))
    # Clopper-Pearson bounds on both probabilities give a lower bound on the level.
    low = stats.beta.ppf(alpha, often, n_draws - often + 1)
    high = stats.beta.ppf(1 - alpha, seldom + 1, n_draws - seldom)
    audited = math.log(low / high)
    assert audited <= channel.effective_epsilon < channel.epsilon
    # The audit is no empty gesture: it proves nearly all of the level.
    assert audited > channel.effective_epsilon - 0.1


def test_draws_cross_the_border_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    # 1000 answers in blocks of 2: each of the blocks sees its own codes (seeded, 6 errors).
    monkeypatch.setattr("epsilens.channels.local_hashing.WORDS_AT_ONCE", 7)
    channel, codes = LocalHashing(3, 5.0), np.arange(1000).reshape(10, 100) % 3
    reports = simulate(channel, codes, np.random.default_rng(3))
    assert reports.shape == codes.shape
    keep = channel.matrix[0, 0]
    assert (reports == codes).mean() == pytest.approx(keep, abs=6 * math.sqrt(keep / 1000))
    assert simulate(LocalHashing(50, 1.0), np.arange(50), np.random.default_rng(0)).max() < 50


@pytest.mark.parametrize("shape", [(0,), (5,), (2, 3), ()])
def test_perturb_keeps_the_shape_and_the_codes(shape: tuple[int, ...]) -> None:
    codes = np.zeros(shape, dtype=np.int64)
    reports = LocalHashing(4, 1.0).perturb(codes)
    assert (reports.shape, reports.dtype) == (shape, np.int64)
    assert not codes.any()


def test_a_seed_simulates_and_says_so() -> None:
    channel, codes = LocalHashing(3, 0.5), np.arange(300) % 3
    with pytest.warns(PrivacyLeakWarning, match="simulated and protect nobody") as caught:
        seeded = channel.perturb(codes, random_state=1)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(seeded, simulate(channel, codes, np.random.default_rng(1)))


def test_release_does_not_use_numpys_generator() -> None:
    channel, codes = LocalHashing(2, 0.1), np.zeros(200, dtype=int)
    # Two releases of 200 nearly fair coins are equal with probability below 2^-190.
    assert (channel.perturb(codes) != channel.perturb(codes)).any()


@pytest.mark.parametrize("kind", KINDS)
def test_frequencies_agree_with_the_general_channel(kind: HashingKind) -> None:
    channel, counts = LocalHashing(4, 0.7, kind=kind), [100, 0, 37, 63]
    for ours, general in zip(
        channel.estimate_frequencies(counts),
        Channel(channel.matrix).estimate_frequencies(counts),
        strict=True,
    ):
        np.testing.assert_allclose(ours, general, rtol=1e-9, atol=1e-12)


def test_budget_is_what_was_spent_not_what_comes_out() -> None:
    channel = LocalHashing(4, 2.0)
    assert ProductChannel([channel, RandomizedResponse(2, 1.0)]).epsilon == 3.0
    assert Channel(channel.matrix).epsilon == pytest.approx(channel.effective_epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 1}, "`k` must be at least 2, got 1"),
        ({"epsilon": 0.0}, r"`epsilon` must be greater than 0, got 0\.0"),
        ({"epsilon": -1.0}, "greater than 0"),
        ({"epsilon": math.nan}, "got nan"),
        ({"epsilon": 40.1}, r"at most 40 for local hashing, got 40\.1"),
        ({"epsilon": math.inf}, "got inf. Use `RandomizedResponse`"),
        ({"kind": "OLH"}, "`kind` must be one of 'olh', 'blh', got 'OLH'"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        LocalHashing(**{"k": 3, "epsilon": 1.0, **arguments})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_codes_are_checked() -> None:
    with pytest.raises(InputError, match="but 1 of 2 lie outside"):
        LocalHashing(3, 1.0).perturb([0, 3])
    with pytest.raises(InputTypeError, match="got values of type float64"):
        LocalHashing(3, 1.0).perturb([0.5])


def test_values() -> None:
    channel = LocalHashing(3, 1, kind="blh")
    assert channel == LocalHashing(3, 1.0, kind="blh")
    assert hash(channel) == hash(LocalHashing(3, 1.0, kind="blh"))
    assert channel != LocalHashing(3, 1.0)
    assert channel != Channel(channel.matrix)
    assert pickle.loads(pickle.dumps(channel)) == copy.deepcopy(channel) == channel
    assert repr(channel) == "LocalHashing(k=3, epsilon=1, kind='blh')"
    with pytest.raises(AttributeError):
        channel.epsilon = 2.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        channel.matrix[0, 0] = 1.0

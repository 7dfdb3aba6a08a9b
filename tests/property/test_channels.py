# SPDX-License-Identifier: Apache-2.0
"""Laws that hold for every channel."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from epsilens.channels import (
    Budget,
    Channel,
    LocalHashing,
    ProductChannel,
    RandomizedResponse,
    UnaryEncoding,
    parse_grid,
    simulate,
)
from epsilens.channels.draw import (
    WORD_RANGE,
    exponential_below,
    masses_epsilon,
    response_threshold,
    row_masses,
)
from epsilens.channels.local_hashing import HashingKind
from epsilens.channels.randomized_response import joint_masses, realised_response, relaxation
from epsilens.channels.unary_encoding import UnaryKind, bit_masses

sizes = st.integers(2, 12)
epsilons = st.floats(1e-6, 40.0)
any_epsilons = st.one_of(st.just(0.0), st.just(math.inf), st.floats(0.0, 1e4))


@st.composite
def matrices(draw: st.DrawFn) -> NDArray[np.float64]:
    k = draw(st.integers(1, 5))
    weights = st.lists(st.integers(0, 1000), min_size=k, max_size=k).filter(any)
    rows = np.array([draw(weights) for _ in range(k)], dtype=float)
    return rows / rows.sum(axis=1, keepdims=True)


@given(k=sizes, epsilon=any_epsilons)
def test_rows_sum_to_one_and_no_ratio_exceeds_epsilon(k: int, epsilon: float) -> None:
    matrix = RandomizedResponse(k, epsilon).matrix
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-14)
    assert (matrix >= 0).all()
    with np.errstate(over="ignore"):
        limit = np.exp(epsilon)
    smallest, largest = matrix.min(axis=0), matrix.max(axis=0)
    if math.isfinite(limit):
        assert (largest <= limit * smallest * (1 + 1e-13)).all()


@given(k=sizes, epsilon=st.floats(1e-6, 600.0))
def test_general_channel_finds_the_epsilon_again(k: int, epsilon: float) -> None:
    # The ratio of two floats is good to 2e-16, so epsilon is to that absolute error.
    channel = Channel(RandomizedResponse(k, epsilon).matrix)
    assert channel.epsilon == pytest.approx(epsilon, abs=1e-15, rel=1e-14)


@given(k=sizes, epsilon=st.floats(0.0, 40.0))
def test_what_is_drawn_keeps_epsilon_exactly(k: int, epsilon: float) -> None:
    keep, lie = realised_response(k, response_threshold(k, epsilon))
    assert keep + (k - 1) * lie == 1
    assert lie <= keep <= max(exponential_below(epsilon), 1) * lie


@given(k=sizes, epsilon=st.floats(0.0, 1e-6))
def test_towards_epsilon_0_an_answer_is_changed_with_k_minus_1_over_k(
    k: int, epsilon: float
) -> None:
    # The slope there is (k - 1)/k², at most a quarter.
    near = {"abs": epsilon / 4 + 1e-15}
    flip_probability = 1 - RandomizedResponse(k, epsilon).keep_probability
    assert flip_probability == pytest.approx((k - 1) / k, **near)
    keep, _ = realised_response(k, response_threshold(k, epsilon))
    assert float(1 - keep) == pytest.approx((k - 1) / k, **near)
    hashed = LocalHashing(k, max(epsilon, 1e-300))
    assert 1 - hashed.matrix[0, 0] == pytest.approx((k - 1) / k, **near)


@given(k=sizes, data=st.data())
def test_an_infinite_epsilon_changes_nothing(k: int, data: st.DataObject) -> None:
    rows = st.lists(st.tuples(*[st.integers(0, k - 1)] * 2), min_size=1, max_size=30)
    codes = np.array(data.draw(rows))
    open_channel = RandomizedResponse(k, math.inf)
    np.testing.assert_array_equal(open_channel.matrix, np.eye(k))
    np.testing.assert_array_equal(open_channel.perturb(codes), codes)
    np.testing.assert_array_equal(ProductChannel([open_channel] * 2).perturb(codes), codes)
    bits = UnaryEncoding(k, math.inf, kind="rappor").perturb(codes)
    np.testing.assert_array_equal(bits, np.eye(k, dtype=bool)[codes])


@given(matrix=matrices(), seed=st.integers(0, 2**32))
def test_relabelling_categories_permutes_a_channel_and_its_shares(
    matrix: NDArray[np.float64], seed: int
) -> None:
    k = len(matrix)
    rng = np.random.default_rng(seed)
    order, counts = rng.permutation(k), rng.integers(1, 1000, k)
    # Half of the identity, so that every channel can be undone.
    channel = Channel(0.5 * matrix + 0.5 * np.eye(k))
    renamed = Channel(channel.matrix[np.ix_(order, order)])
    assert renamed.epsilon == channel.epsilon
    pi, covariance = channel.estimate_frequencies(counts)
    again, spread = renamed.estimate_frequencies(counts[order])
    np.testing.assert_allclose(again, pi[order], atol=1e-9)
    np.testing.assert_allclose(spread, covariance[np.ix_(order, order)], atol=1e-9)


@given(k=sizes, first=epsilons, second=epsilons)
def test_composition_multiplies_a(k: int, first: float, second: float) -> None:
    one, two = RandomizedResponse(k, first), RandomizedResponse(k, second)
    composed = one.compose(two)
    np.testing.assert_allclose(composed.matrix, one.matrix @ two.matrix, rtol=1e-12)
    assert isinstance(composed, RandomizedResponse)
    assert composed.a == pytest.approx(one.a * two.a, rel=1e-12)
    assert composed.epsilon <= min(first, second) * (1 + 1e-12)


@given(k=sizes, levels=st.lists(epsilons, min_size=2, max_size=2, unique=True))
def test_degrading_equals_a_direct_release_in_law(k: int, levels: list[float]) -> None:
    strict, lax = sorted(levels)
    released = RandomizedResponse(k, lax)
    noise = released.degrade_to(strict)
    direct = RandomizedResponse(k, strict)
    np.testing.assert_allclose(released.matrix @ noise.matrix, direct.matrix, rtol=1e-11)
    assert released.compose(noise).epsilon == pytest.approx(strict, rel=1e-11)


@given(k=sizes, levels=st.lists(st.floats(0.0, 40.0), min_size=2, max_size=2))
def test_relaxing_never_costs_more_than_the_new_epsilon(k: int, levels: list[float]) -> None:
    strict, lax = sorted(levels)
    draw = relaxation(k, strict, lax)
    assert min(draw.leave_truth, draw.reach_truth) >= 0
    assert draw.reach_truth + draw.stay <= WORD_RANGE
    # When the old report is repeated the pair costs what the old one did, never more than `lax`.
    limit = max(exponential_below(lax), 1)
    assert all(max(masses) <= limit * min(masses) for masses in joint_masses(draw, strict))


@given(matrix=matrices())
def test_whole_masses_are_the_channel(matrix: NDArray[np.float64]) -> None:
    channel, masses = Channel(matrix), row_masses(matrix)
    assert [sum(row) for row in masses] == [WORD_RANGE] * channel.k
    drawn = np.array([[mass / WORD_RANGE for mass in row] for row in masses])
    # One unit of 2^-64 an entry, k at the likeliest, and rows that sum to 1 within rounding.
    np.testing.assert_allclose(drawn, matrix, rtol=1e-15 * channel.k, atol=channel.k / WORD_RANGE)
    assert masses_epsilon(masses) == pytest.approx(channel.epsilon, abs=1e-13)


@given(matrix=matrices(), seed=st.integers(0, 2**32))
def test_impossible_reports_are_never_drawn(matrix: NDArray[np.float64], seed: int) -> None:
    codes = np.arange(200) % matrix.shape[0]
    reports = simulate(Channel(matrix), codes, np.random.default_rng(seed))
    assert (matrix[codes, reports] > 0).all()


@given(first=matrices(), seed=st.integers(0, 2**32))
def test_post_processing_never_weakens(first: NDArray[np.float64], seed: int) -> None:
    k = first.shape[0]
    other = np.random.default_rng(seed).dirichlet(np.ones(k), size=k)
    assert Channel(first).compose(Channel(other)).epsilon <= Channel(first).epsilon + 1e-12


@given(k=sizes, epsilon=st.floats(0.01, 30.0), seed=st.integers(0, 2**32))
def test_frequencies_of_expected_counts_are_exact(k: int, epsilon: float, seed: int) -> None:
    truth = np.random.default_rng(seed).dirichlet(np.ones(k))
    channel = RandomizedResponse(k, epsilon)
    pi, covariance = channel.estimate_frequencies(1e6 * channel.matrix.T @ truth)
    # Rounding of the shares is magnified by 1/a.
    np.testing.assert_allclose(pi, truth, atol=1e-14 / channel.a)
    np.testing.assert_allclose(covariance, covariance.T)
    np.testing.assert_allclose(covariance.sum(axis=0), 0.0, atol=k * 1e-21 / channel.a**2)


@settings(max_examples=30)
@given(
    columns=st.lists(st.tuples(st.integers(2, 4), st.floats(0.01, 10.0)), min_size=1, max_size=3)
)
def test_budgets_of_columns_add_up(columns: list[tuple[int, float]]) -> None:
    product = ProductChannel([RandomizedResponse(k, epsilon) for k, epsilon in columns])
    budget = Budget({f"column {i}": epsilon for i, (_, epsilon) in enumerate(columns)})
    assert product.epsilon == budget.per_record
    assert Channel(product.matrix).epsilon == pytest.approx(budget.per_record, rel=1e-12)


@given(
    start=st.floats(1e-6, 1e6),
    stop=st.floats(1e-6, 1e6),
    count=st.integers(2, 50),
    linear=st.booleans(),
)
def test_grids_ascend_between_their_ends(
    start: float, stop: float, count: int, linear: bool
) -> None:
    grid = parse_grid(f"{'lin:' if linear else ''}{start!r}:{stop!r}:{count}")
    assert grid[0] == min(start, stop)
    assert grid[-1] == max(start, stop)
    assert list(grid) == sorted(set(grid))


hashings = st.sampled_from(["olh", "blh"])
unary_kinds = st.sampled_from(["oue", "rappor", "the"])


@given(k=sizes, epsilon=epsilons, kind=hashings)
def test_hashing_is_a_weaker_response(k: int, epsilon: float, kind: HashingKind) -> None:
    channel = LocalHashing(k, epsilon, kind=kind)
    assert 0 < channel.effective_epsilon < epsilon
    equal = RandomizedResponse(k, channel.effective_epsilon)
    np.testing.assert_allclose(channel.matrix, equal.matrix, rtol=1e-12)
    np.testing.assert_allclose(channel.matrix.sum(axis=1), 1.0, rtol=1e-14)


@given(k=sizes, epsilon=st.floats(0.01, 40.0), kind=hashings, seed=st.integers(0, 2**32))
def test_hashed_frequencies_of_expected_counts_are_exact(
    k: int, epsilon: float, kind: HashingKind, seed: int
) -> None:
    truth = np.random.default_rng(seed).dirichlet(np.ones(k))
    channel = LocalHashing(k, epsilon, kind=kind)
    pi, _ = channel.estimate_frequencies(1e6 * channel.matrix.T @ truth)
    # Rounding of the shares is magnified by 1/a.
    np.testing.assert_allclose(pi, truth, atol=1e-14 / channel.a)


@given(epsilon=st.floats(5e-324, 40.0), kind=unary_kinds)
def test_bits_keep_epsilon_exactly(epsilon: float, kind: UnaryKind) -> None:
    yes, no = bit_masses(kind, epsilon)
    assert 0 < no <= yes < WORD_RANGE
    ratio = Fraction(yes * (WORD_RANGE - no), no * (WORD_RANGE - yes))
    assert ratio <= max(exponential_below(epsilon), 1)


@given(levels=st.lists(st.floats(1e-6, 40.0), min_size=2, max_size=2), kind=unary_kinds)
def test_bits_show_more_at_a_larger_epsilon(levels: list[float], kind: UnaryKind) -> None:
    strict, lax = (UnaryEncoding(2, epsilon, kind=kind) for epsilon in sorted(levels))
    # At 1e-6 a unit of 2^-64 moves the level by 1e-13 of itself, and the logarithm by less.
    assert strict.effective_epsilon <= lax.effective_epsilon * (1 + 1e-12)
    assert strict.p - strict.q <= (lax.p - lax.q) * (1 + 1e-9)


@given(k=sizes, epsilon=st.floats(0.01, 40.0), kind=unary_kinds, seed=st.integers(0, 2**32))
def test_frequencies_of_expected_bits_are_exact(
    k: int, epsilon: float, kind: UnaryKind, seed: int
) -> None:
    truth = np.random.default_rng(seed).dirichlet(np.ones(k))
    encoding = UnaryEncoding(k, epsilon, kind=kind)
    pi, covariance = encoding.estimate_frequencies(10**6 * encoding.expected().T @ truth, 10**6)
    # Rounding of the shares is magnified by 1/(p - q).
    np.testing.assert_allclose(pi, truth, atol=1e-14 / (encoding.p - encoding.q))
    assert (np.diag(covariance) >= 0).all()

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from epsilens.channels import Channel, RandomizedResponse, simulate
from epsilens.errors import InputError, InputTypeError

SKEWED = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]])


def test_matrix_is_a_read_only_copy() -> None:
    given = SKEWED.copy()
    channel = Channel(given)
    given[0, 0] = 0.0
    np.testing.assert_array_equal(channel.matrix, SKEWED)
    with pytest.raises(ValueError, match="read-only"):
        channel.matrix[0, 0] = 1.0
    with pytest.raises(AttributeError):
        channel.matrix = given  # type: ignore[misc]


def test_epsilon_is_the_largest_log_ratio_in_a_column() -> None:
    by_hand = max(
        math.log(SKEWED[u, v] / SKEWED[w, v]) for u in range(3) for w in range(3) for v in range(3)
    )
    assert Channel(SKEWED).epsilon == pytest.approx(by_hand, rel=1e-14)


@pytest.mark.parametrize(
    ("matrix", "epsilon"),
    [
        ([[1.0]], 0.0),
        ([[0.5, 0.5], [0.5, 0.5]], 0.0),
        ([[1.0, 0.0], [1.0, 0.0]], 0.0),
        ([[1.0, 0.0], [0.5, 0.5]], math.inf),
        ([[1.0, 0.0], [0.0, 1.0]], math.inf),
    ],
)
def test_epsilon_at_the_ends(matrix: list[list[float]], epsilon: float) -> None:
    assert Channel(matrix).epsilon == epsilon


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.5, 0.5]], "must be square"),
        ([0.5, 0.5], "must be square"),
        (np.zeros((0, 0)), "must be square"),
        ([[0.5, 0.6], [0.5, 0.5]], "off by 0.1"),
        ([[1.5, -0.5], [0.5, 0.5]], "negative or not finite"),
        ([[math.nan, 1.0], [0.5, 0.5]], "negative or not finite"),
        ([[math.inf, 0.0], [0.5, 0.5]], "negative or not finite"),
        ([["a", "b"], ["c", "d"]], "not a table of numbers"),
        ([[1.0], [0.5, 0.5]], "not a table of numbers"),
    ],
)
def test_bad_matrix_is_refused(matrix: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Channel(matrix)  # type: ignore[arg-type]


def test_rows_may_be_off_by_rounding_only() -> None:
    Channel([[0.5 + 1e-12, 0.5], [0.5, 0.5]])
    with pytest.raises(InputError, match="sum to 1"):
        Channel([[0.5 + 3e-12, 0.5], [0.5, 0.5]])


def test_compose_is_the_matrix_product_in_order() -> None:
    swap = Channel([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(Channel(SKEWED).compose(swap).matrix, SKEWED[:, [1, 0, 2]])
    np.testing.assert_allclose(swap.compose(Channel(SKEWED)).matrix, SKEWED[[1, 0, 2]])


def test_compose_refuses_what_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"as many categories as this channel \(3\), got 2"):
        Channel(SKEWED).compose(Channel(np.eye(2)))
    with pytest.raises(InputTypeError, match="`other` must be a Channel, got ndarray"):
        Channel(SKEWED).compose(SKEWED)  # type: ignore[arg-type]


@pytest.mark.parametrize("codes", [[0, 1, 3, 7], [-1, 3, 0, 0]])
def test_codes_outside_are_counted_not_shown(codes: list[int]) -> None:
    n_outside = sum(code not in range(3) for code in codes)
    with pytest.raises(InputError) as caught:
        Channel(SKEWED).perturb(codes)
    assert str(caught.value).startswith(
        f"`codes` must be whole numbers from 0 to 2, but {n_outside} of 4 lie outside."
    )
    assert "7" not in str(caught.value)


@pytest.mark.parametrize("codes", [[0.0, 1.0], ["a"], [True, False]])
def test_codes_must_be_whole_numbers(codes: list[object]) -> None:
    with pytest.raises(InputTypeError, match="got values of type"):
        Channel(SKEWED).perturb(codes)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(0,), (5,), (2, 3), ()])
def test_perturb_keeps_the_shape(shape: tuple[int, ...]) -> None:
    for channel in (Channel(SKEWED), RandomizedResponse(3, 1.0)):
        reports = channel.perturb(np.zeros(shape, dtype=np.uint8))
        assert reports.shape == shape
        assert reports.dtype == np.int64


def test_perturb_leaves_the_codes_alone() -> None:
    codes = np.zeros(1000, dtype=np.int64)
    Channel(SKEWED).perturb(codes)
    RandomizedResponse(3, 0.1).perturb(codes)
    assert not codes.any()


@pytest.mark.parametrize("channel", [Channel(SKEWED), RandomizedResponse(3, 1.0)])
def test_frequencies_and_their_covariance_match_many_draws(channel: Channel) -> None:
    n_repeats, codes = 3000, np.repeat([0, 1, 2], [120, 60, 20])
    truth = np.array([0.6, 0.3, 0.1])
    reports = simulate(channel, np.tile(codes, (n_repeats, 1)), np.random.default_rng(0))
    counts = np.stack([(reports == v).sum(axis=1) for v in range(3)], axis=1)
    answers = [channel.estimate_frequencies(row) for row in counts]
    estimates = np.stack([pi for pi, _ in answers])
    covariance = np.mean([covariance for _, covariance in answers], axis=0)

    standard_error = estimates.std(axis=0) / math.sqrt(n_repeats)
    assert (np.abs(estimates.mean(axis=0) - truth) < 5 * standard_error).all()
    # A variance over 3000 draws has a relative standard error of sqrt(2/3000) = 2.6 %.
    drawn = np.cov(estimates.T)
    scale = np.sqrt(np.outer(np.diag(drawn), np.diag(drawn)))
    assert (np.abs(covariance - drawn) < 5 * 0.026 * scale).all()


def test_covariance_is_the_formula() -> None:
    counts = np.array([50, 30, 20])
    pi, covariance = Channel(SKEWED).estimate_frequencies(counts)
    inverse = np.linalg.inv(SKEWED)
    middle = sum(pi[u] * (np.diag(SKEWED[u]) - np.outer(SKEWED[u], SKEWED[u])) for u in range(3))
    np.testing.assert_allclose(pi, inverse.T @ (counts / 100))
    np.testing.assert_allclose(covariance, inverse.T @ middle @ inverse / 100)
    assert pi.sum() == pytest.approx(1.0)


def test_true_answers_have_no_uncertainty() -> None:
    pi, covariance = Channel(np.eye(3)).estimate_frequencies([1, 2, 1])
    np.testing.assert_allclose(pi, [0.25, 0.5, 0.25])
    np.testing.assert_allclose(covariance, 0.0, atol=1e-15)


@pytest.mark.parametrize("matrix", [[[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]])
def test_noise_cannot_be_undone(matrix: list[list[float]]) -> None:
    with pytest.raises(InputError, match="must be invertible"):
        Channel(matrix).estimate_frequencies([3, 4])


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([1, 2], r"one entry per category \(3\)"),
        ([0, 0, 0], "not all 0"),
        ([1, -2, 3], "negative"),
        ([1, math.nan, 3], "not finite"),
        (["a", "b", "c"], "must be numbers"),
    ],
)
def test_bad_counts_are_refused(counts: list[object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Channel(SKEWED).estimate_frequencies(counts)  # type: ignore[arg-type]


def test_channels_are_values() -> None:
    assert Channel(SKEWED) == Channel(SKEWED.copy())
    assert hash(Channel(SKEWED)) == hash(Channel(SKEWED.copy()))
    assert Channel(SKEWED) != Channel(np.eye(3))
    assert Channel(np.eye(3)) != np.eye(3).tolist()
    for channel in (Channel(SKEWED), RandomizedResponse(3, 1.0)):
        assert pickle.loads(pickle.dumps(channel)) == channel
        assert copy.deepcopy(channel) == channel
    with pytest.raises(ValueError, match="read-only"):
        copy.deepcopy(Channel(SKEWED)).matrix[0, 0] = 1.0


def test_repr_says_what_matters() -> None:
    assert repr(Channel([[0.75, 0.25], [0.25, 0.75]])) == "Channel(k=2, epsilon=1.09861)"

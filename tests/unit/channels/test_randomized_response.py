# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from epsilens.channels import Channel, RandomizedResponse
from epsilens.errors import InputError, PrivacyLeakWarning


def test_matrix_is_the_textbook_one() -> None:
    channel = RandomizedResponse(5, 2.0)
    truth = math.exp(2.0) / (math.exp(2.0) + 4)
    lie = 1 / (math.exp(2.0) + 4)
    expected = np.full((5, 5), lie) + (truth - lie) * np.eye(5)
    np.testing.assert_allclose(channel.matrix, expected, rtol=1e-14)
    assert channel.keep_probability == pytest.approx(truth, rel=1e-14)
    assert channel.flip_probability == pytest.approx(lie, rel=1e-14)
    assert channel.a == pytest.approx(truth - lie, rel=1e-14)
    assert Channel(channel.matrix).epsilon == pytest.approx(2.0, rel=1e-14)


def test_ends() -> None:
    np.testing.assert_array_equal(RandomizedResponse(3, math.inf).matrix, np.eye(3))
    np.testing.assert_allclose(RandomizedResponse(3, 0.0).matrix, 1 / 3, rtol=1e-15)
    huge = RandomizedResponse(3, 1e5)
    assert (huge.keep_probability, huge.flip_probability, huge.a) == (1.0, 0.0, 1.0)
    assert huge.epsilon == 1e5


def test_tiny_epsilon_keeps_its_digits() -> None:
    # a = epsilon/k to first order; e^epsilon - 1 in floating point would be 0.
    assert RandomizedResponse(4, 1e-20).a == pytest.approx(1e-20 / 4, rel=1e-14)


def test_arguments_are_checked() -> None:
    with pytest.raises(InputError, match="`k` must be at least 2, got 1"):
        RandomizedResponse(1, 1.0)
    with pytest.raises(TypeError, match="`k` must be a whole number"):
        RandomizedResponse(2.5, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`epsilon` must be at least 0, got -1\.0"):
        RandomizedResponse(2, -1.0)
    with pytest.raises(InputError, match="got nan"):
        RandomizedResponse(2, math.nan)


@pytest.mark.parametrize(("k", "tau"), [(2, 1.1269), (5, 1.2188), (16, 1.4977)])
def test_degrade_from_3_to_1(k: int, tau: float) -> None:
    # Values of the specification, to the digits given there.
    assert RandomizedResponse(k, 3.0).degrade_to(1.0).epsilon == pytest.approx(tau, abs=5e-5)


@pytest.mark.parametrize("k", [2, 5, 16])
def test_degrade_to_the_ends(k: int) -> None:
    channel = RandomizedResponse(k, 3.0)
    assert channel.degrade_to(3.0) == RandomizedResponse(k, math.inf)
    assert channel.degrade_to(0.0) == RandomizedResponse(k, 0.0)
    assert RandomizedResponse(k, math.inf).degrade_to(2.0).epsilon == pytest.approx(2.0, rel=1e-14)
    assert RandomizedResponse(k, math.inf).degrade_to(math.inf).epsilon == math.inf
    assert RandomizedResponse(k, 2000.0).degrade_to(1000.0).epsilon == pytest.approx(1000.0)


def test_degrade_cannot_relax() -> None:
    with pytest.raises(
        InputError, match=r"at most the present 1 to degrade, got 2\. Use `relax_to`"
    ):
        RandomizedResponse(2, 1.0).degrade_to(2.0)


def test_compose_with_another_response_stays_one() -> None:
    composed = RandomizedResponse(3, 2.0).compose(RandomizedResponse(3, 1.0))
    assert isinstance(composed, RandomizedResponse)
    np.testing.assert_allclose(
        composed.matrix, RandomizedResponse(3, 2.0).matrix @ RandomizedResponse(3, 1.0).matrix
    )
    identity = RandomizedResponse(3, math.inf)
    assert identity.compose(identity) == identity
    assert RandomizedResponse(3, 900.0).compose(identity) == RandomizedResponse(3, 900.0)
    assert RandomizedResponse(3, 0.0).compose(identity) == RandomizedResponse(3, 0.0)


def test_compose_with_a_general_channel_is_general() -> None:
    other = Channel([[0.6, 0.4], [0.1, 0.9]])
    composed = RandomizedResponse(2, 1.0).compose(other)
    assert type(composed) is Channel
    np.testing.assert_allclose(composed.matrix, RandomizedResponse(2, 1.0).matrix @ other.matrix)


def test_frequencies_agree_with_the_general_channel() -> None:
    channel = RandomizedResponse(4, 0.7)
    counts = [100, 0, 37, 63]
    for ours, general in zip(
        channel.estimate_frequencies(counts),
        Channel(channel.matrix).estimate_frequencies(counts),
        strict=True,
    ):
        np.testing.assert_allclose(ours, general, rtol=1e-9, atol=1e-12)


def test_frequencies_need_a_signal() -> None:
    with pytest.raises(InputError, match="`epsilon` must be greater than 0 to estimate"):
        RandomizedResponse(2, 0.0).estimate_frequencies([1, 2])


def test_relax_to_the_ends() -> None:
    channel, codes, reports = RandomizedResponse(3, 1.0), [0, 1, 2], [1, 1, 0]
    assert channel.relax_to(codes, reports, 1.0).tolist() == reports
    assert channel.relax_to(codes, reports, math.inf).tolist() == codes


def test_relax_checks_its_arguments() -> None:
    channel = RandomizedResponse(3, 1.0)
    with pytest.raises(InputError, match=r"at least the present 1 to relax, got 0\.5.*degrade_to"):
        channel.relax_to([0], [0], 0.5)
    with pytest.raises(InputError, match="`reports` must have the shape of `codes`"):
        channel.relax_to([0, 1], [0], 2.0)
    with pytest.raises(InputError, match="`reports` must be whole numbers from 0 to 2, but 1 of 1"):
        channel.relax_to([0], [3], 2.0)
    with pytest.raises(InputError, match="at most 40 or infinite"):
        channel.relax_to([0], [0], 41.0)


def test_relax_with_a_seed_warns_and_repeats() -> None:
    channel, codes, reports = RandomizedResponse(3, 0.5), np.arange(90) % 3, np.zeros(90, dtype=int)
    with pytest.warns(PrivacyLeakWarning, match="simulated"):
        first = channel.relax_to(codes, reports, 2.0, random_state=4)
    with pytest.warns(PrivacyLeakWarning, match="simulated"):
        again = channel.relax_to(codes, reports, 2.0, random_state=4)
    np.testing.assert_array_equal(first, again)


def test_values() -> None:
    assert RandomizedResponse(2, 1) == RandomizedResponse(2, 1.0)
    assert hash(RandomizedResponse(2, 1)) == hash(RandomizedResponse(2, 1.0))
    assert RandomizedResponse(2, 1.0) != RandomizedResponse(3, 1.0)
    assert RandomizedResponse(2, 1.0) != Channel(RandomizedResponse(2, 1.0).matrix)
    assert repr(RandomizedResponse(2, math.inf)) == "RandomizedResponse(k=2, epsilon=inf)"
    with pytest.raises(AttributeError):
        RandomizedResponse(2, 1.0).epsilon = 2.0  # type: ignore[misc]

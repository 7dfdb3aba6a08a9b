# SPDX-License-Identifier: Apache-2.0
"""Advantages against sums that are written out, and the ceiling against attackers who know everything."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from epsilens.channels import (
    Channel,
    LocalHashing,
    ProductChannel,
    RandomizedResponse,
    UnaryEncoding,
)
from epsilens.errors import InputError, InputTypeError
from epsilens.mechanisms import advantage, answer_ceiling, guess_ceiling
from epsilens.risk import inference_ceiling


def largest_distance(rows: np.ndarray) -> float:
    """The largest total variation distance between two rows, pair by pair."""
    return max(
        0.5 * sum(abs(p - q) for p, q in zip(one, other, strict=True))
        for one, other in itertools.product(rows, repeat=2)
    )


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0, math.inf])
def test_randomised_response(k, epsilon):
    channel = RandomizedResponse(k, epsilon)
    assert channel.advantage == pytest.approx(largest_distance(channel.matrix), abs=1e-15)
    assert advantage(channel) == channel.advantage


def test_any_channel():
    rng = np.random.default_rng(0)
    for k in (2, 3, 5):
        matrix = rng.dirichlet(np.full(k, 0.4), size=k)
        assert Channel(matrix).advantage == pytest.approx(largest_distance(matrix), abs=1e-15)
    assert Channel([[1.0]]).advantage == 0.0


@pytest.mark.parametrize("kind", ["oue", "rappor", "the"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_bits_by_every_pattern(kind, epsilon):
    encoding = UnaryEncoding(4, epsilon, kind=kind)
    patterns = np.array(list(itertools.product([0, 1], repeat=4)))
    chances = np.array(
        [
            np.prod(np.where(patterns == 1, yes, 1.0 - yes), axis=1)
            for yes in np.where(np.eye(4, dtype=bool), encoding.p, encoding.q)
        ]
    )
    assert encoding.advantage == pytest.approx(largest_distance(chances), abs=1e-12)


@pytest.mark.parametrize("kind", ["olh", "blh"])
def test_hash_and_cell_by_every_hash(kind):
    channel = LocalHashing(3, 0.6, kind=kind)
    g = channel.n_cells
    response = RandomizedResponse(g, 0.6).matrix
    hashes = list(itertools.product(range(g), repeat=3))
    # What is reported is the hash and the randomised cell of the answer.
    reported = np.array(
        [np.concatenate([response[cells[u]] for cells in hashes]) / len(hashes) for u in range(3)]
    )
    assert channel.advantage == pytest.approx(largest_distance(reported), abs=1e-12)
    # The answer that the collector picks says less.
    assert Channel(channel.matrix).advantage < channel.advantage


PRODUCTS = [
    [RandomizedResponse(2, 1.0)],
    [RandomizedResponse(2, 1.0), RandomizedResponse(3, 0.5)],
    [RandomizedResponse(2, 0.3), RandomizedResponse(4, 2.0), RandomizedResponse(3, 1.0)],
    [RandomizedResponse(2, math.inf), RandomizedResponse(3, 0.5)],
    [Channel([[0.8, 0.2], [0.3, 0.7]]), RandomizedResponse(3, 0.5)],
]


@pytest.mark.parametrize("channels", PRODUCTS)
def test_several_columns(channels):
    joint = ProductChannel(channels)
    exact = largest_distance(joint.matrix)
    assert joint.advantage == pytest.approx(exact, abs=1e-12)
    assert exact <= 1.0 - math.prod(1.0 - one.advantage for one in channels) + 1e-15


def test_many_columns_have_an_upper_bound():
    many = ProductChannel([RandomizedResponse(2, 0.1)] * 12)
    ten = ProductChannel([RandomizedResponse(2, 0.1)] * 10)
    assert ten.advantage < many.advantage < 1.0
    # What a hash gives away is not in the matrix of the answers that come out.
    hashed = LocalHashing(3, 1.0)
    beside = ProductChannel([hashed, RandomizedResponse(2, 1.0)])
    assert beside.advantage >= max(hashed.advantage, Channel(beside.matrix).advantage)


def test_three_identical_columns():
    """A single answer that stands in three columns is exposed by all three reports."""
    joint = ProductChannel([RandomizedResponse(2, 1.0)] * 3)
    assert guess_ceiling(0.5, joint.advantage) == pytest.approx(0.822, abs=5e-4)


def test_no_attacker_on_any_channel_exceeds_the_ceiling_and_some_nearly_reach_it():
    rng = np.random.default_rng(1)
    nearest = 0.0
    for _ in range(20_000):
        k, n_reports = rng.integers(2, 6, size=2)
        rows = rng.dirichlet(np.full(n_reports, rng.choice([0.1, 0.5, 2.0])), size=k)
        prior = rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 5.0])))
        joint = prior[:, None] * rows
        best = joint.max(axis=0).sum()  # the likeliest answer for every report
        ceiling = guess_ceiling(float(prior.max()), min(largest_distance_of(rows), 1.0))
        assert best <= ceiling + 1e-12
        guess = rng.integers(0, k, size=n_reports)
        assert joint[guess, np.arange(n_reports)].sum() <= ceiling + 1e-12
        nearest = max(nearest, best / ceiling)
    assert nearest > 0.999


def largest_distance_of(rows: np.ndarray) -> float:
    return float(np.abs(rows[:, None] - rows[None]).sum(axis=2).max() / 2.0)


def test_it_holds_for_averages_over_people():
    rng = np.random.default_rng(2)
    channel = RandomizedResponse(4, 1.0)
    people = rng.dirichlet(np.ones(4), size=500)
    after = (people[:, :, None] * channel.matrix).max(axis=1).sum(axis=1).mean()
    assert after <= guess_ceiling(float(people.max(axis=1).mean()), channel.advantage)


@pytest.mark.parametrize("k", [2, 3, 10, 50])
def test_never_above_what_epsilon_proves_for_randomised_response(k):
    for epsilon in np.geomspace(0.01, 20.0, 40):
        for b in np.linspace(1.0 / k, 1.0, 41):
            new = guess_ceiling(float(b), RandomizedResponse(k, epsilon).advantage)
            assert new <= inference_ceiling(float(b), epsilon) + 1e-12


def test_known_values():
    many = RandomizedResponse(10, 1.0).advantage
    assert guess_ceiling(0.5, many) == pytest.approx(0.573, abs=5e-4)
    assert inference_ceiling(0.5, 1.0) == pytest.approx(0.731, abs=5e-4)
    assert answer_ceiling(0.5, epsilon=1.0, advantage=many) == guess_ceiling(0.5, many)
    bits = UnaryEncoding(10, 1.0, kind="rappor").advantage
    assert guess_ceiling(0.1, bits) == pytest.approx(0.320, abs=5e-4)
    assert answer_ceiling(0.1, epsilon=1.0, advantage=bits) == pytest.approx(0.232, abs=5e-4)


def test_101_people_with_one_bit_are_known_without_the_own_answer():
    """The baseline is not the guess without any release: other people's answers teach it."""
    rng = np.random.default_rng(3)
    bit, channel = 1, RandomizedResponse(2, 1.0)
    reports = rng.random(100) < channel.matrix[bit, 1]
    odds = (2 * reports.sum() - 100) * 1.0  # log odds from the other 100 reports
    assert 1.0 / (1.0 + math.exp(-odds)) > 0.999
    assert guess_ceiling(0.5, channel.advantage) < 0.74


@pytest.mark.parametrize(("b", "share"), [(-0.1, 0.5), (0.5, 1.1), (math.nan, 0.5)])
def test_shares_lie_from_0_to_1(b, share):
    with pytest.raises(InputError, match="must lie from 0 to 1"):
        guess_ceiling(b, share)


def test_only_what_knows_its_advantage():
    with pytest.raises(InputTypeError, match="must have an `advantage`, got float"):
        advantage(0.5)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from epsilens.channels import RandomizedResponse, simulate
from epsilens.channels.draw import WORD_RANGE, exponential_below, response_threshold
from epsilens.channels.randomized_response import Relaxation, realised_response, relaxation


def joint_table(draw: Relaxation, k: int, epsilon: float) -> list[list[list[Fraction]]]:
    """Pr(old report w, new report v | truth u), written out entry by entry: the slow twin."""
    keep, lie = realised_response(k, response_threshold(k, epsilon))
    leave, reach, stay = (
        Fraction(mass, WORD_RANGE) for mass in (draw.leave_truth, draw.reach_truth, draw.stay)
    )

    def new(u: int, w: int, v: int) -> Fraction:
        if w == u:
            return 1 - leave if v == u else leave / (k - 1)
        if v == u:
            return reach
        return stay if v == w else (1 - reach - stay) / (k - 2)

    return [
        [[(keep if w == u else lie) * new(u, w, v) for v in range(k)] for w in range(k)]
        for u in range(k)
    ]


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize(
    ("old", "new"), [(1.0, 3.0), (0.1, 0.2), (0.5, 40.0), (39.0, 40.0), (0.0, 1.0), (3.0, 3.001)]
)
def test_both_reports_together_cost_exactly_the_new_epsilon(k: int, old: float, new: float) -> None:
    table = joint_table(relaxation(k, old, new), k, old)
    limit = exponential_below(new)
    assert [sum(map(sum, rows)) for rows in table] == [1] * k
    largest = Fraction(0)
    for w in range(k):
        for v in range(k):
            masses = [table[u][w][v] for u in range(k)]
            assert min(masses) > 0
            largest = max(largest, max(masses) / min(masses))
    assert largest <= limit
    # Attained, to the fineness of 64-bit masses: at 40 a lie has a mass of about 80 units.
    assert math.log(largest) == pytest.approx(new, rel=1e-12 if new < 10 else 0.02)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_new_reports_alone_follow_the_new_channel(k: int) -> None:
    table = joint_table(relaxation(k, 1.0, 3.0), k, 1.0)
    new = [[float(sum(table[u][w][v] for w in range(k))) for v in range(k)] for u in range(k)]
    np.testing.assert_allclose(new, RandomizedResponse(k, 3.0).matrix, rtol=1e-14)


@pytest.mark.parametrize("k", [2, 4])
def test_joint_law_is_the_new_channel_followed_by_noise(k: int) -> None:
    # The coupling's meaning: as if the new report had been drawn first and degraded to the old.
    table = np.array(joint_table(relaxation(k, 1.0, 3.0), k, 1.0)).astype(float)
    new = RandomizedResponse(k, 3.0)
    noise = new.degrade_to(1.0).matrix
    np.testing.assert_allclose(table, np.einsum("uv,vw->uwv", new.matrix, noise), rtol=1e-12)


@pytest.mark.parametrize(
    ("k", "old"), [(2, 1e-30), (3, 1e-30), (2, 1e-12), (12, 2.540735016675999e-07)]
)
def test_indistinguishable_epsilons_repeat_the_old_report(k: int, old: float) -> None:
    # Rounded masses would break the promise here, as 64 bits cannot tell the two levels apart.
    new = math.nextafter(old, math.inf)
    draw = relaxation(k, old, new)
    assert draw == Relaxation(k, leave_truth=0, reach_truth=0, stay=WORD_RANGE)
    keep, lie = realised_response(k, response_threshold(k, old))
    assert keep <= max(exponential_below(new), 1) * lie
    codes, reports = np.arange(60) % k, np.arange(60) // k % k
    np.testing.assert_array_equal(RandomizedResponse(k, old).relax_to(codes, reports, new), reports)


@pytest.mark.parametrize("k", [2, 4])
def test_draws_follow_the_masses(k: int) -> None:
    # Seeded: 200 000 pairs a truth; a correct draw fails one seed in a million.
    channel, n_draws = RandomizedResponse(k, 0.8), 200_000
    generator = np.random.default_rng(20)
    table = np.array(joint_table(relaxation(k, 0.8, 2.0), k, 0.8)).astype(float)
    for truth in range(k):
        codes = np.full(n_draws, truth)
        old = simulate(channel, codes, generator)
        with pytest.warns(UserWarning, match="simulated"):
            new = channel.relax_to(codes, old, 2.0, random_state=generator)
        counts = np.bincount(old * k + new, minlength=k * k)
        assert stats.chisquare(counts, n_draws * table[truth].ravel()).pvalue > 1e-6


def test_relaxing_draws_from_the_operating_system() -> None:
    codes, reports = np.zeros(500, dtype=int), np.ones(500, dtype=int)
    channel = RandomizedResponse(3, 0.1)
    # Each new report falls on the truth with about 1/3: equal twice with probability < 2^-500.
    first, second = (channel.relax_to(codes, reports, 0.5) for _ in range(2))
    assert (first != second).any()

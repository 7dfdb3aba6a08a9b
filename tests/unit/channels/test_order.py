# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from epsilens.channels.draw import generator_words
from epsilens.channels.order import (
    _runs_score,
    is_shown_by_order,
    numbering_columns,
    random_order,
)


def n_runs(codes: tuple[int, ...]) -> int:
    return 1 + sum(left != right for left, right in itertools.pairwise(codes))


@pytest.mark.parametrize("counts", [(3, 4), (2, 2, 3), (1, 1, 5), (6, 1)])
def test_the_score_has_mean_0_and_variance_1_over_all_orders(counts: tuple[int, ...]) -> None:
    # The slow twin: every order of a small table.
    codes = [code for code, count in enumerate(counts) for _ in range(count)]
    scores = [
        _runs_score(n_runs(order), np.array(counts)) for order in itertools.permutations(codes)
    ]
    assert np.mean(scores) == pytest.approx(0.0, abs=1e-9)
    assert np.var(scores) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "codes",
    [
        np.repeat([0, 1], 50),
        np.repeat([1, 0], 10),
        np.repeat([2, 0, 1], 10),
        np.tile([0, 1], 50),
        np.arange(20),
        np.arange(20)[::-1],
        np.append(np.zeros(997, dtype=int), [1, 1, 1]),
        # Sorted within villages of ten people.
        np.tile(np.repeat([0, 1], 5), 40),
        # Sorted, but for one person.
        np.append(np.repeat([0, 1], 50), 0),
    ],
)
def test_an_order_made_from_the_answers_shows_them(codes: np.ndarray) -> None:
    assert is_shown_by_order(codes.astype(np.int64))


@pytest.mark.parametrize(
    "codes", [[0], [0, 0, 0], [0, 1], [0, 0, 1], [0, 0, 1, 1], [1] * 19 + [0], [0] * 100]
)
def test_small_and_constant_tables_show_nothing_by_their_order(codes: list[int]) -> None:
    assert not is_shown_by_order(np.array(codes, dtype=np.int64))


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("n_rows", [25, 1000])
def test_a_random_order_shows_nothing(share: float, n_rows: int) -> None:
    # 200 seeded tables. Beyond 6 standard deviations, or grouped, is a case of rare answers only:
    # one "yes" at an end of 1000 rows. Less than 1 in 100 tables is what the docstring promises.
    random = np.random.default_rng(0)
    shown = sum(
        is_shown_by_order((random.random(n_rows) < share).astype(np.int64)) for _ in range(200)
    )
    assert shown <= 2


def test_every_order_is_equally_likely() -> None:
    # 6000 seeded draws of 6 orders: 1000 each, with a standard deviation of 29.
    words = generator_words(np.random.default_rng(0))
    drawn = [tuple(random_order(3, words).tolist()) for _ in range(6000)]
    counts = [drawn.count(order) for order in itertools.permutations(range(3))]
    assert sum(counts) == 6000
    assert max(abs(count - 1000) for count in counts) < 5 * 29


def test_columns_that_restore_the_order() -> None:
    frame = pd.DataFrame(
        {
            "number": [1, 2, 5],
            "code": ["c", "b", "a"],
            "year": [2020, 2020, 2021],
            "age": [31, 58, 42],
            "mixed": pd.Series([1, "a", 2.5], dtype=object),
        }
    )
    assert numbering_columns(frame) == ["number", "code"]


def in_runs(n_runs, n_each=200):
    """Give as many answers of either kind, in so many runs: the first of each kind is the longest."""
    kinds = np.arange(n_runs) % 2
    lengths = np.ones(n_runs, dtype=int)
    for kind in (0, 1):
        lengths[kind] += n_each - np.count_nonzero(kinds == kind)
    return np.repeat(kinds, lengths)


def test_six_standard_deviations_are_too_many():
    # 400 answers, half and half: 201 runs are expected, with a standard deviation of 10.
    shown = {n_runs: is_shown_by_order(in_runs(n_runs)) for n_runs in (138, 144, 258, 264)}
    assert shown == {138: True, 144: False, 258: False, 264: True}

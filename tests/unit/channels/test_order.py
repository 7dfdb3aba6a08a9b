# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from epsilens.channels.draw import generator_words
from epsilens.channels.order import (
    SMALLEST_CORRELATION,
    _Blocks,
    _log_chance,
    _n_together,
    following_columns,
    random_order,
)

N_ROWS = 300
DAYS = pd.Series(pd.date_range("2024-01-01", periods=60).repeat(5))
RANDOM = np.random.default_rng(0)


def swapped(n_rows: int, one: int, other: int) -> np.ndarray:
    numbers = np.arange(n_rows)
    numbers[[one, other]] = numbers[[other, one]]
    return numbers


def partly_random(share: float) -> np.ndarray:
    numbers = np.arange(N_ROWS)
    places = RANDOM.choice(N_ROWS, int(share * N_ROWS), replace=False)
    numbers[places] = RANDOM.permutation(numbers[places])
    return numbers


FOLLOWING = {
    "text with numbers": [f"p{number}" for number in range(1, N_ROWS + 1)],
    "falling": [f"p{number}" for number in range(N_ROWS, 0, -1)],
    "padded": [f"{number:05d}" for number in range(N_ROWS)],
    "hexadecimal": [f"{37 * number:06x}" for number in range(N_ROWS)],
    "other words": [f"{RANDOM.choice(list('abc'))}-{number}" for number in range(N_ROWS)],
    "one swap": swapped(N_ROWS, 10, 200),
    "a far swap": swapped(N_ROWS, 0, N_ROWS - 1),
    "a third at random": partly_random(1 / 3),
    "blocks in any order": [
        f"V{village:02d}-{person}" for village in RANDOM.permutation(30) for person in range(10)
    ],
    "from the middle on": np.roll(np.arange(N_ROWS), 75),
    "dates": DAYS,
    "dates as text": DAYS.dt.strftime("%Y-%m-%d"),
    "German dates": DAYS.dt.strftime("%d.%m.%Y"),
    "American dates": DAYS.dt.strftime("%m/%d/%Y %H:%M"),
    "dates with words": DAYS.dt.strftime("%d-%b-%Y"),
    "dates in German words": [f"{day.day}. {['Mai', 'Dez.'][day.month - 1]} 2024" for day in DAYS],
    "two halves": np.repeat([0, 1], N_ROWS // 2),
    "categories": pd.Categorical(np.repeat(["z", "a", "m"], 100), ["z", "a", "m"], ordered=True),
    "only later": [None] * 200 + RANDOM.permutation(100).tolist(),
    "some missing": [None if number % 3 else number for number in range(N_ROWS)],
    "nearly": np.arange(N_ROWS) + RANDOM.normal(0, 40, N_ROWS),
}
UNRELATED = {
    "age": RANDOM.integers(18, 90, N_ROWS),
    "sex": RANDOM.choice(["m", "f"], N_ROWS),
    "code": [f"p{number}" for number in RANDOM.permutation(N_ROWS)],
    "date": RANDOM.permutation(DAYS.dt.strftime("%d.%m.%Y")),
    "person of household": np.tile([1, 2, 3], N_ROWS // 3),
    "constant": np.ones(N_ROWS),
    "nothing": [None] * N_ROWS,
    "lists": [[1, 2]] * N_ROWS,
    "mixed": pd.Series([1, "a", 2.5] * (N_ROWS // 3), dtype=object),
    "categories": pd.Categorical(RANDOM.choice([1.5, 10.5], N_ROWS)),
    "missing": RANDOM.choice([None, 1.0], N_ROWS),
    # A perfect prediction of an answer by which the table is sorted: a correlation of 0.75.
    "prediction": np.append(RANDOM.random(N_ROWS // 2), 1 + RANDOM.random(N_ROWS // 2)),
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_column_that_follows_the_order_is_named(name: str) -> None:
    frame = pd.DataFrame({"age": UNRELATED["age"], name: FOLLOWING[name]})
    assert following_columns(frame) == [name]


def test_unrelated_columns_are_not_named() -> None:
    assert following_columns(pd.DataFrame(UNRELATED)) == []


def test_large_tables_are_judged_by_some_of_their_rows() -> None:
    n_rows = 20_001
    frame = pd.DataFrame(
        {
            "number": swapped(n_rows, 3, 9_000),
            "age": RANDOM.integers(18, 90, n_rows),
            "block": np.argsort(RANDOM.permutation(n_rows // 3).repeat(3), kind="stable").argsort(),
        }
    )
    assert following_columns(frame) == ["number", "block"]


def within_blocks(kind: str, n_blocks: int, n_each: int) -> pd.DataFrame:
    """Rows in blocks of any order, with a column that follows the order within a block."""
    random = np.random.default_rng(5)
    blocks = random.permutation(n_blocks).repeat(n_each)
    if kind == "interleaved":
        blocks = random.permutation(blocks)
    places = pd.Series(blocks).groupby(blocks).cumcount().to_numpy()
    follows = {
        "falling": -places,
        "coarse": places * 24 // n_each,
        "text": [f"visit {place}" for place in places],
        "some missing": np.where(random.random(len(places)) < 0.3, np.nan, places),
    }.get(kind, places)
    ages = random.integers(18, 90, len(blocks))
    return pd.DataFrame({"clinic": [f"c{b}" for b in blocks], "visit": follows, "age": ages})


@pytest.mark.parametrize(
    "kind", ["rising", "falling", "coarse", "text", "some missing", "interleaved"]
)
@pytest.mark.parametrize(("n_blocks", "n_each"), [(10, 60), (8, 1000), (100, 400)])
def test_a_column_that_follows_the_order_within_another_is_named(
    kind: str, n_blocks: int, n_each: int
) -> None:
    assert following_columns(within_blocks(kind, n_blocks, n_each)) == ["visit"]


def test_within_small_blocks_a_prediction_is_not_an_order() -> None:
    # Sorted by a two-valued answer within each block: a correlation of 0.75 at most.
    frame = within_blocks("rising", 10, 60)
    frame["visit"] = (frame["visit"] >= 30) + RANDOM.random(len(frame))
    assert following_columns(frame) == []
    households = within_blocks("rising", 200, 3)
    assert following_columns(households) == []


@pytest.mark.parametrize("n_rows", [0, 1, 2, 5])
def test_a_few_rows_are_too_few_to_tell(n_rows: int) -> None:
    assert following_columns(pd.DataFrame({"number": range(n_rows)})) == []


def test_ten_rows_are_enough() -> None:
    frame = pd.DataFrame({"number": range(10), "swapped": swapped(10, 0, 9)})
    assert following_columns(frame) == ["number", "swapped"]
    assert following_columns(pd.DataFrame(index=range(10))) == []


@pytest.mark.parametrize("n_rows", [8, 15, 40])
def test_few_unrelated_tables_seem_to_follow_their_order(n_rows: int) -> None:
    # 100 seeded tables: at most one in a hundred is promised; 5 or more has a probability of 0.004.
    random = np.random.default_rng(n_rows)
    days = pd.date_range("2024-01-01", periods=n_rows).strftime("%d.%m.%Y")
    tables = (
        pd.DataFrame(
            {
                "number": random.random(n_rows),
                "sex": random.integers(0, 2, n_rows),
                "code": [f"p{number}" for number in random.permutation(n_rows)],
                "date": random.permutation(days),
                "group": random.integers(0, 3, n_rows),
            }
        )
        for _ in range(100)
    )
    assert sum(bool(following_columns(table)) for table in tables) < 5


@pytest.mark.parametrize("n_rows", [3, 7])
def test_neighbours_stay_together_as_rarely_as_is_assumed(n_rows: int) -> None:
    # The slow twin: every order of a small table.
    together = [
        _n_together(np.array(order, dtype=np.float64))
        for order in itertools.permutations(range(n_rows))
    ]
    for least in range(1, n_rows):
        share = np.mean([number >= least for number in together])
        assert share <= 2 / math.factorial(least)
    assert max(together) == n_rows - 1


def test_equal_values_have_no_next_row() -> None:
    assert _n_together(np.array([0.0, 0.0, 1.0, 2.0, 3.0, 3.0])) == 1


def test_every_order_is_equally_likely() -> None:
    # 6000 seeded draws of 6 orders: 1000 each, with a standard deviation of 29.
    words = generator_words(np.random.default_rng(0))
    drawn = [tuple(random_order(3, words).tolist()) for _ in range(6000)]
    counts = [drawn.count(order) for order in itertools.permutations(range(3))]
    assert sum(counts) == 6000
    assert max(abs(count - 1000) for count in counts) < 5 * 29


def test_equal_words_are_drawn_again() -> None:
    # Otherwise the rows that they belong to would keep the order that they had.
    words = iter([[5, 5, 1], [7, 2, 2], [9, 8, 3]])
    order = random_order(3, lambda n: np.array(next(words), dtype=np.uint64))
    assert order.tolist() == [2, 1, 0]


def test_words_near_the_ends_of_their_range_are_sorted() -> None:
    order = random_order(2, lambda n: np.array([2**64 - 1, 0], dtype=np.uint64))
    assert order.tolist() == [1, 0]


@pytest.mark.parametrize("noise", [3.0, 5.0, 9.0, 18.0, 60.0])
def test_the_order_within_blocks_is_that_of_a_partial_correlation(noise: float) -> None:
    # The slow twin: block by block in plain Python, and the t-test of a regression on the blocks.
    random = np.random.default_rng(1)
    codes = random.integers(0, 6, 300)
    row_of_block = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    ranks = pd.Series(row_of_block + noise * random.normal(size=300)).rank().to_numpy()
    left, right = [], []
    for block in range(6):
        rows = [row for row in range(300) if codes[row] == block]
        left += [ranks[row] - np.mean(ranks[rows]) for row in rows]
        right += [place - (len(rows) - 1) / 2 for place in range(len(rows))]
    correlation = np.corrcoef(left, right)[0, 1]
    found = _log_chance(ranks, _Blocks.of(codes))
    if correlation < SMALLEST_CORRELATION:
        assert found == 0.0
        return
    n_free = 300 - 6 - 1
    t = correlation * math.sqrt(n_free / (1 - correlation**2))
    assert found == pytest.approx(math.log(2 * stats.t.sf(t, n_free)), rel=1e-9)

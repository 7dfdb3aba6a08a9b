# SPDX-License-Identifier: Apache-2.0
"""The order of released rows: drawn at random, and not to be restored from another column.

A table that is sorted by an answer shows it by position, whatever is done to the answer itself. So
the order is drawn anew, and columns that follow the old order are found. Nothing here looks at a
protected answer: a rule that did would show it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.channels.draw import Words


SMALLEST_CORRELATION = 0.8
"""Rank correlation with the row number from which a column follows it.

At 0.8, four of five people are put into the right half of the table: a share of 1/2 + arcsin(0.8)/π
of normal pairs. A column that does no more than predict a two-valued answer stays below: where the
table is sorted by that answer, even a perfect prediction has a correlation of 0.75 at most.
"""

SMALLEST_SHARE_IN_ORDER = 0.25
"""Share of the rows that are next to each other when sorted, as in the data, from which it follows.

A few numbers far from their place take away the correlation, and so do sorted blocks in any order.
Both leave most neighbours together; a random order leaves one pair, on average.
"""

LARGEST_CHANCE = 0.01
"""Probability that some column of an unrelated table seems to follow the order of its rows."""

RUNS, ROWS_OF_RUN = 40, 25
"""Rows of a larger table that are looked at: the correlation is then known to about 0.02.

Within the values of another column, so many single rows are looked at too: a run may be a small part
of the rows that share a value. One long piece would not do, as it may have two values, half and half.
"""

SMALLEST_BLOCK = 5
"""Average number of rows with the same value from which another column is compared within them."""

_DIGITS = re.compile(r"([0-9]{1,18})")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_GERMAN_MONTHS = {"mär": "mar", "mai": "may", "okt": "oct", "dez": "dec"}
_MONTH = re.compile(rf"({'|'.join([*_MONTHS, *_GERMAN_MONTHS])})[a-z]*")


def random_order(n_rows: int, words: Words) -> NDArray[np.int64]:
    """Return the rows 0..n_rows-1 in random order.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    words : callable
        Source of randomness: one 64-bit word a row, by which the rows are sorted.

    Returns
    -------
    array of int64, shape (n_rows,)
        Every order is equally likely. If two words are alike, all are drawn again.

    Examples
    --------
    >>> from epsilens.channels.draw import operating_system_words
    >>> sorted(random_order(3, operating_system_words).tolist())
    [0, 1, 2]
    """
    while True:
        keys = words(n_rows)
        order = np.argsort(keys)
        if (np.diff(keys[order]) != 0).all():
            return order.astype(np.int64)


def following_columns(frame: pd.DataFrame) -> list[str]:
    """Name the columns by which the order of the rows could be restored, at least in part.

    A column follows the order if its rank correlation with the row number is 0.8 or more, up or
    down, or if sorting by it brings a quarter of the rows behind the row that they stood behind. It
    also follows if the correlation is 0.8 or more within the rows that have the same value of another
    column. In a small table this must also be unlikely by chance. Text is read as words, as numbers
    with words around them, and as dates.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns that are released as they are, in the original order of the rows.

    Returns
    -------
    list of str
        Names, in the order of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> ids = [f"p{number}" for number in range(1, 11)]
    >>> ages = [31, 58, 42, 25, 67, 38, 51, 44, 29, 60]
    >>> following_columns(pd.DataFrame({"id": ids, "age": ages}))
    ['id']
    """
    log_chances: dict[str, list[float]] = {str(name): [] for name in frame.columns}
    for place, rows in enumerate(_looked_at(len(frame))):
        sample = frame.iloc[rows]
        readings = {str(name): list(_readings(sample[name])) for name in frame.columns}
        groups = {
            str(name): _Blocks.of(distinct_answers(sample[name])[0]) for name in frame.columns
        }
        for name, found in log_chances.items():
            within = [g for other, g in groups.items() if other != name and g.are_large]
            if place == 0:
                found += [_log_chance_together(ranks) for ranks in readings[name]]
                within.append(_Blocks.of(np.zeros(len(rows), dtype=np.int64)))
            found += [_log_chance(ranks, blocks) for ranks in readings[name] for blocks in within]
    n_tests = sum(map(len, log_chances.values()))
    limit = math.log(LARGEST_CHANCE / max(n_tests, 1))
    return [name for name, found in log_chances.items() if min(found, default=0.0) < limit]


def _looked_at(n_rows: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows to look at: all of them, or runs of rows and then single rows from everywhere."""
    n_most = RUNS * ROWS_OF_RUN
    if n_rows <= n_most:
        yield np.arange(n_rows)
        return
    for length in (ROWS_OF_RUN, 1):
        starts = np.linspace(0, n_rows - length, n_most // length).astype(np.int64)
        yield (starts[:, np.newaxis] + np.arange(length)).ravel()


@dataclass(frozen=True)
class _Blocks:
    """Rows with the same value: number of every row's block, rows of each, and place in the block.

    Places are counted from the middle of the block, so that their average is 0.
    """

    numbers: NDArray[np.int64]
    counts: NDArray[np.int64]
    places: FloatArray

    @classmethod
    def of(cls, codes: NDArray[np.int64]) -> _Blocks:
        _, numbers, counts = np.unique(codes, return_inverse=True, return_counts=True)
        order = np.argsort(numbers, kind="stable")
        starts = np.cumsum(counts) - counts
        places = np.empty(len(codes))
        places[order] = np.arange(len(codes)) - np.repeat(starts + (counts - 1) / 2, counts)
        return cls(numbers, counts, places)

    @property
    def are_large(self) -> bool:
        return 1 < len(self.counts) <= len(self.numbers) / SMALLEST_BLOCK


def distinct_answers(column: pd.Series) -> tuple[NDArray[np.int64], pd.Index]:
    """Return the number of every row's answer, -1 for a missing one, and the answers as they come."""
    import pandas as pd

    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists and other values without a hash
        codes, values = pd.factorize(column.astype(str))
    return codes.astype(np.int64), pd.Index(values)


def log_arrangements(counts: NDArray[np.int64]) -> float:
    """Return the logarithm of the number of orders of answers, so many of each kind."""
    return math.lgamma(int(counts.sum()) + 1) - sum(math.lgamma(n + 1) for n in counts.tolist())


def _log_chance(ranks: FloatArray, blocks: _Blocks) -> float:
    """Return the log probability of such ranks within blocks by chance; 0 if no order is followed."""
    from scipy.special import stdtr

    known = ~np.isnan(ranks)
    if not known.all():
        ranks, blocks = ranks[known], _Blocks.of(blocks.numbers[known])
    n_free = len(ranks) - len(blocks.counts) - 1
    if n_free < 1:
        return 0.0
    means = np.bincount(blocks.numbers, ranks) / blocks.counts
    residuals = ranks - means[blocks.numbers]
    spread = float(residuals @ residuals) * float(blocks.places @ blocks.places)
    # Ranks are multiples of 1/2: less is an error of rounding.
    if spread < 1e-6:
        return 0.0
    correlation = min(abs(float(residuals @ blocks.places)) / math.sqrt(spread), 1.0)
    if correlation < SMALLEST_CORRELATION:
        return 0.0
    t = correlation * math.sqrt(n_free / max(1 - correlation**2, 1e-300))
    tail = 2 * float(stdtr(n_free, -t))
    sorted_by_chance = math.log(2) - sum(
        log_arrangements(np.unique(ranks[blocks.numbers == block], return_counts=True)[1])
        for block in range(len(blocks.counts))
    )
    return min(max(math.log(tail) if tail > 0 else -math.inf, sorted_by_chance), 0.0)


def _log_chance_together(ranks: FloatArray) -> float:
    """Return the log probability of so many neighbours by chance; 0 if they are few."""
    known = ranks[~np.isnan(ranks)]
    n_together = _n_together(known)
    if n_together < max(SMALLEST_SHARE_IN_ORDER * (len(known) - 1), 1):
        return 0.0
    # A random order leaves m such pairs with a probability of at most 1/m!, in each direction.
    return min(math.log(2) - math.lgamma(n_together + 1), 0.0)


def _n_together(ranks: FloatArray) -> int:
    """Count the rows that still come next when sorted, up or down; equal values do not count."""
    _, numbers, counts = np.unique(ranks, return_inverse=True, return_counts=True)
    is_single = counts[numbers] == 1
    steps = np.diff(numbers)[is_single[:-1] & is_single[1:]]
    return int(max(np.count_nonzero(steps == 1), np.count_nonzero(steps == -1)))


def _readings(column: pd.Series) -> Iterator[FloatArray]:
    """Yield the column's different ranks, in all ways to read it; NaN for a missing answer."""
    missing = column.isna().to_numpy(dtype=np.bool_)
    if missing.any():
        yield missing.astype(np.float64)
    codes, values = distinct_answers(column[~missing])
    seen: set[tuple[int, ...]] = set()
    for keys in _sort_keys(values):
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        order = tuple(places[key] for key in keys)
        if order in seen:
            continue
        seen.add(order)
        numbers = np.array(order, dtype=np.int64)[codes]
        counts = np.bincount(numbers)
        ranks = np.full(len(column), np.nan)
        ranks[~missing] = (np.cumsum(counts) - counts / 2)[numbers]
        yield ranks


def _sort_keys(values: pd.Index) -> Iterator[Sequence[Any]]:
    """Yield what the different values may be sorted by, one list for each way to read them."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        if values.dtype.ordered:
            yield pd.Categorical(values).codes.tolist()
        values = pd.Index(np.asarray(values))
    if getattr(values.dtype, "kind", "O") in "iufbmM":
        yield values.tolist()
        return
    texts = [str(value).strip() for value in values]
    yield texts
    parts = [_DIGITS.split(text) for text in texts]
    if not texts or all(len(part) == 1 for part in parts):
        return
    # Words and numbers take turns, so that like is compared with like.
    yield [tuple(int(p) if i % 2 else p for i, p in enumerate(part)) for part in parts]
    numbers = [_numbers(text) or [-1] for text in texts]
    yield [number[0] for number in numbers]
    yield [number[-1] for number in numbers]
    # Day, month, year; or month, day, year. Year first is the order of the text itself.
    months = [_numbers(_MONTH.sub(_month_number, text.lower())) for text in texts]
    for second, first in ((1, 0), (0, 1)):
        yield [(n[2], n[second], n[first], *n[3:]) if len(n) > 2 else (-1, *n) for n in months]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in _DIGITS.findall(text)]


def _month_number(match: re.Match[str]) -> str:
    return f" {_MONTHS.index(_GERMAN_MONTHS.get(match[1], match[1])) + 1} "

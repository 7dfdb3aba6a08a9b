# SPDX-License-Identifier: Apache-2.0
"""Whether the order of the rows shows a protected column, and how to take it away.

A table that is sorted by an answer gives it away by position, whatever is done to the answer
itself. How many runs of equal answers a random order has is known, so an order that was made from
the answers can be told from one that was not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.channels.draw import Words

__all__ = ["is_shown_by_order", "numbering_columns", "random_order"]

FEWEST_ROWS = 20
LARGEST_RUNS_SCORE = 6.0
"""Standard deviations between the runs found and those expected; chance gives 2 in 10⁹ beyond."""

SMALLEST_CHANCE = 0.01
"""A table whose answers stand in groups shows them if chance does that more rarely."""


def is_shown_by_order(codes: NDArray[np.int64]) -> bool:
    """Say whether the order of the rows shows the answers.

    It does if equal answers stand together, or take turns, far more than in a random order, or if
    the answers are sorted and would hardly be so by chance.

    Parameters
    ----------
    codes : array of int64, shape (n_rows,)
        The answer of every row.

    Returns
    -------
    bool
        Whether the order must be taken away to protect them.

    Notes
    -----
    The number of runs of a random order of n answers, n_i of each kind, has the mean
    1 + (n² − Σn_i²)/n and the variance
    [Σn_i²(Σn_i² + n(n + 1)) − 2nΣn_i³ − n³] / [n²(n − 1)] (Barton and David 1957).

    References
    ----------
    D. E. Barton and F. N. David, "Multiple runs", Biometrika 44 (1957), 168-178.

    Examples
    --------
    >>> import numpy as np
    >>> is_shown_by_order(np.repeat([0, 1], 50))
    True
    >>> is_shown_by_order(np.random.default_rng(0).integers(0, 2, 100))
    False
    """
    counts = np.unique(codes, return_counts=True)[1]
    n_rows = len(codes)
    if len(counts) < 2:
        return False
    steps = np.diff(codes)
    n_runs = 1 + int(np.count_nonzero(steps))
    log_arrangements = math.lgamma(n_rows + 1) - sum(math.lgamma(n + 1) for n in counts.tolist())
    log_chance = math.inf
    if n_runs == len(counts):
        log_chance = math.lgamma(len(counts) + 1) - log_arrangements
    if (steps >= 0).all() or (steps <= 0).all():
        log_chance = min(log_chance, math.log(2) - log_arrangements)
    if log_chance < math.log(SMALLEST_CHANCE):
        return True
    return n_rows >= FEWEST_ROWS and abs(_runs_score(n_runs, counts)) > LARGEST_RUNS_SCORE


def _runs_score(n_runs: int, counts: NDArray[np.int64]) -> float:
    """Return by how many standard deviations the runs differ from those of a random order."""
    n = int(counts.sum())
    squares = sum(count**2 for count in counts.tolist())
    cubes = sum(count**3 for count in counts.tolist())
    mean = 1 + (n * n - squares) / n
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n * n * (n - 1))
    return (n_runs - mean) / math.sqrt(variance) if variance > 0 else 0.0


def random_order(n_rows: int, words: Words) -> NDArray[np.int64]:
    """Return the rows 0..n_rows-1 in random order.

    Parameters
    ----------
    n_rows : int
        How many rows.
    words : callable
        Where the randomness comes from: one 64-bit word a row, by which the rows are sorted.

    Returns
    -------
    array of int64, shape (n_rows,)
        Two words are alike with a probability below n_rows² / 2⁶⁵; then these two rows keep the
        order that they had.

    Examples
    --------
    >>> from epsilens.channels.draw import operating_system_words
    >>> sorted(random_order(3, operating_system_words).tolist())
    [0, 1, 2]
    """
    return np.argsort(words(n_rows), kind="stable").astype(np.int64)


def numbering_columns(frame: pd.DataFrame) -> list[str]:
    """Name the columns by which the order of the rows could be restored.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns that are released as they are.

    Returns
    -------
    list of str
        Those that rise or fall with every row, such as a running number.

    Examples
    --------
    >>> import pandas as pd
    >>> numbering_columns(pd.DataFrame({"number": [1, 2, 3], "age": [31, 58, 42]}))
    ['number']
    """
    found = []
    for name in frame.columns:
        column = frame[name]
        try:
            rises = column.is_monotonic_increasing or column.is_monotonic_decreasing
            if rises and column.is_unique:
                found.append(str(name))
        except TypeError:
            # Values that cannot be compared number nothing.
            continue
    return found

# SPDX-License-Identifier: Apache-2.0
"""Labels that change in drawn runs, and what they pull the linear term by.

Which records change is drawn by their place in the group alone, before anybody looks at a record: so the
same seed draws the same changes wherever the records are, in memory or in pieces on disk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.models import Problem

__all__ = ["Changes", "draw_changes", "sum_changes"]


@dataclass(frozen=True, repr=False)
class Changes:
    """Labels that change in drawn runs.

    Attributes
    ----------
    record : array of int, shape (n_changes,)
        Place in the group, ascending.
    slot : array of int, shape (n_changes,)
        level·n_draws + run: from which chance on (in ascending order) it changes, and in which run.
    report : array of int, shape (n_changes,)
        Which of the k − 1 other labels, counted without the true one.
    n_slots : int
        Levels times runs.
    """

    record: NDArray[np.int64]
    slot: NDArray[np.int64]
    report: NDArray[np.int64]
    n_slots: int

    def between(self, first: int, last: int) -> Changes:
        """Return the changes of records first..last − 1 of the group, counted from the first."""
        low, high = np.searchsorted(self.record, [first, last])
        part = slice(int(low), int(high))
        return Changes(self.record[part] - first, self.slot[part], self.report[part], self.n_slots)


def draw_changes(
    n_members: int,
    k: int,
    lies: FloatArray,
    *,
    highest: float,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> Changes:
    """Draw which labels change, at several chances of a lie.

    Only the changes are drawn: the gaps between them are geometric. Each change has a level, the
    chance at which it sets in, so that what changes at one ε changes at every smaller one.

    Parameters
    ----------
    n_members, k : int
        Records of the group and labels of the domain.
    lies : array of shape (n_chances,)
        Probability of each single other label.
    highest : float
        The largest probability that could be asked for. It decides what is drawn, so that the runs at
        one ε do not depend on which others are asked for.
    n_draws : int
    seed : SeedSequence
    """
    rng = np.random.default_rng(seed)
    places = np.zeros(0, dtype=np.int64)
    if highest > 0.0 and n_members:
        places = _bernoulli_places(rng, n_members * n_draws, min((k - 1) * highest, 1.0))
    record, draw = places // n_draws, places % n_draws
    level = np.searchsorted(np.sort(lies), rng.random(len(places)) * highest)
    report = rng.integers(0, k - 1, size=len(places)) if k > 2 else np.zeros_like(places)
    asked = level < len(lies)
    slot = level[asked] * n_draws + draw[asked]
    return Changes(record[asked], slot, report[asked], len(lies) * n_draws)


def sum_changes(
    problem: Problem,
    codes: NDArray[np.int64],
    statistics: FloatArray,
    rows: NDArray[np.intp],
    changes: Changes,
    *,
    direction: FloatArray | None = None,
) -> FloatArray:
    """Return Σ w_i (t(report) − t(truth)) ⊗ x_i in every slot: (n_slots, K·p), or along v: (n_slots, 1).

    Parameters
    ----------
    problem : Problem
    codes : array of int, shape (n,)
        The labels of all records.
    statistics : array of shape (k, K)
    rows : array of int, shape (n_members,)
        The group's records.
    changes : Changes
        `record` counts among `rows`.
    direction : array of shape (K·p,), optional
        v.
    """
    chosen = rows[changes.record]
    truth = codes[chosen]
    report = changes.report + (changes.report >= truth)
    moves = (statistics[report] - statistics[truth]) * problem.weights[chosen, None]
    if direction is not None:
        along = problem.design.take(rows).predict(direction)
        moved = (moves * along[changes.record]).sum(axis=1)
        counted = np.bincount(changes.slot, weights=moved, minlength=changes.n_slots)
        return np.asarray(counted, dtype=np.float64)[:, None]
    n_outputs, p = statistics.shape[1], problem.design.n_columns
    total = np.zeros((changes.n_slots, n_outputs * p))
    if len(chosen) == 0:
        return total
    matrix = problem.design.take(rows).matrix
    shape = (changes.n_slots, len(rows))
    for output in range(n_outputs):
        sparse = scipy.sparse.csr_array(
            (moves[:, output], (changes.slot, changes.record)), shape=shape
        )
        pulled = sparse @ matrix
        place = slice(output * p, (output + 1) * p)
        total[:, place] = pulled if isinstance(pulled, np.ndarray) else pulled.toarray()
    return total


def _bernoulli_places(
    rng: np.random.Generator, n_trials: int, probability: float
) -> NDArray[np.int64]:
    """Return the positions of the successes among independent trials."""
    places: list[NDArray[np.int64]] = []
    last = -1
    while last < n_trials:
        left = (n_trials - last) * probability
        gaps = rng.geometric(probability, size=int(left + 6.0 * np.sqrt(left) + 10.0))
        # At an ε above 40 single gaps are larger than any integer, and their sum would turn negative.
        places.append(last + np.cumsum(np.minimum(gaps, n_trials + 1)))
        last = int(places[-1][-1])
    found = np.concatenate(places)
    return found[found < n_trials]

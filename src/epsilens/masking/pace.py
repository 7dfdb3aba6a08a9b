# SPDX-License-Identifier: Apache-2.0
"""A time budget: how much of the work fits, and what to say about the rest."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from epsilens._validate import as_positive
from epsilens.masking.importances import drawn
from epsilens.masking.records import Records, fit_both

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["Pace", "affordable"]

PILOT_RECORDS = 2_000
"""Records of the first, timed training."""
_SHARE_FOR_TRAINING = 0.6
"""Of the budget; explaining, choosing and reading take the rest."""


def _now() -> float:
    return time.perf_counter()


@dataclass(frozen=True)
class Pace:
    """A time budget that runs from when it is made; None: without end."""

    seconds: float | None
    started: float = field(default_factory=_now)

    def __post_init__(self) -> None:
        if self.seconds is not None:
            as_positive(self.seconds, name="seconds")

    @property
    def is_up(self) -> bool:
        """Whether all of it is spent."""
        return self.seconds is not None and _now() - self.started > self.seconds

    def share(self, part: float) -> Pace:
        """Return a part of the budget, that begins now."""
        return Pace(None if self.seconds is None else part * self.seconds)


def affordable(
    part: Records,
    models: tuple[BaseEstimator, BaseEstimator],
    *,
    n_fits: int,
    pace: Pace,
    seed: int,
) -> Records:
    """Return the records that so many trainings fit into the budget with: all, or a sample.

    The time of one training is measured on a sample and taken to grow with the number of records.

    Parameters
    ----------
    part : Records
        The training records.
    models : (task, identity)
        Classifiers, not yet fitted.
    n_fits : int
        How many trainings of both are to come.
    pace : Pace
    seed : int
        Seed of the sample, which has as many records of every person as of the others, where there are.
    """
    n = len(part.y)
    if pace.seconds is None or n <= 2 * PILOT_RECORDS:
        return part

    def sample(size: int) -> Records:
        rows = drawn(part.who.astype(np.intp), size, seed)
        return Records(part.X[rows], part.y[rows], part.who[rows])

    pilot = sample(PILOT_RECORDS)
    begun = time.perf_counter()
    fit_both(models, pilot)
    seconds_each = (time.perf_counter() - begun) / PILOT_RECORDS
    most = math.floor(_SHARE_FOR_TRAINING * pace.seconds / (n_fits * max(seconds_each, 1e-9)))
    return part if most >= n else sample(max(most, PILOT_RECORDS))

# SPDX-License-Identifier: Apache-2.0
"""What masks do: both models trained again without the masked features, and judged on other records."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import as_positive
from epsilens.document import MaskOutcome, MaskPoint
from epsilens.errors import InputError
from epsilens.masking.choices import mask_at_random, outcome
from epsilens.masking.importances import drawn
from epsilens.masking.knapsack import MaskChoice, solve_mask
from epsilens.masking.records import EncodedTable, Labels, PersonRecords, fit_both, fit_quietly
from epsilens.models.scikit_learn import fresh_copy

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


# --- A time budget: how much of the work fits, and what to say about the rest ---

PILOT_RECORDS = 2_000
"""Records of the first, timed training."""
_SHARE_FOR_TRAINING = 0.6
"""Share of the time budget for training; explaining, choosing and reading take the rest."""


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
    part: PersonRecords,
    models: tuple[BaseEstimator, BaseEstimator],
    *,
    n_fits: int,
    pace: Pace,
    seed: int,
) -> PersonRecords:
    """Return the records that so many trainings fit into the budget with: all, or a sample.

    The time of one training is measured on a sample and taken to grow with the number of records.

    Parameters
    ----------
    part : PersonRecords
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

    def sample(size: int) -> PersonRecords:
        return part.take(drawn(part.who.astype(np.intp), size, seed))

    pilot = sample(PILOT_RECORDS)
    begun = time.perf_counter()
    fit_both(models, pilot)
    seconds_each = (time.perf_counter() - begun) / PILOT_RECORDS
    most = math.floor(_SHARE_FOR_TRAINING * pace.seconds / (n_fits * max(seconds_each, 1e-9)))
    return part if most >= n else sample(max(most, PILOT_RECORDS))


# --- What masks do: both models trained again without the masked features, and judged on other records ---

RANDOM_MASKS = 5
"""Random masks whose outcomes are averaged."""
_WITHOUT = "training without masked features"


@dataclass(frozen=True, eq=False, repr=False)  # a printed record would be a leak
class Judge:
    """Trains both models on what a mask keeps, and counts what they get right.

    Attributes
    ----------
    table : EncodedTable
    train, test : PersonRecords
        To train on, and to be judged on: records that chose no mask.
    models : (task, identity)
        Classifiers, not yet fitted.
    people : array of shape (n_people,)
        Whose masks the rows of `person_masks` are.
    pace : Pace
    progress : callable or None
    """

    table: EncodedTable
    train: PersonRecords
    test: PersonRecords
    models: tuple[BaseEstimator, BaseEstimator]
    people: Labels
    pace: Pace = field(default_factory=lambda: Pace(None))
    progress: Progress | None = None

    def outcomes(
        self,
        choice: MaskChoice,
        person_masks: BoolArray | None,
        held: BoolArray,
        *,
        seed: int,
    ) -> list[MaskOutcome]:
        """Train without masked features, at random and as chosen; see `MaskOutcome`.

        What must be kept is kept at random too: else the control would mask what no choice may. Once the
        time is up, one random mask is enough.
        """
        n = len(self.table.names)
        everything = np.ones(n, dtype=bool)
        self._step(0, 2 + RANDOM_MASKS, _WITHOUT)
        before = self._accuracies(everything)
        self._step(1, 2 + RANDOM_MASKS, _WITHOUT)
        found = [outcome("none", 0, [before])]
        if person_masks is not None:
            blanked = self._accuracies_by_person(person_masks)
            return [*found, outcome("chosen", choice.n_masked, [blanked], before=before)]
        drawn = [
            mask_at_random(n, n_masked=choice.n_masked, random_state=seed + k, keep=held)
            for k in range(RANDOM_MASKS if 0 < choice.n_masked < int((~held).sum()) else 1)
        ]
        judged: list[tuple[BoolArray, BoolArray]] = []
        for mask in drawn:
            if not judged or not self.pace.is_up:
                judged.append(self._accuracies(mask))
                self._step(1 + len(judged), 2 + RANDOM_MASKS, _WITHOUT)
        found.append(outcome("random", choice.n_masked, judged, before=before))
        chosen = [self._accuracies(choice.kept)]
        self._step(2 + RANDOM_MASKS, 2 + RANDOM_MASKS, _WITHOUT)
        return [*found, outcome("chosen", choice.n_masked, chosen, before=before)]

    def curve(
        self,
        u: FloatArray,
        s: FloatArray,
        held: BoolArray,
        alphas: Sequence[float],
    ) -> list[MaskPoint]:
        """Choose and judge a mask for every α that there is time for; see `MaskPoint`."""
        points = []
        known: dict[bytes, tuple[BoolArray, BoolArray]] = {}
        for k, at in enumerate(sorted(alphas)):
            if self.pace.is_up:
                break
            choice = solve_mask(u, s, alpha=at, keep=held)
            key = choice.kept.tobytes()
            if key not in known:
                known[key] = self._accuracies(choice.kept)
            right, recognised = known[key]
            points.append(
                MaskPoint(
                    alpha=at,
                    n_masked=choice.n_masked,
                    utility_kept=choice.utility_kept,
                    privacy_kept=choice.privacy_kept,
                    utility_accuracy=float(right.mean()),
                    identity_accuracy=float(recognised.mean()),
                )
            )
            self._step(k + 1, len(alphas), "training for other values of α")
        return points

    def _step(self, done: int, total: int, what: str) -> None:
        if self.progress is not None:
            self.progress(done, total, what)

    def _accuracies(self, kept: BoolArray) -> tuple[BoolArray, BoolArray]:
        """Return which test records both tasks get right without the masked features."""
        columns = self.table.columns(kept)
        return self._judged(self.train.X[:, columns], self.test.X[:, columns])

    def _accuracies_by_person(self, person_masks: BoolArray) -> tuple[BoolArray, BoolArray]:
        """Return the same where the features of each record are blank as its person's mask says."""
        by_person = {
            who: self.table.columns(mask)
            for who, mask in zip(self.people, person_masks, strict=True)
        }
        everything = self.table.columns(np.ones(len(self.table.names), dtype=bool))

        def blank(part: PersonRecords) -> FloatArray:
            return part.X * np.stack([by_person.get(who, everything) for who in part.who])

        return self._judged(blank(self.train), blank(self.test))

    def _judged(self, train: FloatArray, test: FloatArray) -> tuple[BoolArray, BoolArray]:
        found = []
        for model, known, asked in zip(
            self.models,
            (self.train.y, self.train.who),
            (self.test.y, self.test.who),
            strict=True,
        ):
            if train.shape[1] == 0:
                values, counts = np.unique(known, return_counts=True)
                found.append(asked == values[counts.argmax()])
                continue
            try:
                fitted = fit_quietly(fresh_copy(model), train, known)
            except ValueError as error:
                raise InputError(
                    f"{type(model).__name__} cannot be trained on fewer columns ({type(error).__name__}), as masking "
                    "needs. Use a model that names no columns, such as RandomForestClassifier()."
                ) from None
            found.append(np.asarray(fitted.predict(test) == asked))
        return found[0], found[1]

# SPDX-License-Identifier: Apache-2.0
"""Records whose task is to be learnt and whose person is to be recognised."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from epsilens._types import FloatArray, Progress
from epsilens.data.frames import to_vector
from epsilens.errors import InputError

__all__ = [
    "Labels",
    "Records",
    "checked_people",
    "fit_both",
    "fit_quietly",
    "guess_rate",
    "halved",
    "person_codes",
    "random_halves",
    "read_records",
    "refuse_missing",
]

Labels: TypeAlias = NDArray[np.generic]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Records:
    """Rows as the models see them, what they answer, and who they are."""

    X: FloatArray
    y: Labels
    who: Labels


def fit_quietly(model: BaseEstimator, X: FloatArray, y: Labels) -> BaseEstimator:
    """Train a model; that it has not quite converged does not matter to what it rests on."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def fit_both(
    models: tuple[BaseEstimator, BaseEstimator],
    part: Records,
    progress: Progress | None = None,
) -> tuple[BaseEstimator, BaseEstimator]:
    """Train copies of the task's and the identity's model on some records."""
    found = []
    for k, (model, target) in enumerate(zip(models, (part.y, part.who), strict=True)):
        if progress is not None:
            progress(k, 2, "training both models")
        found.append(fit_quietly(clone(model), part.X, target))
    return found[0], found[1]


def read_records(X: FloatArray, y: object, who: object, *, what: str) -> Records:
    """Return records whose answers and identities are all known."""
    answers, people = to_vector(y), to_vector(who)
    if not len(X) == len(answers) == len(people):
        raise InputError(
            f"the {what} must have one answer and one identity each, got {len(X)} records, "
            f"{len(answers)} answers and {len(people)} identities."
        )
    for name, values in (("the label", answers), ("identity", people)):
        refuse_missing(values, name=name)
    return Records(X, answers, people)


def checked_people(y: Labels, who: Labels) -> None:
    """Refuse a label or an identity that no model can learn, or that are one and the same.

    Raises
    ------
    InputError
        One line without any value.
    """
    answers, people = np.unique(y, return_inverse=True), np.unique(who, return_inverse=True)
    for name, (values, _) in (("the label", answers), ("`identity`", people)):
        if len(values) < 2:
            raise InputError(
                f"{name} must have at least two different values among the training records, got one "
                "class. There is nothing to tell apart."
            )
    if len(people[0]) == len(who):
        raise InputError(
            "`identity` must have people with several records each, but every record has a value of its "
            "own. Name the column that says whose record it is."
        )
    pairs = np.unique(answers[1] * len(people[0]) + people[1])
    if len(pairs) == len(answers[0]) == len(people[0]):
        raise InputError(
            "`identity` must be something else than the label, but one follows from the other. Name the "
            "column that says whose record it is."
        )


def guess_rate(known: Labels, asked: Labels) -> float:
    """Return how often the most common known value is right."""
    values, counts = np.unique(known, return_counts=True)
    return float((asked == values[counts.argmax()]).mean())


def random_halves(
    strata: Labels, beside: Labels, *, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Halve records at random, every stratum as evenly as it goes, and within it what stands beside.

    Parameters
    ----------
    strata, beside : array of shape (n,)
        Records are paired within a stratum, like with like as far as it goes, and a coin sends one
        of each pair to either half.
    seed : int

    Returns
    -------
    two arrays of int
        Rows, ascending. Strata of two records or more are in both.
    """
    generator = np.random.default_rng(seed)
    n = len(strata)
    codes, counts = np.unique(strata, return_inverse=True, return_counts=True)[1:]
    second = np.unique(beside, return_inverse=True)[1]
    order = np.lexsort((generator.permutation(n), second, codes))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    within = np.arange(n) - np.repeat(starts, counts)
    coins = generator.integers(0, 2, n)
    side = (within + coins[np.arange(n) - within % 2]) % 2
    return np.sort(order[side == 0]), np.sort(order[side == 1])


def halved(part: Records, *, seed: int) -> tuple[Records, Records]:
    """Halve records at random, stratified by person and answer; all of them twice if one is left out.

    Parameters
    ----------
    part : Records
    seed : int
    """

    def rows(chosen: NDArray[np.intp]) -> Records:
        return Records(part.X[chosen], part.y[chosen], part.who[chosen])

    first, second = random_halves(part.who, part.y, seed=seed)
    if not len(first) or not len(second):
        return part, part
    return rows(first), rows(second)


def refuse_missing(values: Labels, *, name: str) -> None:
    """Refuse answers or identities that are missing."""
    import pandas as pd

    n_missing = int(pd.isna(np.asarray(values, dtype=object)).sum())
    if n_missing:
        raise InputError(
            f"{name} must be known of every record, but {n_missing} of {len(values)} are missing. Leave "
            "those records out."
        )


def person_codes(*columns: Labels) -> tuple[Labels, list[NDArray[np.intp]]]:
    """Give people numbers, for models that refuse floats and sorts that refuse mixed types.

    Parameters
    ----------
    *columns : array of shape (n,)
        Whose records they are; none is missing.

    Returns
    -------
    people : array of shape (n_people,)
        In order where they have one.
    codes : list of array of int
        Of every column, the places in it.

    Examples
    --------
    >>> import numpy as np
    >>> person_codes(np.array([2.5, 1.5]), np.array([2.5]))
    (array([1.5, 2.5]), [array([1, 0]), array([1])])
    """
    import pandas as pd

    kinds = {column.dtype for column in columns}
    joined = (
        np.concatenate(columns)
        if len(kinds) == 1
        else np.concatenate([column.astype(object) for column in columns])
    )
    codes, people = pd.factorize(joined, sort=True)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return np.asarray(people), np.split(codes.astype(np.intp), ends)

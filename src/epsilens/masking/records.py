# SPDX-License-Identifier: Apache-2.0
"""Records whose task is to be learnt and whose person is to be recognised."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from epsilens.errors import InputError

__all__ = [
    "Labels",
    "Records",
    "checked_people",
    "fit_quietly",
    "guess_rate",
    "halved",
    "refuse_missing",
]

FloatArray = NDArray[np.float64]
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


def halved(part: Records) -> tuple[Records, Records]:
    """Halve records, stratified by person as far as that goes: one to train on, one to explain."""
    order = np.argsort(np.unique(part.who, return_inverse=True)[1], kind="stable")

    def rows(chosen: NDArray[np.intp]) -> Records:
        return Records(part.X[chosen], part.y[chosen], part.who[chosen])

    return rows(order[0::2]), rows(order[1::2])


def refuse_missing(values: Labels, *, name: str) -> None:
    """Refuse answers or identities that are missing."""
    import pandas as pd

    n_missing = int(pd.isna(np.asarray(values, dtype=object)).sum())
    if n_missing:
        raise InputError(
            f"{name} must be known of every record, but {n_missing} of {len(values)} are missing. Leave "
            "those records out."
        )

# SPDX-License-Identifier: Apache-2.0
"""Records whose task is to be learnt and whose person is to be recognised."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import require_column
from epsilens.data.frames import to_vector
from epsilens.errors import InputError, setting
from epsilens.models.scikit_learn import final_step, fresh_copy, refuse_class_or_search
from epsilens.models.tables import column_names, for_scikit_learn, require_records

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator


Labels: TypeAlias = NDArray[np.generic]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class PersonRecords:
    """Rows as the models see them, what they answer, and who they are."""

    X: FloatArray
    y: Labels
    who: Labels

    def take(self, rows: NDArray[np.intp]) -> PersonRecords:
        """Return some of the records."""
        return PersonRecords(self.X[rows], self.y[rows], self.who[rows])


def fit_quietly(model: BaseEstimator, X: FloatArray, y: Labels) -> BaseEstimator:
    """Train a model; that it has not quite converged does not matter to what it rests on."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def fit_both(
    models: tuple[BaseEstimator, BaseEstimator],
    part: PersonRecords,
    progress: Progress | None = None,
) -> tuple[BaseEstimator, BaseEstimator]:
    """Train copies of the task's and the identity's model on some records."""
    found = []
    for k, (model, target) in enumerate(zip(models, (part.y, part.who), strict=True)):
        if progress is not None:
            progress(k, 2, "training both models")
        found.append(fit_quietly(fresh_copy(model), part.X, target))
    return found[0], found[1]


def read_records(X: FloatArray, y: object, who: object, *, what: str) -> PersonRecords:
    """Return records whose answers and identities are all known."""
    answers, people = to_vector(y), to_vector(who)
    if not len(X) == len(answers) == len(people):
        raise InputError(
            f"the {what} must have one answer and one identity each, got {len(X)} records, "
            f"{len(answers)} answers and {len(people)} identities."
        )
    for name, values in (("the label", answers), ("identity", people)):
        refuse_missing(values, name=name)
    return PersonRecords(X, answers, people)


def checked_people(y: Labels, who: Labels) -> None:
    """Refuse a label or an identity that no model can learn, or that are one and the same.

    Raises
    ------
    InputError
        One line without any value.
    """
    answers, people = np.unique(y, return_inverse=True), np.unique(who, return_inverse=True)
    for name, (values, _) in (("the label", answers), (setting("identity"), people)):
        if len(values) < 2:
            raise InputError(
                f"{name} must have at least two different values among the training records, got one "
                "class. There is nothing to tell apart."
            )
    if len(people[0]) == len(who):
        raise InputError(
            f"{setting('identity')} must have people with several records each, but every record "
            "has a value of its own. Name the column that says whose record it is."
        )
    pairs = np.unique(answers[1] * len(people[0]) + people[1])
    if len(pairs) == len(answers[0]) == len(people[0]):
        raise InputError(
            f"{setting('identity')} must be something else than the label, but one follows from "
            "the other. Name the column that says whose record it is."
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


def halved(part: PersonRecords, *, seed: int) -> tuple[PersonRecords, PersonRecords]:
    """Halve records at random, stratified by person and answer; all of them twice if one is left out.

    Parameters
    ----------
    part : PersonRecords
    seed : int
    """
    first, second = random_halves(part.who, part.y, seed=seed)
    if not len(first) or not len(second):
        return part, part
    return part.take(first), part.take(second)


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
        Positions in `people`, for every column.

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


# --- Features and the numbers that a model sees of them: which column of those belongs to which feature ---


def split_estimator(estimator: BaseEstimator) -> tuple[BaseEstimator | None, BaseEstimator]:
    """Return the transformers of a pipeline, None without any, and its last step.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> split_estimator(LogisticRegression())
    (None, LogisticRegression())
    """
    from sklearn.pipeline import Pipeline

    refuse_class_or_search(final_step(estimator))
    if isinstance(estimator, Pipeline):
        return (estimator[:-1] if len(estimator.steps) > 1 else None), estimator.steps[-1][1]
    return None, estimator


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class EncodedTable:
    """A table's way to numbers, learnt on its training rows.

    Attributes
    ----------
    names : tuple of str
        The features.
    sources : array of int, (n_columns,)
        Which feature each column of the numbers belongs to; −1 for one that never changes.
    transformer : fitted transformer or None
    """

    names: tuple[str, ...]
    sources: NDArray[np.intp]
    transformer: BaseEstimator | None

    @classmethod
    def learn(cls, transformer: BaseEstimator | None, X: object) -> EncodedTable:
        """Fit the transformers and find out which feature each column of theirs belongs to.

        They are asked, not read: the values of one feature change places among the rows, and the columns
        that change with them are its own.

        Parameters
        ----------
        transformer : transformer or None
            Not yet fitted.
        X : table or array of shape (n, n_features)
            The training rows.
        """
        table = for_scikit_learn(X)
        require_records(table, what="training")
        names = tuple(column_names(table))
        if transformer is None:
            n_columns = _numbers(table).shape[1]
            return cls(
                names or tuple(f"x{j}" for j in range(n_columns)), np.arange(n_columns), None
            )
        fitted = clone(transformer).fit(table)
        plain = _numbers(fitted.transform(table))
        sources = np.full(plain.shape[1], -1, dtype=np.intp)
        for j in range(len(names)):
            other = _numbers(fitted.transform(_exchanged(table, j)))
            alike = (other == plain) | (np.isnan(other) & np.isnan(plain))
            changed = ~alike.all(axis=0)
            if (sources[changed] >= 0).any():
                raise InputError(
                    "every column that the model sees must come from one feature to be masked, but "
                    "some come from several. Leave products and projections of features out."
                )
            sources[changed] = j
        return cls(names, sources, fitted)

    def rows(self, X: object) -> FloatArray:
        """Return the numbers of other rows, dense and finite."""
        table = for_scikit_learn(X)
        found = _numbers(table if self.transformer is None else self.transformer.transform(table))
        n_bad = int((~np.isfinite(found)).sum())
        if n_bad:
            raise InputError(
                f"the features must be finite numbers, but {n_bad} values are missing or infinite. "
                "Drop or impute them first."
            )
        return found

    def held(self, keep: Sequence[str]) -> BoolArray:
        """Return which features are never masked."""
        known = [require_column(name, self.names, argument="keep") for name in keep]
        return np.array([name in known for name in self.names])

    def columns(self, kept: BoolArray) -> BoolArray:
        """Return which columns of the numbers stay if these features are kept."""
        return np.asarray(np.where(self.sources >= 0, kept[np.maximum(self.sources, 0)], True))


def _numbers(values: object) -> FloatArray:
    if isinstance(values, scipy.sparse.sparray | scipy.sparse.spmatrix):
        values = values.toarray()
    array = np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"the features must be numbers once encoded, got values of type {array.dtype} in "
            f"{array.ndim} dimensions. Put an encoder before the model, in a Pipeline."
        )
    return array.astype(np.float64)


def _exchanged(table: object, j: int) -> object:
    """Return a table in which the values of one feature have changed places."""
    import pandas as pd

    if isinstance(table, np.ndarray):
        array = table.copy()
        array[:, j] = array[_half_way(pd.Series(array[:, j])), j]
        return array
    if isinstance(table, pd.DataFrame):
        frame: pd.DataFrame = table.copy()
        column = frame.iloc[:, j]
        frame[frame.columns[j]] = column.iloc[_half_way(column)].set_axis(frame.index)
        return frame
    import polars as pl

    if isinstance(table, pl.DataFrame):
        series = table.to_series(j)
        return table.with_columns(series.gather(_half_way(series.to_pandas())).alias(series.name))
    raise InputError(f"the table must be a frame or an array, got {type(table).__name__}.")


def _half_way(values: pd.Series) -> NDArray[np.intp]:
    """Return for every row another one whose value differs, where the column has any."""
    codes = values.factorize()[0]
    order = np.argsort(codes, kind="stable")
    places = np.empty(len(order), dtype=np.intp)
    places[order] = np.roll(order, len(order) // 2)
    return places

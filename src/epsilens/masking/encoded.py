# SPDX-License-Identifier: Apache-2.0
"""Features and the numbers that a model sees of them: which column of those belongs to which feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import require_column
from epsilens.errors import InputError
from epsilens.models.specification import final_step, refuse_class_or_search
from epsilens.models.tables import column_names, for_scikit_learn, require_records

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator

__all__ = ["EncodedTable", "split_estimator"]


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
        from sklearn.base import clone

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

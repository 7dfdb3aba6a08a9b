# SPDX-License-Identifier: Apache-2.0
"""Columns as libraries of private learning take them: ranges and categories that are public."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.mechanisms.protocol import Runs, Task
from epsilens.models.table_encoder import CategoryColumn, EncodedColumn

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class PublicColumn:
    """A column whose range or categories are public; its values as places on a line.

    Attributes
    ----------
    name : str
    low, high : float
        Ends of the line. Categories lie at 0, 1, …, and what is none of them with the first.
    categories : tuple or None
        None for numbers; a missing answer is the category None, where the table has one.
    """

    name: str
    low: float
    high: float
    categories: tuple[object, ...] | None = None

    @classmethod
    def all_of(cls, task: Task) -> list[PublicColumn]:
        """Return the columns of a task: by what is declared, else by the table itself."""
        import pandas as pd

        found = []
        for name in task.table:
            values = task.table[name]
            given = (task.declared or {}).get(str(name))
            if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
                numbers = np.asarray(values if given is None else given, dtype=np.float64)
                low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
                found.append(cls(str(name), low, high if high > low else low + 1.0))
            else:
                kinds = values.dropna().unique() if given is None else given
                missing = (None,) if given is None and values.isna().any() else ()
                categories = (*sorted(kinds, key=str), *missing)
                found.append(cls(str(name), -0.5, len(categories) - 0.5, categories))
        return found

    @classmethod
    def of_encoded(cls, columns: Sequence[EncodedColumn]) -> list[PublicColumn]:
        """Return encoded columns, of which each number has a range."""
        found = []
        for column in columns:
            if isinstance(column, CategoryColumn):
                n = len(column.categories)
                found.append(cls(column.name, -0.5, n - 0.5, tuple(column.categories)))
            else:
                low, high = column.low, column.high
                assert low is not None and high is not None  # noqa: PT018, S101  # `ranged`
                found.append(cls(column.name, low, high))
        return found

    def places(self, table: pd.DataFrame) -> FloatArray:
        """Return the places of the values, (n,); a missing number lies in the middle."""
        values = table[self.name]
        if self.categories is None:
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
            middle = (self.low + self.high) / 2.0
            return np.asarray(np.clip(np.nan_to_num(numbers, nan=middle), self.low, self.high))
        place = {category: float(number) for number, category in enumerate(self.categories)}
        known = values.astype(object).where(values.notna(), None)
        return np.array([place.get(value, 0.0) for value in known], dtype=np.float64)

    def n_bins(self, most: int) -> int:
        """Return how many bins the line is cut into, at least two: every category one."""
        return most if self.categories is None else max(len(self.categories), 2)

    def bins(self, table: pd.DataFrame, most: int) -> NDArray[np.int64]:
        """Return the bins of the values, (n,), of equal width."""
        return self.cut(self.places(table), most)

    def cut(self, places: FloatArray, most: int) -> NDArray[np.int64]:
        """Return the bins of places, (n,)."""
        if self.categories is not None:
            return places.astype(np.int64)
        share = (places - self.low) / (self.high - self.low)
        return np.minimum((share * most).astype(np.int64), most - 1)

    def values(self, bins: NDArray[np.integer], most: int) -> NDArray[np.generic]:
        """Return a value for every bin, (n,): the middle, or the category."""
        if self.categories is None:
            width = (self.high - self.low) / most
            return np.asarray(self.low + (bins + 0.5) * width)
        last = len(self.categories) - 1
        return np.array([self.categories[min(number, last)] for number in bins], dtype=object)


@dataclass(frozen=True, repr=False)
class FittedRuns(Runs):
    """Models that were trained one after the other.

    Attributes
    ----------
    predict : callable
        From "train" or "test" to the predictions of all runs, (n_records, n_classes, n_runs).
    """

    predict: Callable[[Literal["train", "test"]], FloatArray]

    def probabilities(self, records: Literal["train", "test"]) -> FloatArray:
        """Return the predictions of all runs, (n_records, n_classes, n_runs)."""
        return self.predict(records)

# SPDX-License-Identifier: Apache-2.0
"""Columns as libraries of private learning take them: ranges and categories that are public."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.mechanisms.protocol import Runs, Task

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class PublicColumn:
    """A column whose range or categories are public; its values as places on a line.

    Attributes
    ----------
    name : str
    low, high : float
        Ends of the line. Categories lie at 0, 1, … and whatever is none of them one further.
    categories : tuple or None
        None for numbers.
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
                categories = tuple(sorted(kinds, key=str))
                found.append(cls(str(name), -0.5, len(categories) + 0.5, categories))
        return found

    def places(self, table: pd.DataFrame) -> FloatArray:
        """Return the places of the values, (n,); a missing number lies in the middle."""
        values = table[self.name]
        if self.categories is None:
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
            middle = (self.low + self.high) / 2.0
            return np.asarray(np.clip(np.nan_to_num(numbers, nan=middle), self.low, self.high))
        place = {category: float(number) for number, category in enumerate(self.categories)}
        other = float(len(self.categories))
        return np.array([place.get(value, other) for value in values], dtype=np.float64)

    def n_bins(self, most: int) -> int:
        """Return how many bins the line is cut into: every category one."""
        return most if self.categories is None else len(self.categories) + 1

    def bins(self, table: pd.DataFrame, most: int) -> NDArray[np.int64]:
        """Return the bins of the values, (n,), of equal width."""
        n_bins = self.n_bins(most)
        share = (self.places(table) - self.low) / (self.high - self.low)
        return np.minimum((share * n_bins).astype(np.int64), n_bins - 1)

    def values(self, bins: NDArray[np.integer], most: int) -> NDArray[np.generic]:
        """Return a value for every bin, (n,): the middle, or the category; None for no category."""
        if self.categories is None:
            width = (self.high - self.low) / self.n_bins(most)
            return np.asarray(self.low + (bins + 0.5) * width)
        kinds = [*self.categories, None]
        return np.array([kinds[number] for number in bins], dtype=object)


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

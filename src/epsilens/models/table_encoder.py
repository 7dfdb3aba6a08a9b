# SPDX-License-Identifier: Apache-2.0
"""An encoder that is written down in full: from any table with the named columns to numbers.

Every row is encoded by itself, whatever the others are, and no value is refused. So one record of a
table changes one row of the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from epsilens._types import FloatArray
from epsilens.channels.domain import finder_by_text
from epsilens.data.binning import Bins
from epsilens.data.frames import to_pandas
from epsilens.data.missing import MISSING_CATEGORY
from epsilens.data.schema import Category, Schema, days
from epsilens.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_LARGEST = 1e150
_LONGEST_NUMBER = 400


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, or of dates as days since 1970: (x − centre) / scale.

    Attributes
    ----------
    name : str
    centre, scale : float
        A value that is missing or no number counts as the centre.
    low, high : float or None
        Numbers beyond are cut to these.
    n_bins : int or None
        Bins between `low` and `high`; a number becomes the middle of its bin.
    is_date : bool
        Whether text is read as a date like 2024-01-31.

    Examples
    --------
    >>> import pandas as pd
    >>> age = NumberColumn.of_range("age", 20.0, 80.0)
    >>> age.encode(pd.Series(["50", "1e9", "old", None])).ravel().round(3).tolist()
    [0.0, 1.732, 0.0, 0.0]
    """

    name: str
    centre: float
    scale: float
    low: float | None = None
    high: float | None = None
    n_bins: int | None = None
    is_date: bool = False

    def __post_init__(self) -> None:
        ends = [end for end in (self.low, self.high) if end is not None]
        is_ordered = len(ends) == 0 or (len(ends) == 2 and ends[0] < ends[1])
        is_finite = all(map(math.isfinite, (self.centre, self.scale, *ends)))
        if not (is_finite and is_ordered and self.scale > 0.0 and (ends or self.n_bins is None)):
            raise InputError(
                f"the encoding of column {self.name!r} must have finite numbers, a scale above 0 and "
                "a lower bound below its upper one."
            )

    @classmethod
    def of_range(
        cls, name: str, low: float, high: float, *, n_bins: int | None = None, is_date: bool = False
    ) -> Self:
        """Return the column of a declared range, which scales it as if it were evenly spread."""
        half = high / 2.0 - low / 2.0
        return cls(name, low + half, half / math.sqrt(3.0), low, high, n_bins, is_date)

    @property
    def names_out(self) -> list[str]:
        """Names of the encoded columns."""
        return [self.name]

    def encode(self, column: pd.Series) -> FloatArray:
        """Return one column of numbers, (n, 1)."""
        values = self.numbers(column)
        if self.low is not None and self.high is not None:
            values = np.clip(values, self.low, self.high)
            if self.n_bins is not None:
                values = Bins(self.n_bins, self.low, self.high).apply(values)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (values - self.centre) / self.scale
        return np.nan_to_num(np.clip(scaled, -_LARGEST, _LARGEST), nan=0.0)[:, None]

    def places(self, column: pd.Series) -> FloatArray:
        """Return the numbers within the range, (n,); one that is missing counts as the centre."""
        values = np.nan_to_num(self.numbers(column), nan=self.centre)
        if self.low is None or self.high is None:
            return np.clip(values, -_LARGEST, _LARGEST)
        return np.clip(values, self.low, self.high)

    def ranged(self, values: pd.Series, *, n_bins: int | None = None) -> NumberColumn:
        """Return the column with a range, that of the values if none is declared, and with bins."""
        low, high = self.low, self.high
        if low is None or high is None:
            numbers = self.numbers(values)
            low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
            high = high if high > low else low + 1.0
        return replace(self, low=low, high=high, n_bins=self.n_bins or n_bins)

    def numbers(self, column: pd.Series) -> FloatArray:
        """Return the numbers of a column, NaN where there is none."""
        import pandas as pd

        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            return days(column).to_numpy(np.float64)
        if pd.api.types.is_numeric_dtype(column.dtype):
            return column.to_numpy(dtype=np.float64, na_value=math.nan)
        codes, found = pd.factorize(column)
        read = _day if self.is_date else _number
        # The last one is that of a missing value, whose code is −1.
        return np.array([*map(read, found), math.nan], dtype=np.float64)[codes]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: zeros and a one for each but the first.

    A value that is missing or none of the categories is encoded by zeros, as the first one is. If
    "(missing)" is one of the categories, a missing value has that one.

    Attributes
    ----------
    name : str
    categories : tuple of str, int, float or bool

    Examples
    --------
    >>> import pandas as pd
    >>> CategoryColumn("sex", ("F", "M")).encode(pd.Series(["M", "F", "?", None])).ravel().tolist()
    [1.0, 0.0, 0.0, 0.0]
    """

    name: str
    categories: tuple[Category, ...]

    def __post_init__(self) -> None:
        if len({str(value) for value in self.categories}) < max(2, len(self.categories)):
            raise InputError(
                f"the categories of column {self.name!r} must be at least two different ones."
            )

    @property
    def names_out(self) -> list[str]:
        """Names of the encoded columns."""
        return [f"{self.name}_{value}" for value in self.categories[1:]]

    def encode(self, column: pd.Series) -> FloatArray:
        """Return a column for each category but the first, (n, n_categories − 1)."""
        # A value that is none of them has the code −1, which is that of the added row.
        rows = np.vstack([np.eye(len(self.categories))[:, 1:], np.zeros(len(self.categories) - 1)])
        encoded: FloatArray = rows[category_codes(column, self.categories)]
        return encoded

    def places(self, column: pd.Series) -> FloatArray:
        """Return the places of the answers among the categories, (n,); any other has that of the first."""
        places: FloatArray = np.maximum(category_codes(column, self.categories), 0).astype(
            np.float64
        )
        return places


EncodedColumn = NumberColumn | CategoryColumn


def category_codes(column: pd.Series, categories: Sequence[Category]) -> np.ndarray:
    """Return the place of every answer among the categories, −1 for any other: 1, 1.0 and "1" are one.

    Examples
    --------
    >>> import pandas as pd
    >>> category_codes(pd.Series(["1", "2.0", "two", None]), [1, 2]).tolist()
    [0, 1, -1, -1]
    """
    import pandas as pd

    codes, found = pd.factorize(column)
    find = finder_by_text([str(value).strip() for value in categories])
    missing = find(MISSING_CATEGORY)
    places = [missing if str(value).strip() == "" else find(value) for value in found]
    return np.array([*places, missing], dtype=np.intp)[codes]


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table by what is declared of its columns; nothing is learnt.

    Parameters
    ----------
    columns : sequence of NumberColumn and CategoryColumn
        In the order of the encoded table. Other columns of a table are ignored.

    Examples
    --------
    >>> import pandas as pd
    >>> columns = (CategoryColumn("sex", ("F", "M")), NumberColumn("age", 40.0, 10.0))
    >>> TableEncoder(columns).fit_transform(pd.DataFrame({"age": [50, 40], "sex": ["M", "F"]}))
    array([[1., 1.],
           [0., 0.]])
    """

    def __init__(self, columns: Sequence[EncodedColumn] = ()) -> None:
        self.columns = columns

    def fit(self, X: object, y: object = None) -> Self:
        """Check that the table has the columns.

        Parameters
        ----------
        X : frame
        y : ignored
        """
        self._table(X)
        return self

    def transform(self, X: object) -> FloatArray:
        """Encode every row by itself.

        Parameters
        ----------
        X : frame of shape (n, at least the named columns)

        Returns
        -------
        array of shape (n, n_encoded)
        """
        table = self._table(X)
        return np.hstack([column.encode(table[column.name]) for column in self.columns])

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the names of the encoded columns."""
        return np.array([name for c in self.columns for name in c.names_out], dtype=object)

    def _table(self, X: object) -> pd.DataFrame:
        table = to_pandas(X)
        lacking = [c.name for c in self.columns if c.name not in table.columns]
        if lacking:
            raise InputError(
                f"the table must have the columns that the model was trained on, but {len(lacking)} "
                f"are missing: {', '.join(lacking[:8])}. Add them."
            )
        return table

    def __sklearn_is_fitted__(self) -> bool:
        return True


class PlaceEncoder(TableEncoder):
    """Encode every column by one number: itself within its range, or the place of its category.

    Parameters
    ----------
    columns : sequence of NumberColumn and CategoryColumn
        In the order of the encoded table.

    Examples
    --------
    >>> import pandas as pd
    >>> columns = (CategoryColumn("sex", ("F", "M")), NumberColumn.of_range("age", 20.0, 80.0))
    >>> PlaceEncoder(columns).transform(pd.DataFrame({"age": [90, None], "sex": ["M", "?"]})).tolist()
    [[1.0, 80.0], [0.0, 50.0]]
    """

    def transform(self, X: object) -> FloatArray:
        """Encode every row by itself.

        Parameters
        ----------
        X : frame of shape (n, at least the named columns)

        Returns
        -------
        array of shape (n, n_columns)
        """
        table = self._table(X)
        return np.column_stack([column.places(table[column.name]) for column in self.columns])

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the names of the columns."""
        return np.array([column.name for column in self.columns], dtype=object)


def learnt_columns(
    frame: pd.DataFrame, schema: Schema, bins: Mapping[str, Bins]
) -> list[EncodedColumn]:
    """Return the encoding that a table of unprotected features suggests.

    Parameters
    ----------
    frame : pandas.DataFrame
        The features as they came, without missing values.
    schema : Schema
        What they are.
    bins : mapping of str to Bins

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data.schema import infer_schema
    >>> frame = pd.DataFrame({"sex": ["F", "M", "F"], "age": [30.0, 40.0, 50.0]})
    >>> sex, age = learnt_columns(frame, infer_schema(frame), {})
    >>> sex.categories, age.centre, round(age.scale, 3)
    (('F', 'M'), 40.0, 8.165)
    """
    from epsilens.data.schema import is_date

    found: list[EncodedColumn] = []
    for column in schema.columns:
        if column.encoding == "one-hot":
            found.append(CategoryColumn(column.name, column.categories or ()))
        elif column.encoding == "number":
            answers = frame[column.name]
            plain = NumberColumn(column.name, 0.0, 1.0, is_date=is_date(answers))
            values = plain.numbers(days(answers) if plain.is_date else answers)
            bounds = bins[column.name].bounded_by(values) if column.name in bins else None
            values = values if bounds is None else bounds.apply(values)
            with np.errstate(over="ignore", invalid="ignore"):
                centre, scale = float(values.mean()), float(values.std())
            if not (math.isfinite(centre) and math.isfinite(scale)):
                raise InputError(
                    f"column {column.name!r} must hold numbers whose squares can be added up, got "
                    "larger ones. Measure in larger units, or drop it."
                )
            ends = (None, None, None)
            if bounds is not None:
                ends = (bounds.low, bounds.high, bounds.n_bins)  # type: ignore[assignment]
            found.append(
                NumberColumn(column.name, centre, scale or 1.0, *ends, is_date=plain.is_date)
            )
    return found


def _number(value: object) -> float:
    """Return the number that a value is, NaN if it is none; never fails."""
    text = str(value).strip()
    if len(text) > _LONGEST_NUMBER:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def _day(value: object) -> float:
    """Return the day since 1970 that a text like 2024-01-31 is, NaN if it is none; never fails."""
    import pandas as pd

    try:
        return float(days(pd.Series([str(value).strip()])).iloc[0])
    except (InputError, ValueError, TypeError):
        return math.nan

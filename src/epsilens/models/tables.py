# SPDX-License-Identifier: Apache-2.0
"""Tables as scikit-learn takes them, in one order of columns, by name."""

from __future__ import annotations

import hashlib

import numpy as np

from epsilens.data.frames import to_pandas
from epsilens.errors import InputError, InputTypeError

__all__ = [
    "column_names",
    "for_scikit_learn",
    "in_order_of",
    "require_records",
    "schema_fingerprint",
]


def for_scikit_learn(X: object) -> object:
    """Return arrow tables as pandas; check that column names are unique."""
    import scipy.sparse

    if scipy.sparse.issparse(X):
        return X
    if isinstance(X, list):
        X = np.asarray(X)
    if hasattr(X, "collect") and not hasattr(X, "iloc"):
        raise InputTypeError(
            "`X` must be a table in memory, got a lazy one. Call `.collect()` first."
        )
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise InputError(f"`X` must be a table (2 dimensions), got {X.ndim}.")
        return X
    library = type(X).__module__.split(".")[0]
    if library == "polars":
        return X
    table = to_pandas(X)  # refuses a name that stands twice, which polars does by itself
    return X if library == "pandas" else table


def require_records(table: object, *, what: str) -> None:
    """Refuse a table without rows or without columns, before any library does so in its own words.

    Examples
    --------
    >>> require_records(np.empty((0, 3)), what="training")
    Traceback (most recent call last):
    ...
    epsilens.errors.InputError: the training data must have at least one row, got 0.
    """
    shape = getattr(table, "shape", None)
    if shape is None:
        shape = (len(table),)  # type: ignore[arg-type]
    for n, name in zip(shape, ("row", "column"), strict=False):
        if n == 0:
            raise InputError(f"the {what} data must have at least one {name}, got 0.")


def in_order_of(table: object, test: object, *, what: str = "test data") -> object:
    """Return another table with its columns in the order of the training table."""
    names, given = column_names(table), column_names(test)
    if not names or not given or names == given:
        return test
    lacking = [name for name in names if name not in given]
    if lacking:
        raise InputError(
            f"the {what} must have the columns of the training data, but {len(lacking)} are "
            f"missing: {', '.join(lacking[:8])}. Add them."
        )
    return test[names]  # type: ignore[index]


def column_names(table: object) -> list[str]:
    """Return the columns' names as text; those of an array are x0, x1, and so on."""
    columns = getattr(table, "columns", None)
    if columns is None and isinstance(table, np.ndarray):
        return [f"x{index}" for index in range(table.shape[1])]
    return [] if columns is None else [str(name) for name in columns]


def schema_fingerprint(table: object, label: str | None, *, n_train: int, n_test: int) -> str:
    """Return a hash of names, kinds and counts; never of values."""
    # Up to the bracket: polars writes the categories of an Enum behind it.
    kinds = [str(kind).partition("(")[0] for kind in getattr(table, "dtypes", [])]
    parts = [
        *column_names(table),
        *kinds,
        str(label),
        str(n_train),
        str(n_test),
    ]
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()

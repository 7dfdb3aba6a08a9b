# SPDX-License-Identifier: Apache-2.0
"""Tables as scikit-learn takes them, in one order of columns, by name."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._foreign import SCIKIT_LEARN_REFUSALS
from epsilens._types import FloatArray
from epsilens.data.frames import to_pandas
from epsilens.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def for_scikit_learn(X: object) -> object:
    """Return arrow tables as pandas; check that column names are unique."""
    import scipy.sparse

    if scipy.sparse.issparse(X):
        return X
    if isinstance(X, list):
        X = np.asarray(X)
    if hasattr(X, "collect") and not hasattr(X, "iloc"):
        raise InputTypeError(
            argument="X",
            expected="a table in memory",
            got="a lazy one",
            hint="Call `.collect()` first.",
        )
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise InputError(argument="X", expected="a table (2 dimensions)", got=str(X.ndim))
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


# --- scikit-learn's checks of features and target, with every data value kept out of the message ---

_NOT_NUMBERS = (
    "X and y must be tables of numbers, got text or mixed values. Encode categories and convert "
    "text first."
)


def checked_input(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    reset: bool,
    is_number: bool = True,
) -> tuple[FloatArray, NDArray[Any]]:
    """Return features as finite numbers, and the target that belongs to them.

    Parameters
    ----------
    estimator : BaseEstimator
        Remembers the number and names of the columns if `reset`.
    X : array or frame of shape (n, p)
    y : array of shape (n,), or None
        None, when only features are looked at, gives an empty target.
    reset : bool
        Whether to learn the columns, or to hold X against those learnt.
    is_number : bool
        Whether the target must be numbers; otherwise it may be answers of any kind.

    Raises
    ------
    InputError
        One line without any value of the data.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> checked_input(Ridge(), [["sick"]], [1.0], reset=True)
    Traceback (most recent call last):
        ...
    epsilens.errors.InputError: X and y must be tables of numbers, got text or mixed values. ...
    """
    from sklearn.utils.validation import validate_data

    refusal: InputError
    try:
        # The sum that looks for infinities may itself be none: no warning about that.
        with np.errstate(over="ignore", invalid="ignore"):
            if y is None and not reset:
                rows = validate_data(estimator, X, dtype=np.float64, reset=False, y="no_validation")
                return rows, np.empty(0)
            features, target = validate_data(
                estimator, X, y, dtype=np.float64, reset=reset, y_numeric=is_number
            )
        return features, target.astype(np.float64) if is_number else target
    except TypeError as error:
        refusal = InputTypeError(_said_again(str(error), estimator))
    except OverflowError:
        refusal = InputError(
            "X and y must hold numbers within the range of double precision, got a larger one. "
            "Measure in larger units."
        )
    except ValueError as error:
        refusal = InputError(_said_again(str(error), estimator))
    # Raised here, so that the other library's message does not hang on as its context.
    raise refusal


def _said_again(text: str, estimator: BaseEstimator) -> str:
    for begins, said in SCIKIT_LEARN_REFUSALS:
        found = begins.match(text)
        if found:
            return found.expand(said).replace("{name}", type(estimator).__name__)
    return _NOT_NUMBERS

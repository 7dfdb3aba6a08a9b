# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's checks of features and target, with every data value kept out of the message.

"could not convert string to float: 'HIV+'" is a leak in a log file. No text of another library is
passed on: what it says is recognised, and said again in words of our own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import FloatArray
from epsilens.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["checked_features", "checked_input"]


_NOT_NUMBERS = (
    "X and y must be tables of numbers, got text or mixed values. Encode categories and convert "
    "text first."
)
# How a message begins, and what is said in its place. Only counts and shapes are taken over.
_SAID_AGAIN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(begins), said)
    for begins, said in (
        (
            r"Found array with 0 (sample|feature)\(s\) \(shape=(\(\d*, ?\d*\))\) while",
            r"Found array with 0 \1(s) (shape=\2) while a minimum of 1 is required.",
        ),
        (r"Found array with dim (\d+)[,.]", r"Found array with dim \1, while dim 2 is required."),
        (r"Input (X|y) contains NaN", r"Input \1 contains NaN. Drop or impute missing values."),
        (
            r"Input (X|y) contains infinity",
            r"Input \1 contains infinity or a value too large for dtype('float64').",
        ),
        (
            r"Complex data not supported",
            "Complex data not supported. X and y must be real numbers.",
        ),
        (
            r"Sparse data was passed",
            "Sparse data was passed, but dense data is required. Use X.toarray().",
        ),
        (
            r"X has (\d+) features?, but \w+ is expecting (\d+) features? as input",
            r"X has \1 features, but {name} is expecting \2 features as input.",
        ),
        (
            r"The feature names should match",
            "The feature names should match those that were passed during fit, in their order. "
            "Compare them with `feature_names_in_`.",
        ),
        (
            r"Feature names are only supported",
            "the column names of X must all be strings, got other kinds. Rename the columns.",
        ),
        (
            r"Found input variables with inconsistent numbers of samples: (\[\d+, \d+\])",
            r"Found input variables with inconsistent numbers of samples: \1. Give X and y as many.",
        ),
        (
            r"y should be a 1d array, got an array of shape (\([\d, ]*\))",
            r"y should be a 1d array, got an array of shape \1. Give one target.",
        ),
        (
            r"This \w+ estimator requires y to be passed",
            "This {name} estimator requires y to be passed, but the target y is None.",
        ),
        (
            r"Expected 2D array, got (1D|scalar) array",
            r"Expected 2D array, got \1 array instead. Reshape your data: one row per record.",
        ),
        (
            r".*argument must be",
            "every argument must be a string or a number, got another kind of value in X or y.",
        ),
    )
)


def checked_input(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike | None, *, reset: bool
) -> tuple[FloatArray, FloatArray]:
    """Return features and target as arrays of finite numbers.

    Parameters
    ----------
    estimator : BaseEstimator
        Remembers the number and names of the columns if `reset`.
    X : array or frame of shape (n, p)
    y : array of shape (n,), or None
        None, when only features are looked at, gives an empty target.
    reset : bool
        Whether to learn the columns, or to hold X against those learnt.

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
    if y is None and not reset:
        return _checked(estimator, X, reset=reset, y="no_validation"), np.empty(0)
    features, target = _checked(estimator, X, reset=reset, y=y, y_numeric=True)
    return features, target


def checked_features(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike | None
) -> tuple[FloatArray, NDArray[np.generic]]:
    """Return features as finite numbers and the answers, of any kind, that belong to them.

    Parameters
    ----------
    estimator : BaseEstimator
        Remembers the number and names of the columns.
    X : array or frame of shape (n, p)
    y : array of shape (n,)

    Raises
    ------
    InputError
        One line without any value of the data.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> checked_features(Ridge(), [[1], [2]], ["no", "yes"])[0].shape
    (2, 1)
    """
    features, target = _checked(estimator, X, reset=True, y=y)
    return features, target


def _checked(estimator: BaseEstimator, X: ArrayLike, **how: object) -> Any:
    from sklearn.utils.validation import validate_data

    refusal: InputError
    try:
        # The sum that looks for infinities may itself be none: no warning about that.
        with np.errstate(over="ignore", invalid="ignore"):
            found = validate_data(estimator, X, dtype=np.float64, **how)
        return (found[0], found[1].astype(np.float64)) if "y_numeric" in how else found
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
    for begins, said in _SAID_AGAIN:
        found = begins.match(text)
        if found:
            return found.expand(said).replace("{name}", type(estimator).__name__)
    return _NOT_NUMBERS

# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's checks of features and target, with every data value kept out of the message.

"could not convert string to float: 'HIV+'" is a leak in a log file. What scikit-learn says is
passed on only where it speaks of shapes, names and kinds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["checked_input"]

FloatArray = NDArray[np.float64]

# Messages that speak of shapes, names and kinds only; cut where values would begin.
_HARMLESS = re.compile(
    r"(Found array with (0|dim)"
    r"|Input (X|y) contains (NaN|infinity)"
    r"|Complex data not supported"
    r"|Sparse data was passed"
    r"|X has \d+ features?, but"
    r"|The feature names should match"
    r"|Found input variables with inconsistent numbers of samples"
    r"|y should be a 1d array, got an array of shape"
    r"|This \w+ estimator requires y to be passed"
    r"|Expected 2D array, got (1D|scalar) array)"
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
    from sklearn.utils.validation import validate_data

    needs_target = {} if y is None and not reset else {"y": y, "y_numeric": True}
    try:
        checked = validate_data(
            estimator, X, reset=reset, dtype=np.float64, **(needs_target or {"y": "no_validation"})
        )
        if not needs_target:
            return checked, np.empty(0)
        return checked[0], checked[1].astype(np.float64)
    except TypeError as error:
        raise InputTypeError(_scrubbed(error)) from None
    except ValueError as error:
        raise InputError(_scrubbed(error)) from None


def _scrubbed(error: Exception) -> str:
    text = str(error)
    if "argument must be" in text:
        return "every argument must be a string or a number, got another kind of value in X or y."
    if not _HARMLESS.match(text):
        return (
            "X and y must be tables of numbers, got text or mixed values. Encode categories and "
            "convert text first."
        )
    if text.startswith("Expected 2D array"):
        return text.partition(":")[0] + ". Reshape your data: one row per record."
    return " ".join(text.partition("\nRidge")[0].split())

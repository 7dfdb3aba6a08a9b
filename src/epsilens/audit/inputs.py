# SPDX-License-Identifier: Apache-2.0
"""What an audit is given, made into arrays: which canaries were in, and a score for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import InputError, InputTypeError

__all__ = ["coins_and_scores", "require_unmasked"]


def coins_and_scores(included: ArrayLike, scores: ArrayLike) -> tuple[BoolArray, FloatArray]:
    """Return inclusion and scores as arrays of one length; refuse what could be misread.

    Parameters
    ----------
    included : array of bool, or of 0 and 1, (m,)
        Which canaries were in.
    scores : array of float, (m,)
        High where the canary seems to be in.

    Returns
    -------
    array of bool, array of float64
        Of m entries each, without NaN.

    Examples
    --------
    >>> coins, scores = coins_and_scores([1, 0], [3, 2])
    >>> coins.tolist(), scores.tolist()
    ([True, False], [3.0, 2.0])
    """
    coins, values = _as_coins(included), _as_scores(scores)
    if coins.ndim != 1 or coins.shape != values.shape:
        raise InputError(
            "`included` and `scores` must be lists of the same length, one entry per canary, got "
            f"shapes {coins.shape} and {values.shape}."
        )
    if coins.size < 2:
        raise InputError(
            f"`included` must have at least 2 canaries, got {coins.size}. Use 1000: the more, the "
            "more can be proved."
        )
    n_missing = int(np.isnan(values).sum())
    if n_missing:
        raise InputError(
            f"`scores` must be numbers, but {n_missing} of {values.size} are NaN. Give a canary "
            "without an opinion the middle score."
        )
    return coins, values


def require_unmasked(given: object, name: str) -> None:
    """Refuse a masked array, of which NumPy would use the hidden entries.

    Examples
    --------
    >>> require_unmasked([1.0, 2.0], "scores")
    """
    if isinstance(given, np.ma.MaskedArray):
        raise InputTypeError(
            f"`{name}` must have an entry for every canary, got a masked array, of which the mask would "
            "be lost. Use `.filled(...)`."
        )


def _as_coins(included: ArrayLike) -> BoolArray:
    require_unmasked(included, "included")
    try:
        coins = np.asarray(included)
    except ValueError:  # rows of different lengths
        raise InputTypeError("`included` must be a list with one entry per canary.") from None
    is_whole = coins.dtype.kind in "iu"
    if is_whole and not np.isin(coins, (0, 1)).all():
        raise InputError(
            "`included` must be True and False, or 1 and 0, got other whole numbers. Compare with "
            "what means in, as in `included == 1`."
        )
    if not is_whole and coins.dtype != np.bool_ and coins.size:
        raise InputTypeError(
            f"`included` must be an array of True and False, got values of type {coins.dtype}. "
            "Compare with what means in, as in `included == 1`."
        )
    return np.asarray(coins, dtype=np.bool_)


def _as_scores(scores: ArrayLike) -> FloatArray:
    require_unmasked(scores, "scores")
    try:
        given = np.asarray(scores)
        if (
            given.dtype.kind in "biufO"
        ):  # text that spells a number is text, and complex has no order
            return np.asarray(given, dtype=np.float64)
        came = f"values of type {given.dtype}"
    except OverflowError:  # whole numbers of any size
        raise InputError(
            "`scores` must fit into double precision, got whole numbers above 1e308. Only their order "
            "counts: give their ranks."
        ) from None
    except (TypeError, ValueError):
        came = type(scores).__name__
    raise InputTypeError(f"`scores` must be an array of numbers, got {came}.")

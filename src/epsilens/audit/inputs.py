# SPDX-License-Identifier: Apache-2.0
"""What an audit is given, made into arrays: which canaries were in, and a score for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import InputError, InputTypeError, setting


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
        Inclusion and scores, m entries each, without NaN.

    Examples
    --------
    >>> coins, scores = coins_and_scores([1, 0], [3, 2])
    >>> coins.tolist(), scores.tolist()
    ([True, False], [3.0, 2.0])
    """
    coins, values = _as_coins(included), _as_scores(scores)
    if coins.ndim != 1 or coins.shape != values.shape:
        raise InputError(
            f"{setting('included')} and {setting('scores')} must be lists of the same length, one "
            f"entry per canary, got shapes {coins.shape} and {values.shape}."
        )
    if coins.size < 2:
        raise InputError(
            f"{setting('included')} must have at least 2 canaries, got {coins.size}. Use 1000: "
            "the more, the more can be proved."
        )
    n_missing = int(np.isnan(values).sum())
    if n_missing:
        raise InputError(
            f"{setting('scores')} must be numbers, but {n_missing} of {values.size} are NaN. Give "
            "a canary without an opinion the middle score."
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
            f"{setting(name)} must have an entry for every canary, got a masked array, of which "
            "the mask would be lost. Use `.filled(...)`."
        )


def _as_coins(included: ArrayLike) -> BoolArray:
    require_unmasked(included, "included")
    try:
        coins = np.asarray(included)
    except ValueError:  # rows of different lengths
        raise InputTypeError(
            argument="included", expected="a list with one entry per canary"
        ) from None
    is_whole = coins.dtype.kind in "iu"
    if is_whole and not np.isin(coins, (0, 1)).all():
        raise InputError(
            argument="included",
            expected="True and False, or 1 and 0",
            got="other whole numbers",
            hint="Compare with what means in, as in `included == 1`.",
        )
    if not is_whole and coins.dtype != np.bool_ and coins.size:
        raise InputTypeError(
            argument="included",
            expected="an array of True and False",
            got=f"values of type {coins.dtype}",
            hint="Compare with what means in, as in `included == 1`.",
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
            f"{setting('scores')} must fit into double precision, got whole numbers above 1e308. "
            "Only their order counts: give their ranks."
        ) from None
    except (TypeError, ValueError):
        came = type(scores).__name__
    raise InputTypeError(argument="scores", expected="an array of numbers", got=came)


# --- What a mechanism returned, as finite numbers or not at all ---


def as_numbers(output: object, *, what: str) -> FloatArray:
    """Return the output of a mechanism as an array of finite numbers.

    Parameters
    ----------
    output : array
        What the mechanism returned.
    what : str
        What it is for, as the beginning of a sentence.

    Returns
    -------
    array of float64
        The same numbers.

    Raises
    ------
    InputError
        If it is no array of numbers, or one of them is not finite.

    Examples
    --------
    >>> as_numbers([1, 2], what="this score")
    array([1., 2.])
    """
    try:
        given = np.asarray(output)
        if given.dtype.kind not in "biuf" or isinstance(output, np.ma.MaskedArray):
            raise TypeError  # text, complex numbers, objects: none is read as a number
    except (TypeError, ValueError):
        raise InputTypeError(
            f"{what} needs an output of real numbers, got {_kind(output)}. Let the mechanism return "
            "an array of numbers, or use a score made for its output."
        ) from None
    values = np.asarray(given, dtype=np.float64)
    n_other = int(np.count_nonzero(~np.isfinite(values)))
    if n_other:
        raise InputError(
            f"{what} needs an output of finite numbers, but {n_other} of {values.size} are NaN or "
            "infinite. Let the mechanism return finite numbers."
        )
    return values


def _kind(output: object) -> str:
    if isinstance(output, np.ma.MaskedArray):
        return "a masked array"
    kind = getattr(output, "dtype", None)
    return type(output).__name__ if kind is None else f"values of type {kind}"


# --- From scores to guesses: the surest first, and none where the score says little ---

_TIES = 20230516
"""Seed of the order among equal scores: it must not come from the order of the canaries, which a
user may have sorted by inclusion."""


@dataclass(frozen=True)
class Guesses:
    """The guesses of an audit in the order of confidence, and which of them are right.

    Attributes
    ----------
    right : array of bool
        Whether each guess is right; "in" and "out" alternate. An odd canary out has no guess.
    n_canaries : int
        All canaries.
    """

    right: BoolArray
    n_canaries: int

    @property
    def most_each_side(self) -> int:
        """The largest number of guesses on each side."""
        return self.right.size // 2

    def n_correct(self, n_each_side: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of right guesses when so many are made on each side.

        Examples
        --------
        >>> import numpy as np
        >>> Guesses(np.array([True, True, False, True]), 4).n_correct(np.array([1, 2])).tolist()
        [2, 3]
        """
        return np.asarray(np.cumsum(self.right)[2 * n_each_side - 1], dtype=np.int64)


def make_guesses(included: BoolArray, scores: FloatArray) -> Guesses:
    """Order the guesses by confidence and mark the right ones.

    Parameters
    ----------
    included : array of bool, (m,)
        Which canaries were really in.
    scores : array of float64, (m,)
        High where the canary seems to be in.

    Returns
    -------
    Guesses
        In the order highest, lowest, second highest, second lowest, ….

    Examples
    --------
    >>> import numpy as np
    >>> make_guesses(np.array([True, False, False, True]), np.array([3.0, 0.0, 2.0, 1.0])).right
    array([ True,  True, False, False])
    """
    among_equals = np.random.default_rng(_TIES).permutation(scores.size)
    order = np.lexsort((among_equals, -scores))
    half = scores.size // 2
    right = np.empty(2 * half, dtype=np.bool_)
    right[0::2] = included[order[:half]]
    right[1::2] = ~included[order[::-1][:half]]
    return Guesses(right, int(scores.size))

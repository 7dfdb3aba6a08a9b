# SPDX-License-Identifier: Apache-2.0
"""What a mechanism returned, as finite numbers or not at all."""

from __future__ import annotations

import numpy as np

from epsilens._types import FloatArray
from epsilens.errors import InputError, InputTypeError

__all__ = ["as_numbers"]


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

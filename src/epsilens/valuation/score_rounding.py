# SPDX-License-Identifier: Apache-2.0
"""Scores are rounded before they leave the tester."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_positive
from epsilens.errors import InputError

DIGITS = 6
"""Digits kept of the largest score of an answer, where nothing was encrypted."""
UNITS_PER_ERROR = 10.0
"""An error is so much smaller than the unit of what leaves the tester: a last digit in fifty or so shows it."""


@dataclass(frozen=True)
class RoundedScores:
    """What a tester tells the coordinator.

    Attributes
    ----------
    scores : array of shape (m,)
        Positive helps.
    resolution : float
        The unit they are rounded to.
    """

    scores: FloatArray = field(repr=False)
    resolution: float

    def __post_init__(self) -> None:
        values = np.asarray(self.scores, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InputError(
                argument="scores",
                expected="finite numbers, one an item",
                got=f"an array of shape {values.shape}",
            )
        object.__setattr__(self, "scores", values)

    @property
    def n_bytes(self) -> int:
        """Bytes of the scores."""
        return self.scores.nbytes


def round_scores(
    scores: FloatArray,
    *,
    digits: int = DIGITS,
    resolution: float | None = None,
    error: float | None = None,
) -> RoundedScores:
    """Round scores to a common unit.

    Parameters
    ----------
    scores : array of shape (m,)
    digits : int
        So many significant digits of the largest score are kept, and as many decimals of all others: a
        score of a hundredth of the largest keeps two digits fewer.
    resolution : float, optional
        The unit itself, in nats or squared error, if it is declared beforehand.
    error : float, optional
        What the scores are off by, as a share of the largest. The unit is then 1, 2 or 5 times a power of
        ten, at least ten times the error, so that what was rounded does not show it; `digits` is not used.

    Returns
    -------
    RoundedScores

    Examples
    --------
    >>> import numpy as np
    >>> round_scores(np.array([0.0123456789, -3.21e-6]), digits=3)
    RoundedScores(resolution=0.0001)
    >>> round_scores(np.array([0.0123456789, -3.21e-6]), digits=3).scores.tolist()
    [0.0123, -0.0]
    >>> round_scores(np.array([0.0123456789, -3.21e-6]), error=1e-4).scores.tolist()
    [0.01234, 0.0]
    """
    values = np.asarray(scores, dtype=np.float64)
    if resolution is not None:
        unit = as_positive(resolution, name="resolution")
        return RoundedScores(np.round(values / unit) * unit, unit)
    kept = as_count(digits, name="digits")
    largest = float(np.abs(values).max(initial=0.0))
    if not largest > 0.0:
        return RoundedScores(np.zeros_like(values), 1.0)
    if error is not None:
        return _rounded_above(values, UNITS_PER_ERROR * as_positive(error, name="error") * largest)
    decimals = kept - 1 - math.floor(math.log10(largest))
    # Printed and read again, a decimal number is the same everywhere; np.round overflows for tiny ones.
    rounded = np.array([float(f"{value:.{max(decimals, 0)}f}") for value in values])
    if decimals < 0:
        rounded = np.round(values, decimals)
    return RoundedScores(rounded, float(f"1e{-decimals}"))


def _rounded_above(values: FloatArray, least: float) -> RoundedScores:
    """Round to the smallest unit of 1, 2 or 5 times a power of ten that is at least so large."""
    exponent = math.floor(math.log10(least))
    steps = [(m, exponent) for m in (1, 2, 5)] + [(1, exponent + 1)]
    lead, power = next((m, k) for m, k in steps if float(f"{m}e{k}") >= least or k > exponent)
    unit = float(f"{lead}e{power}")
    rounded = [float(f"{round(value / unit) * lead}e{power}") for value in values.tolist()]
    return RoundedScores(np.array(rounded), unit)

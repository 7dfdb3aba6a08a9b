# SPDX-License-Identifier: Apache-2.0
"""Sums over groups of models, and the normal distributions that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray

__all__ = ["Moments", "NormalFit", "column_blocks", "fit_normal", "quarter_moments"]

_ENTRIES = 130_000
"""Scores that are worked on at a time: a megabyte in double precision, which caches hold."""
_LEAST_SPREAD = 1e-6
"""Smallest standard deviation of a sample, in units of the common one: scores that never move."""


@dataclass(frozen=True)
class Moments:
    """Numbers of models, sums and sums of squares of the scores, per sample, in and out.

    Attributes
    ----------
    n_in, n_out : array of float64, (n_samples,)
        Models that saw the sample, and that did not.
    sum_in, sum_out, squares_in, squares_out : array of float64, (n_samples,)
        Of the scores less the sample's smallest one.
    """

    n_in: FloatArray
    n_out: FloatArray
    sum_in: FloatArray
    sum_out: FloatArray
    squares_in: FloatArray
    squares_out: FloatArray

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.n_in + other.n_in,
            self.n_out + other.n_out,
            self.sum_in + other.sum_in,
            self.sum_out + other.sum_out,
            self.squares_in + other.squares_in,
            self.squares_out + other.squares_out,
        )

    def deviations(self, side: str) -> FloatArray:
        """Return the sum of squared deviations from the mean of one side."""
        n, total, squares = self.side(side)
        return np.asarray(np.maximum(squares - total * total / np.maximum(n, 1.0), 0.0))

    def side(self, side: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return number, sum and sum of squares of one side, "in" or "out"."""
        if side == "in":
            return self.n_in, self.sum_in, self.squares_in
        return self.n_out, self.sum_out, self.squares_out


@dataclass(frozen=True)
class NormalFit:
    """A normal distribution per sample, of scores less the sample's smallest one.

    Attributes
    ----------
    mean, spread : array of float64, (n_samples,)
        Mean and standard deviation.
    usable : array of bool, (n_samples,)
        Whether at least two models stand behind it.
    """

    mean: FloatArray
    spread: FloatArray
    usable: BoolArray


def column_blocks(n_models: int, n_samples: int) -> Iterator[slice]:
    """Yield runs of samples that are small enough to be worked on together.

    Examples
    --------
    >>> [block.stop for block in column_blocks(1000, 300)]
    [130, 260, 300]
    """
    width = max(_ENTRIES // n_models, 1)
    for start in range(0, n_samples, width):
        yield slice(start, min(start + width, n_samples))


def quarter_moments(
    scores: NDArray[np.floating], membership: BoolArray, lowest: FloatArray
) -> list[Moments]:
    """Return the sums of four groups of models: every fourth, from the first, second, third, fourth.

    Parameters
    ----------
    scores : array of float, (n_models, n_samples)
        Scores of the attack.
    membership : array of bool, (n_models, n_samples)
        Which model saw which sample.
    lowest : array of float64, (n_samples,)
        Smallest score of each sample. Sums of what lies above it lose no digits, and a score
        that never moves has a spread of exactly 0.

    Returns
    -------
    list of four Moments
        Groups 0 and 2 are the one half of the models, 1 and 3 the other.
    """
    n_models, n_samples = scores.shape
    found = []
    for quarter in range(4):
        table = np.empty((6, n_samples))
        for block in column_blocks(-(-n_models // 4), n_samples):
            above = scores[quarter::4, block] - lowest[block]
            inside = membership[quarter::4, block]
            above_in = above * inside
            n_in = inside.sum(axis=0)
            sum_in = above_in.sum(axis=0)
            squares_in = np.einsum("ij,ij->j", above_in, above_in)
            above *= ~inside
            table[:, block] = (
                n_in,
                inside.shape[0] - n_in,
                sum_in,
                above.sum(axis=0),
                squares_in,
                np.einsum("ij,ij->j", above, above),
            )
        found.append(Moments(*table))
    return found


def fit_normal(moments: Moments, side: str, *, per_sample: bool) -> NormalFit:
    """Return the normal distribution of one side of every sample.

    Parameters
    ----------
    moments : Moments
        Of the models that the fit may see.
    side : {"in", "out"}
        Models that saw the sample, or that did not.
    per_sample : bool
        Whether every sample has a spread of its own; otherwise one is pooled within samples.

    Returns
    -------
    NormalFit
        Usable where at least two models stand behind it.
    """
    n, total, _ = moments.side(side)
    usable = n >= 2.0
    deviations = moments.deviations(side)
    freedom = np.where(usable, n - 1.0, 0.0)
    all_freedom = freedom.sum()
    common = float(np.sqrt(deviations[usable].sum() / all_freedom)) if all_freedom > 0.0 else 0.0
    common = common if common > 0.0 else 1.0
    spread = np.full(n.shape, common)
    if per_sample:
        spread[usable] = np.sqrt(deviations[usable] / freedom[usable])
        spread = np.maximum(spread, _LEAST_SPREAD * common)
    return NormalFit(mean=total / np.maximum(n, 1.0), spread=spread, usable=usable)

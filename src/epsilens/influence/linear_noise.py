# SPDX-License-Identifier: Apache-2.0
"""Draws of how one run's randomised labels move the linear term of the objective.

A run that changes only a few hundred labels is drawn label by label: its effect is lumpy, and the lumps
show in the interval. A run that changes many is a sum of so many independent pieces that it is normal,
with a covariance which is known exactly; drawing it costs p² numbers instead of a pass over the group.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.influence.label_changes import Changes, draw_changes
from epsilens.influence.label_noise import LabelNoise
from epsilens.influence.realisation import draw_linear_noise
from epsilens.models.objective import LinearObjective

__all__ = ["LinearNoise", "draw_along", "draw_runs", "lie_probability", "root_of"]


# With this many expected changes the skewness of a sum moves its 5 % point by a few hundredths of its
# standard deviation, less than a thousand draws can tell.
MANY_CHANGES = 200.0
# Up to this many expected changes a run is drawn label by label all the same: the normal vector may pull on a
# rare column as no labels can.
FEW_CHANGES = 1500.0
_LARGEST_ROOT = 1000


def lie_probability(channel: FloatArray) -> float | None:
    """Return the chance of each single other label if it is the same for all, else None.

    Examples
    --------
    >>> import numpy as np
    >>> lie_probability(np.array([[0.75, 0.25], [0.25, 0.75]]))
    0.25
    >>> lie_probability(np.array([[0.75, 0.25], [0.5, 0.5]])) is None
    True
    """
    k = len(channel)
    others = channel[~np.eye(k, dtype=bool)]
    if len(others) == 0 or np.ptp(others) > 1e-12 * others.max():
        return None
    return float(others[0])


def root_of(covariance: FloatArray) -> FloatArray:
    """Return R with RRᵀ = C for a positive semi-definite C, as many columns as its rank.

    Examples
    --------
    >>> import numpy as np
    >>> root_of(np.array([[4.0, 0.0], [0.0, 0.0]]))
    array([[2.],
           [0.]])
    """
    size = float(np.trace(covariance))
    if not size > 0:
        return np.zeros((len(covariance), 0))
    # Of two classes, given the third, both are left with the same variance: without weights rounding
    # alone would choose between them, and records on disk would draw other runs than those in memory.
    weights = 1.0 + 0.1 * np.arange(len(covariance)) / len(covariance)
    # The pivoted factorisation stops at the rank; its tolerance is in the units of C.
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(
        covariance * np.outer(weights, weights) / size, tol=1e-14 * len(covariance), lower=1
    )
    root = np.zeros((len(covariance), int(rank)))
    root[pivots - 1] = np.tril(factor)[:, : int(rank)]
    root *= (np.sqrt(size) / weights)[:, None]
    return root


@dataclass(frozen=True, repr=False)
class LinearNoise:
    """Drawn deviations of the linear term, for every ε.

    Attributes
    ----------
    noise : LabelNoise
    channels : list of arrays of shape (k, k)
    standard : array of shape (K·p, n_draws)
        Independent normal numbers, the same at every ε, so that the interval is smooth in ε.
    drawn : mapping of a position among the channels to an array of shape (K·p, n_draws)
        Where few labels change: draws of the channel itself.
    untouched : mapping of a position among the channels to an array of bool, shape (n_draws,)
        There, the runs in which no label changes.
    """

    noise: LabelNoise
    channels: list[FloatArray]
    standard: SingleArray
    drawn: dict[int, SingleArray]
    untouched: dict[int, BoolArray] = field(default_factory=dict)

    @property
    def n_draws(self) -> int:
        """How many runs were drawn."""
        return int(self.standard.shape[1])

    def factors(self, index: int) -> tuple[FloatArray, SingleArray]:
        """Return R (K·p, r) and Z (r, n_draws) such that the deviations are RZ."""
        if index in self.drawn:
            runs = self.drawn[index]
            return np.eye(len(runs)), runs
        root = root_of(self.noise.covariance(self.channels[index]))
        return root, self.standard[: root.shape[1]]

    def deviations(self, index: int) -> FloatArray:
        """Return the deviations themselves, (K·p, n_draws)."""
        if index in self.drawn:
            return self.drawn[index].astype(np.float64)
        root, standard = self.factors(index)
        return root @ standard


def draw_runs(
    problem: LinearObjective,
    noise: LabelNoise,
    channels: list[FloatArray],
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> LinearNoise:
    """Draw runs at every ε.

    Parameters
    ----------
    problem : Problem
    noise : LabelNoise
        The group, with its second moments.
    channels : list of arrays of shape (k, k)
    n_draws : int
    seed : SeedSequence
    """
    size = problem.n_parameters
    lies = [lie_probability(channel) for channel in channels]
    if size > _LARGEST_ROOT or any(lie is None for lie in lies):
        runs = draw_linear_noise(problem, noise, channels, n_draws=n_draws, seed=seed)
        empty = np.zeros((0, n_draws), dtype=np.float32)
        return LinearNoise(noise, channels, empty, dict(enumerate(runs)))
    by_event, by_normal = seed.spawn(2)
    few = [e for e, channel in enumerate(channels) if _changes_few(noise, channel)]
    chances = np.array([lies[e] for e in few], dtype=np.float64)
    changes = _draw_few(noise, chances, n_draws=n_draws, seed=by_event)
    drawn = np.zeros((len(few), size, n_draws), dtype=np.float32)
    n_changed = np.zeros((len(few), n_draws))
    if few:
        pulled = noise.pull_changes(problem, changes).reshape(len(few), n_draws, size)
        drawn[:] = _from_levels(chances, pulled).transpose(0, 2, 1)
        counted = np.bincount(changes.slot, minlength=changes.n_slots)
        n_changed = _from_levels(chances, counted.reshape(len(few), n_draws).astype(np.float64))
    for position, e in enumerate(few):
        drawn[position] -= noise.shift(channels[e])[:, None].astype(np.float32)
    standard = np.random.default_rng(by_normal).standard_normal(
        (size if len(few) < len(channels) else 0, n_draws), dtype=np.float32
    )
    untouched = {e: n_changed[position] == 0 for position, e in enumerate(few)}
    return LinearNoise(noise, channels, standard, dict(zip(few, drawn, strict=True)), untouched)


def draw_along(
    problem: LinearObjective,
    noise: LabelNoise,
    channels: list[FloatArray],
    direction: FloatArray,
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> FloatArray:
    """Draw the deviations along one direction only, for first order: (n_channels, n_draws).

    The same law as `draw_runs`, at the cost of one number a record.

    Parameters
    ----------
    problem : Problem
    noise : LabelNoise
        The group; its second moments are not needed.
    channels : list of arrays of shape (k, k)
    direction : array of shape (K·p,)
    n_draws : int
    seed : SeedSequence
    """
    lies = [lie_probability(channel) for channel in channels]
    if any(lie is None for lie in lies):
        runs = draw_linear_noise(
            problem, noise, channels, n_draws=n_draws, seed=seed, direction=direction
        )
        return np.array(runs[:, 0], dtype=np.float64)
    by_event, by_normal = seed.spawn(2)
    standard = np.random.default_rng(by_normal).standard_normal(n_draws)
    result = np.empty((len(channels), n_draws))
    few = [e for e, P in enumerate(channels) if _changes_few(noise, P)]
    if few:
        chances = np.array([lies[e] for e in few], dtype=np.float64)
        changes = _draw_few(noise, chances, n_draws=n_draws, seed=by_event)
        counted = noise.pull_changes(problem, changes, direction=direction)
        result[few] = _from_levels(chances, counted.reshape(len(few), n_draws))
    squares = noise.squares_along(problem, direction) if len(few) < len(channels) else None
    for e, channel in enumerate(channels):
        if squares is None or e in few:
            result[e] -= float(noise.shift(channel) @ direction)
        else:
            total = float(np.einsum("ukl,ukl->", noise.variances(channel), squares))
            result[e] = np.sqrt(max(total, 0.0)) * standard
    return result


def _from_levels(lies: FloatArray, by_level: FloatArray) -> FloatArray:
    """Return the sums up to each chance's own level, in the order of the chances."""
    result = np.empty_like(by_level)
    result[np.argsort(lies, kind="stable")] = np.cumsum(by_level, axis=0)
    return result


def _changes_few(noise: LabelNoise, channel: FloatArray) -> bool:
    """Return whether runs are drawn label by label."""
    expected = noise.expected_changes(channel)
    return expected < FEW_CHANGES or noise.evenness * expected < MANY_CHANGES


def _draw_few(
    noise: LabelNoise, lies: FloatArray, *, n_draws: int, seed: np.random.SeedSequence
) -> Changes:
    """Draw the changes of runs that change few labels, whichever ε are asked for."""
    k, n_members = len(noise.statistics), int(noise.counts.sum())
    # The probability from which on a run changes many; none is larger than a uniform report's.
    most = max(MANY_CHANGES / max(noise.evenness, 1e-300), FEW_CHANGES)
    many = most / max(n_members * (k - 1), 1)
    highest = max(min(many, 1.0 / k), float(lies.max(initial=0.0)))
    return draw_changes(n_members, k, lies, highest=highest, n_draws=n_draws, seed=seed)

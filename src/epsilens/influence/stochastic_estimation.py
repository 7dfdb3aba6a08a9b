# SPDX-License-Identifier: Apache-2.0
"""H⁻¹η by stochastic estimation: recursions over mini-batches (P1 Table I, "SE").

The recursion of Koh and Liang is u ← η + (I − H_B/s)u with a fresh mini-batch B each time: its mean tends
to s·H⁻¹η if s is above the largest eigenvalue, and it blows up if s is too small for a batch. As printed,
s, the depth and the number of repeats are left to the reader, and nothing says how far off the end is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_share
from epsilens.errors import InputError, setting
from epsilens.influence.inverse_hessian import (
    HessianOperator,
    InverseHessian,
    InverseSolution,
    found_solution,
    relative_norms,
)
from epsilens.notes import Note

_PASSES_PER_CHAIN = 4
_POWER_ITERATIONS = 8
_FETCHED_NUMBERS = 1 << 18
# Power iterations approach the largest eigenvalue from below.
_MARGIN = 1.1
_PREPARATION = _POWER_ITERATIONS + 2


@dataclass(frozen=True)
class StochasticEstimation(InverseHessian):
    """Estimate H⁻¹η from small random parts of the records, over and over.

    This is useful where one pass over the records is expensive. The answer carries a Monte-Carlo error, and
    where features are nearly copies of each other it takes very many passes; conjugate gradient is
    nearly always the better way when whole passes can be afforded.

    Parameters
    ----------
    tolerance : float in (0, 1)
        Stop when ‖η − Hv‖/‖η‖, computed with the whole Hessian after every round, is below this.
    max_passes : int
        Stop after so many passes over the records in all, and say so.
    batch_size : int
        Records in a mini-batch. Small ones take fewer passes, large ones less time a pass.
    n_repeats : int
        Independent recursions a round, at least 2: their mean is taken, their spread gives the
        Monte-Carlo standard error.
    random_state : int
        Seed of the mini-batches.

    Notes
    -----
    In a round each of the `n_repeats` chains runs d ← d + D⁻¹(r − H_B d)/s from d = 0, D the
    diagonal of H, through as many mini-batches as make a few passes, and the second half of its
    iterates is averaged. Records are drawn independently, so that the recursion has the right
    mean (reshuffled passes had a bias that the standard error did not see), and half of them by their
    share tr(D⁻¹H_i), so that a rare category does not dictate the step (Needell et al. 2014). The mean of the chains is added to v and the true residual
    r = η − Hv is computed. In the first round r = η and this is the recursion of Koh and Liang; every
    further round is the same for what is left, so that the error shrinks by a factor a round
    instead of with the root of the passes. A round that does not improve is
    discarded and s doubled.

    s is the expected smoothness of a batch of b, at most L + L_max/b, with L the largest eigenvalue of
    D⁻¹H, by a few power iterations, and L_max the largest share of a single record, weighted as it
    is drawn: at most twice the mean (Gower et al. 2019).

    References
    ----------
    P1 IV-C.1; Koh and Liang 2017, section 3; Agarwal, Bullins and Hazan 2017 (LiSSA); Needell, Srebro
    and Ward 2014; Gower et al. 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, Problem, SquaredLoss
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> operator = HessianOperator(
    ...     Problem(Design.plain(X), np.ones(500), SquaredLoss(), np.zeros(2)), np.zeros(2))
    >>> found = StochasticEstimation(batch_size=50).solve(operator, np.array([1.0, 2.0]))
    >>> found.converged, found.vector.round(3)
    (True, array([0.504, 1.065]))
    """

    name: ClassVar[str] = "stochastic"
    tolerance: float = 1e-4
    max_passes: int = 500
    batch_size: int = 64
    n_repeats: int = 4
    random_state: int = 0

    def __post_init__(self) -> None:
        as_share(self.tolerance, name="tolerance")
        as_count(self.batch_size, name="batch_size")
        as_count(self.n_repeats, name="n_repeats", least=2)
        as_count(self.max_passes, name="max_passes")
        as_count(self.random_state, name="random_state", least=0)
        least = _PREPARATION + self._round_passes
        if self.max_passes < least:
            raise InputError(
                argument="max_passes",
                expected=f"at least {least} for {self.n_repeats} repeats",
                got=f"{self.max_passes}: less is not one round",
            )

    @property
    def _round_passes(self) -> int:
        return self.n_repeats * _PASSES_PER_CHAIN + 1

    def solve(
        self, operator: HessianOperator, right: FloatArray, *, quiet: bool = False
    ) -> InverseSolution:
        """Return H⁻¹η for one right-hand side or a block of them."""
        columns = right.reshape(len(right), -1)
        seed = np.random.SeedSequence(self.random_state)
        drawn = _Sampling.of(operator.shares)
        scale = self._scale(operator, drawn, seed.spawn(1)[0])
        vector, residual = np.zeros_like(columns), columns.copy()
        repeats = np.zeros((self.n_repeats, *columns.shape))
        n_passes, n_products = _PREPARATION, _POWER_ITERATIONS
        relative = relative_norms(residual, columns)
        while (relative > self.tolerance).any():
            if n_passes + self._round_passes > self.max_passes:
                break
            # A scale that turned out too small may overflow; such a round is discarded below.
            with np.errstate(over="ignore", invalid="ignore"):
                chains = np.stack(
                    [
                        self._chain(operator, drawn, residual, scale, np.random.default_rng(child))
                        for child in seed.spawn(self.n_repeats)
                    ]
                )
                moved = vector + chains.mean(axis=0)
                left = columns - operator.product(moved)
                better = _size(operator, left) < _size(operator, residual)
            n_passes += self._round_passes
            n_products += columns.shape[1]
            vector = np.where(better, moved, vector)
            residual = np.where(better, left, residual)
            repeats = np.where(better, chains, repeats)
            relative = relative_norms(residual, columns)
            if not (better | (relative <= self.tolerance)).all():
                scale *= 2.0
        return found_solution(
            right,
            vector,
            residual,
            self.tolerance,
            self._note,
            quiet=quiet,
            n_products=n_products,
            n_passes=n_passes,
            repeats=repeats,
        )

    def _chain(
        self,
        operator: HessianOperator,
        drawn: _Sampling,
        residual: FloatArray,
        scale: float,
        generator: np.random.Generator,
    ) -> FloatArray:
        """Return the averaged second half of one recursion towards H⁻¹r."""
        size = min(operator.n_rows, self.batch_size)
        step = 1.0 / (scale * operator.diagonal[:, None])
        estimate, total = np.zeros_like(residual), np.zeros_like(residual)
        n_batches = _PASSES_PER_CHAIN * max(1, operator.n_rows // size)
        # Many batches are fetched at a time, as many as fit the cache.
        at_once = max(1, _FETCHED_NUMBERS // (size * operator.problem.design.n_columns))
        for first in range(0, n_batches, at_once):
            here = min(at_once, n_batches - first)
            records = operator.gather(*drawn.draw(generator, here * size))
            for batch in range(here):
                bent = records.product(slice(batch * size, (batch + 1) * size), estimate)
                estimate = estimate + step * (residual - bent)
                if first + batch >= n_batches // 2:
                    total += estimate
        return total / (n_batches - n_batches // 2)

    def _scale(
        self, operator: HessianOperator, drawn: _Sampling, seed: np.random.SeedSequence
    ) -> float:
        """Return the expected smoothness of a preconditioned mini-batch."""
        root = np.sqrt(operator.diagonal)
        vector = np.random.default_rng(seed).normal(size=operator.n_parameters)
        largest = 0.0
        for _ in range(_POWER_ITERATIONS):
            vector = vector / np.linalg.norm(vector)
            vector = operator.product(vector / root) / root
            largest = float(np.linalg.norm(vector))
        return _MARGIN * largest + drawn.largest / min(operator.n_rows, self.batch_size)

    def _note(self, relative: float) -> Note:
        return Note(
            "solver-not-converged",
            f"stochastic estimation used its {self.max_passes} passes and left a relative "
            f"residual of {relative:.1e}, above the tolerance of {self.tolerance:g}: first-order "
            f"numbers are uncertain. Raise `max_passes` or `tolerance`, add "
            f"regularisation, or take {setting('inverse_hessian', 'cg')}.",
        )


@dataclass(frozen=True, repr=False)
class _Sampling:
    """How records are drawn: half of the time by their share, half of the time any.

    Attributes
    ----------
    ends : array of shape (n,)
        Cumulative probabilities.
    weights : array of shape (n,)
        1/(n·probability), so that a weighted mean over drawn records is right on average.
    largest : float
        The largest weighted share.
    """

    ends: FloatArray
    weights: FloatArray
    largest: float

    @classmethod
    def of(cls, shares: FloatArray) -> _Sampling:
        n, total = len(shares), float(shares.sum())
        chances = np.full(n, 1.0 / n)
        if total > 0:
            chances = 0.5 / n + 0.5 * shares / total
        weights = 1.0 / (n * chances)
        return cls(np.cumsum(chances), weights, float((weights * shares).max()))

    def draw(
        self, generator: np.random.Generator, size: int
    ) -> tuple[NDArray[np.intp], FloatArray]:
        """Return some records and their weights."""
        rows = np.searchsorted(self.ends, generator.random(size) * self.ends[-1], side="right")
        rows = np.minimum(rows, len(self.ends) - 1)
        return rows, self.weights[rows]


def _size(operator: HessianOperator, residual: FloatArray) -> FloatArray:
    """Return √(rᵀD⁻¹r) of every column: what the recursion shrinks; NaN stays NaN."""
    size: FloatArray = np.sqrt((residual**2 / operator.diagonal[:, None]).sum(axis=0))
    return size

# SPDX-License-Identifier: Apache-2.0
"""H⁻¹η by stochastic estimation: recursions over mini-batches (P1 Table I, "SE").

The recursion of Koh and Liang is u ← η + (I − H_B/s)u with a fresh mini-batch B each time: its mean tends
to s·H⁻¹η if s is above the largest eigenvalue, and it blows up if s is too small for a batch. As printed,
s, the depth and the number of repeats are left to the reader, and nothing says how far off the end is.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_count, as_share
from epsilens.errors import ApproximationWarning, InputError
from epsilens.influence.inverse_hessian import HessianOperator, InverseSolution, relative_norms

__all__ = ["StochasticEstimation"]

FloatArray = NDArray[np.float64]

_PASSES_PER_CHAIN = 4
_POWER_ITERATIONS = 8
# Power iterations approach the largest eigenvalue from below.
_MARGIN = 1.1
_PREPARATION = _POWER_ITERATIONS + 2


@dataclass(frozen=True)
class StochasticEstimation:
    """Estimate H⁻¹η from small random parts of the records, over and over.

    Of use where one pass over the records is dear. The answer carries a Monte-Carlo error, and
    where features are nearly copies of each other it takes very many passes; conjugate gradient is
    nearly always the better way when whole passes can be afforded.

    Parameters
    ----------
    tolerance : float in (0, 1)
        Stop when ‖η − Hv‖/‖η‖, computed with the whole Hessian after every round, is below this.
    max_passes : int
        Stop after so many passes over the records in all, and say so.
    batch_size : int
        Records in a mini-batch.
    n_repeats : int
        Independent recursions a round, at least 2: their mean is taken, their spread gives the
        Monte-Carlo standard error.
    random_state : int
        Seed of the mini-batches.

    Notes
    -----
    In a round each of the `n_repeats` chains runs d ← d + D⁻¹(r − H_B d)/s from d = 0, D the
    diagonal of H, through a few passes of mini-batches without replacement, and the
    second half of its iterates is averaged. The mean of the chains is added to v and the true residual
    r = η − Hv is computed. In the first round r = η and this is the recursion of Koh and Liang; every
    further round is the same for what is left, so that the error shrinks by a factor a round
    instead of with the root of the passes. A round that does not improve is
    discarded and s doubled.

    s is the expected smoothness of a batch of b, [n(b−1)L + (n−b)L_max]/(b(n−1)), with L the largest
    eigenvalue of D⁻¹H, by a few power iterations, and L_max the largest trace of a single
    record's share (Gower et al. 2019, section 3.3).

    References
    ----------
    P1 IV-C.1; Koh and Liang 2017, section 3; Agarwal, Bullins and Hazan 2017 (LiSSA); Gower et al. 2019,
    "SGD: General Analysis and Improved Rates".

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, Problem, SquaredLoss
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> operator = HessianOperator(
    ...     Problem(Design.plain(X), np.ones(500), SquaredLoss(), np.zeros(2)), np.zeros(2))
    >>> found = StochasticEstimation(batch_size=50).solve(operator, np.array([1.0, 2.0]))
    >>> found.converged, found.vector.round(3)
    (True, array([0.49 , 0.994]))
    """

    tolerance: float = 1e-4
    max_passes: int = 500
    batch_size: int = 256
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
                f"`max_passes` must be at least {least} for {self.n_repeats} repeats, got "
                f"{self.max_passes}: less is not one round."
            )

    @property
    def name(self) -> str:
        """As it is asked for by name."""
        return "stochastic"

    @property
    def is_matrix_free(self) -> bool:
        """Yes."""
        return True

    @property
    def _round_passes(self) -> int:
        return self.n_repeats * _PASSES_PER_CHAIN + 1

    def settings(self) -> dict[str, object]:
        """Return name and settings."""
        return {"solver": self.name, **asdict(self)}

    def loosened(self, tolerance: float) -> StochasticEstimation:
        """Return the same with a tolerance of at least this."""
        return replace(self, tolerance=max(self.tolerance, tolerance))

    def solve(
        self, operator: HessianOperator, right: FloatArray, *, quiet: bool = False
    ) -> InverseSolution:
        """Return H⁻¹η for one right-hand side or a block of them."""
        columns = right.reshape(len(right), -1)
        seed = np.random.SeedSequence(self.random_state)
        scale = self._scale(operator, seed.spawn(1)[0])
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
                        self._chain(operator, residual, scale, np.random.default_rng(child))
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
        worst = float(relative.max(initial=0.0))
        converged = worst <= self.tolerance
        note = "" if converged else self._note(worst)
        if note and not quiet:
            warnings.warn(note, ApproximationWarning, stacklevel=2)
        return InverseSolution(
            vector=vector.reshape(right.shape),
            residual=residual.reshape(right.shape),
            relative_residual=worst,
            n_products=n_products,
            n_passes=n_passes,
            converged=converged,
            note=note,
            repeats=repeats.reshape(self.n_repeats, *right.shape),
        )

    def _chain(
        self,
        operator: HessianOperator,
        residual: FloatArray,
        scale: float,
        generator: np.random.Generator,
    ) -> FloatArray:
        """Return the averaged second half of one recursion towards H⁻¹r."""
        n = operator.n_rows
        n_batches = max(1, n // self.batch_size)
        step = 1.0 / (scale * operator.diagonal[:, None])
        estimate, total = np.zeros_like(residual), np.zeros_like(residual)
        first = _PASSES_PER_CHAIN * n_batches // 2
        count = 0
        for _ in range(_PASSES_PER_CHAIN):
            for rows in np.array_split(generator.permutation(n), n_batches):
                estimate = estimate + step * (residual - operator.batch_product(rows, estimate))
                count += 1
                if count > first:
                    total += estimate
        return total / (count - first)

    def _scale(self, operator: HessianOperator, seed: np.random.SeedSequence) -> float:
        """Return the expected smoothness of a preconditioned mini-batch."""
        root = np.sqrt(operator.diagonal)
        vector = np.random.default_rng(seed).normal(size=operator.n_parameters)
        largest = 0.0
        for _ in range(_POWER_ITERATIONS):
            vector = vector / np.linalg.norm(vector)
            vector = operator.product(vector / root) / root
            largest = float(np.linalg.norm(vector))
        n = operator.n_rows
        b = n // max(1, n // self.batch_size)
        if n == 1 or b >= n:
            return _MARGIN * largest
        whole = n * (b - 1) / (b * (n - 1)) * _MARGIN * largest
        return whole + (n - b) / (b * (n - 1)) * operator.largest_share

    def _note(self, relative: float) -> str:
        return (
            f"stochastic estimation used its {self.max_passes} passes and left a relative residual of "
            f"{relative:.1e}, above the tolerance of {self.tolerance:g}: first-order numbers are "
            "uncertain. Raise `max_passes` or `tolerance`, add regularisation, or take "
            "inverse_hessian='cg'."
        )


def _size(operator: HessianOperator, residual: FloatArray) -> FloatArray:
    """Return √(rᵀD⁻¹r) of every column: what the recursion shrinks; NaN stays NaN."""
    size: FloatArray = np.sqrt((residual**2 / operator.diagonal[:, None]).sum(axis=0))
    return size

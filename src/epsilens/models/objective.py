# SPDX-License-Identifier: Apache-2.0
"""What the ladder asks of a training objective, wherever its records are.

`Problem` has its records in memory; `StreamedProblem` reads them again at every question. Each question is
for many parameter vectors at once, so that a reading is not wasted on one.
"""

from __future__ import annotations

from typing import Protocol

from epsilens._types import FloatArray
from epsilens.models.losses import Loss
from epsilens.models.solver import Objective

__all__ = ["LinearObjective"]


class LinearObjective(Objective, Protocol):
    """The mean of a canonical loss with a penalty; labels enter through the linear term only."""

    @property
    def loss(self) -> Loss:
        """The loss at the linear predictor."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of training records."""
        ...

    @property
    def n_parameters(self) -> int:
        """K·p, one coefficient per column and output."""
        ...

    def hessians(self, thetas: FloatArray) -> list[FloatArray]:
        """Return the Hessian at every column of parameters."""
        ...

    def thirds(
        self, thetas: FloatArray, middles: list[FloatArray], *, are_roots: bool
    ) -> list[FloatArray]:
        """Return ∇³F[M] at every column of parameters, M = RRᵀ if roots are given."""
        ...

    def along_lines(
        self, theta: FloatArray, directions: FloatArray, lengths: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return slope and bend, but for the linear term, at θ + a_b·d_b along every d_b."""
        ...

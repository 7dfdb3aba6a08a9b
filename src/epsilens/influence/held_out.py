# SPDX-License-Identifier: Apache-2.0
"""What the ladder asks of a test set, wherever its records are.

`Evaluation` has them in memory; `StreamedEvaluation` reads them again at every question. A contrast, the
weights with which a group's gaps are summed, is what `contrast` returns and nobody looks into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from epsilens._types import FloatArray, SingleArray
from epsilens.influence.evaluation import DrawnOutcomes, Outcomes
from epsilens.influence.record_noise import CellNoise, NoiseForms

__all__ = ["HeldOut"]


class HeldOut(Protocol):
    """A test set."""

    @property
    def n_rows(self) -> int:
        """Number of test records."""
        ...

    def contrast(self, members: Any) -> Any:
        """Return weights whose sum with a metric is the group's gap; None if one side is empty."""
        ...

    def gaps(self, theta: FloatArray, contrasts: Sequence[Any], known: Outcomes) -> list[Outcomes]:
        """Return known outcomes at θ with the gaps of several groups."""
        ...

    def outcomes_at(self, thetas: FloatArray, contrasts: Sequence[Any]) -> list[Outcomes]:
        """Return the outcomes of many parameter vectors, each with a contrast of its own."""
        ...

    def losses(self, theta: FloatArray) -> FloatArray:
        """Return the mean test loss for every column of θ."""
        ...

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return η = ∇L_te(θ)."""
        ...

    def gradients_at(self, thetas: FloatArray) -> FloatArray:
        """Return η for every column of parameters."""
        ...

    def bends(self, theta: FloatArray, steps: FloatArray) -> FloatArray:
        """Return dᵀH_te(θ)d for every column d of steps."""
        ...

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return H_te = ∇²L_te(θ)."""
        ...

    def hessians(self, thetas: FloatArray) -> list[FloatArray]:
        """Return H_te at every column of parameters."""
        ...

    def noise_at(self, thetas: FloatArray, noises: Sequence[NoiseForms]) -> list[CellNoise]:
        """Return what the noise of a run does to the test records."""
        ...

    def drawn(
        self,
        theta: FloatArray,
        deviations: SingleArray,
        *,
        n_auc_draws: int,
        contrast: Any = None,
    ) -> DrawnOutcomes:
        """Return the outcomes at θ + every column of `deviations`."""
        ...

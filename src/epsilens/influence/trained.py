# SPDX-License-Identifier: Apache-2.0
"""What the ladder for labels asks of a trained model, wherever its records are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from epsilens._types import FloatArray
from epsilens.document import Baseline as BaselineNumbers
from epsilens.influence.evaluation import Outcomes
from epsilens.influence.held_out import HeldOut
from epsilens.influence.label_noise import LabelNoise
from epsilens.models import Curvature
from epsilens.models.objective import LinearObjective

__all__ = ["TrainedModel", "baseline_numbers"]


class TrainedModel(Protocol):
    """A converged model with its training objective and its test set.

    Attributes are those of `Baseline`, which has the records in memory; `StreamedBaseline` has them
    on disk.
    """

    @property
    def problem(self) -> LinearObjective:
        """The training objective."""
        ...

    @property
    def evaluation(self) -> HeldOut:
        """The test set."""
        ...

    @property
    def theta(self) -> FloatArray:
        """The optimum, in the scaled coordinates of the design."""
        ...

    @property
    def linear(self) -> FloatArray:
        """The linear term of the unperturbed objective."""
        ...

    @property
    def curvature(self) -> Curvature:
        """H at the optimum."""
        ...

    @property
    def outcomes(self) -> Outcomes:
        """Loss, accuracy and AUC on the test set."""
        ...

    @property
    def is_streamed(self) -> bool:
        """Whether the records are read again at every question."""
        ...

    def group_noises(self, groups: Sequence[Any], *, with_grams: bool = True) -> list[LabelNoise]:
        """Return every group's records, summed by label."""
        ...


def baseline_numbers(model: TrainedModel) -> BaselineNumbers:
    """Return what a document says of a model before anything is randomised."""
    return BaselineNumbers(
        loss=model.outcomes.loss,
        accuracy=model.outcomes.accuracy,
        auc=model.outcomes.auc,
        n_train=model.problem.n_rows,
        n_test=model.evaluation.n_rows,
        n_parameters=model.problem.n_parameters,
    )

# SPDX-License-Identifier: Apache-2.0
"""What the methods for labels ask of a trained model, wherever its records are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from epsilens._types import FloatArray, SingleArray
from epsilens.document import Baseline as BaselineNumbers
from epsilens.influence.evaluation import DrawnOutcomes, Outcomes
from epsilens.influence.label_noise import LabelNoise
from epsilens.influence.record_noise import CellNoise, NoiseForms
from epsilens.models import Curvature
from epsilens.models.solver import LinearObjective

# --- What the methods ask of a test set, wherever its records are ---


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


# --- What the methods for labels ask of a trained model, wherever its records are ---


class TrainedModel(Protocol):
    """A converged model with its training objective and its test set.

    Attributes are those of `BaselineModel`, which has the records in memory; `StreamedBaseline` has them
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


# --- When an estimate that was not checked against solved runs deserves belief ---

LARGEST_LOGIT_NOISE = 0.5
LARGEST_CONDITION = 1e10
LARGEST_OMISSION = 0.6
"""What may be left out, of half the width of the interval."""


def is_trustworthy(
    *,
    converged: bool,
    logit_noise: float,
    condition: float,
    undetermined_loss: float = 0.0,
    omitted: float = 0.0,
    half_width: float = math.inf,
) -> bool:
    """Return whether an estimated change of loss deserves belief.

    Parameters
    ----------
    converged : bool
        Whether the solver reached its tolerance.
    logit_noise : float
        Root mean square noise of one run in a test record's logit; for a squared loss what is said above.
    condition : float
        Condition number of the Hessian, features scaled.
    undetermined_loss : float
        Test loss that hangs on records whose predictor one run leaves undetermined.
    omitted : float
        Size of the next term, which the method left out.
    half_width : float
        Half the width of the prediction interval.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_trustworthy(converged=True, logit_noise=0.1, condition=100.0)
    True
    >>> is_trustworthy(converged=True, logit_noise=0.9, condition=100.0)
    False
    """
    tolerable = LARGEST_OMISSION * half_width
    return (
        converged
        and logit_noise <= LARGEST_LOGIT_NOISE
        and condition <= LARGEST_CONDITION
        and abs(omitted) <= tolerable
        and undetermined_loss <= tolerable
    )

# SPDX-License-Identifier: Apache-2.0
"""Gradient descent on all records, with noise on every sum of gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens.document.decision import MechanismName, Protects, Trust
from epsilens.mechanisms._advantage import gaussian_advantage
from epsilens.mechanisms._release import Released, Training, released_logistic
from epsilens.mechanisms.protocol import Mechanism, Runs, Task
from epsilens.models.gaussian_release import rho_of_epsilon
from epsilens.models.noisy_descent import DescentPlan, simulate_descents
from epsilens.models.private_logistic import default_bounds

N_STEPS = 120
_SECONDS_PER_STEP = 1e-10
"""For one number of the design, one model and one class."""


def protected_unit(task: Task, protects: Protects) -> Protects:
    """Return what the noise must hide: a protected feature moves the whole row, as a replaced record does."""
    return protects if task.is_label_alone else "record"


def n_outputs(task: Task) -> int:
    """Return the number of coefficient vectors: one for two classes."""
    return 1 if task.n_classes == 2 else task.n_classes


@dataclass(frozen=True)
class NoisyDescent(Mechanism):
    """Logistic or softmax regression by gradient descent on all records, with noise on every step.

    Attributes
    ----------
    epsilon, delta : float
        Budget, for a changed answer or a replaced record.
    protects : {"answer", "record"}
    descent : DescentPlan
        Noise and steps, from the number of records, the bound of their length and the budget alone.

    Notes
    -----
    The release is `epsilens.private.PrivateLogisticRegression`, which has the proof. An answer that is a
    feature moves the row and the gradient, so it is calibrated as a replaced record.
    """

    name: ClassVar[MechanismName] = "noisy-descent"
    title: ClassVar[str] = "noisy gradient descent"
    trust: ClassVar[Trust] = "curator"
    claims: ClassVar[frozenset[Protects]] = frozenset({"answer", "record"})
    citation: ClassVar[str] = "Dong2022"
    epsilon: float
    delta: float
    protects: Protects
    descent: DescentPlan

    @property
    def mu(self) -> float:
        """μ of all steps together, for a changed answer or a replaced record."""
        return self.descent.mu

    @property
    def advantage(self) -> float:
        """Largest total variation distance between what two answers, or records, of a person lead to."""
        return gaussian_advantage(self.mu)

    @classmethod
    def plan(cls, task: Task, *, epsilon: float, delta: float, protects: Protects) -> Self:
        """Return the mechanism for a task at a budget."""
        n, p = task.X.shape
        unit = protected_unit(task, protects)
        rho = rho_of_epsilon(epsilon, delta)
        descent = DescentPlan(n, p + 1, n_outputs(task), task.x_bound, unit, rho, N_STEPS)
        return cls(epsilon, delta, protects, descent)

    @classmethod
    def expected_seconds(cls, task: Task, n_budgets: int) -> float:
        """Return about how long a preview takes."""
        models = n_budgets * cls.most_runs * n_outputs(task)
        return 0.1 + _SECONDS_PER_STEP * N_STEPS * task.X.size * models

    @classmethod
    def release(cls, training: Training) -> Released:
        """Train the model that is published."""
        return released_logistic(training, "noisy-descent")

    @classmethod
    def simulate(
        cls,
        task: Task,
        plans: Sequence[Self],
        *,
        n_runs: int,
        generator: np.random.Generator,
        members: BoolArray | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Runs]:
        """Train models at every budget by seeded noise; all runs of all budgets side by side."""
        bounds, n_steps = default_bounds(task.x_bound), plans[0].descent.n_steps
        n = len(task.y) if members is None else max(1, round(float(members.sum(axis=0).mean())))

        def tell(done: int) -> None:
            if progress is not None:
                progress(done, n_steps, cls.name)

        found = simulate_descents(
            bounds.rows(task.X),
            task.y,
            [replace(plan.descent, n_records=n) for plan in plans],
            n_runs=n_runs,
            generator=generator,
            members=members,
            progress=tell,
        )
        for models in found:
            yield LinearRuns(task, models)


@dataclass(frozen=True, repr=False)
class LinearRuns(Runs):
    """Linear models of several runs.

    Attributes
    ----------
    task : Task
    models : array of shape (n_runs, n_features + 1, n_outputs)
        Coefficients of clipped rows with their constant.
    """

    task: Task
    models: NDArray[np.floating[Any]]

    def probabilities(self, records: Literal["train", "test"]) -> FloatArray:
        """Return the predictions of all runs, (n_records, n_classes, n_runs)."""
        from scipy.special import expit, softmax

        rows = default_bounds(self.task.x_bound).rows(
            self.task.X if records == "train" else self.task.X_test
        )
        n_runs, d, k = self.models.shape
        columns = self.models.transpose(1, 2, 0).reshape(d, k * n_runs).astype(np.float64)
        predictors = (rows @ columns).reshape(len(rows), k, n_runs)
        if k == 1:
            return np.concatenate([expit(-predictors), expit(predictors)], axis=1)
        chances: FloatArray = softmax(predictors, axis=1)
        return chances

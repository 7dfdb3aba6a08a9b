# SPDX-License-Identifier: Apache-2.0
"""Noise on the coefficients of a penalised logistic or softmax regression."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens.document.decision import MechanismName, Protects, Trust
from epsilens.mechanisms._advantage import gaussian_advantage
from epsilens.mechanisms._release import Released, Training, released_logistic
from epsilens.mechanisms.noisy_descent import LinearRuns, n_outputs, protected_unit
from epsilens.mechanisms.protocol import Mechanism, Runs, Task
from epsilens.models.gaussian_release import GaussianRelease, rho_of_epsilon
from epsilens.models.private_logistic import (
    balanced_penalty,
    default_bounds,
    output_release,
    penalised_minimum,
)

_SECONDS_PER_FIT = 1e-7
"""For one number of the design."""


@dataclass(frozen=True)
class OutputPerturbation(Mechanism):
    """A penalised fit whose coefficients get noise once.

    Attributes
    ----------
    epsilon, delta : float
        Budget, for a changed answer or a replaced record.
    protects : {"answer", "record"}
    alpha : float
        Penalty, from the number of records, the bound of their length and the budget alone.
    noise : GaussianRelease
        Sensitivity and noise of the coefficients.

    Notes
    -----
    The release is `epsilens.private.PrivateLogisticRegression` with mechanism="output-perturbation", which
    has the proof. Its noise does not depend on the fit, so a preview needs one fit a budget.
    """

    name: ClassVar[MechanismName] = "output-perturbation"
    title: ClassVar[str] = "noise on the coefficients"
    trust: ClassVar[Trust] = "curator"
    claims: ClassVar[frozenset[Protects]] = frozenset({"answer", "record"})
    citation: ClassVar[str] = "Chaudhuri2011"
    epsilon: float
    delta: float
    protects: Protects
    alpha: float
    noise: GaussianRelease

    @property
    def mu(self) -> float:
        """Sensitivity over noise, for a changed answer or a replaced record."""
        return math.sqrt(2.0 * self.noise.rho)

    @property
    def advantage(self) -> float:
        """Largest total variation distance between what two answers, or records, of a person lead to."""
        return gaussian_advantage(self.mu)

    @classmethod
    def plan(cls, task: Task, *, epsilon: float, delta: float, protects: Protects) -> Self:
        """Return the mechanism for a task at a budget."""
        unit, rho = protected_unit(task, protects), rho_of_epsilon(epsilon, delta)
        alpha = balanced_penalty(len(task.y), task.x_bound, unit, rho=rho)
        noise = output_release(task.x_bound, n_outputs(task), unit, rho=rho, penalty=alpha)
        return cls(epsilon, delta, protects, alpha, noise)

    @classmethod
    def expected_seconds(cls, task: Task, n_budgets: int) -> float:
        """Return about how long a preview takes."""
        return 0.1 + n_budgets * _SECONDS_PER_FIT * task.X.size * n_outputs(task) ** 2

    @classmethod
    def release(cls, training: Training) -> Released:
        """Train the model that is published."""
        return released_logistic(training, "output-perturbation")

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
        """Fit at every budget, once for all runs or once for the members of each, and draw the noise."""
        rows = default_bounds(task.x_bound).rows(task.X)

        def fitted(alpha: float, chosen: BoolArray | slice) -> FloatArray:
            return penalised_minimum(
                rows[chosen],
                task.y[chosen],
                n_outputs(task),
                penalty=alpha,
                x_bound=task.x_bound,
            )

        for number, plan in enumerate(plans):
            if members is None:
                exact = fitted(plan.alpha, slice(None))[None]
            else:
                exact = np.stack([fitted(plan.alpha, run) for run in members.T])
            noise = generator.standard_normal((n_runs, *exact.shape[1:]))
            yield LinearRuns(task, exact + plan.noise.sigma * noise)
            if progress is not None:
                progress(number + 1, len(plans), cls.name)

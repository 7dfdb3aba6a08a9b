# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient descent with clipped gradients and normal noise (DP-SGD)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens.document.decision import MechanismName, Protects, Trust
from epsilens.errors import InputError
from epsilens.mechanisms._advantage import replaced_advantage
from epsilens.mechanisms._release import Released, Training
from epsilens.mechanisms.ceilings import sampled_tpr
from epsilens.mechanisms.protocol import Mechanism, Neighbours, Runs, Task
from epsilens.models.dp_sgd import EnsembleFit, train_ensemble
from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.models.privacy_accounting import attack_ceiling, sampled_advantage
from epsilens.models.private_logistic import default_bounds
from epsilens.models.released_model import ReleasedLogistic
from epsilens.models.table_encoder import TableEncoder


@dataclass(frozen=True)
class DPSGD(Mechanism):
    """Logistic or softmax regression by DP-SGD; previews by many models side by side, releases by Opacus.

    Attributes
    ----------
    epsilon, delta : float
        Budget, for a record that is added or removed.
    protects : {"answer", "record"}
        A changed answer can turn a clipped gradient round, as a replaced record can: both cost the same.
    settings : DPSGDSettings
        Epochs, batch, step and clipping length, made of the number of records and the bound of their
        length alone.
    n_records : int

    Notes
    -----
    Noise is calibrated for adding or removing a record, each step looking at a record with probability q
    by a coin of its own (Poisson sampling). The advantage is that of a replaced record: in every step the
    two sums are (1 − q)·N(0, σ²) + q·N(±1, σ²) at worst, in units of the clipping length, and all steps
    are composed by privacy loss distributions. It is never above twice the advantage of an added record.

    Assumptions
    -----------
    The number of records is public. Sums are divided by a constant batch, not by a count that depends on
    who is in the data.

    A release draws batches and noise from the operating system (`released_coefficients`).
    """

    name: ClassVar[MechanismName] = "dp-sgd"
    title: ClassVar[str] = "stochastic gradient descent with noise"
    trust: ClassVar[Trust] = "curator"
    claims: ClassVar[frozenset[Protects]] = frozenset({"answer", "record"})
    is_slow: ClassVar[bool] = True
    extra: ClassVar[str | None] = "torch"
    release_packages: ClassVar[tuple[str, ...]] = ("torch", "opacus")
    neighbours: ClassVar[Neighbours] = "added or removed"
    citation: ClassVar[str] = "Abadi2016"
    epsilon: float
    delta: float
    protects: Protects
    settings: DPSGDSettings
    n_records: int

    @property
    def advantage(self) -> float:
        """Largest total variation distance between what two records of a person lead to."""
        calibration = self.settings.calibration(self.n_records)
        added = 2.0 * attack_ceiling(calibration) - 1.0
        return min(sampled_advantage(calibration), replaced_advantage(added))

    def tpr_ceiling(self, fpr: float) -> float:
        """Return the largest share of true alarms, by the privacy loss distribution of a replaced record."""
        calibration = self.settings.calibration(self.n_records)
        by_distribution = sampled_tpr(calibration, fpr, is_replaced=True)
        return min(by_distribution, super().tpr_ceiling(fpr))

    @classmethod
    def plan(cls, task: Task, *, epsilon: float, delta: float, protects: Protects) -> Self:
        """Return the mechanism for a task at a budget."""
        n_records = len(task.y)
        settings = DPSGDSettings.linear(epsilon, delta, x_bound=task.x_bound, n_records=n_records)
        return cls(epsilon, delta, "record", settings, n_records)

    @classmethod
    def expected_seconds(cls, task: Task, n_budgets: int) -> float:
        """Return about how long a preview takes."""
        return n_budgets * (2.0 + 2e-6 * task.X.size)

    @classmethod
    def release(cls, training: Training) -> Released:
        """Train the model that is published, by Opacus."""
        from epsilens.models.opacus_release import released_coefficients, sum_release

        training.check_budget()
        if training.x_bound is None:
            raise InputError(argument="x_bound", expected="given", got="none")
        n_records, bounds = len(training.y), default_bounds(training.x_bound)
        settings = DPSGDSettings.linear(
            training.epsilon, training.delta, x_bound=training.x_bound, n_records=n_records
        )
        encoder = TableEncoder(training.columns)
        theta = released_coefficients(
            bounds.rows(encoder.transform(training.frame)),
            training.y,
            training.n_outputs,
            settings,
            generator=training.generator(),
            progress=training.progress,
        )
        model = ReleasedLogistic.of(
            theta[:-1].T, theta[-1] * bounds.constant, range(training.n_classes), bounds
        )
        return Released(
            encoder,
            model,
            cls(training.epsilon, training.delta, "record", settings, n_records).advantage,
            sigma=sum_release(settings, n_records).sigma,
            n_steps=settings.plan(n_records).n_steps,
        )

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
        """Train models at every budget by seeded noise; all runs of a budget side by side.

        Rows are shrunk as in a release. The intercept's constant is 1 here; it is less there if the bound is
        below 2.
        """
        X, X_test = (default_bounds(task.x_bound).rows(X)[:, :-1] for X in (task.X, task.X_test))
        shares = np.ones((n_runs, len(task.y)), dtype=bool) if members is None else members.T
        expected = float(shares.sum(axis=1).mean())
        for number, plan in enumerate(plans):
            yield _EnsembleRuns(
                {"train": X, "test": X_test},
                train_ensemble(
                    X,
                    task.y,
                    shares,
                    DPSGDSettings.linear(
                        plan.epsilon, plan.delta, x_bound=task.x_bound, n_records=expected
                    ),
                    n_classes=task.n_classes,
                    expected_records=expected,
                    random_state=int(generator.integers(2**31)),
                ),
            )
            if progress is not None:
                progress(number + 1, len(plans), cls.name)


@dataclass(frozen=True, repr=False)
class _EnsembleRuns(Runs):
    """Models that were trained side by side."""

    rows: Mapping[str, FloatArray]
    fit: EnsembleFit

    def probabilities(self, records: Literal["train", "test"]) -> FloatArray:
        """Return the predictions of all runs, (n_records, n_classes, n_runs)."""
        from scipy.special import softmax

        logits = np.asarray(self.fit.logits(self.rows[records]), dtype=np.float64).transpose(
            1, 2, 0
        )
        if logits.shape[1] == 1:
            logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
        chances: FloatArray = softmax(logits, axis=1)
        return chances

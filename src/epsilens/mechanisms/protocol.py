# SPDX-License-Identifier: Apache-2.0
"""What every mechanism knows, and the task that it is tried on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens.document.decision import MechanismCell, MechanismName, Protects, Trust

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.document import Baseline, WhatIfDocument

INTERVAL = 0.9
"""Probability that one real run lies in the interval of a preview."""
RUNS = 39
"""Simulated runs of a preview: the second and the second last are the ends of its interval."""


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Task:
    """A classifier that is to be published, and the records that it learns from.

    Attributes
    ----------
    X, X_test : array of shape (n, p) and (n_test, p)
        Encoded features, without a constant column: one-hot categories and standardised numbers.
    y, y_test : array of int, shape (n,) and (n_test,)
        Classes as numbers from 0.
    n_classes : int
    table, table_test : frame
        The same records before any encoding, without the label.
    label : str
        Name of the column that is predicted.
    protected : tuple of str
        Columns whose answers are protected.
    x_bound : float
        Largest length of a row of features, the constant included; longer ones are shrunk to it.
    baseline : Baseline
        The model without any privacy.
    alpha : float
        Penalty of the model without privacy, ½·alpha·‖θ‖² beside the sum of losses.
    cost : callable, optional
        Cost of randomised response at some budgets, with or without forward correction.
    declared : mapping of column to values
        Answers and ranges that were declared.
    """

    X: FloatArray
    y: NDArray[np.intp]
    X_test: FloatArray
    y_test: NDArray[np.intp]
    n_classes: int
    table: pd.DataFrame
    table_test: pd.DataFrame
    label: str
    protected: tuple[str, ...]
    x_bound: float
    baseline: Baseline
    alpha: float = 1.0
    cost: Callable[[Sequence[float], str | None], WhatIfDocument] | None = None
    declared: Mapping[str, Sequence[object]] | None = None

    @property
    def is_label_alone(self) -> bool:
        """Whether the label is the only protected column."""
        return self.protected == (self.label,)

    def cell(self, mechanism: Mechanism, probabilities: FloatArray) -> MechanismCell:
        """Return what a budget costs from the predictions of simulated runs.

        Parameters
        ----------
        mechanism : Mechanism
        probabilities : array of shape (n_test, n_classes, n_runs)
            Probability of every class for every test record.

        Returns
        -------
        MechanismCell
            Means over the runs, and the interval of one more run. Given the table, its order among the
            simulated ones is uniform, so the Weibull quantiles at 5 % and 95 % cover 90 %, whatever the
            distribution is.
        """
        own = np.take_along_axis(probabilities, self.y_test[:, None, None], axis=1)[:, 0]
        tiny = np.finfo(np.float64).tiny
        losses = -np.log(np.maximum(own.astype(np.float64), tiny)).mean(axis=0)
        right = (probabilities.argmax(axis=1) == self.y_test[:, None]).mean(axis=0)
        changes: dict[str, Any] = {}
        for name, values, before in (
            ("loss_change", losses, self.baseline.loss),
            ("accuracy_change", right, self.baseline.accuracy),
            ("auc_change", self._areas(probabilities), self.baseline.auc),
        ):
            if values is None or before is None:
                continue
            low, high = np.quantile(
                values - before, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], method="weibull"
            )
            changes |= {
                name: float(values.mean() - before),
                f"{name}_low": float(low),
                f"{name}_high": float(high),
            }
        known = set(MechanismCell.model_fields)
        return MechanismCell(
            epsilon=mechanism.epsilon,
            record_epsilon=mechanism.epsilon,
            delta=mechanism.delta,
            advantage=mechanism.advantage,
            method="simulation",
            **{name: value for name, value in changes.items() if name in known},
        )

    def _areas(self, probabilities: FloatArray) -> FloatArray | None:
        """Return the area under the ROC curve of every run; None for several classes."""
        from scipy.stats import rankdata

        positive = self.y_test == 1
        n_yes, n_no = int(positive.sum()), int((~positive).sum())
        if self.n_classes != 2 or not (n_yes and n_no):
            return None
        ranks = rankdata(probabilities[:, 1], axis=0)
        areas: FloatArray = (ranks[positive].sum(axis=0) - n_yes * (n_yes + 1) / 2) / (n_yes * n_no)
        return areas


class Runs(Protocol):
    """Models of simulated runs of one mechanism at one budget."""

    @abstractmethod
    def probabilities(self, records: Literal["train", "test"]) -> FloatArray:
        """Return the predictions of all runs, (n_records, n_classes, n_runs)."""


class Mechanism(Protocol):
    """A way to protect people's answers or records, at one budget.

    A new mechanism is a class with these members in a file of its own, and a line in `MECHANISMS`.

    Attributes
    ----------
    name : str
        Name on the command line and in documents.
    title : str
        Name in sentences.
    trust : {"nobody", "curator"}
        Who must be trusted with the true answers.
    claims : frozenset of {"answer", "record"}
        What it can protect.
    is_slow : bool
        Whether it is compared only when it is named or when there is time.
    extra : str or None
        Extra of the package that it needs.
    citation : str
        Key in docs/references.bib.
    epsilon, delta : float
        Budget.
    protects : {"answer", "record"}
        The claim that it is calibrated for.
    """

    name: ClassVar[MechanismName]
    title: ClassVar[str]
    trust: ClassVar[Trust]
    claims: ClassVar[frozenset[Protects]]
    is_slow: ClassVar[bool] = False
    extra: ClassVar[str | None] = None
    citation: ClassVar[str]
    epsilon: float
    delta: float
    protects: Protects

    @property
    @abstractmethod
    def advantage(self) -> float:
        """Largest total variation distance between what two answers, or records, of a person lead to."""

    @classmethod
    @abstractmethod
    def plan(cls, task: Task, *, epsilon: float, delta: float, protects: Protects) -> Self:
        """Return the mechanism for a task at a budget; no data but the number of records enter."""

    @classmethod
    @abstractmethod
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
        """Train models at every budget by seeded noise: what a release would give, many times over.

        Parameters
        ----------
        task : Task
        plans : sequence of Mechanism
            One for every budget.
        n_runs : int
        generator : numpy.random.Generator
        members : array of bool, shape (n, n_runs), optional
            The records that each run learns from; None: all. The shadow models of an attack.
        progress : callable, optional
            Called with (done, total, what).

        Yields
        ------
        Runs
            One for every budget.
        """

    @classmethod
    def preview(
        cls,
        task: Task,
        plans: Sequence[Self],
        *,
        n_runs: int = RUNS,
        generator: np.random.Generator,
        progress: Progress | None = None,
    ) -> list[MechanismCell]:
        """Return what every budget costs, with the interval of one real run."""
        runs = cls.simulate(task, plans, n_runs=n_runs, generator=generator, progress=progress)
        return [
            task.cell(plan, found.probabilities("test"))
            for plan, found in zip(plans, runs, strict=True)
        ]

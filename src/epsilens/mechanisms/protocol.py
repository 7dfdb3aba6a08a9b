# SPDX-License-Identifier: Apache-2.0
"""What every mechanism knows, and the task that it is tried on."""

from __future__ import annotations

import importlib
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import as_choice
from epsilens.document.decision import MechanismCell, MechanismName, Protects, Trust
from epsilens.mechanisms._advantage import replacement_budget
from epsilens.mechanisms.ceilings import CEILING_RATES, approximate_tpr, gaussian_tpr

if TYPE_CHECKING:
    import pandas as pd

    from epsilens.document import Baseline, WhatIfDocument
    from epsilens.mechanisms._release import Released, Training

Neighbours = Literal["replaced", "added or removed"]
"""What differs between two tables that cannot be told apart."""
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
    undeclared : tuple of str
        Columns that a release must have declared and that are not: it will encode them in another way.
    encode : callable, optional
        Makes features as in `X` of a frame like `table`.
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
    undeclared: tuple[str, ...] = ()
    encode: Callable[[pd.DataFrame], FloatArray] | None = None

    @property
    def is_label_alone(self) -> bool:
        """Whether the label is the only protected column."""
        return self.protected == (self.label,)

    def preview(self, mechanism: Mechanism, probabilities: FloatArray) -> Preview:
        """Return what a budget costs from the predictions of simulated runs.

        Parameters
        ----------
        mechanism : Mechanism
        probabilities : array of shape (n_test, n_classes, n_runs)
            Probability of every class for every test record.

        Returns
        -------
        Preview
        """
        own = np.take_along_axis(probabilities, self.y_test[:, None, None], axis=1)[:, 0]
        tiny = np.finfo(np.float64).tiny
        outcomes = {
            "loss": -np.log(np.maximum(own.astype(np.float64), tiny)).mean(axis=0),
            "accuracy": (probabilities.argmax(axis=1) == self.y_test[:, None]).mean(axis=0),
            "auc": self._areas(probabilities),
        }
        changes: dict[str, FloatArray] = {}
        for name, values in outcomes.items():
            before = getattr(self.baseline, name)
            if values is not None and before is not None:
                changes[name] = values - before
        return Preview.of_runs(mechanism, changes)

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


@dataclass(frozen=True, repr=False)
class Preview:
    """What one budget of a mechanism costs, with the simulated runs behind it.

    Attributes
    ----------
    cell : MechanismCell
        Means over the runs, and the interval of one more run.
    changes : mapping of {"loss", "accuracy", "auc"} to array of shape (n_runs,)
        Changes of the test outcomes against the model without privacy.
    """

    cell: MechanismCell
    changes: Mapping[str, FloatArray]

    @classmethod
    def of_runs(cls, mechanism: Mechanism, changes: Mapping[str, FloatArray]) -> Self:
        """Return the cell of a mechanism from the changes in its runs."""
        numbers: dict[str, Any] = {
            name: mechanism.tpr_ceiling(rate) for name, rate in CEILING_RATES.items()
        }
        known = set(MechanismCell.model_fields)
        for name, values in changes.items():
            low, high = (
                run_end(values, level) for level in ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
            )
            of_outcome = {"": float(values.mean()), "_low": low, "_high": high}
            numbers |= {
                field: number
                for end, number in of_outcome.items()
                if (field := f"{name}_change{end}") in known
            }
        cell = MechanismCell(
            epsilon=mechanism.epsilon,
            record_epsilon=mechanism.epsilon,
            delta=mechanism.delta,
            advantage=mechanism.advantage,
            mu=mechanism.mu,
            method="simulation",
            **numbers,
        )
        return cls(cell, changes)

    def end(self, outcome: str, level: float) -> float:
        """Return the quantile of one real run at a level; infinite where the outcome is not known.

        Parameters
        ----------
        outcome : {"loss", "accuracy", "auc"}
        level : float in (0, 1)
        """
        if outcome not in self.changes:
            return math.inf if level > 0.5 else -math.inf
        return run_end(self.changes[outcome], level)


def run_end(values: FloatArray, level: float) -> float:
    """Return the level that one more run stays below with a given probability.

    Given the table, the order of one more run among n simulated ones is uniform, so the Weibull quantile
    is exact whatever the distribution is. Beyond the outermost runs, and for a few of them, runs are taken
    as normal: Student's t with n − 1 degrees of freedom.

    Parameters
    ----------
    values : array of shape (n_runs,)
    level : float in (0, 1)

    Examples
    --------
    >>> run_end(np.arange(1.0, 40.0), 0.95)
    38.0
    >>> round(run_end(np.array([0.0, 1.0]), 0.95), 2)
    5.97
    """
    from scipy.stats import t

    n = len(values)
    if 1.0 / (n + 1) <= level <= n / (n + 1):
        return float(np.quantile(values, level, method="weibull"))
    spread = values.std(ddof=1) * math.sqrt(1.0 + 1.0 / n) if n > 1 else math.inf
    return float(values.mean() + t.ppf(level, max(n - 1, 1)) * spread)


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
    most_runs : int
        Simulated runs that a preview has time for, at most.
    extra : str or None
        Extra of the package that it needs.
    packages : tuple of str
        What a preview imports of that extra.
    release_packages : tuple of str
        What a release imports of it.
    neighbours : {"replaced", "added or removed"}
        The neighbouring tables that epsilon is about. The advantage is about a replaced record always.
    shrinks_rows : bool
        Whether a release shrinks encoded rows to a length that must be given.
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
    most_runs: ClassVar[int] = RUNS
    extra: ClassVar[str | None] = None
    packages: ClassVar[tuple[str, ...]] = ()
    release_packages: ClassVar[tuple[str, ...]] = ()
    neighbours: ClassVar[Neighbours] = "replaced"
    shrinks_rows: ClassVar[bool] = True
    citation: ClassVar[str]
    epsilon: float
    delta: float
    protects: Protects

    @property
    @abstractmethod
    def advantage(self) -> float:
        """Largest total variation distance between what two answers, or records, of a person lead to."""

    @property
    def mu(self) -> float | None:
        """μ of Gaussian differential privacy, about the same neighbours as the advantage; None if it is not Gaussian."""
        return None

    def tpr_ceiling(self, fpr: float) -> float:
        """Return the largest share of true alarms at a share of false ones, of any attacker, proven.

        The alarm is about the same two answers, or records, of a person as the advantage.

        Parameters
        ----------
        fpr : float in (0, 1)
            Share of false alarms.
        """
        if self.mu is not None:
            return gaussian_tpr(self.mu, fpr)
        epsilon, delta = self.epsilon, self.delta
        if self.neighbours != "replaced":
            epsilon, delta = replacement_budget(epsilon, delta)
        return approximate_tpr(epsilon, delta, fpr, advantage=self.advantage)

    @classmethod
    @abstractmethod
    def plan(cls, task: Task, *, epsilon: float, delta: float, protects: Protects) -> Self:
        """Return the mechanism for a task at a budget; no data but the number of records enter."""

    @classmethod
    @abstractmethod
    def release(cls, training: Training) -> Released:
        """Train the model that is published, with the operating system's randomness.

        Whether it succeeds follows from what is public of the records.

        Parameters
        ----------
        training : Training
            Records and budget. With a seed it is a simulation.

        Returns
        -------
        Released
            The model and what its receipt states.
        """

    @classmethod
    def refusal(cls, task: Task) -> str | None:
        """Say why it is not offered for a task; None if it is."""
        return cls.audit_refusal()

    @classmethod
    def audit_refusal(cls) -> str | None:
        """Say what speaks against any use of it; None if nothing does.

        A mechanism whose claim our attacks broke is refused, and one of another library that was not attacked.
        """
        from epsilens.mechanisms.audits import stored_audit

        audit = stored_audit(cls.name)
        if audit is None:
            return None if cls.extra is None else "It has not been attacked by us yet."
        return audit.sentence if audit.is_broken else None

    @classmethod
    def expected_seconds(cls, task: Task, n_budgets: int) -> float:
        """Return about how long a preview takes; fast ones are compared without being asked."""
        return 0.0

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
    ) -> list[Preview]:
        """Return what every budget costs, with the interval of one real run."""
        n_runs = min(n_runs, cls.most_runs)
        runs = cls.simulate(task, plans, n_runs=n_runs, generator=generator, progress=progress)
        return [
            task.preview(plan, found.probabilities("test"))
            for plan, found in zip(plans, runs, strict=True)
        ]


MECHANISMS: dict[MechanismName, str] = {
    "noisy-descent": "epsilens.mechanisms.noisy_descent:NoisyDescent",
    "output-perturbation": "epsilens.mechanisms.output_perturbation:OutputPerturbation",
    "dp-sgd": "epsilens.mechanisms.dp_sgd:DPSGD",
    "dp-ebm": "epsilens.mechanisms.dp_ebm:DPEBM",
    "synthetic-aim": "epsilens.mechanisms.synthetic_aim:SyntheticAIM",
}
"""Where the class of every mechanism that trains on the true answers is."""


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the class of a mechanism.

    Parameters
    ----------
    name : str
        Such as "noisy-descent".

    Raises
    ------
    InputError
        If there is no such mechanism.
    """
    as_choice(name, tuple(MECHANISMS), name="mechanism")
    module, _, kind = MECHANISMS[name].partition(":")  # type: ignore[index]
    found: type[Mechanism] = getattr(importlib.import_module(module), kind)
    return found

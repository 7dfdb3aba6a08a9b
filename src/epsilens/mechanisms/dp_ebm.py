# SPDX-License-Identifier: Apache-2.0
"""A private additive model of boosted trees (DP-EBM), by interpret-core."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import require_extra
from epsilens.document.decision import MechanismName, Protects, Trust
from epsilens.mechanisms._advantage import gaussian_advantage
from epsilens.mechanisms._columns import FittedRuns, PublicColumn
from epsilens.mechanisms.protocol import Mechanism, Runs, Task
from epsilens.models.gaussian_release import rho_of_epsilon

if TYPE_CHECKING:
    import pandas as pd

_SHARE_OF_BINS = 0.1
"""Share of ε that finds the bins; the rest is for the trees, and each gets half of δ."""
_SETTINGS = {"max_bins": 16, "max_rounds": 100, "learning_rate": 0.2}
"""Fewer bins and longer steps than by default: a few thousand records are told apart no better."""


@dataclass(frozen=True)
class DPEBM(Mechanism):
    """Sum of one step function a column, boosted in noisy rounds; two classes.

    Attributes
    ----------
    epsilon, delta : float
        Budget, for a record that is added or removed.
    protects : {"answer", "record"}
        The claim that the advantage is about.

    Notes
    -----
    What interpret-core does: the records of every column are counted in bins with normal noise; then every
    round adds normal noise to the sums of gradients in the leaves of one random tree a column. Both parts
    are calibrated as Gaussian mechanisms ("gdp") whose μ follow from (ε/10, δ/2) and (9ε/10, δ/2), for a
    record that is added or removed: it counts once in every column, and its gradient p − y, of length at
    most 1, lies in one leaf. The size of the noise was compared with that.

    The number of records enters without noise. So what is stated here is about a replaced record, the
    number being public. A replaced record moves the counts of a column by at most √2. Its gradients move
    the sums of the leaves by at most 2, or √2 if they lie in two. All together is a Gaussian mechanism with
    √(2μ₁² + 4μ₂²). Where only the label changes, p − y moves by 1 and no count moves: μ₂.

    The categories of a column are not protected by the library (a category that nobody has is not in the
    noisy counts, so a rare one that survives shows that somebody has it). Here they are numbers of a
    declared list, cut like any other number. Ranges are declared likewise.

    References
    ----------
    Nori, H. et al. (2021). Accuracy, interpretability, and differential privacy via explainable boosting.
    ICML.
    """

    name: ClassVar[MechanismName] = "dp-ebm"
    title: ClassVar[str] = "a private additive model of trees"
    trust: ClassVar[Trust] = "curator"
    claims: ClassVar[frozenset[Protects]] = frozenset({"answer", "record"})
    is_slow: ClassVar[bool] = True
    most_runs: ClassVar[int] = 5
    extra: ClassVar[str | None] = "trees"
    packages: ClassVar[tuple[str, ...]] = ("interpret",)
    citation: ClassVar[str] = "Nori2021"
    epsilon: float
    delta: float
    protects: Protects
    is_label_alone: bool = False

    @property
    def mus(self) -> tuple[float, float]:
        """The μ of the counts and of all trees, for an added or removed record."""
        shares = (_SHARE_OF_BINS, 1.0 - _SHARE_OF_BINS)
        rhos = (rho_of_epsilon(share * self.epsilon, self.delta / 2.0) for share in shares)
        first, second = (math.sqrt(2.0 * rho) for rho in rhos)
        return first, second

    @property
    def advantage(self) -> float:
        """Largest total variation distance between what two answers, or records, of a person lead to."""
        counts, trees = self.mus
        if self.protects == "answer" and self.is_label_alone:
            return gaussian_advantage(trees)
        return gaussian_advantage(math.hypot(math.sqrt(2.0) * counts, 2.0 * trees))

    @classmethod
    def refusal(cls, task: Task) -> str | None:
        """Say why it is not offered for a task; None if it is."""
        return super().refusal(task) if task.n_classes == 2 else "It knows two classes only."

    @classmethod
    def plan(cls, task: Task, *, epsilon: float, delta: float, protects: Protects) -> Self:
        """Return the mechanism for a task at a budget."""
        return cls(epsilon, delta, protects, task.is_label_alone)

    @classmethod
    def expected_seconds(cls, task: Task, n_budgets: int) -> float:
        """Return about how long a preview takes."""
        return n_budgets * cls.most_runs * (0.2 + 5e-6 * task.table.size)

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
        """Train models at every budget by seeded noise, one after the other."""
        require_extra("trees", "a private additive model of trees", "interpret")
        columns = PublicColumn.all_of(task)
        features = {
            "train": _places(columns, task.table),
            "test": _places(columns, task.table_test),
        }
        for number, plan in enumerate(plans):
            models = []
            for run in range(n_runs):
                rows = slice(None) if members is None else members[:, run]
                seed = int(generator.integers(2**31))
                X, y = features["train"][rows], task.y[rows]
                models.append(plan.fit(columns, X, y, seed=seed))
                if progress is not None:
                    progress(number * n_runs + run + 1, len(plans) * n_runs, cls.name)

            def predict(
                records: Literal["train", "test"], models: list[Any] = models
            ) -> FloatArray:
                return np.stack([m.predict_proba(features[records]) for m in models], axis=-1)

            yield FittedRuns(predict)

    def fit(
        self, columns: Sequence[PublicColumn], X: FloatArray, y: np.ndarray, *, seed: int | None
    ) -> Any:
        """Return interpret-core's model of places on the columns' lines; without a seed for release."""
        from interpret.glassbox._ebm._ebm import DPExplainableBoostingClassifier

        model = DPExplainableBoostingClassifier(
            feature_names=[column.name for column in columns],
            feature_types=["continuous"] * len(columns),
            privacy_bounds=np.array([(column.low, column.high) for column in columns]),
            epsilon=self.epsilon,
            delta=self.delta,
            composition="gdp",
            bin_budget_frac=_SHARE_OF_BINS,
            **_SETTINGS,
            n_jobs=1,
            random_state=seed,
        )
        with warnings.catch_warnings():
            # A seed, which is what a simulation is for.
            warnings.filterwarnings("ignore", message="Privacy violation: using a fixed random")
            return model.fit(X, y)


def _places(columns: Sequence[PublicColumn], table: pd.DataFrame) -> FloatArray:
    return np.column_stack([column.places(table) for column in columns])

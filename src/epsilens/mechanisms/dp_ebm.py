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
from epsilens.errors import InputError, PrivacyLeakWarning, setting
from epsilens.mechanisms._advantage import gaussian_advantage
from epsilens.mechanisms._columns import FittedRuns, PublicColumn
from epsilens.mechanisms._release import Released, Training
from epsilens.mechanisms.protocol import Mechanism, Neighbours, Runs, Task
from epsilens.models.privacy_accounting import BIN_SHARE, boosting_mu, boosting_mus
from epsilens.models.released_model import ReleasedAdditive
from epsilens.models.table_encoder import PlaceEncoder
from epsilens.notes import Note

if TYPE_CHECKING:
    import pandas as pd

_SETTINGS = {"max_bins": 16, "max_rounds": 100, "learning_rate": 0.2}
"""Fewer bins and longer steps than by default: a few thousand records are told apart no better."""
_TINY = 1e-12
"""Weight of the two fixed records."""

_FLOATING_NOISE = Note(
    "floating-point-noise",
    "interpret-core adds floating-point noise: its last bits are not covered by the proof.",
)


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

    The library takes the classes from the labels, and a table with one class only would show that. So two
    fixed records, one of each class, are added with a weight of 10⁻¹², the same to every table.

    A release draws from the library's own source for random_state=None: C++'s std::random_device, which is
    the processor's or the operating system's (RDRAND or getrandom on Linux, the system's generator on
    Windows and macOS), never a seeded generator. Its normal numbers are floating-point numbers, not those
    of a discrete distribution: their last bits are not covered by the proof.

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
    release_packages: ClassVar[tuple[str, ...]] = ("interpret",)
    neighbours: ClassVar[Neighbours] = "added or removed"
    shrinks_rows: ClassVar[bool] = False
    citation: ClassVar[str] = "Nori2021"
    epsilon: float
    delta: float
    protects: Protects
    is_label_alone: bool = False

    @property
    def mus(self) -> tuple[float, float]:
        """The μ of the counts and of all trees, for an added or removed record."""
        return boosting_mus(self.epsilon, self.delta)

    @property
    def mu(self) -> float:
        """The μ of all together, for a changed answer if that alone is protected, or a replaced record."""
        is_label = self.protects == "answer" and self.is_label_alone
        return boosting_mu(self.epsilon, self.delta, is_label_alone=is_label)

    @property
    def advantage(self) -> float:
        """Largest total variation distance between what two answers, or records, of a person lead to."""
        return gaussian_advantage(self.mu)

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
    def release(cls, training: Training) -> Released:
        """Train the model that is published, by interpret-core."""
        training.check_budget()
        if training.n_classes != 2:
            raise InputError(
                f"{setting('mechanism', cls.name)} needs a label of two classes, got {training.n_classes}. "
                "Choose another mechanism."
            )
        plan = cls(training.epsilon, training.delta, training.unit, is_label_alone=True)
        encoder = PlaceEncoder(training.ranged())
        training.generator()  # a seed warns
        columns = PublicColumn.of_encoded(encoder.columns)
        found = plan.fit(columns, encoder.transform(training.frame), training.y, seed=training.seed)
        plan._require_noise(found, len(columns))
        place = {features[0]: number for number, features in enumerate(found.term_features_)}
        model = ReleasedAdditive.of_steps(
            [found.bins_[number][0] for number in range(len(columns))],
            # The first score is that of a missing number, the last that of an unknown category.
            [found.term_scores_[place[number]][1:-1] for number in range(len(columns))],
            float(found.intercept_[0]),
            range(2),
        )
        if training.seed is None:
            _FLOATING_NOISE.warn(PrivacyLeakWarning, stacklevel=2)
        return Released(encoder, model, plan.advantage, plan.mu, plan.mu**2 / 2.0)

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

    def _require_noise(self, model: Any, n_columns: int) -> None:
        """Refuse a model whose noise is less than is claimed; that follows from the budget alone."""
        counts, trees = self.mus
        rounds = _SETTINGS["max_rounds"] * n_columns
        expected = (
            math.sqrt(n_columns) / counts,
            _SETTINGS["learning_rate"] * math.sqrt(rounds) / trees,
        )
        added = (model.noise_scale_binning_, model.noise_scale_boosting_)
        if any(one < least * (1.0 - 1e-6) for one, least in zip(added, expected, strict=True)):
            raise InputError(
                argument="delta",
                expected="larger: interpret-core cannot account for it in double precision",
                got=f"{self.delta:g}",
            )

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
            bin_budget_frac=BIN_SHARE,
            **_SETTINGS,
            n_jobs=1,
            random_state=seed,
        )
        with warnings.catch_warnings():
            # A seed, which is what a simulation is for.
            warnings.filterwarnings("ignore", message="Privacy violation: using a fixed random")
            middles = [(column.low + column.high) / 2.0 for column in columns]
            weights = np.append(np.ones(len(y)), [_TINY, _TINY])
            return model.fit(np.vstack([X, middles, middles]), np.append(y, [0, 1]), weights)


def _places(columns: Sequence[PublicColumn], table: pd.DataFrame) -> FloatArray:
    return np.column_stack([column.places(table) for column in columns])

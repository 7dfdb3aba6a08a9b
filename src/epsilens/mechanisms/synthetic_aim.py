# SPDX-License-Identifier: Apache-2.0
"""A synthetic table by AIM, and the model of the task trained on it; by OpenDP and Private-PGM."""

from __future__ import annotations

import logging
import secrets
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import require_extra
from epsilens.document.decision import MechanismName, Protects, Trust
from epsilens.errors import InputError
from epsilens.mechanisms._advantage import replaced_advantage, zcdp_advantage
from epsilens.mechanisms._columns import FittedRuns, PublicColumn
from epsilens.mechanisms._release import Released, Training
from epsilens.mechanisms.ceilings import zcdp_tpr
from epsilens.mechanisms.protocol import Mechanism, Neighbours, Runs, Task
from epsilens.models.privacy_accounting import AIM_REPLACED, SELECTION_SHARE, zcdp_rho
from epsilens.models.released_model import ReleasedLogistic
from epsilens.models.table_encoder import NumberColumn, PlaceEncoder, TableEncoder

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

BINS = 16
"""Into which the range of a number is cut."""
_ITERATIONS = 500
_MEGABYTES = 4.0
"""Largest model of the joint distribution."""


@dataclass(frozen=True)
class SyntheticAIM(Mechanism):
    """A synthetic table that keeps noisy counts of pairs of columns, then logistic regression on it.

    Attributes
    ----------
    epsilon, delta : float
        Budget, for a record that is added or removed.
    protects : {"answer", "record"}
        A changed answer moves the same counts as a replaced record: both cost the same.

    Notes
    -----
    What OpenDP does: rounds of choosing one or two columns by the exponential mechanism and counting them
    with discrete normal noise, in all ρ-zCDP for a record that is added or removed (a unit of one
    contribution, symmetric distance). ρ is the largest that gives
    (ε, δ); a tenth of it is for choosing. Ranges and categories are given, so that no δ is spent on
    finding them, and the number of records is public. The joint distribution, the synthetic records and
    the model are made of the noisy counts alone. The model sees numbers as the middles of their bins, when
    it learns and when it predicts.

    A replaced record moves every table of counts by √2 instead of 1, which doubles ρ; the distances that the
    choice is made by move by 2 instead of 1, which takes it fourfold. So a replacement is
    (0.9·2 + 0.1·4)·ρ = 2.2ρ-zCDP. The advantage is the smaller of what follows from that and of twice that
    of an added record.

    OpenDP before 0.16 chose by permute-and-flip and accounted for the exponential mechanism, a quarter of
    what it spent on choosing (opendp issue 2911); the extra asks for 0.16.

    Noise comes from the operating system and cannot be seeded: previews are not repeatable to the digit.
    A seed of a release repeats the drawing of the synthetic records alone.

    A release is the synthetic table and the model of it. All after the noisy counts is post-processing:
    it costs no budget, so any other model may be trained on the table too.

    References
    ----------
    McKenna, R., Mullins, B., Sheldon, D. and Miklau, G. (2022). AIM: an adaptive and iterative mechanism
    for differentially private synthetic data. VLDB.
    """

    name: ClassVar[MechanismName] = "synthetic-aim"
    title: ClassVar[str] = "a synthetic table"
    trust: ClassVar[Trust] = "curator"
    claims: ClassVar[frozenset[Protects]] = frozenset({"answer", "record"})
    is_slow: ClassVar[bool] = True
    most_runs: ClassVar[int] = 5
    extra: ClassVar[str | None] = "synthetic"
    packages: ClassVar[tuple[str, ...]] = ("mbi",)
    release_packages: ClassVar[tuple[str, ...]] = ("mbi", "polars")
    neighbours: ClassVar[Neighbours] = "added or removed"
    shrinks_rows: ClassVar[bool] = False
    citation: ClassVar[str] = "McKenna2022"
    epsilon: float
    delta: float
    protects: Protects

    @property
    def rho(self) -> float:
        """The budget of zero-concentrated differential privacy, for an added or removed record."""
        return zcdp_rho(self.epsilon, self.delta)

    @property
    def advantage(self) -> float:
        """Largest total variation distance between what two answers, or records, of a person lead to."""
        return min(
            zcdp_advantage(AIM_REPLACED * self.rho), replaced_advantage(zcdp_advantage(self.rho))
        )

    def tpr_ceiling(self, fpr: float) -> float:
        """Return the largest share of true alarms, by the zero-concentrated privacy of a replaced record."""
        return min(zcdp_tpr(AIM_REPLACED * self.rho, fpr), super().tpr_ceiling(fpr))

    @classmethod
    def refusal(cls, task: Task) -> str | None:
        """Say why it is not offered for a task; None if it is."""
        return super().refusal(task) if task.encode else "Synthetic records cannot be encoded."

    @classmethod
    def plan(cls, task: Task, *, epsilon: float, delta: float, protects: Protects) -> Self:
        """Return the mechanism for a task at a budget."""
        return cls(epsilon, delta, protects)

    @classmethod
    def expected_seconds(cls, task: Task, n_budgets: int) -> float:
        """Return about how long a preview takes."""
        return n_budgets * cls.most_runs * (5.0 + 4.0 * task.table.shape[1])

    @classmethod
    def release(cls, training: Training) -> Released:
        """Make the synthetic table that is published, and train on it."""
        import pandas as pd

        training.check_budget()
        plan, n_records = cls(training.epsilon, training.delta, training.unit), len(training.y)
        encoder = TableEncoder(training.ranged(BINS))
        generator = training.generator()
        columns = PublicColumn.of_encoded(encoder.columns)
        n_bins = [
            one.n_bins or BINS if isinstance(one, NumberColumn) else len(one.categories)
            for one in encoder.columns
        ]
        places = PlaceEncoder(encoder.columns).transform(training.frame)
        cut = [column.cut(own, n) for column, own, n in zip(columns, places.T, n_bins, strict=True)]
        training.progress(0, 2, "counting")
        release = plan.measurement([*n_bins, training.n_classes], n_records)
        counts = release(np.column_stack([*cut, training.y]))
        training.progress(1, 2, "counting")
        # What follows is made of the noisy counts, so any seed will do.
        seed = secrets.randbits(31) if generator is None else int(generator.integers(2**31))
        made = synthetic_bins(counts, n_records, seed=seed)
        pairs = zip(columns, made.T[:-1], n_bins, strict=True)
        table = pd.DataFrame({one.name: one.values(own, n) for one, own, n in pairs})
        model = _whole_model(encoder.transform(table), made[:, -1], training.n_classes)
        training.progress(2, 2, "counting")
        for column in encoder.columns:
            if isinstance(column, NumberColumn) and column.is_date:
                table[column.name] = pd.to_datetime(table[column.name], unit="D").dt.date
        table[len(columns)] = made[:, -1]
        return Released(encoder, model, plan.advantage, rho=plan.rho, table=table)

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
        """Make synthetic tables at every budget and train on them, one after the other."""
        require_extra("synthetic", "a synthetic table", "mbi", "polars")
        import pandas as pd

        if task.encode is None:
            raise InputError("synthetic records cannot be encoded.")
        columns, encode = PublicColumn.all_of(task), task.encode
        sizes = [*(column.n_bins(BINS) for column in columns), task.n_classes]
        tables = {"train": task.table, "test": task.table_test}
        cut = {
            records: np.column_stack([column.bins(table, BINS) for column in columns])
            for records, table in tables.items()
        }
        bins = np.column_stack([cut["train"], task.y])
        n_records = len(bins) if members is None else round(members.sum(axis=0).mean())

        def features(bins: NDArray[np.int64]) -> FloatArray:
            pairs = zip(columns, bins.T, strict=True)
            return encode(pd.DataFrame({one.name: one.values(own, BINS) for one, own in pairs}))

        def predict(
            models: list[LogisticRegression | int], records: Literal["train", "test"]
        ) -> FloatArray:
            X = features(cut[records])
            found = np.zeros((len(X), task.n_classes, len(models)))
            for number, model in enumerate(models):
                if isinstance(model, int):
                    found[:, model, number] = 1.0
                else:
                    found[:, model.classes_, number] = model.predict_proba(X)
            return found

        for number, plan in enumerate(plans):
            release = plan.measurement(sizes, n_records)
            models = []
            for run in range(n_runs):
                rows = bins if members is None else bins[members[:, run]]
                made = synthetic_bins(release(rows), n_records, seed=int(generator.integers(2**31)))
                models.append(_model(features(made[:, :-1]), made[:, -1], C=1.0 / task.alpha))
                if progress is not None:
                    progress(number * n_runs + run + 1, len(plans) * n_runs, cls.name)
            yield FittedRuns(partial(predict, models))

    def measurement(
        self, sizes: Sequence[int], n_records: int, estimator: Callable[..., Any] | None = None
    ) -> Callable[[NDArray[np.int64]], Any]:
        """Return what makes OpenDP's table of counts from records; made once, used for many runs.

        Parameters
        ----------
        sizes : sequence of int
            Number of bins of every column, the label last.
        n_records : int
            How many records there are, which is public.
        estimator : callable, optional
            Makes the joint distribution of noisy counts; by default mirror descent.

        Returns
        -------
        callable
            From bins, (n, n_columns), to an OpenDP `ContingencyTable`.
        """
        with _quietly():
            import opendp.prelude as dp
            import polars as pl
            from opendp.extras.mbi import AIM, make_contingency_table
            from opendp.extras.polars import Bound

            dp.enable_features("contrib")
            names = [str(number) for number in range(len(sizes))]
            measurement, _, _ = make_contingency_table(
                dp.lazyframe_domain(
                    [dp.series_domain(name, dp.atom_domain(T="i64")) for name in names]
                ),
                dp.frame_distance(dp.symmetric_distance()),
                dp.zero_concentrated_divergence(),
                [Bound(by=[], per_group=1)],
                self.rho,
                # Bins that are cut apart, instead of keys: those would get one more for unknown values.
                cuts={name: list(range(size - 1)) for name, size in zip(names, sizes, strict=True)},
                algorithm=AIM(
                    estimator=partial(estimator or estimate, n_records=n_records),
                    queries=2,
                    rounds=len(sizes),
                    measure_split=1.0 - SELECTION_SHARE,
                    oneway="unkeyed",
                    max_size=_MEGABYTES,
                ),
            )

        def release(bins: NDArray[np.int64]) -> Any:
            with _quietly():
                return measurement(pl.LazyFrame(dict(zip(names, bins.T, strict=True))))

        return release


def estimate(domain: Any, measured: Any, *, n_records: int, potentials: Any = None) -> Any:
    """Return the joint distribution of so many records that fits noisy counts."""
    from mbi.estimation import mirror_descent

    return mirror_descent(
        domain,
        measured,
        known_total=float(n_records),
        potentials=potentials,
        iters=_ITERATIONS if measured else 1,
    )


def synthetic_bins(table: Any, n_records: int, *, seed: int) -> NDArray[np.int64]:
    """Return independent records of an OpenDP `ContingencyTable`, (n_records, n_columns).

    Each column is drawn given those before it that share a maximal clique of the junction tree with it, so
    the records follow the fitted distribution. `synthetic_data` of Private-PGM 1.1, which OpenDP 0.16 asks
    for, looks at the measured cliques alone and draws from another distribution (its pull request 145).
    """
    from mbi import junction_tree, marginal_oracles

    model, generator = table.model, np.random.default_rng(seed)
    with _quietly():
        tree, order = junction_tree.make_junction_tree(model.domain, list(map(set, model.cliques)))
        cliques = [set(clique) for clique in tree.nodes]
        marginals = marginal_oracles.message_passing_stable(
            model.potentials.expand(list(tree.nodes)), model.total
        )
        drawn: dict[str, NDArray[np.int64]] = {}
        for column in reversed(order):
            beside = set().union(*(clique for clique in cliques if column in clique))
            parents = tuple(name for name in drawn if name in beside)
            counts = marginals.project((*parents, column)).datavector(flatten=False)
            ends = np.cumsum(np.asarray(counts, dtype=np.float64), axis=-1)
            own = ends[tuple(drawn[name] for name in parents)] if parents else ends[None]
            places = generator.random((n_records, 1)) * own[:, -1:]
            drawn[column] = np.minimum((places >= own).sum(axis=1), own.shape[1] - 1)
    return np.column_stack([drawn[name] for name in table.keys])


def _model(X: FloatArray, y: NDArray[np.int64], *, C: float) -> LogisticRegression | int:
    """Return a model of synthetic records; the class itself where there is one only."""
    from sklearn.linear_model import LogisticRegression

    return int(y[0]) if (y == y[0]).all() else LogisticRegression(C=C, max_iter=1000).fit(X, y)


def _whole_model(X: FloatArray, y: NDArray[np.int64], n_classes: int) -> ReleasedLogistic:
    """Return a model of synthetic records that knows every class, also one that none of them has.

    Half a record of each class, in the middle of the ranges, is added.
    """
    from sklearn.linear_model import LogisticRegression

    rows = np.vstack([X, np.zeros((n_classes, X.shape[1]))])
    weights = np.append(np.ones(len(y)), np.full(n_classes, 0.5))
    with _quietly():
        model = LogisticRegression(max_iter=1000)
        model.fit(rows, np.append(y, range(n_classes)), sample_weight=weights)
    return ReleasedLogistic.of(model.coef_, model.intercept_, range(n_classes))


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out what the libraries say of types and devices, which is about neither data nor result."""
    log = logging.getLogger("jax")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)

# SPDX-License-Identifier: Apache-2.0
"""Is the order of the scores of any use? Models trained again on the better records.

Records are dropped from the worst score up (or candidates added from the best score down), and beside
that in two other orders: at random, and by the loss that the model has at them, which needs no test
set and is what anybody would try first. Scores that have seen a test record may not be judged by it:
one half of the test records scores, the other half judges, and then the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import as_count, as_generator, as_share
from epsilens.errors import EstimateNotTrustworthyError, InputError
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.evaluation import LARGEST_CONDITION
from epsilens.models import Design, Problem, minimise
from epsilens.models.label import class_totals, class_weights
from epsilens.models.passes import workers
from epsilens.models.separation import runs_away
from epsilens.valuation.appraisal import Appraisal

Order = Literal["score", "training loss", "random"]

REMOVED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
ADDED = (0.1, 0.25, 0.5, 0.75, 1.0)
_FEWEST_JUDGES = 2


@dataclass(frozen=True)
class CurvePoint:
    """What the test loss does when a share of the records is dropped, or added, in some order.

    Attributes
    ----------
    order : {"score", "training loss", "random"}
    share : float
        Share of the training records dropped, or of the candidates added.
    n_records : int
    loss_change : float or None
        Test loss then, less that of the model as it is; below 0 is better. None where a model has
        no finite optimum or a class is gone.
    standard_error : float or None
        "random": of the mean over random orders. The others: of the mean over test records, the
        records trained on as they are. None where one draw says nothing of it.
    """

    order: Order
    share: float
    n_records: int
    loss_change: float | None
    standard_error: float | None


def removal_curve(
    appraisal: Appraisal,
    *,
    shares: Sequence[float] = REMOVED,
    repeats: int = 5,
    random_state: int = 0,
    progress: Progress | None = None,
) -> tuple[CurvePoint, ...]:
    """Train again without the worst records, and without as many others.

    Parameters
    ----------
    appraisal : Appraisal
    shares : sequence of float in (0, 1)
        Shares of the training records to drop.
    repeats : int
        Random orders.
    random_state : int
        Seed of the random orders and of the random halves of the test set.
    progress : callable, optional
        Called with (done, total, what).

    Returns
    -------
    tuple of CurvePoint
        Order after order, each by growing share.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = X[:, 0] + rng.logistic(size=500) > 0
    >>> y[:20] = X[:20, 0] < 0  # wrong labels
    >>> data = (X[:300], y[:300], X[300:], y[300:])
    >>> points = removal_curve(Appraisal.of(LogisticRegression(), *data), shares=[0.05])
    >>> change = {point.order: point.loss_change for point in points}
    >>> change["score"] < change["random"]
    True
    """
    baseline = appraisal.baseline
    n = baseline.problem.n_rows
    halves = _halves(appraisal, random_state)
    by_half = [scorer.leave_one_out(method="newton") for scorer, _ in halves]
    orders = [np.argsort(scores, kind="stable") for scores in by_half]
    easy_last = np.argsort(-appraisal.training_losses(), kind="stable")
    counts = [max(1, round(as_share(share, name="shares") * n)) for share in shares]

    def model_of(gone: NDArray[np.intp]) -> FloatArray | None:
        keep = np.ones(n, dtype=bool)
        keep[gone] = False
        return _minimiser(baseline, baseline.problem.design, keep, change=-len(gone))

    return _points(
        halves, orders, easy_last, shares, counts, model_of, repeats, random_state, progress
    )


def addition_curve(
    appraisal: Appraisal,
    X: object,
    y: object,
    *,
    sample_weight: object | None = None,
    shares: Sequence[float] = ADDED,
    repeats: int = 5,
    random_state: int = 0,
    progress: Progress | None = None,
) -> tuple[CurvePoint, ...]:
    """Train again with the best candidates added, and with as many others.

    Parameters
    ----------
    appraisal : Appraisal
    X, y, sample_weight
        The candidates, as in `add_one`.
    shares : sequence of float in (0, 1]
        Shares of the candidates to add.
    repeats, random_state, progress
        As in `removal_curve`.

    Returns
    -------
    tuple of CurvePoint
        Order after order, each by growing share. The other order is that of the loss that the
        model has at the candidates, smallest first.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = X[:, 0] + rng.normal(size=400)
    >>> appraisal = Appraisal.of(Ridge(), X[:20], y[:20], X[200:], y[200:])
    >>> points = addition_curve(appraisal, X[20:200], y[20:200], shares=[0.2, 1.0])
    >>> [point.n_records for point in points if point.order == "score"]
    [36, 180]
    """
    baseline = appraisal.baseline
    offer = appraisal.read_candidates(X, y, sample_weight)
    n, n_more = baseline.problem.n_rows, offer.design.n_rows
    halves = _halves(appraisal, random_state)
    orders = [
        np.argsort(
            -scorer.add_one(X, y, sample_weight=sample_weight, method="newton"), kind="stable"
        )
        for scorer, _ in halves
    ]
    loss = baseline.problem.loss
    easy_first = np.argsort(
        loss.value(offer.design.predict(baseline.theta), offer.y), kind="stable"
    )
    parts = [1.0 if share == 1 else as_share(share, name="shares") for share in shares]
    counts = [max(1, round(part * n_more)) for part in parts]
    both = replace(
        baseline.problem.design,
        matrix=_stack(baseline.problem.design, offer.design),
    )
    label = baseline.label
    wider = replace(
        baseline,
        label=replace(
            label,
            y=np.concatenate([label.y, offer.y]),
            codes=None
            if label.codes is None or offer.codes is None
            else np.concatenate([label.codes, offer.codes]),
        ),
        sample_weights=np.concatenate([baseline.sample_weights, offer.weights]),
        count_weights=np.concatenate(
            [
                baseline.count_weights,
                offer.weights
                if baseline.count_weights is baseline.sample_weights
                else np.ones(n_more),
            ]
        ),
    )

    def model_of(more: NDArray[np.intp]) -> FloatArray | None:
        keep = np.concatenate([np.ones(n, dtype=bool), np.zeros(n_more, dtype=bool)])
        keep[n + more] = True
        return _minimiser(wider, both, keep, change=len(more))

    return _points(
        halves, orders, easy_first, shares, counts, model_of, repeats, random_state, progress
    )


def _stack(first: Design, second: Design) -> FloatArray | scipy.sparse.csr_array:
    if isinstance(first.matrix, np.ndarray):
        return np.concatenate([first.matrix, second.block(slice(None))])
    return scipy.sparse.csr_array(scipy.sparse.vstack([first.matrix, second.matrix]))


@dataclass(frozen=True, repr=False)
class _Judge:
    """A half of the test records, and its share of all their weight."""

    appraisal: Appraisal
    share: float

    def change(self, theta: FloatArray) -> tuple[float, float]:
        """Return what it adds to the change of the whole test loss, and to its variance."""
        evaluation, start = self.appraisal.baseline.evaluation, self.appraisal.baseline.theta
        before, after = (
            evaluation.loss.value(evaluation.design.predict(at), evaluation.y)
            for at in (start, theta)
        )
        weights = evaluation.weights
        mean = float(weights @ (after - before))
        squares = float(np.square(weights) @ np.square(after - before - mean))
        left = 1.0 - float(weights @ weights)
        variance = squares / left if len(weights) > 1 else np.nan
        return self.share * mean, self.share**2 * variance


def _halves(appraisal: Appraisal, random_state: int) -> list[tuple[Appraisal, _Judge]]:
    """Return (scores, judges) twice: one half of the test records scores, the other judges."""
    weights = appraisal.baseline.evaluation.weights
    order = as_generator(random_state).permutation(np.flatnonzero(weights > 0))
    if len(order) < _FEWEST_JUDGES:
        raise InputError(
            "a curve needs at least 2 test records, got 1. Bring more, or leave it out."
        )
    cut = len(order) // 2
    parts = [np.sort(order[:cut]), np.sort(order[cut:])]
    one, other = (
        _Judge(appraisal.judged_by(rows), float(weights[rows].sum() / weights.sum()))
        for rows in parts
    )
    return [(one.appraisal, other), (other.appraisal, one)]


def _minimiser(
    baseline: BaselineModel, design: Design, keep: BoolArray, *, change: int
) -> FloatArray | None:
    """Train on the kept rows of a design with the estimator's own settings; None if that fails."""
    label = baseline.label
    weights = np.where(keep, baseline.sample_weights, 0.0)
    if label.n_classes and label.codes is not None:
        counted = np.where(keep, baseline.count_weights, 0.0)
        totals = class_totals(label.codes, counted, label.n_classes)
        if not (totals > 0).all():
            return None
        weights *= class_weights(baseline.class_weight, label, totals)[label.codes]
    # The penalty is of the sum: the mean over other rows needs another share of it.
    factor = (1.0 + change * baseline.penalty_per_record) * (
        baseline.problem.n_rows / design.n_rows
    )
    loss = baseline.problem.loss
    problem = Problem(design, weights, loss, baseline.problem.penalty * factor)
    linear = problem.linear_term(loss.statistic(label.y))
    try:
        solution = minimise(problem, linear[:, None], baseline.theta[:, None])
    except EstimateNotTrustworthyError:
        return None
    theta = solution.theta[:, 0]
    if not solution.converged[0]:
        return None
    if loss.is_quadratic or problem.penalty.any():
        return theta
    # Where the given model runs away too, that has been said, and all changes are from there.
    if baseline.curvature.condition > LARGEST_CONDITION:
        return theta
    counts = weights > 0
    return None if runs_away(design.take(counts), label.y[counts], theta) else theta


def _points(
    halves: list[tuple[Appraisal, _Judge]],
    orders: list[NDArray[np.intp]],
    by_loss: NDArray[np.intp],
    shares: Sequence[float],
    counts: list[int],
    model_of: Callable[[NDArray[np.intp]], FloatArray | None],
    repeats: int,
    random_state: int,
    progress: Progress | None,
) -> tuple[CurvePoint, ...]:
    as_count(repeats, name="repeats")
    rng = as_generator(random_state)
    at_random = [rng.permutation(len(by_loss)) for _ in range(repeats)]
    judges = [judge for _, judge in halves]
    plan: list[tuple[Order, NDArray[np.intp], list[_Judge]]] = [
        *(("score", order, [judge]) for order, judge in zip(orders, judges, strict=True)),
        ("training loss", by_loss, judges),
        *(("random", order, judges) for order in at_random),
    ]

    def change(count: int, order: NDArray[np.intp], asked: list[_Judge]) -> FloatArray:
        theta = model_of(order[:count])
        if theta is None:
            return np.full(2, np.nan)
        parts: FloatArray = np.sum([judge.change(theta) for judge in asked], axis=0)
        return parts

    def tasks() -> Iterator[Callable[[], FloatArray]]:
        for _, order, asked in plan:
            for count in counts:
                yield partial(change, count, order, asked)

    values = np.empty((len(plan) * len(counts), 2))
    with workers() as team:
        for number, value in enumerate(team.run(tasks())):
            values[number] = value
            if progress is not None:
                progress(number + 1, len(values), "models")
    table = values.reshape(len(plan), len(counts), 2)
    points = []
    names: tuple[Order, ...] = get_args(Order)
    for name in names:
        chosen = table[[kind == name for kind, _, _ in plan]]
        for column, (share, count) in enumerate(zip(shares, counts, strict=True)):
            changes, variances = chosen[:, column].T
            if name == "random":
                mean = float(changes.mean())
                error = float(changes.std(ddof=1) / np.sqrt(repeats)) if repeats > 1 else np.nan
            else:
                # Each half has added its share, with the scores in two rows and else in one.
                mean, error = float(changes.sum()), float(np.sqrt(variances.sum()))
            unknown = bool(np.isnan(mean))
            points.append(
                CurvePoint(
                    order=name,
                    share=float(share),
                    n_records=count,
                    loss_change=None if unknown else mean,
                    standard_error=None if unknown or np.isnan(error) else error,
                )
            )
    return tuple(points)

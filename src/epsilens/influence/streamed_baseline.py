# SPDX-License-Identifier: Apache-2.0
"""The converged model of records on disk.

From the optimum of a sample a few Newton steps, each one pass that gives gradient and Hessian together, lead
to the same optimum that `fit_baseline` finds in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens.data.expressions import parse_expression
from epsilens.document.wording import joined_name
from epsilens.errors import EstimateNotTrustworthyError, InputError, setting
from epsilens.influence.baseline import (
    MANY_PARAMETERS,
    TrainedModel,
    distance_note,
    fit_notes,
    penalty_of,
    seconds_of_hessian,
    separable,
    unconverged,
)
from epsilens.influence.evaluation import Evaluation
from epsilens.influence.first_order import PointTable, label_point_table
from epsilens.influence.groups import Counts, Group, require_disjoint, require_everybody
from epsilens.influence.label_noise import LabelNoise
from epsilens.influence.streamed_evaluation import NarrowWork, StreamedEvaluation, TestRows
from epsilens.influence.streamed_first_pass import (
    LabelsSeen,
    describe_columns,
    look_at_labels,
    read_sample,
)
from epsilens.influence.streamed_noise import (
    StreamedGroup,
    StreamedLabelNoise,
    read_streamed_groups,
    sum_groups,
)
from epsilens.influence.wide import Space, is_wide, refuse_matrix
from epsilens.models import Curvature, Problem, factorise, minimise
from epsilens.models.label import Label
from epsilens.models.passes import Part, current_passes, reduce_pass, workers
from epsilens.models.scikit_learn import (
    final_step,
    is_fitted,
    is_search,
    read_specification,
)
from epsilens.models.streamed_problem import FusedObjective, StreamedProblem, TrainingRows
from epsilens.models.streamed_records import RowReading, StreamedRows

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


_SAME_PLACE = 1e-12


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class StreamedBaseline(TrainedModel):
    """A trained model whose records are read again at every question.

    Attributes
    ----------
    labels : LabelsSeen
        How often each label occurs.
    pass_seconds : float or None
        What the last pass of the fit took, if it was really read.
    multiplication_seconds : float
        What a multiplication costs once the records are in memory.
    """

    problem: StreamedProblem
    evaluation: StreamedEvaluation
    labels: LabelsSeen
    pass_seconds: float | None
    multiplication_seconds: float
    is_streamed: ClassVar[bool] = True
    _noises: dict[tuple[str, bytes], StreamedLabelNoise] = field(default_factory=dict)

    def seconds_of_a_pass(self) -> float:
        """Return what reading all training records and their Hessian takes."""
        if self.pass_seconds is not None:
            return self.pass_seconds
        # The passes of the fit were kept by an earlier run, and nothing was read: one piece tells.
        seconds, n_rows = self.problem.time_of_a_piece(self.theta)
        whole = self.problem.rows.reading.source.n_rows
        return seconds * whole / (n_rows * current_passes().n_workers)

    def part_noises(self, groups: Sequence[Any], *, with_grams: bool = True) -> list[LabelNoise]:
        """Return the records of groups without parts, by label; those summed before cost nothing."""
        _, values = self.label.domain()
        statistics = self.problem.loss.statistic(values)
        domain = values.tobytes()
        new = {group.key: group for group in groups if (group.key, domain) not in self._noises}
        if new:
            problem = replace(
                self.problem,
                rows=replace(
                    self.problem.rows,
                    reading=replace(self.problem.rows.reading, values=values),
                ),
            )
            found = sum_groups(problem, list(new.values()), statistics)
            for key, noise in zip(new, found, strict=True):
                self._noises[(key, domain)] = noise
        return [self._noises[(group.key, domain)] for group in groups]

    def read_groups(self, groups: Mapping[str, object] | None) -> list[Group]:
        """Return the groups with their sizes; everybody's is known, and takes no pass."""
        members = read_streamed_groups(groups, self.problem.rows.reading.source.columns)
        if groups is None:
            return [replace(members[0], size=self.problem.n_rows)]
        sized: list[Group] = [
            replace(group, size=int(noise.counts.sum()))
            for group, noise in zip(members, self.group_noises(members), strict=True)
        ]
        for group in sized:
            if group.size == 0:
                raise InputError(
                    f"group {group.name!r} must have at least one training row, got 0. Check its expression."
                )
            require_everybody(group.name, group.size, n_rows=self.problem.n_rows)
        return sized

    def join_groups(self, groups: Sequence[Group]) -> Group:
        """Return disjoint groups as one whose parts are randomised at once, each at its own ε."""
        texts = [f"({group.key})" for group in groups if isinstance(group, StreamedGroup)]
        pairs = list(combinations(range(len(groups)), 2))
        both = [parse_expression(f"{texts[i]} and {texts[j]}") for i, j in pairs]
        nobody = np.zeros(0, dtype=bool)
        shared = [StreamedGroup("", nobody, frozenset(), expression=text) for text in both]
        for (i, j), noise in zip(pairs, self.part_noises(shared), strict=True):
            require_disjoint(groups[i].name, groups[j].name, int(noise.counts.sum()))
        anybody = parse_expression(" or ".join(texts))
        return StreamedGroup(
            joined_name([group.name for group in groups]),
            nobody,
            anybody.columns,
            test_mask=0,
            parts=tuple(groups),
            expression=anybody,
            size=sum(group.size for group in groups),
        )

    def by_label(self, group: Group) -> tuple[Counts, Counts]:
        """Return how often each label is given in a group, and how often outside it."""
        (noise,) = self.group_noises([group])
        everybody = np.zeros(len(noise.counts), dtype=np.int64)
        if self.labels.label.values is not None:
            _, values = self.label.domain()
            everybody[np.searchsorted(values, self.labels.label.values)] = self.labels.counts
        return noise.counts, everybody - noise.counts

    def for_question(self, label: Label, groups: Sequence[Any]) -> Self:
        """Return the model with the label's domain, and the groups in its test set."""
        expressions = tuple(group.expression for group in groups)
        return replace(self, label=label, evaluation=self.evaluation.with_groups(expressions))

    def point_table(self, direction: FloatArray) -> PointTable:
        """Return the first-order effect of every record, given v = H⁻¹η: one pass."""
        _, values = self.label.domain()
        rows = self.problem.by_row(
            _contributions, direction, values, self.problem.n_rows, what="point table"
        )
        return PointTable(contributions=rows)


def _contributions(
    problem: Problem, records: StreamedRows, direction: FloatArray, values: FloatArray, n_rows: int
) -> Part:
    codes = np.searchsorted(values, records.y).astype(np.int64)
    table = label_point_table(problem, direction, codes, values)
    return {"row": [table.contributions * (problem.n_rows / n_rows)]}


def fit_streamed(
    estimator: BaseEstimator,
    train: RowReading,
    test: RowReading,
    *,
    progress: Progress | None = None,
) -> StreamedBaseline:
    """Train to convergence and evaluate, pass by pass; see `WhatIf.fit_parquet`."""
    if is_search(estimator) and not is_fitted(final_step(estimator)):
        raise InputError(
            f"{setting('estimator')} chooses its penalty by cross-validation, which cannot be "
            "streamed. Fit it on a sample first, or give one penalty."
        )
    specification = read_specification(estimator)
    if specification.class_weight is not None:
        raise InputError(
            f"{setting('class_weight')} cannot be streamed yet. Leave it out, or read the table "
            "into memory."
        )
    already = is_fitted(estimator)
    classes = None
    if already and specification.is_classifier:
        classes = tuple(getattr(final_step(estimator), "classes_").tolist())  # noqa: B009
    seen = look_at_labels(train, specification=specification, classes=classes, progress=progress)
    label = seen.label
    loss = specification.loss_for(label.n_classes)
    known = label.categories if specification.is_classifier else None
    train = replace(train, classes=known, values=label.values)
    test = replace(
        test, classes=known, values=label.values if specification.is_classifier else None
    )
    n_rows = seen.n_rows
    whole_ridge = specification.ridge + n_rows * specification.ridge_per_row
    ridge, weight_unit = whole_ridge / seen.total_weight, n_rows / seen.total_weight
    sample = read_sample(train, n_rows)
    columns = describe_columns(
        train,
        sample,
        specification=specification,
        loss=loss,
        ridge=ridge,
        n_rows=n_rows,
        weight_unit=weight_unit,
        progress=progress,
    )
    full = columns.design
    if is_wide(full.n_columns * loss.n_outputs):
        raise refuse_matrix(
            full.n_columns * loss.n_outputs, "a streamed table", instead="Read it into memory."
        )
    penalty = penalty_of(specification, full, ridge=ridge)
    space = Space.of(full, columns.gram, penalty, specification)
    design, linear = full, columns.linear
    if space.kept is not None:
        design, penalty = full.keep_columns(space.kept), penalty[space.kept]
        linear = linear[:, space.kept]
    frame = Problem(design, np.zeros(0), loss, penalty, looks_for_alike=False)
    rows = TrainingRows(train, frame, specification.intercept, weight_unit)
    problem = StreamedProblem(rows, n_rows, progress)
    pull = linear.ravel()
    theta, curvature, seconds = _fit(problem, sample, pull)
    if not loss.is_quadratic and not penalty.any() and problem.is_separated(theta):
        raise separable()
    evaluation = _test_set(
        test,
        TestRows(
            reading=test,
            frame=Evaluation(design, np.zeros(0), np.zeros(0), loss, specification.is_classifier),
            nearest=None if space.kept is None else space.nearest,
            intercept=specification.intercept,
            total_weight=1.0,
        ),
        progress,
    )
    outcomes = evaluation.look(theta)
    coefficients, intercept = space.coefficients(design, theta, specification)
    leverage = None
    if problem.n_parameters <= MANY_PARAMETERS:
        inverse = curvature.solve(np.eye(problem.n_parameters))
        leverage = problem.largest_leverage(theta, inverse)
    notes = fit_notes(full, problem.n_parameters, design, curvature, leverage)
    if already:
        notes += distance_note(_given_loss(estimator, evaluation) - outcomes.loss)
    return StreamedBaseline(
        problem=problem,
        evaluation=evaluation,
        label=label,
        class_weight=None,
        labels=seen,
        theta=theta,
        linear=pull,
        curvature=curvature,
        outcomes=outcomes,
        coefficients=coefficients,
        intercept=intercept,
        is_classifier=specification.is_classifier,
        notes=tuple(notes),
        pass_seconds=seconds,
        multiplication_seconds=_multiplication_seconds(problem, sample),
    )


def _fit(
    problem: StreamedProblem, sample: StreamedRows, pull: FloatArray
) -> tuple[FloatArray, Curvature, float | None]:
    """Return the optimum, its curvature, and the seconds that a pass takes, if one was read."""
    fused = FusedObjective(problem.rows, problem.n_rows, problem.progress)
    start = np.zeros(problem.n_parameters)
    if not problem.is_quadratic:
        start = _sample_optimum(problem.rows, sample, start)
    solution = minimise(fused, pull[:, None], start[:, None], tolerance=1e-9, always_fresh=True)
    if not solution.converged[0]:
        raise unconverged()
    theta = solution.theta[:, 0]
    at, hessian, seconds = fused.last
    # That of a place so close, or of a quadratic, is the same to the last digits.
    if not problem.is_quadratic and np.abs(at - theta).max(initial=0.0) > _SAME_PLACE:
        fused.gradient(theta[:, None], pull[:, None])
        _, hessian, seconds = fused.last
    return theta, factorise(hessian), seconds


def _multiplication_seconds(problem: StreamedProblem, sample: StreamedRows) -> float:
    """Return what one multiplication of a Hessian costs a worker that has the records."""
    known = problem.rows.problem(sample)
    return seconds_of_hessian(known) / (known.n_rows * max(known.n_parameters, 1) ** 2)


def _sample_optimum(rows: TrainingRows, sample: StreamedRows, otherwise: FloatArray) -> FloatArray:
    """Return where the model of a sample has its optimum; a bad sample only costs more passes."""
    problem = rows.problem(sample)
    problem = replace(problem, weights=problem.weights / max(problem.weights.mean(), 1e-300))
    linear = problem.linear_term(problem.loss.statistic(sample.y))
    try:
        with workers():
            found = minimise(problem, linear[:, None], otherwise[:, None], max_iterations=50)
    except EstimateNotTrustworthyError:
        return otherwise
    start = found.theta[:, 0]
    return start if found.converged[0] else otherwise


def _test_set(reading: RowReading, rows: TestRows, progress: Progress | None) -> StreamedEvaluation:
    """Return the test set with the labels and weights of its records, read in one narrow pass."""
    work = NarrowWork(reading, _labels_only)
    part = reduce_pass(work, reading.pieces, what="test labels", progress=progress)
    if not part:
        raise InputError("the test data must have at least one row, got 0.")
    y, weights = np.concatenate(part["y"]), np.concatenate(part["weights"])
    total = float(weights.sum())
    if not total > 0:
        raise InputError(f"{setting('sample_weight_test')} must not be 0 everywhere.")
    return StreamedEvaluation(
        design=rows.frame.design,
        y=y,
        weights=weights / total,
        loss=rows.frame.loss,
        is_classifier=rows.frame.is_classifier,
        rows=replace(rows, total_weight=total),
        progress=progress,
    )


def _labels_only(records: StreamedRows) -> Part:
    return {"y": [records.y], "weights": [records.weights]}


def _given_loss(estimator: BaseEstimator, evaluation: StreamedEvaluation) -> float:
    """Return the test loss of an estimator as it was given."""
    model = final_step(estimator)
    given = (np.atleast_2d(model.coef_), np.ravel(model.intercept_))
    return float(evaluation.sum(_loss_of, *given, what="given fit")["loss"])


def _loss_of(
    evaluation: Evaluation, records: StreamedRows, coefficients: FloatArray, intercept: FloatArray
) -> Part:
    s = np.asarray(records.features @ coefficients.T) + intercept
    return {"loss": evaluation.weights @ evaluation.loss.value(s, evaluation.y)}

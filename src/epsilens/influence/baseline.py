# SPDX-License-Identifier: Apache-2.0
"""The converged model that every change is measured from.

scikit-learn's default tolerances leave the test loss about 1e-4 off, more than many an effect that is
asked about. The estimator's own objective is therefore minimised to a gradient of 1e-8, and the
distance of the given fit is reported.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.sparse

from epsilens._types import FloatArray
from epsilens.data.frames import to_vector
from epsilens.document import Baseline as BaselineNumbers
from epsilens.errors import ApproximationWarning, EstimateNotTrustworthyError, InputError, setting
from epsilens.influence.evaluation import LARGEST_CONDITION, Evaluation, Outcomes
from epsilens.influence.inverse_hessian import HessianOperator
from epsilens.influence.label_noise import LabelNoise, mix_noises, summarise_group
from epsilens.influence.wide import Space, curvature_finder, curvatures_at, is_wide
from epsilens.models import Curvature, Design, Problem, minimise
from epsilens.models.label import Label, encode_test_label, own_class_weights, read_label
from epsilens.models.passes import workers
from epsilens.models.scikit_learn import (
    ClassWeight,
    Specification,
    final_step,
    fit_transformers,
    is_fitted,
    is_search,
    read_specification,
    settle_search,
    transform,
)
from epsilens.models.solver import LinearObjective, polish
from epsilens.notes import Note

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


Features: TypeAlias = "FloatArray | scipy.sparse.csr_array"

_WORTH_SAYING = 1e-6
_LONG_HESSIAN = 0.5
_LARGE_LEVERAGE = 0.5
MANY_PARAMETERS = 1000


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class TrainedModel:
    """A converged model with all that the methods for labels need, wherever its records are.

    Attributes
    ----------
    problem : Problem or StreamedProblem
        The training objective.
    evaluation : Evaluation
        The test set.
    label : Label
    class_weight : None, "balanced" or mapping of class to weight
        The estimator's.
    theta : array of shape (K·p,)
        θ̂, in the scaled coordinates of the design.
    linear : array of shape (K·p,)
        The linear term of the unperturbed objective.
    curvature : Curvature
        H at θ̂.
    outcomes : Outcomes
        Loss, accuracy and AUC on the test set.
    coefficients : array of shape (K, n_features)
        In the features' own units, shortest where not unique.
    intercept : array of shape (K,)
    is_classifier : bool
    notes : tuple of Note
        Warnings given on the way.
    """

    problem: LinearObjective
    evaluation: Evaluation
    label: Label
    class_weight: ClassWeight
    theta: FloatArray
    linear: FloatArray
    curvature: Curvature
    outcomes: Outcomes
    coefficients: FloatArray
    intercept: FloatArray
    is_classifier: bool
    notes: tuple[Note, ...]
    is_streamed: ClassVar[bool] = False

    @property
    def n_rows(self) -> int:
        """Number of training records."""
        return int(self.problem.n_rows)

    @property
    def n_test_rows(self) -> int:
        """Number of test records."""
        return int(self.evaluation.n_rows)

    @property
    def loss_name(self) -> str:
        """Name of the loss that is minimised."""
        return self.problem.loss.name

    def numbers(self) -> BaselineNumbers:
        """Return what a document says of the model before anything is randomised."""
        return BaselineNumbers(
            loss=self.outcomes.loss,
            accuracy=self.outcomes.accuracy,
            auc=self.outcomes.auc,
            n_train=self.problem.n_rows,
            n_test=self.evaluation.n_rows,
            n_parameters=self.problem.n_parameters,
        )

    def group_noises(self, groups: Sequence[Any], *, with_grams: bool = True) -> list[LabelNoise]:
        """Return every group's records, summed by label, and by part where a group has parts."""
        parts = [part for group in groups for part in group.members]
        found = iter(self.part_noises(parts, with_grams=with_grams))
        return [
            mix_noises([next(found) for _ in group.parts]) if group.parts else next(found)
            for group in groups
        ]

    def part_noises(self, groups: Sequence[Any], *, with_grams: bool = True) -> list[LabelNoise]:
        """Return the records of groups without parts, summed by label."""
        raise NotImplementedError

    def for_question(self, label: Label, groups: Sequence[Any]) -> Self:
        """Return the model with the label's domain that a question asks about."""
        return replace(self, label=label)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class BaselineModel(TrainedModel):
    """A trained model whose records are in memory.

    Attributes
    ----------
    sample_weights : array of shape (n,)
        Weights of mean 1, before any class weight.
    count_weights : array of shape (n,)
        What a record counts when classes are balanced.
    empty : array of shape (n_features, d)
        Directions in which the training features do not vary and nothing is penalised.
    empty_level : array of shape (d,)
        Where the training records lie along them.
    table, test_table : frame or array
        The records before any transformer.
    transformers : Pipeline or None
        Fitted and frozen.
    hessian_seconds : float
        What one Hessian costs here, for planning; of a wide model one product with it.
    penalty_per_record : float
        The share of the penalty that comes with each record: 1/n where the estimator's penalty is of
        the mean (SGDClassifier), 0 where it is of the sum (C, alpha).
    weight_unit : float
        What a `sample_weight` was multiplied by to have a mean of 1.
    """

    problem: Problem
    sample_weights: FloatArray
    count_weights: FloatArray
    empty: FloatArray
    empty_level: FloatArray
    table: object
    test_table: object
    transformers: Pipeline | None
    hessian_seconds: float
    penalty_per_record: float
    weight_unit: float

    def part_noises(self, groups: Sequence[Any], *, with_grams: bool = True) -> list[LabelNoise]:
        """Return the records of groups without parts, summed by label."""
        codes, values = self.label.domain()
        statistics = self.problem.loss.statistic(values)
        return [
            summarise_group(self.problem, codes, statistics, group.mask, with_grams=with_grams)
            for group in groups
        ]

    def transform(self, table: object) -> Features:
        """Return the features of some records."""
        return transform(self.transformers, table, what="training")


def as_weights(value: object | None, *, name: str, n_rows: int) -> FloatArray:
    """Return one weight per row, 1 without any; refuse what is none."""
    if value is None:
        return np.ones(n_rows)
    raw = to_vector(value)
    if raw.dtype.kind not in "biuf":
        raise InputError(argument=name, expected="numbers", got=f"values of type {raw.dtype}")
    weights = raw.astype(np.float64)
    if len(weights) != n_rows:
        raise InputError(
            f"{setting(name)} must have one weight per row ({n_rows}), got {len(weights)}."
        )
    n_bad = int(np.sum(~(np.isfinite(weights) & (weights >= 0))))
    if n_bad:
        raise InputError(f"{setting(name)} must be finite and at least 0, but {n_bad} are not.")
    if not weights.sum() > 0:
        raise InputError(f"{setting(name)} must not be 0 everywhere.")
    return weights


def penalty_of(specification: Specification, design: Design, *, ridge: float) -> FloatArray:
    """Return the diagonal of the penalty in the scaled coordinates of a design."""
    penalty = ridge / design.scale**2
    if specification.intercept is not None and not specification.intercept_is_penalised:
        penalty[-1] = 0.0
    return penalty


def fit_baseline(
    estimator: object,
    X: object,
    y: object,
    X_test: object,
    y_test: object,
    *,
    sample_weight: object | None,
    sample_weight_test: object | None,
    given: str = "fit",
) -> BaselineModel:
    """Train to convergence and evaluate; see `WhatIf.fit` for the parameters.

    What was given, a "fit" or a "head", is what the note on its distance speaks of.
    """
    if not is_search(estimator):
        read_specification(estimator)  # refuse before any work
    already = is_fitted(estimator)
    transformers = fit_transformers(estimator, X)
    features = transform(transformers, X, what="training")
    test_features = transform(transformers, X_test, what="test")
    if features.shape[1] != test_features.shape[1]:
        raise InputError(
            f"the test data must have the columns of the training data ({features.shape[1]}), got "
            f"{test_features.shape[1]}."
        )
    model = settle_search(estimator, features, to_vector(y), sample_weight)
    specification = read_specification(model)
    classes: Sequence[object] | None = None
    if already and specification.is_classifier:
        classes = getattr(final_step(estimator), "classes_").tolist()  # noqa: B009
    label = read_label(y, is_classifier=specification.is_classifier, classes=classes)
    n_rows = features.shape[0]
    if len(label.y) != n_rows:
        raise InputError(
            f"{setting('y')} must have one label per training row ({n_rows}), got {len(label.y)}."
        )
    y_encoded = encode_test_label(
        y_test, label, is_classifier=specification.is_classifier, n_rows=test_features.shape[0]
    )
    if specification.class_values is not None and label.n_classes == 2:
        label = label.with_values(specification.class_values)
        y_encoded = np.asarray(specification.class_values)[y_encoded.astype(np.intp)]
    weights = as_weights(sample_weight, name="sample_weight", n_rows=n_rows)
    test_weights = as_weights(
        sample_weight_test, name="sample_weight_test", n_rows=test_features.shape[0]
    )

    loss = specification.loss_for(label.n_classes)
    # Weights of mean 1, the penalty with them: the objective is the same and its size is known.
    whole_ridge = specification.ridge + n_rows * specification.ridge_per_row
    ridge = whole_ridge / weights.sum()
    weight_unit = float(n_rows / weights.sum())
    sample_weights = weights * weight_unit
    count_weights = sample_weights if specification.counts_weights else np.ones(n_rows)
    weights = sample_weights * own_class_weights(specification.class_weight, label, count_weights)
    full = Design.from_features(
        features,
        intercept=specification.intercept,
        is_free=not specification.intercept_is_penalised,
        ridge=ridge,
    )
    penalty = penalty_of(specification, full, ridge=ridge)
    space = (
        Space.of_wide(full, penalty, specification)
        if is_wide(full.n_columns)
        else Space.of(full, full.gram(weights) / full.n_rows, penalty, specification)
    )
    design = full
    if space.kept is not None:
        design, penalty = full.keep_columns(space.kept), penalty[space.kept]
        test_features = space.nearest(test_features)
    problem = Problem(design, weights, loss, penalty)
    hessian_seconds = seconds_of_hessian(problem)
    evaluation = Evaluation(
        design=Design.from_features(
            test_features, intercept=specification.intercept, like=design
        ).refuse_far(what="test"),
        y=y_encoded,
        weights=test_weights / test_weights.sum(),
        loss=loss,
        is_classifier=specification.is_classifier,
    )
    linear = problem.linear_term(loss.statistic(label.y))
    start = np.zeros((problem.n_parameters, 1))
    solution = minimise(
        problem, linear[:, None], start, curvature_at=curvature_finder(problem), tolerance=1e-9
    )
    theta = solution.theta[:, 0]
    if not loss.is_quadratic and not problem.penalty.any():
        s = design.predict(theta)
        if loss.n_outputs == 1:
            right = (s[:, 0] > 0) == (label.y > 0.5)
        else:
            right = s.argmax(axis=1) == label.y
        if right[weights > 0].all():
            raise separable()
    if not solution.converged[0]:
        raise unconverged()
    if not is_wide(problem.n_parameters):
        theta = polish(problem, linear, solution)
    (curvature,) = curvatures_at(problem, theta[:, None])
    outcomes = evaluation.outcomes(theta)
    coefficients, intercept = space.coefficients(design, theta, specification)

    leverage = None
    # For more parameters, a pass of n (K·p)² for a remark is too much.
    if problem.n_parameters <= MANY_PARAMETERS and not is_wide(problem.n_parameters):
        inverse = curvature.solve(np.eye(problem.n_parameters))
        leverage = float(problem.leverages(theta, inverse).max()) / n_rows
    notes = fit_notes(full, problem.n_parameters, design, curvature, leverage)
    if is_search(estimator):
        notes.append(
            Note(
                "searched-penalty",
                "the penalty that cross-validation chose on the true labels is kept.",
            )
        )
    if already:
        known = final_step(estimator)
        predictor = np.asarray(test_features @ np.atleast_2d(known.coef_).T)
        predictor = predictor + np.ravel(known.intercept_)
        loss_of_given = float(evaluation.weights @ loss.value(predictor, y_encoded))
        notes += distance_note(loss_of_given - outcomes.loss, what=given)
    return BaselineModel(
        problem=problem,
        evaluation=evaluation,
        label=label,
        sample_weights=sample_weights,
        class_weight=specification.class_weight,
        count_weights=count_weights,
        empty=space.empty,
        empty_level=space.centre @ space.empty,
        table=X,
        test_table=X_test,
        transformers=transformers,
        theta=theta,
        linear=linear,
        curvature=curvature,
        outcomes=outcomes,
        coefficients=coefficients,
        intercept=intercept,
        is_classifier=specification.is_classifier,
        notes=tuple(notes),
        hessian_seconds=hessian_seconds,
        penalty_per_record=specification.ridge_per_row / whole_ridge if whole_ridge else 0.0,
        weight_unit=weight_unit,
    )


def seconds_of_hessian(problem: Problem) -> float:
    """Return what a Hessian costs a worker: the best of three, for the first warms up."""
    seconds, nothing = np.inf, np.zeros(problem.n_parameters)
    with workers():
        for _ in range(3):
            started = time.perf_counter()
            if is_wide(problem.n_parameters):
                HessianOperator(problem, nothing).product(nothing)
            else:
                problem.hessian(nothing)
            seconds = min(seconds, time.perf_counter() - started)
            if seconds > _LONG_HESSIAN:
                break
    return seconds


def separable() -> EstimateNotTrustworthyError:
    """Return the error for training data without a finite optimum."""
    return EstimateNotTrustworthyError(
        "the training data are separable: without a penalty the model has no finite "
        "optimum. Add regularisation (a finite C)."
    )


def unconverged() -> EstimateNotTrustworthyError:
    """Return the error for a model whose optimum was not reached."""
    return EstimateNotTrustworthyError(
        "the training objective could not be minimised to a gradient of 1e-8. Scale the "
        "features, or add regularisation."
    )


def fit_notes(
    full: Design,
    n_parameters: int,
    design: Design,
    curvature: Curvature,
    leverage: float | None,
) -> list[Note]:
    """Say what must be known of a fit, and warn of a model without a finite optimum.

    Parameters
    ----------
    full, design : Design
        With all columns, and with those that were kept.
    n_parameters : int
    curvature : Curvature
    leverage : float or None
        The largest of a training record; None if it was not looked for.
    """
    notes: list[Note] = []
    if design.n_columns < full.n_columns:
        notes.append(
            Note(
                "fewer-dimensions",
                f"the {full.n_columns} columns of the design span {design.n_columns} dimensions; the "
                "shortest coefficients are taken.",
            )
        )
    if is_wide(n_parameters):
        notes.append(
            Note(
                "many-parameters",
                f"the {n_parameters:,} parameters are too many for a matrix: all is found by conjugate "
                f"gradient, the condition of the Hessian is only estimated ({curvature.condition:.0g}), and no "
                "leverage is looked at.",
            )
        )
    if curvature.condition > LARGEST_CONDITION:
        notes.append(
            Note(
                "nearly-separable",
                "the training data are nearly separable: some coefficients, such as those of rare categories "
                "with one answer, have no finite optimum, so neither the baseline nor any estimate can be "
                "trusted. Add regularisation.",
            )
        )
        notes[-1].warn(ApproximationWarning, stacklevel=5)
    if leverage is not None and leverage > _LARGE_LEVERAGE:
        notes.append(
            Note(
                "large-leverage",
                f"the largest leverage of a training record is {leverage:.2f}: such a record decides its "
                "own prediction, and estimates for a group that contains it are less certain.",
            )
        )
    return notes


def distance_note(distance: float, *, what: str = "fit") -> list[Note]:
    """Warn of a given fit whose test loss is off by this much, if that is worth saying."""
    if abs(distance) <= _WORTH_SAYING:
        return []
    note = Note(
        "fit-not-converged",
        f"the given {what} is not converged: its test loss is {distance:+.2g} away from that of its own "
        "objective's optimum, which is used as the baseline.",
    )
    note.warn(ApproximationWarning, stacklevel=5)
    return [note]

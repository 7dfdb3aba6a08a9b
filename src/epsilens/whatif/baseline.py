# SPDX-License-Identifier: Apache-2.0
"""The converged model that every change is measured from.

scikit-learn's default tolerances leave the test loss about 1e-4 off, more than many an effect that is
asked about. The estimator's own objective is therefore minimised to a gradient of 1e-8, and the
distance of the given fit is reported.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens.data.frames import to_vector
from epsilens.errors import (
    ApproximationWarning,
    EstimateNotTrustworthyError,
    InputError,
)
from epsilens.influence import Evaluation, Outcomes
from epsilens.influence.trust import LARGEST_CONDITION
from epsilens.models import Curvature, Design, Problem, factorise, minimise
from epsilens.models.scikit_learn import (
    Specification,
    final_step,
    fit_transformers,
    is_fitted,
    read_specification,
    transform,
)
from epsilens.whatif.label import Label, encode_test_label, read_label

__all__ = ["Baseline", "fit_baseline"]

FloatArray = NDArray[np.float64]

_WORTH_SAYING = 1e-6


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Baseline:
    """A trained model with all that the ladder needs.

    Attributes
    ----------
    problem : Problem
    evaluation : Evaluation
    label : Label
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
    notes : tuple of str
        Warnings given on the way.
    hessian_seconds : float
        What one Hessian costs here, for planning.
    """

    problem: Problem
    evaluation: Evaluation
    label: Label
    theta: FloatArray
    linear: FloatArray
    curvature: Curvature
    outcomes: Outcomes
    coefficients: FloatArray
    intercept: FloatArray
    is_classifier: bool
    notes: tuple[str, ...]
    hessian_seconds: float


def _as_weights(value: object | None, *, name: str, n_rows: int) -> FloatArray:
    if value is None:
        return np.ones(n_rows)
    raw = to_vector(value)
    if raw.dtype.kind not in "biuf":
        raise InputError(f"`{name}` must be numbers, got values of type {raw.dtype}.")
    weights = raw.astype(np.float64)
    if len(weights) != n_rows:
        raise InputError(f"`{name}` must have one weight per row ({n_rows}), got {len(weights)}.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError(
            f"`{name}` must be finite and at least 0, but {int(np.sum(~(weights >= 0)))} are not."
        )
    if not weights.sum() > 0:
        raise InputError(f"`{name}` must not be 0 everywhere.")
    return weights


def _penalty(specification: Specification, design: Design, *, n_rows: int) -> FloatArray:
    penalty = specification.ridge / n_rows / design.scale**2
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
) -> Baseline:
    """Train to convergence and evaluate; see `WhatIf.fit` for the parameters."""
    specification = read_specification(estimator)
    already = is_fitted(estimator)
    transformers = fit_transformers(estimator, X)
    features = transform(transformers, X, what="training")
    test_features = transform(transformers, X_test, what="test")
    if features.shape[1] != test_features.shape[1]:
        raise InputError(
            f"the test data must have the columns of the training data ({features.shape[1]}), got "
            f"{test_features.shape[1]}."
        )
    classes: Sequence[object] | None = None
    if already and specification.is_classifier:
        classes = getattr(final_step(estimator), "classes_").tolist()  # noqa: B009
    label = read_label(y, is_classifier=specification.is_classifier, classes=classes)
    n_rows = features.shape[0]
    if len(label.y) != n_rows:
        raise InputError(
            f"`y` must have one label per training row ({n_rows}), got {len(label.y)}."
        )
    y_encoded = encode_test_label(
        y_test, label, is_classifier=specification.is_classifier, n_rows=test_features.shape[0]
    )
    weights = _as_weights(sample_weight, name="sample_weight", n_rows=n_rows)
    test_weights = _as_weights(
        sample_weight_test, name="sample_weight_test", n_rows=test_features.shape[0]
    )

    loss = specification.loss_for(label.n_classes)
    design = Design.from_features(features, intercept=specification.intercept)
    penalty = _penalty(specification, design, n_rows=n_rows)
    gram = design.gram(weights) / n_rows + np.diag(penalty)
    full = design
    kept = design.independent_columns(gram)
    if kept is not None:
        design = design.keep_columns(kept)
        penalty = penalty[kept]
    problem = Problem(design, weights, loss, penalty)
    hessian_seconds = _seconds_of_hessian(problem)
    evaluation = Evaluation(
        design=Design.from_features(test_features, intercept=specification.intercept, like=design),
        y=y_encoded,
        weights=test_weights / test_weights.sum(),
        loss=loss,
        is_classifier=specification.is_classifier,
    )
    linear = problem.linear_term(loss.statistic(label.y))
    start = np.zeros((problem.n_parameters, 1))
    solution = minimise(problem, linear[:, None], start, tolerance=1e-9)
    theta = solution.theta[:, 0]
    _refuse_unusable(problem, label, theta, converged=bool(solution.converged[0]))
    outcomes = evaluation.outcomes(theta)
    coefficients, intercept = _shortest(full, design, theta, specification, gram)

    notes: list[str] = []
    if kept is not None:
        notes.append(
            f"the {full.n_columns} columns of the design span {design.n_columns} dimensions; "
            "predictions are unique, the shortest coefficients are reported."
        )
    curvature = factorise(problem.hessian(theta))
    if curvature.condition > LARGEST_CONDITION:
        notes.append(_nearly_separable())
    if already:
        notes.extend(_distance_note(estimator, evaluation, test_features, outcomes))
    return Baseline(
        problem=problem,
        evaluation=evaluation,
        label=label,
        theta=theta,
        linear=linear,
        curvature=curvature,
        outcomes=outcomes,
        coefficients=coefficients,
        intercept=intercept,
        is_classifier=specification.is_classifier,
        notes=tuple(notes),
        hessian_seconds=hessian_seconds,
    )


def _seconds_of_hessian(problem: Problem) -> float:
    """Return what a Hessian costs: the better of two, for the first warms up."""
    seconds = np.inf
    for _ in range(2):
        started = time.perf_counter()
        problem.hessian(np.zeros(problem.n_parameters))
        seconds = min(seconds, time.perf_counter() - started)
    return seconds


def _refuse_unusable(problem: Problem, label: Label, theta: FloatArray, *, converged: bool) -> None:
    if not problem.loss.is_quadratic and not problem.penalty.any():
        s = problem.design.predict(theta)
        if problem.loss.n_outputs == 1:
            right = (s[:, 0] > 0) == (label.y > 0.5)
        else:
            right = s.argmax(axis=1) == label.y
        if right[problem.weights > 0].all():
            raise EstimateNotTrustworthyError(
                "the training data are separable: without a penalty the model has no finite "
                "optimum. Add regularisation (a finite C)."
            )
    if not converged:
        raise EstimateNotTrustworthyError(
            "the training objective could not be minimised to a gradient of 1e-8. Scale the "
            "features, or add regularisation."
        )


def _nearly_separable() -> str:
    text = (
        "the training data are nearly separable: some coefficients, such as those of rare categories "
        "with one answer, have no finite optimum, so neither the baseline nor any estimate can be "
        "trusted. Add regularisation."
    )
    warnings.warn(text, ApproximationWarning, stacklevel=4)
    return text


def _shortest(
    full: Design, design: Design, theta: FloatArray, specification: Specification, gram: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients in the features' own units; the shortest if columns are dependent."""
    coefficients = np.zeros((len(theta) // design.n_columns, full.n_columns))
    coefficients[:, design.kept] = theta.reshape(-1, design.n_columns) / design.scale
    if design.n_columns < full.n_columns:
        # Directions without curvature change no prediction: remove them.
        own_units = gram * full.scale[:, None] * full.scale[None, :]
        unit = np.sqrt(np.maximum(np.diag(own_units), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(own_units / unit[:, None] / unit[None, :])
        null = vectors[:, values <= 1e-10 * values[-1]] / unit[:, None]
        basis, _ = np.linalg.qr(null)
        coefficients -= (coefficients @ basis) @ basis.T
    intercept = np.zeros(len(coefficients))
    if specification.intercept is not None:
        intercept = coefficients[:, -1] * specification.intercept
        coefficients = coefficients[:, :-1]
    return coefficients, intercept


def _distance_note(
    estimator: object, evaluation: Evaluation, features: object, outcomes: Outcomes
) -> list[str]:
    """Say by how much the given fit misses the optimum of its own objective."""
    model = final_step(estimator)
    coefficients = np.atleast_2d(model.coef_)
    given = np.asarray(features @ coefficients.T) + np.ravel(model.intercept_)
    loss = float(evaluation.weights @ evaluation.loss.value(given, evaluation.y))
    distance = loss - outcomes.loss
    if abs(distance) <= _WORTH_SAYING:
        return []
    text = (
        f"the given fit is not converged: its test loss is {distance:+.2g} away from that of its own "
        "objective's optimum, which is used as the baseline."
    )
    warnings.warn(text, ApproximationWarning, stacklevel=4)
    return [text]

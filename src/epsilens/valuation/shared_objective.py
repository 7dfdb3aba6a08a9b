# SPDX-License-Identifier: Apache-2.0
"""What is minimised when one record goes or comes, apart from that record itself.

Training again with the same settings keeps C and alpha, so mostly nothing else changes. Two settings
depend on the number of records: SGDClassifier's alpha is a penalty per record, and
`class_weight="balanced"` counts the classes again. Then all models without (or with) one more record
share an objective that is not quite the given one; it is minimised first, once for each class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.errors import EstimateNotTrustworthyError, InputError, setting
from epsilens.influence import Evaluation
from epsilens.influence.baseline import BaselineModel
from epsilens.models import Problem, factorise, minimise
from epsilens.models.label import balanced, class_totals, class_weights
from epsilens.valuation.record_steps import FittedModel, ValuedRecords


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class SharedObjective(FittedModel):
    """The objective F that n·F ± w·ℓ(record) is made of, and its minimiser.

    Attributes
    ----------
    problem : Problem
    linear : array of shape (K·p,)
        The labels' part of the objective.
    y : array of shape (n,)
        The labels.
    loss_change : float
        Test loss at `theta` less that of the given model; 0 where the two are the same.
    """

    problem: Problem
    linear: FloatArray
    y: FloatArray
    loss_change: float


def shared_objectives(
    baseline: BaselineModel, *, change: int
) -> Iterator[tuple[int | None, FloatArray, SharedObjective]]:
    """Yield (class, class weights, objective): for each class if classes are balanced, else once.

    Parameters
    ----------
    baseline : BaselineModel
    change : {-1, 1}
        −1: a record goes; 1: a record comes.

    Yields
    ------
    kind : int or None
        The class of the record that goes or comes; None: any.
    weights : array of shape (k,)
        The class weights that training then has; of shape (1,) for a regression.
    shared : SharedObjective
    """
    label = baseline.label
    n_classes = label.n_classes
    if baseline.class_weight != "balanced" or n_classes == 0:
        weights = np.ones(1)
        if n_classes:
            # A mapping of class to weight does not look at the totals.
            weights = class_weights(baseline.class_weight, label, np.ones(n_classes))
        yield None, weights, _shared(baseline, baseline.problem.weights, change=change)
        return
    if np.ptp(baseline.count_weights) > 0:
        raise InputError(
            f'class_weight="balanced" counts records by {setting("sample_weight")}, so every '
            "record would change the weights of all others in its own way. Pass the class "
            "weights as a mapping, or leave out the sample weights."
        )
    codes, _ = label.domain()
    totals = class_totals(codes, baseline.count_weights, n_classes)
    for kind in range(n_classes):
        then = totals.copy()
        then[kind] += change * float(baseline.count_weights[0])
        weights = balanced(then)
        yield (
            kind,
            weights,
            _shared(baseline, baseline.sample_weights * weights[codes], change=change),
        )


def given_objective(baseline: BaselineModel) -> SharedObjective:
    """Return the given model's own objective."""
    return SharedObjective(
        loss=baseline.problem.loss,
        n_rows=baseline.problem.n_rows,
        problem=baseline.problem,
        linear=baseline.linear,
        y=baseline.label.y,
        theta=baseline.theta,
        curvature=baseline.curvature,
        loss_change=0.0,
    )


def _shared(baseline: BaselineModel, weights: FloatArray, *, change: int) -> SharedObjective:
    penalty_factor = 1.0 + change * baseline.penalty_per_record
    if weights is baseline.problem.weights and penalty_factor == 1.0:
        return given_objective(baseline)
    problem = replace(
        baseline.problem, weights=weights, penalty=baseline.problem.penalty * penalty_factor
    )
    linear = problem.linear_term(problem.loss.statistic(baseline.label.y))
    solution = minimise(problem, linear[:, None], baseline.theta[:, None], tolerance=1e-9)
    if not solution.converged[0]:
        raise EstimateNotTrustworthyError(
            "the training objective without one record could not be minimised to a gradient of 1e-8. "
            "Scale the features, or add regularisation."
        )
    theta = solution.theta[:, 0]
    return SharedObjective(
        loss=problem.loss,
        n_rows=problem.n_rows,
        problem=problem,
        linear=linear,
        y=baseline.label.y,
        theta=theta,
        curvature=factorise(problem.hessian(theta)),
        loss_change=baseline.evaluation.outcomes(theta).loss - baseline.outcomes.loss,
    )


# --- How far a score could be off because the test set is only a sample ---


def sampling_errors(
    shared: SharedObjective, evaluation: Evaluation, records: ValuedRecords
) -> FloatArray:
    """Return the standard error of every score over test sets like this one.

    A score is a mean over test records, of which there are only so many. About half of all records
    score below zero by chance alone; one that is harmful beyond twice this error is another matter.

    Notes
    -----
    To first order the score is Σ_m ω_m g_mᵀδ_j, and its variance δ_jᵀSδ_j with
    S = Σ_m ω_m² (g_m − η)(g_m − η)ᵀ, ω the test weights and g_m the gradients of the test losses.
    """
    design, loss = evaluation.design, evaluation.loss
    slope = loss.slope(design.predict(shared.theta), evaluation.y)
    squared = evaluation.weights**2
    outer = slope[:, :, None] * slope[:, None, :] * squared[:, None, None]
    eta = design.pull(evaluation.weights[:, None] * slope)
    side = design.pull(squared[:, None] * slope)
    spread = design.gram(outer) - np.outer(side, eta) - np.outer(eta, side)
    spread += squared.sum() * np.outer(eta, eta)
    form = records.design.quadratic(shared.curvature.sandwich(spread))
    own = loss.slope(records.design.predict(shared.theta), records.y)
    own *= (records.weights / shared.problem.n_rows)[:, None]
    variance = np.einsum("bk,bkl,bl->b", own, form, own)
    errors: FloatArray = np.sqrt(np.maximum(variance, 0.0))
    return errors


# --- Records that decide a coefficient alone: leverage 1 in a model without penalty ---


def shortest_without(
    baseline: BaselineModel, shared: SharedObjective, rows: NDArray[np.intp]
) -> FloatArray:
    """Return the change of the parameters without each of these records, as columns (p, B).

    With h_j = 1 no other record sees the direction u = H⁻¹x_j: x_iᵀu = 0 for all i ≠ j. All θ̂ + t·u
    fit the others equally well, and the shortest coefficients, in the features' own units, are those
    orthogonal to u.
    """
    design = shared.problem.design
    along = shared.curvature.solve(design.block(rows).T)
    n_features = baseline.coefficients.shape[1]
    own = design.kept < n_features

    def in_own_units(theta: FloatArray) -> FloatArray:
        values = np.zeros((n_features, theta.shape[1]))
        values[design.kept[own]] = theta[own] / design.scale[own, None]
        shortest: FloatArray = values - baseline.empty @ (baseline.empty.T @ values)
        return shortest

    u, coefficients = in_own_units(along), in_own_units(shared.theta[:, None])
    length = np.einsum("pb,pb->b", u, u)
    part: FloatArray = (coefficients.T @ u)[0] / np.where(length > 0, length, 1.0)
    return -part * along

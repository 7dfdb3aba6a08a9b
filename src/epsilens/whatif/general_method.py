# SPDX-License-Identifier: Apache-2.0
"""The methods for randomised features, class weights and corrected losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import EstimateNotTrustworthyError, InputError, setting
from epsilens.influence import (
    NoiseTerms,
    Outcomes,
    general_point_table,
    predictor_noise,
)
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.first_order import N_PROBES, probe_seed
from epsilens.influence.general_noise import (
    Balance,
    DrawnRuns,
    class_gradients,
    draw_gradient_noise,
    general_noise_terms,
    gradient_covariance,
)
from epsilens.influence.perturbed import (
    OwnLabel,
    PerturbedObjective,
    RandomisedRecords,
    Reports,
)
from epsilens.influence.realised import realised_runs
from epsilens.models import Curvature, factorise, minimise
from epsilens.models.label import class_totals, class_weights, own_class_weights
from epsilens.models.passes import workers
from epsilens.models.solver import minimise_nearby
from epsilens.whatif.cells import (
    N_CHECKED,
    CellAnswer,
    CellQuestion,
    ExpandedCell,
    Method,
    changes_from,
    finish_cell,
    first_order_answer,
    group_seed,
    n_affordable,
    quadratic_runs,
    run_decrement,
    shape_of_runs,
    unchanged,
)

SOLVED_REPORT_COST = 40


def objective_of(
    baseline: BaselineModel, question: CellQuestion, group_index: int, epsilon_index: int
) -> PerturbedObjective:
    """Return the expected perturbed objective of a cell."""
    parts, label = question.parts(group_index, epsilon_index), baseline.label
    sample = baseline.sample_weights
    loss = baseline.problem.loss
    if not question.label_is_protected:
        own = sample * own_class_weights(baseline.class_weight, label, baseline.count_weights)
        codes = np.zeros(len(sample), dtype=np.int64)
        weights, rest = own, own
        randomised = [
            RandomisedRecords(group.mask, joint, channel, OwnLabel(loss))
            for group, joint, channel in parts
        ]
    else:
        codes, values = label.domain()
        totals = _expected_totals(baseline, [(group.mask, channel) for group, _, channel in parts])
        omega = class_weights(baseline.class_weight, label, totals)
        weights, rest = sample, sample * omega[codes]
        randomised = []
        for group, joint, channel in parts:
            trained = Reports(loss, values, omega, channel if question.is_corrected else None)
            randomised.append(RandomisedRecords(group.mask, joint, channel, trained))
    return PerturbedObjective(
        problem=baseline.problem,
        alternatives=question.alternatives,
        y=label.y,
        labels=codes,
        parts=tuple(randomised),
        weights=weights,
        rest_weights=rest,
    )


def _expected_totals(
    baseline: BaselineModel, parts: list[tuple[BoolArray, FloatArray]]
) -> FloatArray:
    """Return what the records of every reported class count on average, (k,)."""
    codes, values = baseline.label.domain()
    counted, k = baseline.count_weights, len(values)
    rest = ~np.any([mask for mask, _ in parts], axis=0)
    totals = class_totals(codes[rest], counted[rest], k)
    for mask, channel in parts:
        totals = totals + class_totals(codes[mask], counted[mask], k) @ channel
    return totals


@dataclass(frozen=True, repr=False)
class _Point:
    """Where a cell's parameters are, and how sure that is."""

    objective: PerturbedObjective
    theta: FloatArray
    curvature: Curvature
    converged: bool = True
    omitted: float = 0.0


def general_cells(
    baseline: BaselineModel, question: CellQuestion, method: Method
) -> Iterator[list[CellAnswer]]:
    """Yield every cell by one method."""
    with workers() as team:
        tasks = (
            partial(_answer, baseline, question, g, e, method, point)
            for g in range(len(question.groups))
            for e, point in _path(baseline, question, g, method)
        )
        yield from ([answer] for answer in team.run(tasks))


def _path(
    baseline: BaselineModel, question: CellQuestion, group_index: int, method: Method
) -> Iterator[tuple[int, _Point | None]]:
    """Yield the parameters of a group's cells, from the largest ε to the smallest."""
    theta, curvature = baseline.theta, baseline.curvature
    nothing = np.zeros((len(theta), 1))
    for e in reversed(range(len(question.joints))):
        if question.is_identity(e):
            yield e, None
            continue
        objective = objective_of(baseline, question, group_index, e)
        if method in {"influence", "paper"}:
            yield e, _Point(objective, baseline.theta, baseline.curvature)
        elif method == "newton":
            yield e, _newton_point(baseline, objective)
        else:
            try:
                solution = minimise(
                    objective, nothing, theta[:, None], curvatures=(curvature,), max_iterations=80
                )
                at = solution.theta[:, 0]
                found = factorise(objective.hessian(at))
            except EstimateNotTrustworthyError:
                # A corrected loss need not be convex: say so instead of a number.
                yield e, _Point(objective, theta, curvature, converged=False)
                continue
            theta, curvature = at, found
            yield e, _Point(objective, at, found, converged=bool(solution.converged[0]))


def _newton_point(baseline: BaselineModel, objective: PerturbedObjective) -> _Point:
    """One step with the cell's own Hessian, as long as the objective wants it, up to 1.5."""
    nothing = np.zeros((len(baseline.theta), 1))
    slope = objective.gradient(baseline.theta[:, None], nothing)[:, 0]
    try:
        direction = -factorise(objective.hessian(baseline.theta)).solve(slope)
    except EstimateNotTrustworthyError:
        return _Point(objective, baseline.theta, baseline.curvature, converged=False)
    best = minimize_scalar(
        lambda a: objective.value(baseline.theta + a * direction),
        bounds=(0.0, 1.5),
        method="bounded",
        options={"xatol": 1e-5},
    )
    theta = baseline.theta + float(best.x) * direction
    try:
        curvature = factorise(objective.hessian(theta))
    except EstimateNotTrustworthyError:
        return _Point(objective, theta, baseline.curvature, converged=False)
    left = objective.gradient(theta[:, None], nothing)[:, 0]
    further = theta - curvature.solve(left)
    losses = baseline.evaluation.losses(np.column_stack([theta, further]))
    return _Point(objective, theta, curvature, omitted=float(losses[1] - losses[0]))


def _answer(
    baseline: BaselineModel,
    question: CellQuestion,
    group_index: int,
    epsilon_index: int,
    method: Method,
    point: _Point | None,
) -> CellAnswer:
    evaluation = baseline.evaluation
    contrast = evaluation.contrast(question.groups[group_index].test_mask)
    (before,) = evaluation.gaps(baseline.theta, [contrast], baseline.outcomes)
    if point is None:
        return unchanged(
            before, group_index=group_index, epsilon_index=epsilon_index, n_draws=question.n_draws
        )
    if not point.converged:
        # No minimum with a positive definite Hessian was found: no number.
        nothing = float("nan")
        return CellAnswer(
            group_index=group_index,
            epsilon_index=epsilon_index,
            loss_change=nothing,
            loss_low=nothing,
            loss_high=nothing,
            changes={},
            intervals={},
            trusted=False,
            loss_runs=np.zeros(0),
        )
    if method in {"influence", "paper"}:
        return _first_order(
            baseline,
            question,
            group_index,
            epsilon_index,
            point.objective,
            before,
            contrast,
            is_paper=method == "paper",
        )
    balance = _balance(baseline, question, point.objective, point.theta)
    n_kept = min(N_CHECKED, question.n_draws)
    if method == "exact":
        # A report's loss costs as much as a few dozen parameters.
        width = baseline.problem.n_parameters + SOLVED_REPORT_COST * baseline.problem.loss.n_outputs
        n_kept = n_affordable(baseline.problem.n_rows, width, question.n_draws, solved=True)
    runs = draw_gradient_noise(
        point.objective,
        point.theta,
        n_draws=question.n_draws,
        seed=group_seed(question),
        balance=balance,
        n_kept=n_kept,
    )
    noise = runs.deviations.astype(np.float64)
    terms = general_noise_terms(
        point.objective,
        evaluation,
        point.theta,
        point.curvature,
        covariance=None if balance is None else np.atleast_2d(np.cov(noise)),
    )
    root = -point.curvature.solve(noise)
    cell = ExpandedCell(
        group_index=group_index,
        epsilon_index=epsilon_index,
        theta=point.theta,
        before=before,
        loss=float(evaluation.losses(point.theta[:, None])[0]),
        quadratic=quadratic_runs(
            evaluation.gradient(point.theta),
            evaluation.hessian(point.theta),
            terms.bias,
            np.eye(len(root)),
            root,
            spread=terms.spread,
        ),
        linearised=lambda n: terms.bias[:, None] + root[:, :n],
        solve=partial(_solve, baseline, question, point, runs),
        # A corrected loss moves the labels that are kept as well.
        untouched=runs.untouched & (not question.is_corrected),
        converged=point.converged,
        condition=max(point.curvature.condition, baseline.curvature.condition),
        terms=terms,
        n_solvable=n_kept,
        omitted=point.omitted,
        start=baseline.theta - point.theta if question.is_corrected else None,
        may_replace=method == "exact",
    )
    return finish_cell(cell, shape_of_runs(evaluation, cell, contrast))


def _solve(
    baseline: BaselineModel,
    question: CellQuestion,
    point: _Point,
    runs: DrawnRuns,
    first: int,
    start: FloatArray,
) -> tuple[FloatArray, BoolArray]:
    """Minimise the objectives of some drawn runs, from where the expansion puts them."""
    part = slice(first, first + start.shape[1])
    realised = realised_runs(
        baseline,
        question.alternatives,
        point.objective.mask,
        runs.values[:, part],
        runs.labels[:, part] if question.label_is_protected else None,
        corrections=[(part.mask, part.channel) for part in point.objective.parts]
        if question.is_corrected
        else (),
    )
    theta, converged = minimise_nearby(
        realised,
        np.zeros_like(start),
        point.theta[:, None] + start,
        point.curvature,
        decrement_tolerance=run_decrement(point.curvature, start),
    )
    return theta - point.theta[:, None], converged


def _balance(
    baseline: BaselineModel,
    question: CellQuestion,
    objective: PerturbedObjective,
    theta: FloatArray,
) -> Balance | None:
    """Return how balanced class weights answer to the drawn counts; None without them."""
    if baseline.class_weight != "balanced" or not question.label_is_protected:
        return None
    totals = _expected_totals(baseline, [(part.mask, part.channel) for part in objective.parts])
    return Balance(
        pulls=-class_gradients(objective, theta) / totals[:, None],
        count_weights=baseline.count_weights,
    )


def _first_order(
    baseline: BaselineModel,
    question: CellQuestion,
    group_index: int,
    epsilon_index: int,
    objective: PerturbedObjective,
    before: Outcomes,
    contrast: object,
    *,
    is_paper: bool,
) -> CellAnswer:
    """Answer by the bare formula −ηᵀH⁻¹γ/n, additive over groups, with the noise along v."""
    evaluation, theta = baseline.evaluation, baseline.theta
    gamma = objective.gradient(theta[:, None], np.zeros((len(theta), 1)))[:, 0]
    solved = question.solved
    v = solved.direction
    change = -float(v @ gamma)
    if is_paper:
        change = _as_printed(baseline, question, objective)
    seed = group_seed(question)
    balance = _balance(baseline, question, objective, theta)
    noise = draw_gradient_noise(
        objective, theta, n_draws=question.n_draws, seed=seed, direction=v, balance=balance
    )
    untouched = noise.untouched & (not question.is_corrected)
    runs = np.where(untouched, 0.0, change - noise.deviations[0].astype(np.float64))
    steps, converged = solved.steps(gamma[:, None])
    after = evaluation.outcomes(theta - steps[:, 0], contrast)
    if solved.inverse.is_matrix_free:
        terms, found = _probed_terms(baseline, question, objective, seed, balance)
        converged = converged and found
    else:
        terms = general_noise_terms(objective, evaluation, theta, baseline.curvature)
    second = abs(after.loss - before.loss - change + terms.mean_change)
    if question.is_corrected and not solved.inverse.is_matrix_free:
        second = max(second, _missed(baseline, objective, gamma, change, runs))
    return first_order_answer(
        group_index,
        epsilon_index,
        change,
        runs,
        solved.error(gamma, steps[:, 0], converged=converged),
        changes=changes_from(before, after),
        logit_noise=terms.logit_noise,
        undetermined_loss=terms.undetermined_loss,
        condition=baseline.curvature.condition,
        second_order=second,
    )


def _missed(
    baseline: BaselineModel,
    objective: PerturbedObjective,
    gamma: FloatArray,
    change: float,
    runs: FloatArray,
) -> float:
    """Return what first order misses of a corrected loss, whose Hessian is not that of the plain one.

    One Newton step with the corrected Hessian and its noise, against the tangent: the larger of the
    difference of the means and that of half the widths.
    """
    evaluation, theta = baseline.evaluation, baseline.theta
    try:
        own = factorise(objective.hessian(theta))
    except EstimateNotTrustworthyError:
        return np.inf
    terms = general_noise_terms(objective, evaluation, theta, own)
    further = theta - own.solve(gamma)
    losses = evaluation.losses(np.column_stack([theta, further]))
    eta, bend = evaluation.gradient(theta), evaluation.hessian(theta)
    sigma = own.sandwich(gradient_covariance(objective, theta))
    bent = bend @ sigma
    spread = np.sqrt(max(float(eta @ sigma @ eta) + 0.5 * float(np.sum(bent * bent.T)), 0.0))
    mean = float(losses[1] - losses[0]) + terms.mean_change
    return float(max(abs(mean - change), 1.645 * abs(spread - float(runs.std()))))


def _probed_terms(
    baseline: BaselineModel,
    question: CellQuestion,
    objective: PerturbedObjective,
    seed: np.random.SeedSequence,
    balance: Balance | None,
) -> tuple[NoiseTerms, bool]:
    """Return the noise of one run from a handful of draws, without a matrix, and if it was found.

    The bias b is left out: it would take H⁻¹ along every record, and only the size of what the
    method omits is asked for here.
    """
    evaluation, theta = baseline.evaluation, baseline.theta
    draws = draw_gradient_noise(
        objective, theta, n_draws=N_PROBES, seed=probe_seed(seed), balance=balance
    )
    (spread,), converged = question.solved.probed_spreads(evaluation, [draws.deviations])
    s = evaluation.design.predict(theta)
    bend = evaluation.loss.curvature(s)
    noise_scale, undetermined = predictor_noise(evaluation, s, spread)
    terms = NoiseTerms(
        mean_change=0.5 * float(np.einsum("i,ikl,ikl->", evaluation.weights, bend, spread)),
        bias=np.zeros_like(theta),
        logit_noise=noise_scale,
        undetermined_loss=undetermined,
    )
    return terms, converged


def _as_printed(
    baseline: BaselineModel,
    question: CellQuestion,
    objective: PerturbedObjective,
) -> float:
    """Return P1's printed formula, summed over the parts: Eq. 22 with correction, otherwise Eq. 13.

    Eq. 13 multiplies the unweighted sum over all alternatives by the probability that anything
    changes, which is no expectation; for one binary column it is right all the same. Eq. 22 leaves out
    the kept label, whose corrected loss changes too, and subtracts the uncorrected loss once for
    every other label.
    """
    theta = baseline.theta
    v = question.solved.direction
    if not question.is_corrected:
        table = general_point_table(objective, v, theta)
        return sum(
            table.change(part.mask, 1.0 - float(part.joint[0, 0]) * float(part.channel[0, 0]))
            for part in objective.parts
        )
    if question.alternatives.sizes:
        raise InputError(
            f"{setting('method', 'paper')} with correction is Eq. 22, which is for labels alone. "
            "Protect the label only, or leave out the correction."
        )
    total = 0.0
    for chunk in objective.chunks(theta):
        s, label = chunk.flat, objective.labels[chunk.rows]
        others = np.ones((len(label), objective.n_labels), dtype=bool)
        others[np.arange(len(label)), label] = False
        corrected = chunk.part.trained.slopes(s, chunk.y)
        plain = baseline.problem.loss.slope(s, chunk.y)
        difference = ((corrected - plain[:, None, :]) * others[:, :, None]).sum(axis=1)
        along = objective.alternatives.base.take(chunk.rows).predict(v)
        # The chance of each single other label.
        weights = objective.weights[chunk.rows] * float(chunk.part.channel[0, -1])
        total += float(weights @ (difference * along).sum(axis=1))
    return -total / baseline.problem.n_rows

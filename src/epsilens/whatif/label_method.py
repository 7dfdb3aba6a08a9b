# SPDX-License-Identifier: Apache-2.0
"""The methods for randomised labels of a canonical loss, where only the linear term moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from epsilens._types import BoolArray, FloatArray
from epsilens.influence import LabelNoise, draw_linear_noise, newton_steps, walk
from epsilens.influence.baseline import TrainedModel
from epsilens.influence.evaluation import NoiseForms, Outcomes
from epsilens.influence.exact import PathPoint
from epsilens.influence.first_order import N_PROBES, noise_bound, probe_seed
from epsilens.influence.label_noise import (
    LinearNoise,
    NoiseTerms,
    draw_along,
    draw_runs,
    noise_terms_at,
)
from epsilens.models import Curvature, factorise
from epsilens.models.passes import workers
from epsilens.models.solver import LinearObjective, minimise_nearby
from epsilens.whatif.cells import (
    CellAnswer,
    CellQuestion,
    ExpandedCell,
    Method,
    changes_from,
    finish_cell,
    first_order_answer,
    group_seed,
    is_identity,
    n_affordable,
    quadratic_runs,
    run_decrement,
    shape_of_runs,
    unchanged,
)

Result = TypeVar("Result")


def first_order_cells(baseline: TrainedModel, question: CellQuestion) -> Iterator[CellAnswer]:
    """P1 Eq. 14: a sum over records of numbers that are computed once."""
    problem, evaluation, theta = baseline.problem, baseline.evaluation, baseline.theta
    solved, channels = question.solved, question.label_channels
    matrix_free = solved.inverse.is_matrix_free
    noises = baseline.group_noises(question.groups, with_grams=not matrix_free)
    # All groups in one block: without a factor they share the passes.
    shifts = np.column_stack([noise.shift(channel) for noise in noises for channel in channels])
    vectors, converged = solved.steps(shifts)
    if matrix_free:
        forms, found = _probed_spreads(baseline, question, noises)
        converged = converged and found
    else:
        forms = [_first_order_spread(baseline, noise, channels) for noise in noises]
    contrasts = [evaluation.contrast(group.test_mask) for group in question.groups]
    befores = evaluation.gaps(theta, contrasts, baseline.outcomes)
    judged = evaluation.noise_at(theta[:, None], forms)
    moved = evaluation.outcomes_at(
        theta[:, None] + vectors, [contrast for contrast in contrasts for _ in channels]
    )
    curved = evaluation.bends(theta, vectors)
    for number, (before, noise) in enumerate(zip(befores, judged, strict=True)):
        runs = draw_along(
            problem,
            noises[number],
            channels,
            solved.direction,
            n_draws=question.n_draws,
            seed=group_seed(question),
        )
        for e in range(len(channels)):
            cell = number * len(channels) + e
            # The sum over the group's records of the point table, which adds up to this.
            change = float(shifts[:, cell] @ solved.direction)
            # Of a squared loss the minimiser moves in proportion, but first order takes its parabola for a
            # line: there the noise of a run counts in units of the residuals.
            logit_noise = float(noise.logit_noise[e])
            if problem.is_quadratic:
                least = np.finfo(np.float64).tiny
                logit_noise = float(np.sqrt(0.5 * noise.bent[e] / max(before.loss, least)))
            yield first_order_answer(
                number,
                e,
                change,
                change + runs[e],
                solved.error(shifts[:, cell], vectors[:, cell], converged=converged),
                changes=changes_from(before, moved[cell]),
                logit_noise=logit_noise,
                undetermined_loss=float(noise.undetermined_loss[e]),
                condition=baseline.curvature.condition,
                second_order=0.5 * float(curved[cell] + noise.bent[e]),
            )


def _first_order_spread(
    baseline: TrainedModel, noise: LabelNoise, channels: list[FloatArray]
) -> NoiseForms:
    """Return the covariance of every test record's predictor under every channel."""
    curvature = baseline.curvature
    if noise.statistics.shape[1] > 1:
        sigmas = [curvature.sandwich(noise.covariance(channel)) for channel in channels]
        return NoiseForms(sigmas, np.eye(len(sigmas)))
    # With one output each label's noise only changes its size with the channel: one pass a label.
    sizes = np.array([noise.variances(channel)[:, 0, 0] for channel in channels])
    return NoiseForms([curvature.sandwich(gram) for gram in noise.grams], sizes)


def _probed_spreads(
    baseline: TrainedModel, question: CellQuestion, noises: list[LabelNoise]
) -> tuple[list[NoiseForms], bool]:
    """Return the same for every group without a factor, from draws at the smallest ε; and if found."""
    channels = np.stack(question.label_channels)
    noisiest = channels[0]
    if noisiest.ndim == 3:
        # The smallest ε of every part, which need not be those of one cell.
        first = channels[:, :, 0, 0].argmin(axis=0)
        noisiest = channels[first, np.arange(len(first))]
    draws = [
        draw_linear_noise(
            baseline.problem,
            noise,
            [noisiest],
            n_draws=N_PROBES,
            seed=probe_seed(group_seed(question)),
        )[0]
        for noise in noises
    ]
    spreads, converged = question.solved.probed_spreads(baseline.evaluation, draws)
    # What the spread under the noisiest channel says of that under the others.
    bounds = [
        np.array([[noise_bound(noise, channel, noisiest)] for channel in question.label_channels])
        for noise in noises
    ]
    probed = [
        NoiseForms([spread], bound, "values") for spread, bound in zip(spreads, bounds, strict=True)
    ]
    return probed, converged


def cell_by_cell(
    baseline: TrainedModel, question: CellQuestion, method: Method, groups: list[int]
) -> Iterator[list[CellAnswer]]:
    """Yield single cells, every Hessian and every noise term taken at the cell itself."""
    evaluation = baseline.evaluation
    with workers() as team:
        noises = baseline.group_noises([question.groups[g] for g in groups])
        drawing = [
            partial(
                draw_runs,
                baseline.problem,
                noise,
                question.label_channels,
                n_draws=question.n_draws,
                seed=group_seed(question),
            )
            for noise in noises
        ]
        prepared = list(in_turn(drawing) if baseline.is_streamed else team.run(drawing))
        shifts = np.stack(
            [
                np.column_stack([runs.noise.shift(channel) for runs in prepared])
                for channel in question.label_channels
            ]
        )
        contrasts = [evaluation.contrast(question.groups[g].test_mask) for g in groups]
        befores = evaluation.gaps(baseline.theta, contrasts, baseline.outcomes)
        # Cells of records in memory run side by side, those of one ε of streamed ones together.
        side_by_side = list(range(len(groups)))
        shared = [side_by_side] if baseline.is_streamed else [[j] for j in side_by_side]
        tasks = (
            partial(
                _cells,
                baseline,
                point,
                [_Column(j, groups[j], prepared[j], befores[j], contrasts[j]) for j in columns],
                method=method,
                linears=baseline.linear[:, None] + shifts[point.index][:, columns],
            )
            for point in (walk if method == "exact" else _newton_points)(
                baseline.problem, baseline.theta, baseline.curvature, baseline.linear, shifts
            )
            for columns in shared
        )
        yield from in_turn(tasks) if baseline.is_streamed else team.run(tasks)


def in_turn(tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Yield the results of tasks one after the other: each of them shares out its own passes."""
    return (task() for task in tasks)


def _newton_points(
    problem: LinearObjective,
    theta: FloatArray,
    curvature: Curvature,
    linear: FloatArray,
    shifts: FloatArray,
) -> Iterator[PathPoint]:
    """Yield one Newton step for every group, ε after ε."""
    n_epsilon, size, n_groups = shifts.shape
    every = newton_steps(
        problem,
        theta,
        curvature,
        linear,
        np.moveaxis(shifts, 0, 1).reshape(size, n_epsilon * n_groups),
    )
    for index in range(n_epsilon):
        stepped = every[:, index * n_groups : (index + 1) * n_groups]
        yield PathPoint(
            index=index,
            theta=stepped,
            converged=np.ones(n_groups, dtype=bool),
            curvatures=tuple(factorise(hessian) for hessian in problem.hessians(stepped)),
        )


@dataclass(frozen=True, repr=False)
class _Column:
    """One group at one ε: its column among the minimisers, its noise, and what it is compared with."""

    column: int
    group: int
    runs: LinearNoise
    before: Outcomes
    contrast: object


def _cells(
    baseline: TrainedModel,
    point: PathPoint,
    columns: list[_Column],
    *,
    method: Method,
    linears: FloatArray,
) -> list[CellAnswer]:
    """Answer some groups at one ε."""
    problem, evaluation, index = baseline.problem, baseline.evaluation, point.index
    channel = columns[0].runs.channels[index]
    if is_identity(channel):
        return [
            unchanged(
                one.before, group_index=one.group, epsilon_index=index, n_draws=one.runs.n_draws
            )
            for one in columns
        ]
    places = [one.column for one in columns]
    thetas, curvatures = point.theta[:, places], [point.curvatures[j] for j in places]
    covariances = [one.runs.noise.covariance(channel) for one in columns]
    terms = noise_terms_at(problem, evaluation, thetas, curvatures, covariances)
    losses = evaluation.losses(thetas)
    gradients, test_hessians = evaluation.gradients_at(thetas), evaluation.hessians(thetas)
    omitted = np.zeros(len(columns))
    if method == "newton":
        # What a further step would still change in the test loss.
        left = problem.gradient(thetas, linears)
        further = thetas - np.column_stack(
            [curvature.solve(left[:, j]) for j, curvature in enumerate(curvatures)]
        )
        both = evaluation.losses(np.hstack([thetas, further]))
        omitted = both[len(curvatures) :] - both[: len(curvatures)]
    answers = []
    for j, one in enumerate(columns):
        cell = expand_label_cell(
            baseline,
            one.runs,
            index,
            theta=thetas[:, j],
            curvature=curvatures[j],
            gradient=gradients[:, j],
            test_hessian=test_hessians[j],
            terms=terms[j],
            group_index=one.group,
            epsilon_index=index,
            before=one.before,
            loss=float(losses[j]),
            converged=bool(point.converged[one.column]),
            omitted=float(omitted[j]),
            may_replace=method == "exact",
        )
        answers.append(finish_cell(cell, shape_of_runs(evaluation, cell, one.contrast)))
    return answers


def expand_label_cell(
    baseline: TrainedModel,
    runs: LinearNoise,
    run_index: int,
    *,
    theta: FloatArray,
    curvature: Curvature,
    gradient: FloatArray,
    test_hessian: FloatArray,
    terms: NoiseTerms,
    group_index: int,
    epsilon_index: int,
    before: Outcomes,
    loss: float,
    converged: bool,
    omitted: float = 0.0,
    may_replace: bool,
) -> ExpandedCell:
    """Return a cell with its runs, linearised and to be solved, wherever its Hessian and noise terms come from.

    Parameters
    ----------
    baseline : TrainedModel
    runs : LinearNoise
    run_index : int
        The place of the cell's channel among those of `runs`.
    theta, gradient : arrays of shape (K·p,)
        θ_ε and the test gradient η there.
    curvature : Curvature
        H_ε.
    test_hessian : array of shape (K·p, K·p)
    terms : NoiseTerms
    group_index, epsilon_index : int
        The cell's place in the question.
    before : Outcomes
        At θ̂.
    loss : float
        Test loss at θ_ε.
    converged : bool
    omitted : float
    may_replace : bool
        Whether solved runs may replace the expansion; not for a method that stops short of the minimum.
    """
    problem, bias = baseline.problem, terms.bias
    factor, standard = runs.factors(run_index)
    root = curvature.solve(factor)
    centre = baseline.linear + runs.noise.shift(runs.channels[run_index])
    n_draws = standard.shape[1]

    def solve(first: int, start: FloatArray) -> tuple[FloatArray, BoolArray]:
        n_runs = start.shape[1]
        moved = factor @ standard[:, first : first + n_runs].astype(np.float64)
        found, reached = minimise_nearby(
            problem,
            centre[:, None] + moved,
            theta[:, None] + start,
            curvature,
            decrement_tolerance=run_decrement(curvature, start),
        )
        return found - theta[:, None], reached

    return ExpandedCell(
        group_index=group_index,
        epsilon_index=epsilon_index,
        theta=theta,
        before=before,
        loss=loss,
        quadratic=quadratic_runs(gradient, test_hessian, bias, root, standard, spread=terms.spread),
        linearised=lambda n: bias[:, None] + root @ standard[:, :n],
        solve=None if problem.is_quadratic else solve,
        untouched=runs.untouched.get(run_index, np.zeros(n_draws, dtype=bool)),
        converged=converged,
        condition=max(curvature.condition, baseline.curvature.condition),
        terms=terms,
        n_solvable=n_affordable(problem.n_rows, problem.n_parameters, n_draws, solved=True),
        omitted=omitted,
        may_replace=may_replace,
    )

# SPDX-License-Identifier: Apache-2.0
"""The methods for randomised labels of a canonical loss, where only the linear term moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens.influence import (
    Evaluation,
    LabelNoise,
    Outcomes,
    draw_linear_noise,
    is_trustworthy,
    newton_steps,
    walk,
)
from epsilens.influence.baseline import BaselineModel, TrainedModel
from epsilens.influence.evaluation import CellNoise, NoiseForms
from epsilens.influence.exact import PathPoint
from epsilens.influence.first_order import N_PROBES, noise_bound, probe_seed
from epsilens.influence.realisation import LinearNoise, draw_along, draw_runs, noise_terms_at
from epsilens.influence.wide import is_wide
from epsilens.models import Curvature, factorise
from epsilens.models.passes import workers
from epsilens.models.solver import LinearObjective
from epsilens.whatif.cells import (
    CellAnswer,
    CellQuestion,
    Method,
    changes_from,
    first_order_ends,
    group_seeds,
    unchanged,
)
from epsilens.whatif.drawn_cell import finish_cell, shape_of_runs
from epsilens.whatif.label_curve import (
    LabelExpansion,
    answer_by_curve,
    curve_bytes,
    expand_label_cell,
    suits_a_curve,
)
from epsilens.whatif.wide_method import wide_answers

Result = TypeVar("Result")

_MEMORY_FOR_DRAWS = 512 * 2**20
_GROUPS_SIDE_BY_SIDE = 8
_MEMORY_FOR_CURVES = 256 * 2**20


def compute_label_cells(
    baseline: TrainedModel, question: CellQuestion, method: Method, progress: Progress | None
) -> list[CellAnswer]:
    """Answer every cell by one method."""
    if method in {"influence", "paper"}:
        with workers():
            return list(_first_order(baseline, question))
    found: list[CellAnswer] = []
    for answers in _second_order(baseline, question, method):
        found += answers
        if progress is not None:
            progress(len(found), question.n_epsilon * len(question.groups), method)
    return found


def _first_order(baseline: TrainedModel, question: CellQuestion) -> Iterator[CellAnswer]:
    """P1 Eq. 14: a sum over records of numbers that are computed once."""
    problem, evaluation, theta = baseline.problem, baseline.evaluation, baseline.theta
    solved = question.solved
    v, matrix_free = solved.direction, solved.inverse.is_matrix_free
    seeds = group_seeds(question)
    noises = baseline.group_noises(question.groups, with_grams=not matrix_free)
    # All groups in one block: without a factor they share the passes.
    shifts = np.column_stack([n.shift(c) for n in noises for c in question.label_channels])
    steps = solved.steps(shifts)
    converged = steps.converged
    if matrix_free:
        forms, found = _probed_spreads(baseline, question, noises, seeds)
        converged = converged and found
    else:
        forms = [_first_order_spread(baseline, noise, question.label_channels) for noise in noises]
    contrasts = [evaluation.contrast(group.test_mask) for group in question.groups]
    befores = evaluation.gaps(theta, contrasts, baseline.outcomes)
    judged = evaluation.noise_at(theta[:, None], forms)
    moved = evaluation.outcomes_at(
        theta[:, None] + steps.vectors, [c for c in contrasts for _ in question.label_channels]
    )
    curved = evaluation.bends(theta, steps.vectors)
    for number, seed in enumerate(seeds):
        before, noise = befores[number], judged[number]
        runs = draw_along(
            problem,
            noises[number],
            question.label_channels,
            v,
            n_draws=question.n_draws,
            seed=seed,
        )
        for e in range(question.n_epsilon):
            cell = number * question.n_epsilon + e
            # The sum over the group's records of the point table, which adds up to this.
            change = float(shifts[:, cell] @ v)
            error = solved.error(shifts[:, cell], steps.vectors[:, cell], converged=converged)
            loss_runs = change + runs[e]
            low, high, is_nothing = first_order_ends(loss_runs, change)
            omitted = 0.0 if is_nothing else 0.5 * float(curved[cell] + noise.bent[e])
            yield CellAnswer(
                group_index=number,
                epsilon_index=e,
                loss_change=change,
                loss_low=low,
                loss_high=high,
                changes=changes_from(before, moved[cell]),
                intervals={},
                trusted=is_trustworthy(
                    converged=error.converged,
                    logit_noise=_noise_scale(noise, e, before, is_quadratic=problem.is_quadratic),
                    condition=baseline.curvature.condition,
                    undetermined_loss=float(noise.undetermined_loss[e]),
                    omitted=omitted + error.size,
                    half_width=0.5 * (high - low),
                ),
                loss_runs=loss_runs,
                solve_error=error,
            )


def _noise_scale(noise: CellNoise, cell: int, before: Outcomes, *, is_quadratic: bool) -> float:
    """Return the noise of a run in a test record's predictor: of a squared loss, in units of its residuals.

    There the minimiser moves in proportion, but first order takes the parabola of the loss for a line.
    """
    if not is_quadratic:
        return float(noise.logit_noise[cell])
    return float(np.sqrt(0.5 * noise.bent[cell] / max(before.loss, np.finfo(np.float64).tiny)))


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
    baseline: TrainedModel,
    question: CellQuestion,
    noises: list[LabelNoise],
    seeds: list[np.random.SeedSequence],
) -> tuple[list[NoiseForms], bool]:
    """Return the same for every group without a factor, from draws at the smallest ε; and if found."""
    assert isinstance(baseline.evaluation, Evaluation)  # noqa: S101  (only for records in memory)
    noisiest = question.label_channels[0]
    draws = [
        draw_linear_noise(
            baseline.problem, noise, [noisiest], n_draws=N_PROBES, seed=probe_seed(seed)
        )[0]
        for noise, seed in zip(noises, seeds, strict=True)
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


def _second_order(
    baseline: TrainedModel, question: CellQuestion, method: Method
) -> Iterator[list[CellAnswer]]:
    """Newton and exact: θ_ε, then the noise of one run around it.

    Cells come as they are finished: a group's whole curve if it can be had, else one by one.
    """
    if is_wide(baseline.problem.n_parameters):
        assert isinstance(baseline, BaselineModel)  # noqa: S101  (a streamed table is never wide)
        yield from wide_answers(baseline, question, method)
        return
    seeds = group_seeds(question)
    groups = list(range(len(question.groups)))
    if method == "exact" and suits_a_curve(baseline, question):
        left = []
        with workers() as team:
            fitting = _MEMORY_FOR_CURVES // (team.n_workers * curve_bytes(baseline))
            n_shares = 1 if baseline.is_streamed else team.n_workers
            share = min(_GROUPS_SIDE_BY_SIDE, -(-len(groups) // n_shares), max(1, fitting))
            batches = [groups[at : at + share] for at in range(0, len(groups), share)]
            tasks = [
                partial(answer_by_curve, baseline, question, batch, [seeds[g] for g in batch])
                for batch in batches
            ]
            curves = _in_turn(tasks) if baseline.is_streamed else team.run(tasks)
            for batch, found in zip(batches, curves, strict=True):
                left += [g for g, answers in zip(batch, found, strict=True) if answers is None]
                yield from (answers for answers in found if answers is not None)
        groups = left
    per_group = 4 * question.n_epsilon * baseline.problem.n_parameters * question.n_draws
    block = int(max(1, min(len(groups), _MEMORY_FOR_DRAWS // per_group)))
    for first in range(0, len(groups), block):
        yield from _cell_by_cell(baseline, question, method, groups[first : first + block], seeds)


def _cell_by_cell(
    baseline: TrainedModel,
    question: CellQuestion,
    method: Method,
    groups: list[int],
    seeds: list[np.random.SeedSequence],
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
                seed=seeds[g],
            )
            for g, noise in zip(groups, noises, strict=True)
        ]
        prepared = list(_in_turn(drawing) if baseline.is_streamed else team.run(drawing))
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
        yield from _in_turn(tasks) if baseline.is_streamed else team.run(tasks)


def _in_turn(tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
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
    if np.array_equal(channel, np.eye(len(channel))):
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
        omitted = _left_over(baseline, thetas, curvatures, linears)
    answers = []
    for j, one in enumerate(columns):
        cell = expand_label_cell(
            baseline,
            one.runs,
            LabelExpansion(
                theta=thetas[:, j],
                bias=terms[j].bias,
                gradient=gradients[:, j],
                curvature=curvatures[j],
                test_hessian=test_hessians[j],
                spread=terms[j].spread,
                converged=bool(point.converged[one.column]),
                logit_noise=terms[j].logit_noise,
                largest_noise=terms[j].largest_noise,
                undetermined_loss=terms[j].undetermined_loss,
                omitted=float(omitted[j]),
            ),
            group_index=one.group,
            epsilon_index=index,
            run_index=index,
            before=one.before,
            loss=float(losses[j]),
            may_replace=method == "exact",
        )
        answers.append(finish_cell(cell, shape_of_runs(evaluation, cell, one.contrast)))
    return answers


def _left_over(
    baseline: TrainedModel, thetas: FloatArray, curvatures: list[Curvature], linears: FloatArray
) -> FloatArray:
    """Return what a further Newton step would still change in the test loss, for every cell."""
    gradients = baseline.problem.gradient(thetas, linears)
    further = thetas - np.column_stack(
        [curvature.solve(gradients[:, j]) for j, curvature in enumerate(curvatures)]
    )
    losses = baseline.evaluation.losses(np.hstack([thetas, further]))
    return losses[len(curvatures) :] - losses[: len(curvatures)]

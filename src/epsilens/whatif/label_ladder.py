# SPDX-License-Identifier: Apache-2.0
"""The ladder for randomised labels of a canonical loss, where only the linear term moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilens.influence import (
    LabelNoise,
    contrast_variance,
    draw_linear_noise,
    is_trustworthy,
    label_point_table,
    newton_steps,
    noise_terms,
    summarise_group,
    walk,
    wild_loss,
)
from epsilens.influence.baseline import Baseline
from epsilens.influence.exact import PathPoint
from epsilens.influence.first_order import N_PROBES, noise_bound, probe_seed
from epsilens.influence.groups import Group
from epsilens.influence.linear_noise import LinearNoise, draw_along, draw_runs
from epsilens.influence.wide import is_wide
from epsilens.models import Curvature, factorise
from epsilens.models.execution import workers
from epsilens.whatif.cells import (
    N_AUC_DRAWS,
    CellAnswer,
    Progress,
    Question,
    Rung,
    assemble,
    changes_from,
    ends,
    group_seeds,
    intervals_from,
    unchanged,
)
from epsilens.whatif.label_curve import answer_by_curve, curve_bytes, suits_a_curve
from epsilens.whatif.wide_ladder import wide_answers

__all__ = ["climb_labels"]

FloatArray = NDArray[np.float64]

_MEMORY_FOR_DRAWS = 512 * 2**20
_GROUPS_SIDE_BY_SIDE = 8
_MEMORY_FOR_CURVES = 256 * 2**20


def climb_labels(
    baseline: Baseline, question: Question, rung: Rung, progress: Progress | None
) -> list[CellAnswer]:
    """Answer every cell on one rung."""
    if rung in {"influence", "paper"}:
        with workers():
            return list(_first_order(baseline, question))
    return list(_second_order(baseline, question, rung, progress))


def _first_order(baseline: Baseline, question: Question) -> Iterator[CellAnswer]:
    """P1 Eq. 14: a sum over records of numbers that are computed once."""
    problem, evaluation, theta = baseline.problem, baseline.evaluation, baseline.theta
    codes, values = baseline.label.domain()
    statistics = problem.loss.statistic(values)
    solved = question.solved
    v, matrix_free = solved.direction, solved.inverse.is_matrix_free
    table = label_point_table(problem, v, codes, values)
    predictor = evaluation.design.predict(theta)
    test_curvature = evaluation.loss.curvature(predictor)
    seeds = group_seeds(question)
    noises = [
        summarise_group(problem, codes, statistics, group.mask, with_grams=not matrix_free)
        for group in question.groups
    ]
    # All groups in one block: without a factor they share the passes.
    shifts = np.column_stack([n.shift(c) for n in noises for c in question.label_channels])
    steps = solved.steps(shifts)
    converged = steps.converged
    probed: list[Callable[[FloatArray], FloatArray]] = []
    if matrix_free:
        probed, found = _probed_spreads(baseline, question, noises, seeds)
        converged = converged and found
    for number, (group, seed) in enumerate(zip(question.groups, seeds, strict=True)):
        contrast = evaluation.contrast(group.test_mask)
        before = evaluation.outcomes(theta, contrast)
        runs = draw_along(
            problem,
            noises[number],
            question.label_channels,
            v,
            n_draws=question.n_draws,
            seed=seed,
        )
        spread_of = probed[number] if matrix_free else _first_order_spread(baseline, noises[number])
        for e, channel in enumerate(question.label_channels):
            change = table.change(group.mask, float(question.lie_probabilities[e]))
            cell = number * len(question.label_channels) + e
            step = steps.vectors[:, cell]
            error = solved.error(shifts[:, cell], step, converged=converged)
            moved = evaluation.outcomes(theta + step, contrast)
            loss_runs = change + runs[e]
            low, high = ends(loss_runs)
            spread = spread_of(channel)
            along = evaluation.design.predict(step)
            second = along[:, :, None] * along[:, None, :] + spread
            omitted = 0.5 * float(
                np.einsum("i,ikl,ikl->", evaluation.weights, test_curvature, second)
            )
            yield CellAnswer(
                group=number,
                epsilon=e,
                loss_change=change,
                loss_low=low,
                loss_high=high,
                changes=changes_from(before, moved),
                intervals={},
                trusted=is_trustworthy(
                    converged=error.converged,
                    logit_noise=float(np.sqrt(evaluation.weights @ contrast_variance(spread))),
                    condition=baseline.curvature.condition,
                    wild_loss=wild_loss(evaluation, predictor, spread),
                    omitted=omitted + error.size,
                    half_width=0.5 * (high - low),
                    change=change,
                ),
                loss_runs=loss_runs,
                solve_error=error,
            )


def _first_order_spread(
    baseline: Baseline, noise: LabelNoise
) -> Callable[[FloatArray], FloatArray]:
    """Return a function from a channel to the covariance of every test record's predictor."""
    design, curvature = baseline.evaluation.design, baseline.curvature
    if noise.statistics.shape[1] > 1:
        return lambda channel: design.quadratic(curvature.sandwich(noise.covariance(channel)))
    # With one output each label's noise only changes its size with the channel: one pass a label.
    spreads = np.array([design.quadratic(curvature.sandwich(gram)) for gram in noise.grams])
    return lambda channel: np.einsum("u,umkl->mkl", noise.variances(channel)[:, 0, 0], spreads)


def _probed_spreads(
    baseline: Baseline,
    question: Question,
    noises: list[LabelNoise],
    seeds: list[np.random.SeedSequence],
) -> tuple[list[Callable[[FloatArray], FloatArray]], bool]:
    """Return the same for every group without a factor, from draws at the smallest ε; and if found."""
    loudest = question.label_channels[0]
    draws = [
        draw_linear_noise(
            baseline.problem, noise, [loudest], n_draws=N_PROBES, seed=probe_seed(seed)
        )[0]
        for noise, seed in zip(noises, seeds, strict=True)
    ]
    spreads, converged = question.solved.probed_spreads(baseline.evaluation, draws)
    probed: list[Callable[[FloatArray], FloatArray]] = [
        partial(_bounded_spread, noise, loudest, spread)
        for noise, spread in zip(noises, spreads, strict=True)
    ]
    return probed, converged


def _bounded_spread(
    noise: LabelNoise, loudest: FloatArray, spread: FloatArray, channel: FloatArray
) -> FloatArray:
    """Return what the spread under the loudest channel says of that under another."""
    return noise_bound(noise, channel, loudest) * spread


def _second_order(
    baseline: Baseline, question: Question, rung: Rung, progress: Progress | None
) -> Iterator[CellAnswer]:
    """Newton and exact: θ_ε, then the noise of one run around it."""
    n_cells = question.n_epsilon * len(question.groups)
    done = 0
    for answers in _answers(baseline, question, rung):
        yield from answers
        done += len(answers)
        if progress is not None:
            progress(done, n_cells, rung)


def _answers(baseline: Baseline, question: Question, rung: Rung) -> Iterator[list[CellAnswer]]:
    """Yield the cells as they are finished: a group's whole curve if it can be had, else one by one."""
    if is_wide(baseline.problem.n_parameters):
        yield from wide_answers(baseline, question, rung)
        return
    seeds = group_seeds(question)
    groups = list(range(len(question.groups)))
    if rung == "exact" and suits_a_curve(baseline, question):
        left = []
        with workers() as team:
            fitting = _MEMORY_FOR_CURVES // (team.n_workers * curve_bytes(baseline))
            share = min(_GROUPS_SIDE_BY_SIDE, -(-len(groups) // team.n_workers), max(1, fitting))
            batches = [groups[at : at + share] for at in range(0, len(groups), share)]
            curves = team.run(
                partial(answer_by_curve, baseline, question, batch, [seeds[g] for g in batch])
                for batch in batches
            )
            for batch, found in zip(batches, curves, strict=True):
                left += [g for g, answers in zip(batch, found, strict=True) if answers is None]
                yield from (answers for answers in found if answers is not None)
        groups = left
    per_group = 4 * question.n_epsilon * baseline.problem.n_parameters * question.n_draws
    block = int(max(1, min(len(groups), _MEMORY_FOR_DRAWS // per_group)))
    for first in range(0, len(groups), block):
        yield from _cell_by_cell(baseline, question, rung, groups[first : first + block], seeds)


def _cell_by_cell(
    baseline: Baseline,
    question: Question,
    rung: Rung,
    groups: list[int],
    seeds: list[np.random.SeedSequence],
) -> Iterator[list[CellAnswer]]:
    """Yield single cells, every Hessian and every noise term taken at the cell itself."""
    with workers() as team:
        prepared = list(
            team.run(
                partial(_prepare_group, baseline, question, question.groups[g], seeds[g])
                for g in groups
            )
        )
        shifts = np.stack(
            [
                np.column_stack([runs.noise.shift(channel) for runs in prepared])
                for channel in question.label_channels
            ]
        )
        tasks = (
            partial(
                _cell,
                baseline,
                prepared[j],
                point,
                j,
                group=g,
                test_mask=question.groups[g].test_mask,
                rung=rung,
                linear=baseline.linear + shifts[point.index][:, j],
            )
            for point in _path(baseline, shifts, rung)
            for j, g in enumerate(groups)
        )
        for answer in team.run(tasks):
            yield [answer]


def _prepare_group(
    baseline: Baseline, question: Question, group: Group, seed: np.random.SeedSequence
) -> LinearNoise:
    """Return a group's sums and the drawn deviations of its linear term."""
    codes, values = baseline.label.domain()
    statistics = baseline.problem.loss.statistic(values)
    noise = summarise_group(baseline.problem, codes, statistics, group.mask)
    return draw_runs(
        baseline.problem, noise, question.label_channels, n_draws=question.n_draws, seed=seed
    )


def _path(baseline: Baseline, shifts: FloatArray, rung: Rung) -> Iterator[PathPoint]:
    if rung == "exact":
        yield from walk(
            baseline.problem, baseline.theta, baseline.curvature, baseline.linear, shifts
        )
        return
    for index in range(len(shifts)):
        theta = newton_steps(
            baseline.problem, baseline.theta, baseline.curvature, baseline.linear, shifts[index]
        )
        curvatures = tuple(
            factorise(baseline.problem.hessian(theta[:, j])) for j in range(theta.shape[1])
        )
        yield PathPoint(
            index=index,
            theta=theta,
            converged=np.ones(theta.shape[1], dtype=bool),
            curvatures=curvatures,
        )


def _cell(
    baseline: Baseline,
    runs: LinearNoise,
    point: PathPoint,
    column: int,
    *,
    group: int,
    test_mask: NDArray[np.bool_] | None,
    rung: Rung,
    linear: FloatArray,
) -> CellAnswer:
    evaluation = baseline.evaluation
    contrast = evaluation.contrast(test_mask)
    before = evaluation.outcomes(baseline.theta, contrast)
    channel = runs.channels[point.index]
    if np.array_equal(channel, np.eye(len(channel))):
        n_draws = runs.n_draws
        return unchanged(baseline, before, group=group, epsilon=point.index, n_draws=n_draws)
    theta, curvature = point.theta[:, column], point.curvatures[column]
    covariance = runs.noise.covariance(channel)
    terms = noise_terms(baseline.problem, evaluation, theta, curvature, covariance)
    here = evaluation.outcomes(theta, contrast)
    deviations = curvature.solve(runs.deviations(point.index)) + terms.bias[:, None]
    drawn = evaluation.drawn(
        theta, deviations.astype(np.float32), n_auc_draws=N_AUC_DRAWS, contrast=contrast
    )
    omitted = 0.0
    if rung == "newton":
        omitted = _left_over(baseline, theta, curvature, linear)
    return assemble(
        group=group,
        epsilon=point.index,
        before=before,
        here=here,
        mean_change=terms.mean_change,
        loss_runs=drawn.loss - before.loss,
        intervals=intervals_from(before, drawn),
        converged=bool(point.converged[column]),
        condition=max(curvature.condition, baseline.curvature.condition),
        logit_noise=terms.logit_noise,
        wild_loss=terms.wild_loss,
        omitted=omitted,
    )


def _left_over(
    baseline: Baseline, theta: FloatArray, curvature: Curvature, linear: FloatArray
) -> float:
    """Return what a further Newton step would still change in the test loss."""
    gradient = baseline.problem.gradient(theta[:, None], linear[:, None])[:, 0]
    further = theta - curvature.solve(gradient)
    losses = baseline.evaluation.losses(np.column_stack([theta, further]))
    return float(losses[1] - losses[0])

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
from epsilens.influence.exact import PathPoint
from epsilens.influence.first_order import N_PROBES, noise_bound, probe_seed
from epsilens.models import Curvature, factorise
from epsilens.models.execution import workers
from epsilens.whatif.baseline import Baseline
from epsilens.whatif.cells import (
    N_AUC_DRAWS,
    CellAnswer,
    Progress,
    Question,
    Rung,
    changes_from,
    ends,
    group_seeds,
    intervals_from,
    unchanged,
)
from epsilens.whatif.groups import Group

__all__ = ["climb_labels"]

FloatArray = NDArray[np.float64]

_MEMORY_FOR_DRAWS = 512 * 2**20


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
    table = label_point_table(problem, v, problem.design.predict(theta), codes, values)
    predictor = evaluation.design.predict(theta)
    test_curvature = evaluation.loss.curvature(predictor)
    seeds = group_seeds(question)
    noises = [
        summarise_group(problem, codes, statistics, group.mask, with_grams=False)
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
        noise = noises[number]
        runs = draw_linear_noise(
            problem,
            noise,
            question.label_channels,
            n_draws=question.n_draws,
            seed=seed,
            direction=v,
        )
        if matrix_free:
            spread_of = probed[number]
        else:
            spread_of = _first_order_spread(
                baseline, summarise_group(problem, codes, statistics, group.mask)
            )
        for e, channel in enumerate(question.label_channels):
            change = table.change(group.mask, float(question.lie_probabilities[e]))
            cell = number * len(question.label_channels) + e
            step = steps.vectors[:, cell]
            error = solved.error(shifts[:, cell], step, converged=converged)
            moved = evaluation.outcomes(theta + step, contrast)
            loss_runs = change + runs[e, 0].astype(np.float64)
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
    p = baseline.problem.n_parameters
    n_epsilon, n_groups = len(question.label_channels), len(question.groups)
    per_group = 4 * n_epsilon * p * question.n_draws
    block = int(max(1, min(n_groups, _MEMORY_FOR_DRAWS // per_group)))
    seeds = group_seeds(question)
    done = 0
    for first in range(0, n_groups, block):
        numbers = range(first, min(first + block, n_groups))
        with workers() as team:
            prepared = list(
                team.run(
                    partial(_prepare_group, baseline, question, question.groups[g], seeds[g])
                    for g in numbers
                )
            )
            shifts = np.stack(
                [
                    np.column_stack([noise.shift(channel) for noise, _ in prepared])
                    for channel in question.label_channels
                ]
            )
            tasks = (
                partial(
                    _cell,
                    baseline,
                    prepared[j][0],
                    question.label_channels[point.index],
                    prepared[j][1][point.index],
                    point,
                    j,
                    group=g,
                    test_mask=question.groups[g].test_mask,
                    rung=rung,
                    linear=baseline.linear + shifts[point.index][:, j],
                )
                for point in _path(baseline, shifts, rung)
                for j, g in enumerate(numbers)
            )
            for answer in team.run(tasks):
                yield answer
                done += 1
                if progress is not None:
                    progress(done, n_epsilon * n_groups, rung)


def _prepare_group(
    baseline: Baseline, question: Question, group: Group, seed: np.random.SeedSequence
) -> tuple[LabelNoise, NDArray[np.float32]]:
    """Return a group's sums and the drawn deviations of its linear term."""
    codes, values = baseline.label.domain()
    statistics = baseline.problem.loss.statistic(values)
    noise = summarise_group(baseline.problem, codes, statistics, group.mask)
    runs = draw_linear_noise(
        baseline.problem, noise, question.label_channels, n_draws=question.n_draws, seed=seed
    )
    return noise, runs


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
    noise: LabelNoise,
    channel: FloatArray,
    linear_runs: NDArray[np.float32],
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
    if np.array_equal(channel, np.eye(len(channel))):
        n_draws = linear_runs.shape[1]
        return unchanged(baseline, before, group=group, epsilon=point.index, n_draws=n_draws)
    theta, curvature = point.theta[:, column], point.curvatures[column]
    terms = noise_terms(baseline.problem, evaluation, theta, curvature, noise.covariance(channel))
    here = evaluation.outcomes(theta, contrast)
    change = here.loss - before.loss + terms.mean_change
    deviations = curvature.solve(linear_runs.astype(np.float64)) + terms.bias[:, None]
    drawn = evaluation.drawn(
        theta, deviations.astype(np.float32), n_auc_draws=N_AUC_DRAWS, contrast=contrast
    )
    loss_runs = drawn.loss - before.loss
    low, high = ends(loss_runs)
    omitted = 0.0
    if rung == "newton":
        omitted = _left_over(baseline, theta, curvature, linear)
    return CellAnswer(
        group=group,
        epsilon=point.index,
        loss_change=change,
        loss_low=low,
        loss_high=high,
        changes=changes_from(before, here),
        intervals=intervals_from(before, drawn),
        trusted=is_trustworthy(
            converged=bool(point.converged[column]),
            logit_noise=terms.logit_noise,
            condition=max(curvature.condition, baseline.curvature.condition),
            wild_loss=terms.wild_loss,
            omitted=omitted,
            half_width=0.5 * (high - low),
            change=change,
        ),
        loss_runs=loss_runs,
    )


def _left_over(
    baseline: Baseline, theta: FloatArray, curvature: Curvature, linear: FloatArray
) -> float:
    """Return what a further Newton step would still change in the test loss."""
    gradient = baseline.problem.gradient(theta[:, None], linear[:, None])[:, 0]
    further = theta - curvature.solve(gradient)
    losses = baseline.evaluation.losses(np.column_stack([theta, further]))
    return float(losses[1] - losses[0])

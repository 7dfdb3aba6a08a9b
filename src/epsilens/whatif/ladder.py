# SPDX-License-Identifier: Apache-2.0
"""The rungs of the ladder for randomised labels: first order, Newton, exact.

Each rung answers the same question, what the minimiser of the expected perturbed objective is and
what the test set says of it, at rising cost; each carries the prediction interval of one real run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

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
from epsilens.models import Curvature, factorise
from epsilens.models.execution import workers
from epsilens.whatif.baseline import Baseline
from epsilens.whatif.groups import Group

__all__ = ["CellAnswer", "Question", "Rung", "climb", "plan"]

FloatArray = NDArray[np.float64]
Rung = Literal["influence", "newton", "exact", "paper"]
Progress = Callable[[int, int, str], None]

N_AUC_DRAWS = 100
_MEMORY_FOR_DRAWS = 512 * 2**20
_SECONDS_PER_TEST_LOSS = 4e-9


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Question:
    """What is asked: these groups, these channels.

    Attributes
    ----------
    groups : list of Group
    channels : list of arrays of shape (k, k)
        One per ε, ε ascending.
    lie_probabilities : array of shape (n_epsilon,)
        The chance of each single alternative, w_T for the label.
    n_draws : int
        Simulated runs behind each interval.
    seed : int
    """

    groups: list[Group]
    channels: list[FloatArray]
    lie_probabilities: FloatArray
    n_draws: int
    seed: int


@dataclass(frozen=True)
class CellAnswer:
    """One cell: changes against the baseline, and the runs behind the interval."""

    group: int
    epsilon: int
    loss_change: float
    loss_low: float
    loss_high: float
    accuracy_change: float | None
    accuracy_interval: tuple[float, float] | None
    auc_change: float | None
    auc_interval: tuple[float, float] | None
    trusted: bool
    loss_runs: FloatArray


def plan(baseline: Baseline, question: Question, *, seconds: float) -> Rung:
    """Return the highest rung that should fit into a time budget, from the cost of one Hessian."""
    n, p = baseline.problem.n_rows, baseline.problem.design.n_columns
    m = baseline.evaluation.design.n_rows
    per_multiplication = baseline.hessian_seconds / (n * max(p, 1) ** 2)
    n_cells = len(question.groups) * len(question.channels)
    passes = 3.0 * (n + m) * p**2 * per_multiplication
    members = float(np.mean([group.mask.sum() for group in question.groups]))
    drawing = question.n_draws * (
        (members + m) * p * per_multiplication + m * _SECONDS_PER_TEST_LOSS
    )
    gradients = 4.0 * n * (4 * p * per_multiplication + 2e-8)
    if n_cells * (passes + drawing + gradients) <= seconds:
        return "exact"
    if n_cells * (passes + drawing) <= seconds:
        return "newton"
    return "influence"


def climb(
    baseline: Baseline, question: Question, rung: Rung, *, progress: Progress | None = None
) -> list[CellAnswer]:
    """Answer every cell on one rung, groups in order, ε ascending."""
    if rung in {"influence", "paper"}:
        with workers():
            answers = list(_first_order(baseline, question))
    else:
        answers = list(_second_order(baseline, question, rung, progress))
    return sorted(answers, key=lambda cell: (cell.group, cell.epsilon))


def _seeds(question: Question) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(question.seed).spawn(len(question.groups))


def _ends(runs: FloatArray) -> tuple[float, float]:
    # "weibull": a new run falls between these two with probability 0.9 exactly.
    low, high = np.quantile(runs, [0.05, 0.95], method="weibull")
    return float(low), float(high)


def _first_order(baseline: Baseline, question: Question) -> Iterator[CellAnswer]:
    """P1 Eq. 14: a sum over records of numbers that are computed once."""
    problem, evaluation, theta = baseline.problem, baseline.evaluation, baseline.theta
    codes, values = baseline.label.domain()
    statistics = problem.loss.statistic(values)
    eta = evaluation.gradient(theta)
    table = label_point_table(
        problem, baseline.curvature, eta, problem.design.predict(theta), codes, values
    )
    v = baseline.curvature.solve(eta)
    predictor = evaluation.design.predict(theta)
    test_curvature = evaluation.loss.curvature(predictor)
    for number, (group, seed) in enumerate(zip(question.groups, _seeds(question), strict=True)):
        noise = summarise_group(problem, codes, statistics, group.mask)
        spread_of = _first_order_spread(baseline, noise)
        runs = draw_linear_noise(
            problem,
            noise,
            question.channels,
            n_draws=question.n_draws,
            seed=seed,
            direction=v,
        )
        for e, channel in enumerate(question.channels):
            change = table.change(group.mask, float(question.lie_probabilities[e]))
            step = baseline.curvature.solve(noise.shift(channel))
            moved = evaluation.outcomes(theta + step)
            loss_runs = change + runs[e, 0].astype(np.float64)
            low, high = _ends(loss_runs)
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
                accuracy_change=_difference(moved.accuracy, baseline.outcomes.accuracy),
                accuracy_interval=None,
                auc_change=_difference(moved.auc, baseline.outcomes.auc),
                auc_interval=None,
                trusted=is_trustworthy(
                    converged=True,
                    logit_noise=float(np.sqrt(evaluation.weights @ contrast_variance(spread))),
                    condition=baseline.curvature.condition,
                    wild_loss=wild_loss(evaluation, predictor, spread),
                    omitted=omitted,
                    half_width=0.5 * (high - low),
                    change=change,
                ),
                loss_runs=loss_runs,
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


def _second_order(
    baseline: Baseline, question: Question, rung: Rung, progress: Progress | None
) -> Iterator[CellAnswer]:
    """Newton and exact: θ_ε, then the noise of one run around it."""
    p = baseline.problem.n_parameters
    n_epsilon, n_groups = len(question.channels), len(question.groups)
    per_group = 4 * n_epsilon * p * question.n_draws
    block = int(max(1, min(n_groups, _MEMORY_FOR_DRAWS // per_group)))
    seeds = _seeds(question)
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
                    for channel in question.channels
                ]
            )
            tasks = (
                partial(
                    _cell,
                    baseline,
                    prepared[j][0],
                    question.channels[point.index],
                    prepared[j][1][point.index],
                    point,
                    j,
                    group=g,
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
        baseline.problem, noise, question.channels, n_draws=question.n_draws, seed=seed
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
    rung: Rung,
    linear: FloatArray,
) -> CellAnswer:
    if np.array_equal(channel, np.eye(len(channel))):
        return _unchanged(baseline, group, point.index, linear_runs.shape[1])
    evaluation, before = baseline.evaluation, baseline.outcomes
    theta, curvature = point.theta[:, column], point.curvatures[column]
    terms = noise_terms(baseline.problem, evaluation, theta, curvature, noise.covariance(channel))
    here = evaluation.outcomes(theta)
    change = here.loss - before.loss + terms.mean_change
    deviations = curvature.solve(linear_runs.astype(np.float64)) + terms.bias[:, None]
    drawn = evaluation.drawn(theta, deviations.astype(np.float32), n_auc_draws=N_AUC_DRAWS)
    loss_runs = drawn.loss - before.loss
    low, high = _ends(loss_runs)
    omitted = 0.0
    if rung == "newton":
        omitted = _left_over(baseline, theta, curvature, linear)
    return CellAnswer(
        group=group,
        epsilon=point.index,
        loss_change=change,
        loss_low=low,
        loss_high=high,
        accuracy_change=_difference(here.accuracy, before.accuracy),
        accuracy_interval=_shifted_ends(drawn.accuracy, before.accuracy),
        auc_change=_difference(here.auc, before.auc),
        auc_interval=_shifted_ends(drawn.auc, before.auc),
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


def _unchanged(baseline: Baseline, group: int, epsilon: int, n_draws: int) -> CellAnswer:
    """Return the cell in which nothing is randomised: exactly no change."""
    none = 0.0 if baseline.is_classifier else None
    auc = None if baseline.outcomes.auc is None else 0.0
    return CellAnswer(
        group=group,
        epsilon=epsilon,
        loss_change=0.0,
        loss_low=0.0,
        loss_high=0.0,
        accuracy_change=none,
        accuracy_interval=None if none is None else (0.0, 0.0),
        auc_change=auc,
        auc_interval=None if auc is None else (0.0, 0.0),
        trusted=True,
        loss_runs=np.zeros(n_draws),
    )


def _left_over(
    baseline: Baseline, theta: FloatArray, curvature: Curvature, linear: FloatArray
) -> float:
    """Return what a further Newton step would still change in the test loss."""
    gradient = baseline.problem.gradient(theta[:, None], linear[:, None])[:, 0]
    further = theta - curvature.solve(gradient)
    losses = baseline.evaluation.losses(np.column_stack([theta, further]))
    return float(losses[1] - losses[0])


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def _shifted_ends(runs: FloatArray | None, before: float | None) -> tuple[float, float] | None:
    if runs is None or before is None:
        return None
    return _ends(runs - before)

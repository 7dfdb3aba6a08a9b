# SPDX-License-Identifier: Apache-2.0
"""The exact method for a grid of ε: one curve a group, all its cells side by side.

The slow twin is `label_method`, which takes every Hessian and every noise term at the cell itself; here
they come from the polynomials of `influence.curve`, the minimisers are finished together, and of the
drawn runs only some, at some of the cells, are evaluated record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.influence import LabelNoise, Outcomes
from epsilens.influence.baseline import TrainedModel
from epsilens.influence.curve import MOST_NODES, Curve, Ground, trace
from epsilens.influence.evaluation import Evaluation
from epsilens.influence.realisation import LinearNoise, draw_runs, flip_probability
from epsilens.models import Curvature, factorise, minimise
from epsilens.models.solver import Solution, minimise_nearby
from epsilens.whatif.cells import CellAnswer, CellQuestion, unchanged
from epsilens.whatif.drawn_cell import (
    ExpandedCell,
    RunShape,
    finish_cell,
    n_affordable,
    quadratic_runs,
    run_decrement,
    shape_of_runs,
)

# --- A cell of randomised labels around its minimiser, wherever its Hessian and noise terms come from ---


@dataclass(frozen=True, repr=False)
class LabelExpansion:
    """What the expansion of one cell needs, at its θ_ε.

    Attributes
    ----------
    theta, bias, gradient : arrays of shape (K·p,)
        θ_ε, b and the test gradient η.
    curvature : Curvature
        H_ε.
    test_hessian : array of shape (K·p, K·p)
    spread : float
        tr(H_te Σ).
    converged : bool
    logit_noise, largest_noise, undetermined_loss, omitted : float
        As in `ExpandedCell`.
    """

    theta: FloatArray
    bias: FloatArray
    gradient: FloatArray
    curvature: Curvature
    test_hessian: FloatArray
    spread: float
    converged: bool
    logit_noise: float
    largest_noise: float
    undetermined_loss: float
    omitted: float = 0.0


def expand_label_cell(
    baseline: TrainedModel,
    runs: LinearNoise,
    expansion: LabelExpansion,
    *,
    group_index: int,
    epsilon_index: int,
    run_index: int,
    before: Outcomes,
    loss: float,
    may_replace: bool,
) -> ExpandedCell:
    """Return a cell with its runs, linearised and to be solved.

    Parameters
    ----------
    baseline : TrainedModel
    runs : LinearNoise
    expansion : LabelExpansion
    group_index, epsilon_index, run_index : int
        The cell's place in the question, and its channel's place among those of `runs`.
    before : Outcomes
        At θ̂.
    loss : float
        Test loss at θ_ε.
    may_replace : bool
        Whether solved runs may replace the expansion; not for a method that stops short of the minimum.
    """
    problem, at = baseline.problem, expansion
    factor, standard = runs.factors(run_index)
    root = at.curvature.solve(factor)
    centre = baseline.linear + runs.noise.shift(runs.channels[run_index])
    n_draws = standard.shape[1]

    def linearised(n: int) -> FloatArray:
        deviations: FloatArray = at.bias[:, None] + root @ standard[:, :n]
        return deviations

    def solve(first: int, start: FloatArray) -> tuple[FloatArray, BoolArray]:
        n_runs = start.shape[1]
        moved = factor @ standard[:, first : first + n_runs].astype(np.float64)
        theta, converged = minimise_nearby(
            problem,
            centre[:, None] + moved,
            at.theta[:, None] + start,
            at.curvature,
            decrement_tolerance=run_decrement(at.curvature, start),
        )
        return theta - at.theta[:, None], converged

    return ExpandedCell(
        group_index=group_index,
        epsilon_index=epsilon_index,
        theta=at.theta,
        before=before,
        loss=loss,
        quadratic=quadratic_runs(
            at.gradient, at.test_hessian, at.bias, root, standard, spread=at.spread
        ),
        linearised=linearised,
        solve=None if problem.is_quadratic else solve,
        untouched=runs.untouched.get(run_index, np.zeros(n_draws, dtype=bool)),
        converged=at.converged,
        condition=max(at.curvature.condition, baseline.curvature.condition),
        logit_noise=at.logit_noise,
        largest_noise=at.largest_noise,
        undetermined_loss=at.undetermined_loss,
        n_solvable=n_affordable(problem.n_rows, problem.n_parameters, n_draws, solved=True),
        omitted=at.omitted,
        may_replace=may_replace,
    )


# --- The exact method for a grid of ε: one curve a group, all its cells side by side ---

_FEWEST_CELLS = 6
_MOST_PARAMETERS = 1000
# Multiplications of a Hessian. Below, every cell has its own: interpolation would save nothing.
_LEAST_WORK = 3e7
_LONGEST_GAP = 15
# What the neighbours of a cell may get wrong at it, of the width of its interval; between cells that lie
# twice as close it is about a quarter of that.
_LARGEST_LOSS_ERROR = 0.05
_LARGEST_OUTCOME_ERROR = 0.2
_EQUAL = 1e-6


def suits_a_curve(baseline: TrainedModel, question: CellQuestion) -> bool:
    """Return whether the cells of a group lie on one line, and are many enough to draw it."""
    flips = [flip_probability(channel) for channel in question.label_channels]
    return (
        all(flip is not None for flip in flips)
        and sum(1 for flip in flips if flip) >= _FEWEST_CELLS
        and baseline.problem.n_parameters <= _MOST_PARAMETERS
        and float(baseline.problem.n_rows) * baseline.problem.n_parameters**2 >= _LEAST_WORK
    )


def _channel_at(t: float, k: int) -> FloatArray:
    return np.eye(k) + t * (np.ones((k, k)) - k * np.eye(k))


def answer_by_curve(
    baseline: TrainedModel,
    question: CellQuestion,
    groups: list[int],
    seeds: list[np.random.SeedSequence],
) -> list[list[CellAnswer] | None]:
    """Answer all cells of some groups; None for a group whose curve could not be followed."""
    problem, evaluation = baseline.problem, baseline.evaluation
    noises = baseline.group_noises([question.groups[group] for group in groups])
    flips, k = _flips(question), len(question.label_channels[0])
    ground = Ground(
        problem,
        evaluation,
        baseline.theta,
        baseline.curvature,
        baseline.linear,
        evaluation.hessian(baseline.theta),
    )
    try:
        curves = trace(ground, noises, partial(_channel_at, k=k), float(flips.max()))
    except EstimateNotTrustworthyError:
        return [None] * len(groups)
    return [
        None if curve is None else _answer_group(baseline, question, group, noise, curve, seed)
        for group, noise, curve, seed in zip(groups, noises, curves, seeds, strict=True)
    ]


def curve_bytes(baseline: TrainedModel) -> int:
    """Return what one curve may keep: Hessians, factors and the spread of the test records."""
    p, m = baseline.problem.n_parameters, baseline.evaluation.n_rows
    per_record = 0 if baseline.is_streamed else m * baseline.problem.loss.n_outputs**2
    return 8 * MOST_NODES * (4 * p**2 + per_record)


def _flips(question: CellQuestion) -> FloatArray:
    return np.array([flip_probability(channel) for channel in question.label_channels])


def _answer_group(
    baseline: TrainedModel,
    question: CellQuestion,
    group: int,
    noise: LabelNoise,
    curve: Curve,
    seed: np.random.SeedSequence,
) -> list[CellAnswer] | None:
    """Answer all cells of one group."""
    problem, evaluation = baseline.problem, baseline.evaluation
    contrast = evaluation.contrast(question.groups[group].test_mask)
    (before,) = evaluation.gaps(baseline.theta, [contrast], baseline.outcomes)
    channels, flips = question.label_channels, _flips(question)
    moving = np.flatnonzero(flips > 0.0)
    answers = [
        unchanged(before, group_index=group, epsilon_index=int(e), n_draws=question.n_draws)
        for e in np.flatnonzero(flips == 0.0)
    ]
    try:
        curvatures = [factorise(curve.hessian(t)) for t in flips[moving]]
    except EstimateNotTrustworthyError:
        return None
    shifts = np.column_stack([noise.shift(channels[e]) for e in moving])
    solution = minimise(
        problem,
        baseline.linear[:, None] + shifts,
        curve.starts(flips[moving]),
        curvatures=curvatures,
    )
    runs = draw_runs(
        problem,
        noise,
        [channels[e] for e in moving],
        n_draws=question.n_draws,
        seed=seed,
    )
    cells = _cells(
        baseline,
        curve,
        solution,
        curvatures,
        runs,
        group_index=group,
        epsilon_indices=moving,
        before=before,
    )
    shapes = _shapes(evaluation, cells, flips[moving], contrast)
    answers += [finish_cell(cell, shape) for cell, shape in zip(cells, shapes, strict=True)]
    return answers


def _cells(
    baseline: TrainedModel,
    curve: Curve,
    solution: Solution,
    curvatures: list[Curvature],
    runs: LinearNoise,
    *,
    group_index: int,
    epsilon_indices: NDArray[np.intp],
    before: Outcomes,
) -> list[ExpandedCell]:
    """Return every cell of a group, its noise terms taken from the curve."""
    evaluation, thetas = baseline.evaluation, solution.theta
    flips = np.array([flip_probability(channel) for channel in runs.channels])
    gradients = evaluation.gradients_at(thetas)
    losses = evaluation.losses(thetas)
    (noise,) = evaluation.noise_at(thetas, [curve.noise(flips)])
    is_quadratic = baseline.problem.is_quadratic
    result = []
    for e, (t, curvature) in enumerate(zip(flips, curvatures, strict=True)):
        test_hessian = curve.test_hessian(t)
        sigma = curvature.sandwich(runs.noise.covariance(runs.channels[e]))
        expansion = LabelExpansion(
            theta=thetas[:, e],
            bias=-0.5 * curvature.solve(curve.third(t)),
            gradient=gradients[:, e],
            curvature=curvature,
            test_hessian=test_hessian,
            spread=float(np.sum(test_hessian * sigma)),
            converged=bool(solution.converged[e]),
            logit_noise=float(noise.logit_noise[e]),
            largest_noise=0.0 if is_quadratic else float(noise.largest[e]),
            undetermined_loss=float(noise.undetermined_loss[e]),
        )
        result.append(
            expand_label_cell(
                baseline,
                runs,
                expansion,
                group_index=group_index,
                epsilon_index=int(epsilon_indices[e]),
                run_index=e,
                before=before,
                loss=float(losses[e]),
                may_replace=True,
            )
        )
    return result


def _shapes(
    evaluation: Evaluation, cells: list[ExpandedCell], flips: FloatArray, contrast: object
) -> list[RunShape]:
    """Return the shape of every cell's runs.

    Where evaluating them costs much, they are evaluated at both ends, in the middle between two evaluated cells
    and so on, until a middle is what its neighbours say it is; the cells beside it are then mixed.
    """
    n_draws = len(cells[0].quadratic.first)
    if n_affordable(evaluation.n_rows, len(cells[0].theta), n_draws, solved=False) == n_draws:
        return [shape_of_runs(evaluation, cell, contrast) for cell in cells]
    known = {e: shape_of_runs(evaluation, cells[e], contrast) for e in {0, len(cells) - 1}}
    gaps = [(0, len(cells) - 1)]
    while gaps:
        left, right = gaps.pop()
        if right - left < 2:
            continue
        middle = (left + right) // 2
        known[middle] = shape_of_runs(evaluation, cells[middle], contrast)
        ends = {place: known[place] for place in (left, right)}
        if right - left > _LONGEST_GAP or not _agree(
            cells[middle], known[middle], _mixed(middle, flips, ends)
        ):
            gaps += [(left, middle), (middle, right)]
    return [_mixed(e, flips, known) for e in range(len(cells))]


def _mixed(e: int, flips: FloatArray, known: dict[int, RunShape]) -> RunShape:
    """Return the shape of a cell from those of its neighbours, or its own."""
    if e in known:
        return known[e]
    left, right = max(k for k in known if k < e), min(k for k in known if k > e)
    share = (e - left) / (right - left)
    one, other = known[left].scaled(flips[left]), known[right].scaled(flips[right])
    return one.mix(other, share).scaled(1.0 / flips[e])


def _agree(cell: ExpandedCell, own: RunShape, mixed: RunShape) -> bool:
    """Return whether a cell is nearly what its neighbours say it is."""
    found, guess = finish_cell(cell, own), finish_cell(cell, mixed)
    loss = np.array([found.loss_low, found.loss_change, found.loss_high])
    guessed = np.array([guess.loss_low, guess.loss_change, guess.loss_high])
    width = found.loss_high - found.loss_low
    if np.abs(loss - guessed).max() > _LARGEST_LOSS_ERROR * width:
        return False
    for name, (low, high) in found.intervals.items():
        (least, most), middle = guess.intervals[name], found.changes[name] or 0.0
        ends = max(abs(low - least), abs(high - most))
        mean = abs(middle - (guess.changes[name] or 0.0))
        limit = _LARGEST_OUTCOME_ERROR * (high - low) + _EQUAL
        # An end of 100 runs is itself known to a fifteenth of the width.
        if mean > limit or ends > 2.0 * limit:
            return False
    return True

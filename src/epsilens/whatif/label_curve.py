# SPDX-License-Identifier: Apache-2.0
"""The exact method for a grid of ε: one curve a group, all its cells side by side.

The slow twin is `label_method`, which takes every Hessian and every noise term at the cell itself; here
they come from the polynomials of `influence.curve`, the minimisers are finished together, and of the
drawn runs only some, at some of the cells, are evaluated record by record.
"""

from __future__ import annotations

import numpy as np

from epsilens._types import FloatArray
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.influence import Evaluation, LabelNoise, NoiseTerms
from epsilens.influence.baseline import TrainedModel
from epsilens.influence.curve import MOST_NODES, Curve, trace
from epsilens.influence.label_noise import draw_runs
from epsilens.models import factorise, minimise
from epsilens.whatif.cells import (
    CellAnswer,
    CellQuestion,
    ExpandedCell,
    RunShape,
    finish_cell,
    group_seed,
    n_affordable,
    shape_of_runs,
    unchanged,
)
from epsilens.whatif.label_method import expand_label_cell

_LONGEST_GAP = 15
# What the neighbours of a cell may get wrong at it, of the width of its interval; between cells that lie
# twice as close it is about a quarter of that.
_LARGEST_LOSS_ERROR = 0.05
_LARGEST_OUTCOME_ERROR = 0.2
_EQUAL = 1e-6


def answer_by_curve(
    baseline: TrainedModel,
    question: CellQuestion,
    groups: list[int],
) -> list[list[CellAnswer] | None]:
    """Answer all cells of some groups; None for a group whose curve could not be followed."""
    noises = baseline.group_noises([question.groups[group] for group in groups])
    try:
        curves = trace(baseline, noises, float(question.flip_probabilities.max()))
    except EstimateNotTrustworthyError:
        return [None] * len(groups)
    return [
        None if curve is None else _answer_group(baseline, question, group, noise, curve)
        for group, noise, curve in zip(groups, noises, curves, strict=True)
    ]


def curve_bytes(baseline: TrainedModel) -> int:
    """Return what one curve may keep: Hessians, factors and the spread of the test records."""
    p, m = baseline.problem.n_parameters, baseline.evaluation.n_rows
    per_record = 0 if baseline.is_streamed else m * baseline.problem.loss.n_outputs**2
    return 8 * MOST_NODES * (4 * p**2 + per_record)


def _answer_group(
    baseline: TrainedModel, question: CellQuestion, group: int, noise: LabelNoise, curve: Curve
) -> list[CellAnswer] | None:
    """Answer all cells of one group, the noise terms taken from its curve."""
    problem, evaluation = baseline.problem, baseline.evaluation
    contrast = evaluation.contrast(question.groups[group].test_mask)
    (before,) = evaluation.gaps(baseline.theta, [contrast], baseline.outcomes)
    moving = np.flatnonzero(question.flip_probabilities > 0.0)
    channels = [question.label_channels[e] for e in moving]
    flips = question.flip_probabilities[moving]
    answers = [
        unchanged(before, group_index=group, epsilon_index=int(e), n_draws=question.n_draws)
        for e in np.flatnonzero(question.flip_probabilities == 0.0)
    ]
    try:
        curvatures = [factorise(curve.hessian(t)) for t in flips]
    except EstimateNotTrustworthyError:
        return None
    shifts = np.column_stack([noise.shift(channel) for channel in channels])
    solution = minimise(
        problem, baseline.linear[:, None] + shifts, curve.starts(flips), curvatures=curvatures
    )
    runs = draw_runs(problem, noise, channels, n_draws=question.n_draws, seed=group_seed(question))
    thetas = solution.theta
    gradients, losses = evaluation.gradients_at(thetas), evaluation.losses(thetas)
    (judged,) = evaluation.noise_at(thetas, [curve.noise(flips)])
    cells = []
    for e, (t, curvature) in enumerate(zip(flips, curvatures, strict=True)):
        test_hessian = curve.test_hessian(t)
        sigma = curvature.sandwich(noise.covariance(channels[e]))
        spread = float(np.sum(test_hessian * sigma))
        bias = -0.5 * curvature.solve(curve.third(t))
        terms = NoiseTerms(
            mean_change=0.5 * spread + float(gradients[:, e] @ bias),
            bias=bias,
            logit_noise=float(judged.logit_noise[e]),
            undetermined_loss=float(judged.undetermined_loss[e]),
            largest_noise=0.0 if problem.is_quadratic else float(judged.largest[e]),
            spread=spread,
        )
        cells.append(
            expand_label_cell(
                baseline,
                runs,
                e,
                theta=thetas[:, e],
                curvature=curvature,
                gradient=gradients[:, e],
                test_hessian=test_hessian,
                terms=terms,
                group_index=group,
                epsilon_index=int(moving[e]),
                before=before,
                loss=float(losses[e]),
                converged=bool(solution.converged[e]),
                may_replace=True,
            )
        )
    shapes = _shapes(evaluation, cells, flips, contrast)
    answers += [finish_cell(cell, shape) for cell, shape in zip(cells, shapes, strict=True)]
    return answers


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

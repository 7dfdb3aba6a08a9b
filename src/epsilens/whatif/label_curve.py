# SPDX-License-Identifier: Apache-2.0
"""The exact rung for a grid of ε: one curve a group, all its cells side by side.

The slow twin is `label_ladder`, which takes every Hessian and every noise term at the cell itself; here
they come from the polynomials of `influence.curve`, the minimisers are finished together, and of the
drawn runs only some, at some of the cells, are evaluated record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilens.errors import EstimateNotTrustworthyError
from epsilens.influence import LabelNoise
from epsilens.influence.curve import MOST_NODES, Curve, Ground, trace
from epsilens.influence.drawn_loss import (
    Correction,
    QuadraticRuns,
    fit_correction,
    quadratic_runs,
)
from epsilens.influence.evaluation import Outcomes
from epsilens.influence.held_out import HeldOut
from epsilens.influence.linear_noise import LinearNoise, draw_runs, lie_probability, root_of
from epsilens.influence.record_noise import NoiseForms
from epsilens.influence.trained import TrainedModel
from epsilens.models import Curvature, factorise, minimise
from epsilens.whatif.cells import (
    N_AUC_DRAWS,
    CellAnswer,
    Ends,
    Question,
    assemble,
    changes_from,
    intervals_from,
    unchanged,
)

__all__ = ["answer_by_curve", "suits_a_curve"]

FloatArray = NDArray[np.float64]

_FEWEST_CELLS = 6
_MOST_PARAMETERS = 1000
# Multiplications a cell may spend on evaluating its draws in full.
_FULL_WORK = 1e7
_FEWEST_FULL_DRAWS = 100
_MOST_FULL_CELLS = 6
# Where a test record's predictor is noisier than this, trust is judged at the cell itself.
_LOUD = 0.2


def suits_a_curve(baseline: TrainedModel, question: Question) -> bool:
    """Return whether the cells of a group lie on one line, and are many enough to draw it."""
    lies = [lie_probability(channel) for channel in question.label_channels]
    return (
        all(lie is not None for lie in lies)
        and sum(1 for lie in lies if lie) >= _FEWEST_CELLS
        and baseline.problem.n_parameters <= _MOST_PARAMETERS
    )


@dataclass(frozen=True, repr=False)
class _Cell:
    """One cell at its minimiser, and the noise around it.

    Attributes
    ----------
    lie : float
        t, the chance of each other label.
    theta, bias : arrays of shape (K·p,)
    root, standard : arrays of shape (K·p, r) and (r, n_draws)
        The draws are bias + root @ standard.
    runs : QuadraticRuns
    here : Outcomes
        At θ_ε.
    mean_change, logit_noise, wild_loss : float
        As in `NoiseTerms`.
    """

    lie: float
    theta: FloatArray
    bias: FloatArray
    root: FloatArray
    standard: NDArray[np.float32]
    runs: QuadraticRuns
    here: Outcomes
    mean_change: float
    logit_noise: float
    wild_loss: float


@dataclass(frozen=True, repr=False)
class _Shape:
    """What the drawn runs of one cell look like around its θ_ε.

    Attributes
    ----------
    correction : Correction
        Of the loss, divided by t.
    offsets : mapping of outcome to (low, high)
        Ends of the interval less the value at θ_ε, divided by √t, with which noise grows.
    """

    correction: Correction
    offsets: dict[str, Ends]


def _channel_at(t: float, k: int) -> FloatArray:
    return np.eye(k) + t * (np.ones((k, k)) - k * np.eye(k))


def answer_by_curve(
    baseline: TrainedModel,
    question: Question,
    groups: list[int],
    seeds: list[np.random.SeedSequence],
) -> list[list[CellAnswer] | None]:
    """Answer all cells of some groups; None for a group whose curve could not be followed."""
    problem, evaluation = baseline.problem, baseline.evaluation
    noises = baseline.group_noises([question.groups[group] for group in groups])
    lies, k = _lies(question), len(question.label_channels[0])
    ground = Ground(
        problem,
        evaluation,
        baseline.theta,
        baseline.curvature,
        baseline.linear,
        evaluation.hessian(baseline.theta),
    )
    try:
        curves = trace(ground, noises, partial(_channel_at, k=k), float(lies.max()))
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


def _lies(question: Question) -> FloatArray:
    return np.array([lie_probability(channel) for channel in question.label_channels])


def _answer_group(
    baseline: TrainedModel,
    question: Question,
    group: int,
    noise: LabelNoise,
    curve: Curve,
    seed: np.random.SeedSequence,
) -> list[CellAnswer] | None:
    """Answer all cells of one group."""
    problem, evaluation = baseline.problem, baseline.evaluation
    contrast = evaluation.contrast(question.groups[group].test_mask)
    (before,) = evaluation.gaps(baseline.theta, [contrast], baseline.outcomes)
    channels, lies = question.label_channels, _lies(question)
    moving = np.flatnonzero(lies > 0.0)
    answers = [
        unchanged(before, group_index=group, epsilon_index=int(e), n_draws=question.n_draws)
        for e in np.flatnonzero(lies == 0.0)
    ]
    try:
        curvatures = [factorise(curve.hessian(t)) for t in lies[moving]]
    except EstimateNotTrustworthyError:
        return None
    shifts = np.column_stack([noise.shift(channels[e]) for e in moving])
    solution = minimise(
        problem,
        baseline.linear[:, None] + shifts,
        curve.starts(lies[moving]),
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
        baseline, curve, lies[moving], solution.theta, curvatures, runs, contrast=contrast
    )
    shapes = _shapes(evaluation, cells, contrast)
    condition = baseline.curvature.condition
    for position, e in enumerate(moving):
        cell, shape = cells[position], shapes[position]
        offsets = {
            name: (low * np.sqrt(cell.lie), high * np.sqrt(cell.lie))
            for name, (low, high) in shape.offsets.items()
        }
        moved = changes_from(before, cell.here)
        answers.append(
            assemble(
                group_index=group,
                epsilon_index=int(e),
                before=before,
                here=cell.here,
                mean_change=cell.mean_change,
                loss_runs=cell.here.loss
                - before.loss
                + cell.runs.total(shape.correction.scaled(cell.lie)),
                intervals={
                    name: (float(change + offsets[name][0]), float(change + offsets[name][1]))
                    for name, change in moved.items()
                    if change is not None and name in offsets
                },
                converged=bool(solution.converged[position]),
                condition=max(curvatures[position].condition, condition),
                logit_noise=cell.logit_noise,
                wild_loss=cell.wild_loss,
            )
        )
    return answers


def _cells(
    baseline: TrainedModel,
    curve: Curve,
    lies: FloatArray,
    thetas: FloatArray,
    curvatures: list[Curvature],
    runs: LinearNoise,
    *,
    contrast: object,
) -> list[_Cell]:
    """Return every cell with its noise terms."""
    evaluation = baseline.evaluation
    gradients = evaluation.gradients_at(thetas)
    heres = evaluation.outcomes_at(thetas, [contrast] * len(lies))
    covariances = [runs.noise.covariance(channel) for channel in runs.channels]
    (noise,) = evaluation.noise_at(thetas, [curve.noise(lies)])
    logit_noise, wild = noise.logit_noise, noise.wild
    loud = np.flatnonzero(noise.largest > _LOUD)
    if len(loud):
        roots = [curvatures[e].solve(root_of(covariances[e])) for e in loud]
        (own,) = evaluation.noise_at(thetas[:, loud], [NoiseForms.one_each(roots, "root")])
        logit_noise[loud], wild[loud] = own.logit_noise, own.wild
    result = []
    for e, (t, curvature) in enumerate(zip(lies, curvatures, strict=True)):
        weights = curve.weights(t)
        bias = -0.5 * t * curvature.solve(weights @ curve.thirds)
        test_hessian = np.tensordot(weights, curve.test_hessians, axes=1)
        sigma = curvature.sandwich(covariances[e])
        factor, standard = runs.factors(e)
        root = curvature.solve(factor)
        result.append(
            _Cell(
                lie=float(t),
                theta=thetas[:, e],
                bias=bias,
                root=root,
                standard=standard,
                runs=quadratic_runs(gradients[:, e], test_hessian, bias, root, standard),
                here=heres[e],
                mean_change=0.5 * float(np.sum(test_hessian * sigma))
                + float(gradients[:, e] @ bias),
                logit_noise=float(logit_noise[e]),
                wild_loss=float(wild[e]),
            )
        )
    return result


def _shapes(evaluation: HeldOut, cells: list[_Cell], contrast: object) -> list[_Shape]:
    """Return the shape of every cell's runs: drawn in full at some, in between at the others.

    A small study evaluates every draw at every cell.
    """
    n_draws = cells[0].standard.shape[1]
    work = evaluation.n_rows * len(cells[0].theta)
    n_full = int(min(n_draws, max(_FEWEST_FULL_DRAWS, _FULL_WORK // work)))
    chosen = np.arange(len(cells))
    if n_full < n_draws:
        n_chosen = min(_MOST_FULL_CELLS, len(cells))
        chosen = np.unique(np.linspace(0, len(cells) - 1, n_chosen).round().astype(int))
    known = [_shape(evaluation, cells[e], n_full, contrast) for e in chosen]
    shapes = []
    for e in range(len(cells)):
        place = float(np.interp(e, chosen, np.arange(len(chosen))))
        left, share = int(place), place - int(place)
        if share == 0.0:
            shapes.append(known[left])
            continue
        one, other = known[left], known[left + 1]
        offsets = {
            name: (
                (1.0 - share) * end[0] + share * ends[0],
                (1.0 - share) * end[1] + share * ends[1],
            )
            for (name, end), ends in zip(one.offsets.items(), other.offsets.values(), strict=True)
        }
        shapes.append(_Shape(one.correction.mix(other.correction, share), offsets))
    return shapes


def _shape(evaluation: HeldOut, cell: _Cell, n_full: int, contrast: object) -> _Shape:
    deviations = cell.bias[:, None] + cell.root @ cell.standard[:, :n_full]
    drawn = evaluation.drawn(
        cell.theta, deviations.astype(np.float32), n_auc_draws=N_AUC_DRAWS, contrast=contrast
    )
    offsets = {
        name: (low / np.sqrt(cell.lie), high / np.sqrt(cell.lie))
        for name, (low, high) in intervals_from(cell.here, drawn).items()
    }
    correction = fit_correction(drawn.loss - cell.here.loss, cell.runs)
    return _Shape(correction.scaled(1.0 / cell.lie), offsets)

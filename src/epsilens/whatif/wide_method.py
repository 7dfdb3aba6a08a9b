# SPDX-License-Identifier: Apache-2.0
"""Newton and exact for randomised labels of a wide model, without a matrix of its parameters.

The minimiser is found as ever, with steps by conjugate gradient. The noise of one run, which with a factor is a
matrix Σ, is here what some drawn runs show: each draw of the gradient's noise is solved for, to few digits, and
the terms of second order are means over the draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from epsilens._types import FloatArray
from epsilens.influence import (
    HessianOperator,
    LabelNoise,
    NoiseTerms,
    draw_linear_noise,
    newton_steps,
    walk,
)
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.evaluation import NoiseForms
from epsilens.influence.first_order import probe_seed
from epsilens.influence.wide import WideCurvature
from epsilens.models.passes import workers
from epsilens.whatif.cells import (
    CellAnswer,
    CellQuestion,
    ExpandedCell,
    Method,
    QuadraticRuns,
    finish_cell,
    group_seed,
    is_identity,
    shape_of_runs,
    unchanged,
)

MOST_DRAWS = 100
"""Runs that are drawn for an interval: each takes a linear system of its own."""


def wide_answers(
    baseline: BaselineModel, question: CellQuestion, method: Method
) -> Iterator[list[CellAnswer]]:
    """Yield every cell of every group by the method "newton" or "exact"."""
    problem, start = baseline.problem, (baseline.theta, baseline.curvature, baseline.linear)
    with workers():
        for group, noise in enumerate(baseline.group_noises(question.groups, with_grams=False)):
            shifts = np.stack(
                [noise.shift(channel)[:, None] for channel in question.label_channels]
            )
            if method == "exact":
                for point in walk(problem, *start, shifts):
                    converged = bool(point.converged[0])
                    at = point.theta[:, 0]
                    yield [_cell(baseline, question, noise, group, point.index, at, converged)]
                continue
            for index, shift in enumerate(shifts):
                theta = newton_steps(problem, *start, shift)[:, 0]
                cell = _cell(baseline, question, noise, group, index, theta, is_newton=True)
                yield [cell]


def _cell(
    baseline: BaselineModel,
    question: CellQuestion,
    noise: LabelNoise,
    group: int,
    index: int,
    theta: FloatArray,
    converged: bool = True,
    *,
    is_newton: bool = False,
) -> CellAnswer:
    problem, evaluation = baseline.problem, baseline.evaluation
    contrast = evaluation.contrast(question.groups[group].test_mask)
    (before,) = evaluation.gaps(baseline.theta, [contrast], baseline.outcomes)
    channel = question.label_channels[index]
    n_draws = min(question.n_draws, MOST_DRAWS)
    if is_identity(channel):
        return unchanged(before, group_index=group, epsilon_index=index, n_draws=n_draws)
    curvature = WideCurvature(HessianOperator(problem, theta))
    # The same seed at every ε: the interval is smooth in ε.
    seed = probe_seed(group_seed(question))
    drawn = draw_linear_noise(problem, noise, [channel], n_draws=n_draws, seed=seed)
    deviations = curvature.loosened().solve(drawn[0].astype(np.float64))
    root = deviations / np.sqrt(n_draws)  # RRᵀ ≈ Σ
    spread = evaluation.design.spread(root)
    bias = np.zeros_like(theta)
    if not problem.is_quadratic:
        bias = -0.5 * curvature.solve(problem.thirds(theta[:, None], [root], are_roots=True)[0])
    omitted = 0.0
    if is_newton:
        linear = baseline.linear + noise.shift(channel)
        left = problem.gradient(theta[:, None], linear[:, None])[:, 0]
        pair = np.column_stack([theta, theta - curvature.solve(left)])
        losses = evaluation.losses(pair)
        omitted = float(losses[1] - losses[0])
    moved = deviations + bias[:, None]
    gradient = evaluation.gradient(theta)
    bends = evaluation.bends(theta, np.column_stack([moved, bias]))
    second_orders = _mean_terms(baseline, curvature, theta, deviations)
    forms = NoiseForms([spread], np.eye(1), "values")
    (record_noise,) = evaluation.noise_at(theta[:, None], [forms])
    terms = NoiseTerms(
        mean_change=float(gradient @ bias) + 0.5 * float(record_noise.bent[0]),
        bias=bias,
        logit_noise=float(record_noise.logit_noise[0]),
        undetermined_loss=float(record_noise.undetermined_loss[0]),
        largest_noise=float(record_noise.largest[0]),
        spread=float(record_noise.bent[0]),
    )
    cell = ExpandedCell(
        group_index=group,
        epsilon_index=index,
        theta=theta,
        before=before,
        loss=float(evaluation.losses(theta[:, None])[0]),
        quadratic=QuadraticRuns(
            first=gradient @ moved,
            second=0.5 * bends[:-1],
            expected_first=float(gradient @ bias),
            expected_second=0.5 * float(bends[-1] + record_noise.bent[0]),
            second_order=terms.mean_change,
        ),
        linearised=lambda n: moved[:, :n],
        solve=None,
        untouched=np.zeros(n_draws, dtype=bool),
        converged=converged,
        condition=baseline.curvature.condition,
        terms=terms,
        n_solvable=0,
        omitted=omitted,
    )
    answer = finish_cell(cell, shape_of_runs(evaluation, cell, contrast))
    return replace(answer, standard_error=float(second_orders.std(ddof=1)) / np.sqrt(n_draws))


def _mean_terms(
    baseline: BaselineModel, curvature: WideCurvature, theta: FloatArray, deviations: FloatArray
) -> FloatArray:
    """Return what every drawn run says of the second-order part of the mean: (n_draws,).

    Their mean is that part. In place of the bias, H⁻¹ of a sum over the draws, each third derivative is
    taken along v = H⁻¹η: one system for all.
    """
    evaluation, problem = baseline.evaluation, baseline.problem
    loss, n_draws = problem.loss, deviations.shape[1]
    width = 2 * loss.n_outputs * n_draws
    terms = np.zeros(n_draws)
    for rows in evaluation.design.chunks(width=width):
        bend = evaluation.loss.curvature(evaluation.design.predict(theta, rows))
        along = evaluation.design.predict(deviations, rows)
        terms += np.einsum(
            "i,ikr,ikr->r", evaluation.weights[rows], np.einsum("ikl,ilr->ikr", bend, along), along
        )
    if problem.is_quadratic:
        return 0.5 * terms
    v = curvature.solve(evaluation.gradient(theta))
    design, weights = problem.distinct
    for rows in design.chunks(width=width):
        s, along = design.predict(theta, rows), design.predict(deviations, rows)
        pulled = weights[rows, None] * design.predict(v, rows) / problem.n_rows
        for draw in range(n_draws):
            moved = along[:, :, draw]
            terms[draw] -= np.sum(pulled * loss.third(s, moved[:, :, None] * moved[:, None, :]))
    return 0.5 * terms

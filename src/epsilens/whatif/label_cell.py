# SPDX-License-Identifier: Apache-2.0
"""A cell of randomised labels around its minimiser, wherever its Hessian and noise terms come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilens._types import BoolArray, FloatArray
from epsilens.influence import Outcomes
from epsilens.influence.drawn_loss import quadratic_runs
from epsilens.influence.linear_noise import LinearNoise
from epsilens.influence.trained import TrainedModel
from epsilens.models import Curvature
from epsilens.models.nearby import minimise_nearby
from epsilens.whatif.drawn_cell import ExpandedCell, n_solvable, run_decrement

__all__ = ["LabelExpansion", "expand_label_cell"]


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
    logit_noise, largest_noise, wild_loss, omitted : float
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
    wild_loss: float
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
        wild_loss=at.wild_loss,
        n_solvable=n_solvable(problem.n_rows, problem.n_parameters, n_draws),
        omitted=at.omitted,
        may_replace=may_replace,
    )

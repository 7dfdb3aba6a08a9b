# SPDX-License-Identifier: Apache-2.0
"""The ladder: first order, Newton, exact; which rung, and by which road.

Each rung answers the same question, what the minimiser of the expected perturbed objective is and
what the test set says of it, at rising cost; each carries the prediction interval of one real run.
"""

from __future__ import annotations

import numpy as np

from epsilens._types import Progress
from epsilens.influence.baseline import Baseline
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.influence.wide import is_wide, refuse_matrix
from epsilens.whatif.cells import CellAnswer, Question, Rung
from epsilens.whatif.drawn_cell import n_solvable
from epsilens.whatif.general_ladder import SOLVED_REPORT_COST, climb_general
from epsilens.whatif.label_curve import suits_a_curve
from epsilens.whatif.label_ladder import climb_labels
from epsilens.whatif.streamed_plan import (
    POINTS_ON_A_CURVE,
    SECONDS_PER_TEST_LOSS,
    plan_streamed,
)
from epsilens.whatif.wide_ladder import MOST_DRAWS

__all__ = ["climb", "is_label_only", "plan"]

AnyBaseline = Baseline | StreamedBaseline

_SECONDS_PER_ALTERNATIVE = 5e-9
_SECONDS_PER_DRAW = 2e-9
# Of a wide model: passes of the conjugate gradient, systems until a minimum is found, and what a further
# column in a block costs beside the first.
_PASSES_PER_SYSTEM = 60
_SYSTEMS_PER_MINIMUM = 5
_SHARE_OF_A_COLUMN = 0.25
_GRADIENTS_PER_RUN = 20


def is_label_only(baseline: AnyBaseline, question: Question) -> bool:
    """Return whether only the linear term of a canonical objective moves: the short road."""
    return (
        not question.alternatives.sizes
        and not question.is_corrected
        and baseline.class_weight is None
    )


def plan(baseline: AnyBaseline, question: Question, *, seconds: float) -> Rung:
    """Return the highest rung that should fit into a time budget, from the cost of one Hessian."""
    if isinstance(baseline, StreamedBaseline):
        return plan_streamed(baseline, question, seconds=seconds)
    n, p = baseline.problem.n_rows, baseline.problem.n_parameters
    if is_wide(p):
        return _plan_wide(baseline, question, seconds)
    m = baseline.evaluation.n_rows
    per_multiplication = baseline.hessian_seconds / (n * max(p, 1) ** 2)
    n_cells = len(question.groups) * len(question.joints)
    passes = 3.0 * (n + m) * p**2 * per_multiplication
    members = float(np.mean([group.size for group in question.groups]))
    drawing = question.n_draws * (
        (members + m) * p * per_multiplication + m * SECONDS_PER_TEST_LOSS
    )
    gradients = 4.0 * n * (4 * p * per_multiplication + 2e-8)
    if not is_label_only(baseline, question):
        V, k = question.joints[0].shape[1], len(question.label_channels[0])
        K = baseline.problem.loss.n_outputs
        gradients *= 1 + V * k
        passes += members * V * k * K * K * (p + 20) * _SECONDS_PER_ALTERNATIVE
        drawing += question.n_draws * members * V * _SECONDS_PER_DRAW
        if question.is_corrected:
            # Runs of a corrected loss are solved more often than not.
            width = p + SOLVED_REPORT_COST * K
            solved = n_solvable(n, width, question.n_draws)
            gradients += _GRADIENTS_PER_RUN * solved * n * (4 * p * per_multiplication + K * 2e-8)
    exact = n_cells * (passes + drawing + gradients)
    if is_label_only(baseline, question) and suits_a_curve(baseline, question):
        # Hessians and draws are taken at a few points of the curve; gradients at every cell.
        share = min(1.0, POINTS_ON_A_CURVE / question.n_epsilon)
        exact = n_cells * (share * (1.5 * passes + drawing) + gradients)
    if exact <= seconds:
        return "exact"
    # With features, a correction or class weights first order takes as many passes, and gains nothing.
    if not is_label_only(baseline, question) or n_cells * (passes + drawing) <= seconds:
        return "newton"
    return "influence"


def _plan_wide(baseline: Baseline, question: Question, seconds: float) -> Rung:
    """Return the rung of a wide model, from the cost of one product with its Hessian."""
    if not is_label_only(baseline, question):
        return "influence"
    n_cells = len(question.groups) * len(question.joints)
    n_draws = min(question.n_draws, MOST_DRAWS)
    system = _PASSES_PER_SYSTEM * baseline.hessian_seconds
    noise = n_draws * _SHARE_OF_A_COLUMN * system
    if n_cells * (_SYSTEMS_PER_MINIMUM * system + noise) <= seconds:
        return "exact"
    return "newton" if n_cells * (2 * system + noise) <= seconds else "influence"


def climb(
    baseline: AnyBaseline, question: Question, rung: Rung, *, progress: Progress | None = None
) -> list[CellAnswer]:
    """Answer every cell on one rung, groups in order, ε ascending."""
    labels_only = is_label_only(baseline, question)
    p = baseline.problem.n_parameters
    if is_wide(p) and not labels_only and rung not in {"influence", "paper"}:
        raise refuse_matrix(
            p,
            f"method={rung!r} for features, a correction or class weights",
            instead="Use method='influence'.",
        )
    if labels_only:
        answers = climb_labels(baseline, question, rung, progress)
    else:
        assert isinstance(baseline, Baseline)  # noqa: S101  (others are refused with the question)
        answers = climb_general(baseline, question, rung, progress)
    return sorted(answers, key=lambda cell: (cell.group_index, cell.epsilon_index))

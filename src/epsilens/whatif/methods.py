# SPDX-License-Identifier: Apache-2.0
"""Which method answers a question: first order, Newton or exact.

Each method answers the same question, what the minimiser of the expected perturbed objective is and
what the test set says of it, at rising cost; each carries the prediction interval of one real run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from epsilens._types import FloatArray, Progress
from epsilens.errors import ApproximationWarning, InputError, setting
from epsilens.influence import FirstOrder, HessianOperator, as_inverse_hessian
from epsilens.influence.alternatives import UnaryBlock
from epsilens.influence.baseline import BaselineModel
from epsilens.influence.question import Asked, GroupChannels
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.influence.wide import is_wide, refuse_matrix
from epsilens.models.passes import current_passes, current_store, workers
from epsilens.notes import Note
from epsilens.whatif.cells import CellAnswer, CellQuestion, Method, n_affordable
from epsilens.whatif.general_method import SOLVED_REPORT_COST, general_cells
from epsilens.whatif.label_curve import answer_by_curve, curve_bytes
from epsilens.whatif.label_method import cell_by_cell, first_order_cells, in_turn
from epsilens.whatif.wide_method import MOST_DRAWS, wide_answers

if TYPE_CHECKING:
    from epsilens.models import Problem


# --- Which method fits into a time budget when every look at the records is a pass over files ---

SECONDS_PER_TEST_LOSS = 4e-9
POINTS_ON_A_CURVE = 6
"""At which Hessians and draws are taken, however many ε are asked about."""


_FEWEST_CELLS = 6
_MOST_PARAMETERS = 1000
# Multiplications of a Hessian. Below, every cell has its own: interpolation would save nothing.
_LEAST_WORK = 3e7


def suits_a_curve(baseline: AnyBaseline, question: CellQuestion) -> bool:
    """Return whether the cells of a group lie on one line, and are many enough to draw it."""
    return bool(
        np.count_nonzero(question.flip_probabilities) >= _FEWEST_CELLS
        and baseline.problem.n_parameters <= _MOST_PARAMETERS
        and float(baseline.problem.n_rows) * baseline.problem.n_parameters**2 >= _LEAST_WORK
    )


def plan_streamed(baseline: StreamedBaseline, question: CellQuestion, *, seconds: float) -> Method:
    """Return the most accurate method that should fit; a run that goes on takes the one it took before."""
    store = current_store()
    if store is None:
        return _highest(baseline, question, seconds)
    asked = (float(seconds), len(question.groups), len(question.joints), question.n_draws)
    kept = store.begin("rung", asked)
    if kept.found is not None:
        return str(kept.found[0]["rung"])  # type: ignore[return-value]
    method = _highest(baseline, question, seconds)
    kept.keep({"rung": np.array(method)}, 1)
    return method


def _highest(baseline: StreamedBaseline, question: CellQuestion, seconds: float) -> Method:
    n, m = baseline.problem.n_rows, baseline.evaluation.n_rows
    groups, cells = len(question.groups), len(question.joints)
    read = baseline.seconds_of_a_pass()
    # Rows that a coin sets aside stand in the same files.
    read_test = read if baseline.evaluation.rows.reading.coin is not None else read * m / n
    # What the runs of a cell cost once the test records are there, on all workers together.
    drawing = question.n_draws * m * baseline.problem.n_parameters * baseline.multiplication_seconds
    drawing += question.n_draws * m * SECONDS_PER_TEST_LOSS
    drawing /= current_passes().n_workers
    # Passes over training and test records, as counted; the groups share those over training records.
    newton = (9 + 3 * cells) * read + (4 + groups) * cells * read_test
    exact = (8 + 10 * cells) * read + (3 + groups) * cells * read_test
    points = cells
    if suits_a_curve(baseline, question):
        points = min(cells, POINTS_ON_A_CURVE)
        exact = 42 * read + groups * (4 + cells) * read_test
    if exact + groups * points * drawing <= seconds:
        return "exact"
    return "newton" if newton + groups * cells * drawing <= seconds else "influence"


# --- The choice of the method, and its answers ---

AnyBaseline = BaselineModel | StreamedBaseline

_SECONDS_PER_ALTERNATIVE = 5e-9
_SECONDS_PER_DRAW = 2e-9
# For a wide model: passes of the conjugate gradient, systems until a minimum is found, and what a further
# column in a block costs beside the first.
_PASSES_PER_SYSTEM = 60
_SYSTEMS_PER_MINIMUM = 5
_SHARE_OF_A_COLUMN = 0.25
_GRADIENTS_PER_RUN = 20
_MEMORY_FOR_DRAWS = 512 * 2**20
_GROUPS_SIDE_BY_SIDE = 8
_MEMORY_FOR_CURVES = 256 * 2**20


def is_label_only(baseline: AnyBaseline, question: CellQuestion) -> bool:
    """Return whether only the linear term of a canonical objective moves: the quick method."""
    return (
        not question.alternatives.sizes
        and not question.is_corrected
        and baseline.class_weight is None
    )


def plan(baseline: AnyBaseline, question: CellQuestion, *, seconds: float) -> Method:
    """Return the most accurate method that should fit into a time budget, from the cost of one Hessian."""
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
        V, k = question.joints[0].shape[-1], question.label_channels[0].shape[-1]
        K = baseline.problem.loss.n_outputs
        gradients *= 1 + V * k
        passes += members * V * k * K * K * (p + 20) * _SECONDS_PER_ALTERNATIVE
        drawing += question.n_draws * members * V * _SECONDS_PER_DRAW
        if question.is_corrected:
            # Runs of a corrected loss are solved more often than not.
            width = p + SOLVED_REPORT_COST * K
            solved = n_affordable(n, width, question.n_draws, solved=True)
            gradients += _GRADIENTS_PER_RUN * solved * n * (4 * p * per_multiplication + K * 2e-8)
    exact = n_cells * (passes + drawing + gradients)
    if is_label_only(baseline, question) and suits_a_curve(baseline, question):
        # Hessians and draws are taken at a few points of the curve; gradients at every cell.
        share = min(1.0, POINTS_ON_A_CURVE / len(question.joints))
        exact = n_cells * (share * (1.5 * passes + drawing) + gradients)
    if exact <= seconds:
        return "exact"
    # With features, a correction or class weights first order takes as many passes, and gains nothing.
    if not is_label_only(baseline, question) or n_cells * (passes + drawing) <= seconds:
        return "newton"
    return "influence"


def _plan_wide(baseline: BaselineModel, question: CellQuestion, seconds: float) -> Method:
    """Return the method of a wide model, from the cost of one product with its Hessian."""
    if not is_label_only(baseline, question):
        return "influence"
    n_cells = len(question.groups) * len(question.joints)
    n_draws = min(question.n_draws, MOST_DRAWS)
    system = _PASSES_PER_SYSTEM * baseline.hessian_seconds
    noise = n_draws * _SHARE_OF_A_COLUMN * system
    if n_cells * (_SYSTEMS_PER_MINIMUM * system + noise) <= seconds:
        return "exact"
    return "newton" if n_cells * (2 * system + noise) <= seconds else "influence"


def compute_cells(
    baseline: AnyBaseline,
    question: CellQuestion,
    method: Method,
    *,
    progress: Progress | None = None,
) -> list[CellAnswer]:
    """Answer every cell by one method, groups in order, ε ascending."""
    p = baseline.problem.n_parameters
    if is_label_only(baseline, question):
        cells = _label_cells(baseline, question, method)
    elif is_wide(p) and method not in {"influence", "paper"}:
        raise refuse_matrix(
            p,
            f"method={method!r} for features, a correction or class weights",
            instead=f"Use {setting('method', 'influence')}.",
        )
    else:
        assert isinstance(baseline, BaselineModel)  # noqa: S101  (others are refused with the question)
        cells = general_cells(baseline, question, method)
    answers: list[CellAnswer] = []
    for found in cells:
        answers += found
        if progress is not None:
            progress(len(answers), len(question.joints) * len(question.groups), method)
    return sorted(answers, key=lambda cell: (cell.group_index, cell.epsilon_index))


def _label_cells(
    baseline: AnyBaseline, question: CellQuestion, method: Method
) -> Iterator[list[CellAnswer]]:
    """Yield the cells of randomised labels as they are finished: a group's whole curve if it can be had, else one by one."""
    if method in {"influence", "paper"}:
        with workers():
            yield list(first_order_cells(baseline, question))
        return
    if is_wide(baseline.problem.n_parameters):
        assert isinstance(baseline, BaselineModel)  # noqa: S101  (a streamed table is never wide)
        yield from wide_answers(baseline, question, method)
        return
    groups = list(range(len(question.groups)))
    if method == "exact" and suits_a_curve(baseline, question):
        left = []
        with workers() as team:
            fitting = _MEMORY_FOR_CURVES // (team.n_workers * curve_bytes(baseline))
            n_shares = 1 if baseline.is_streamed else team.n_workers
            share = min(_GROUPS_SIDE_BY_SIDE, -(-len(groups) // n_shares), max(1, fitting))
            batches = [groups[at : at + share] for at in range(0, len(groups), share)]
            tasks = [partial(answer_by_curve, baseline, question, batch) for batch in batches]
            curves = in_turn(tasks) if baseline.is_streamed else team.run(tasks)
            for batch, found in zip(batches, curves, strict=True):
                left += [g for g, answers in zip(batch, found, strict=True) if answers is None]
                yield from (answers for answers in found if answers is not None)
        groups = left
    per_group = 4 * len(question.joints) * baseline.problem.n_parameters * question.n_draws
    block = int(max(1, min(len(groups), _MEMORY_FOR_DRAWS // per_group)))
    for first in range(0, len(groups), block):
        yield from cell_by_cell(baseline, question, method, groups[first : first + block])


# --- From a checked question to what a method is asked, and what must be refused or solved before ---


def solve_first_order(
    baseline: BaselineModel | StreamedBaseline, inverse_hessian: object, *, seed: int = 0
) -> FirstOrder:
    """Return v = H⁻¹η by the solver that was asked for, and warn if it did not get there."""
    n_parameters = baseline.problem.n_parameters
    inverse = as_inverse_hessian(inverse_hessian, random_state=seed, n_parameters=n_parameters)
    if baseline.is_streamed and inverse.is_matrix_free:
        # It would read the whole table at every step.
        raise InputError(
            argument="inverse_hessian",
            expected="'cholesky' while the table is streamed",
            got=repr(inverse.name),
            hint="Leave it out, or read the table into memory.",
        )
    known = None if inverse.is_matrix_free else baseline.curvature
    # For streamed records only the factor is needed, which is known.
    operator = HessianOperator(cast("Problem", baseline.problem), baseline.theta, known)
    with workers():
        found = FirstOrder.of(operator, inverse, baseline.evaluation.gradient(baseline.theta))
    if found.solution.note:
        found.solution.note.warn(ApproximationWarning, stacklevel=3)
    return found


def _matrices(part: GroupChannels) -> tuple[FloatArray, FloatArray]:
    """Return the channels of a group over labels and over joint values of the protected features."""
    one = np.ones((1, 1))
    return (
        one if part.label is None else part.label.matrix,
        one if part.features is None else part.features.matrix,
    )


def as_question(asked: Asked, *, corrected: bool, n_draws: int, seed: int) -> CellQuestion:
    """Return what a method is asked."""
    one = [np.ones((1, 1))] * len(asked.epsilons)
    labels = [channel.matrix for channel in asked.label_channels] or one
    joints = [channel.matrix for channel in asked.feature_channels] or one
    if asked.mixed:
        # A stack for every cell: each group of it has channels of its own.
        stacks = [[_matrices(part) for part in cell] for cell in asked.mixed]
        labels = [np.stack([label for label, _ in cell]) for cell in stacks]
        joints = [np.stack([joint for _, joint in cell]) for cell in stacks]
    if asked.unary is not None:
        joints = [asked.unary.joint(epsilon) for epsilon in asked.epsilons]
    return CellQuestion(
        groups=asked.groups,
        label_channels=labels,
        joints=joints,
        flip_probabilities=np.array([c.flip_probability for c in asked.label_channels]),
        label_is_protected=asked.label_is_protected,
        alternatives=asked.alternatives,
        is_corrected=corrected,
        n_draws=n_draws,
        seed=seed,
    )


# --- The Monte-Carlo error of reports that are followed by a sample of their bit patterns ---

N_SAMPLES = 4


def with_sampling_error(
    baseline: BaselineModel,
    asked: Asked,
    question: CellQuestion,
    method: Method,
    answers: list[CellAnswer],
) -> list[CellAnswer]:
    """Answer again with further samples of patterns; average, widen by their spread, and say so.

    Parameters
    ----------
    baseline : BaselineModel
    asked : Asked
        Its notes gain the error.
    question : CellQuestion
    method : str
    answers : list of CellAnswer
        By the first sample.

    Returns
    -------
    list of CellAnswer
    """
    unary = asked.unary
    assert unary is not None  # noqa: S101
    samples = [answers]
    for seed in range(1, N_SAMPLES):
        block = UnaryBlock.of(unary.kind, unary.feature, epsilon=asked.epsilons[0], seed=seed)
        again = replace(
            question,
            alternatives=block.alternatives(baseline.problem.design),
            joints=[block.joint(epsilon) for epsilon in asked.epsilons],
        )
        samples.append(compute_cells(baseline, again, method))
    result = []
    for cells in zip(*samples, strict=True):
        changes = np.array([cell.loss_change for cell in cells])
        spread = float(changes.std(ddof=1))
        asked.notes.append(
            Note(
                "sampled-patterns",
                f"the change of loss has a Monte-Carlo error of {spread / np.sqrt(N_SAMPLES):.2g}, from "
                f"{N_SAMPLES} samples of patterns; the interval is widened by their spread.",
            )
        )
        result.append(
            replace(
                cells[0],
                loss_change=float(changes.mean()),
                loss_low=float(np.mean([cell.loss_low for cell in cells])) - spread,
                loss_high=float(np.mean([cell.loss_high for cell in cells])) + spread,
            )
        )
    return result

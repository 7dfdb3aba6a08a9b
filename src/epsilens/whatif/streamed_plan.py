# SPDX-License-Identifier: Apache-2.0
"""Which rung fits into a time budget when every look at the records is a pass over files.

Reading costs what a pass was seen to cost; draws are worked out between two reads, at the speed of memory.
"""

from __future__ import annotations

import numpy as np

from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.models.pass_store import current_store
from epsilens.models.passes import current_passes
from epsilens.whatif.cells import Question, Rung
from epsilens.whatif.label_curve import suits_a_curve

__all__ = ["POINTS_ON_A_CURVE", "SECONDS_PER_TEST_LOSS", "plan_streamed"]

SECONDS_PER_TEST_LOSS = 4e-9
POINTS_ON_A_CURVE = 6
"""At which Hessians and draws are taken, however many ε are asked about."""


def plan_streamed(baseline: StreamedBaseline, question: Question, *, seconds: float) -> Rung:
    """Return the highest rung that should fit; a run that goes on takes the one it took before."""
    store = current_store()
    if store is None:
        return _highest(baseline, question, seconds)
    asked = (float(seconds), len(question.groups), question.n_epsilon, question.n_draws)
    kept = store.begin("rung", asked)
    if kept.found is not None:
        return str(kept.found[0]["rung"])  # type: ignore[return-value]
    rung = _highest(baseline, question, seconds)
    kept.keep({"rung": np.array(rung)}, 1)
    return rung


def _highest(baseline: StreamedBaseline, question: Question, seconds: float) -> Rung:
    n, m = baseline.problem.n_rows, baseline.evaluation.n_rows
    groups, cells = len(question.groups), question.n_epsilon
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

# SPDX-License-Identifier: Apache-2.0
"""The Monte-Carlo error of reports that are followed by a sample of their bit patterns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from epsilens.influence.baseline import Baseline
from epsilens.influence.mechanisms import UnaryBlock
from epsilens.influence.question import Asked
from epsilens.whatif.cells import CellAnswer, Question, Rung
from epsilens.whatif.ladder import climb

__all__ = ["with_sampling_error"]

N_SAMPLES = 4


def with_sampling_error(
    baseline: Baseline, asked: Asked, question: Question, rung: Rung, answers: list[CellAnswer]
) -> list[CellAnswer]:
    """Answer again with further samples of patterns; average, widen by their spread, and say so.

    Parameters
    ----------
    baseline : Baseline
    asked : Asked
        Its notes gain the error.
    question : Question
    rung : str
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
        samples.append(climb(baseline, again, rung))
    result = []
    for cells in zip(*samples, strict=True):
        changes = np.array([cell.loss_change for cell in cells])
        spread = float(changes.std(ddof=1))
        asked.notes.append(
            f"the change of loss has a Monte-Carlo error of {spread / np.sqrt(N_SAMPLES):.2g}, from "
            f"{N_SAMPLES} samples of patterns; the interval is widened by their spread."
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

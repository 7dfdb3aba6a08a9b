# SPDX-License-Identifier: Apache-2.0
"""From a checked question to what the ladder is asked: v, the correction, the channels."""

from __future__ import annotations

import warnings

import numpy as np

from epsilens._validate import as_choice
from epsilens.errors import ApproximationWarning, InputError
from epsilens.influence import FirstOrder, HessianOperator, InverseHessian
from epsilens.influence.baseline import Baseline
from epsilens.influence.groups import is_associated
from epsilens.influence.question import Asked
from epsilens.models.execution import workers
from epsilens.whatif.cells import Question

__all__ = ["as_correction", "as_question", "solve"]

_CONDITIONS_OF_CORRECTION = (
    "forward correction leads back to the model of the true labels (P1 Thm 1) only if the model is well "
    "specified and who is in the group does not depend on the label, given the features; P1's proof "
    "does not say so."
)


def solve(baseline: Baseline, inverse: InverseHessian) -> FirstOrder:
    """Return v = H⁻¹η, and warn if the solver did not get there."""
    known = None if inverse.is_matrix_free else baseline.curvature
    operator = HessianOperator(baseline.problem, baseline.theta, known)
    with workers():
        found = FirstOrder.of(operator, inverse, baseline.evaluation.gradient(baseline.theta))
    if found.solution.note:
        warnings.warn(found.solution.note, ApproximationWarning, stacklevel=3)
    return found


def as_correction(correction: str | None, asked: Asked, baseline: Baseline) -> bool:
    """Return whether the loss is corrected, and note under which conditions that helps."""
    if (
        correction is None
        or as_choice(correction, ("none", "forward"), name="correction") == "none"
    ):
        return False
    if not asked.label_is_protected:
        raise InputError(
            "`correction` is for a randomised label, and the label is not protected. Leave it out, "
            "or protect the label."
        )
    if baseline.problem.loss.is_quadratic:
        raise InputError(
            "`correction` mixes predicted probabilities, and a squared loss has none. Leave it out, "
            "or use LogisticRegression."
        )
    asked.notes.append(_CONDITIONS_OF_CORRECTION)
    codes, _ = asked.label.domain()
    for group in asked.groups:
        if is_associated(group.mask, codes):
            text = (
                f"who is in group {group.name!r} goes with the label: unless the features explain "
                "that, forward correction leads away from the model of the true labels."
            )
            warnings.warn(text, ApproximationWarning, stacklevel=4)
            asked.notes.append(text)
    return True


def as_question(asked: Asked, *, corrected: bool, n_draws: int, seed: int) -> Question:
    """Return what the ladder is asked."""
    n_epsilon = len(asked.epsilons)
    one = [np.ones((1, 1))] * n_epsilon
    return Question(
        groups=asked.groups,
        label_channels=[c.matrix for c in asked.label_channels] or one,
        joints=asked.joints(),
        lie_probabilities=np.array([c.lie_probability for c in asked.label_channels]),
        label_is_protected=asked.label_is_protected,
        alternatives=asked.alternatives,
        is_corrected=corrected,
        n_draws=n_draws,
        seed=seed,
    )

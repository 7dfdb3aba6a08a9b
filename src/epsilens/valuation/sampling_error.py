# SPDX-License-Identifier: Apache-2.0
"""How far a score could be off because the test set is only a sample."""

from __future__ import annotations

import numpy as np

from epsilens._types import FloatArray
from epsilens.influence import Evaluation
from epsilens.valuation.record_steps import Records
from epsilens.valuation.shared_objective import SharedObjective

__all__ = ["sampling_errors"]


def sampling_errors(
    shared: SharedObjective, evaluation: Evaluation, records: Records
) -> FloatArray:
    """Return the standard error of every score over test sets like this one.

    A score is a mean over test records, of which there are only so many. About half of all records
    score below zero by chance alone; one that is harmful beyond twice this error is another matter.

    Notes
    -----
    To first order the score is Σ_m ω_m g_mᵀδ_j, and its variance δ_jᵀSδ_j with
    S = Σ_m ω_m² (g_m − η)(g_m − η)ᵀ, ω the test weights and g_m the gradients of the test losses.
    """
    design, loss = evaluation.design, evaluation.loss
    slope = loss.slope(design.predict(shared.theta), evaluation.y)
    squared = evaluation.weights**2
    outer = slope[:, :, None] * slope[:, None, :] * squared[:, None, None]
    eta = design.pull(evaluation.weights[:, None] * slope)
    side = design.pull(squared[:, None] * slope)
    spread = design.gram(outer) - np.outer(side, eta) - np.outer(eta, side)
    spread += squared.sum() * np.outer(eta, eta)
    form = records.design.quadratic(shared.curvature.sandwich(spread))
    own = loss.slope(records.design.predict(shared.theta), records.y)
    own *= (records.weights / shared.problem.n_rows)[:, None]
    variance = np.einsum("bk,bkl,bl->b", own, form, own)
    errors: FloatArray = np.sqrt(np.maximum(variance, 0.0))
    return errors

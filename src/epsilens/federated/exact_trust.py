# SPDX-License-Identifier: Apache-2.0
"""The word on a model that rounds with all sites have led to."""

from __future__ import annotations

import numpy as np

from epsilens.federated.change import Step, Trust
from epsilens.federated.training import Trained

__all__ = ["exact_trust", "unconverged"]


def unconverged(trained: Trained) -> str:
    """Say that rounds have not reached the optimum."""
    return (
        f"the gradient has norm {trained.gradient_norm:.2g}: the model is not at its optimum. Run more "
        "rounds, or `newton`"
    )


def exact_trust(trained: Trained, step: Step, share: float) -> Trust:
    """Return the word on rounds that were run to the end."""
    remaining = trained.objective.gradient
    error = float(np.linalg.norm(step.curvature.solve(remaining)))
    return Trust(
        predicted_error=error,
        logit_move=0.0,
        share_changed=share,
        condition=step.curvature.condition,
        unconverged=error,
        advice="accept" if trained.converged else "converge",
        reason="" if trained.converged else unconverged(trained),
    )

# SPDX-License-Identifier: Apache-2.0
"""When an estimate that was not checked against solved runs deserves belief.

The expansion around θ_ε fails when the noise of one run in a test logit exceeds about 0.5 (0.40 was
still fine when checked against retraining), and for single records, such as those of a rare category
without a penalty, when their own noise exceeds 1. A squared loss has no logits, and its optimum moves
with the labels in proportion: only first order, which takes its parabola for a line, is asked for that
noise, measured against the residuals. Randomised features shake the Hessian itself, and there it is how
much of it one run shakes, √E tr((H⁻¹δH)²). What a method leaves out, and what hangs on such records, may be
0.6 of half the interval's width: an interval that is off by as much still holds three quarters of the runs.
"""

from __future__ import annotations

import math

__all__ = ["LARGEST_CONDITION", "LARGEST_LOGIT_NOISE", "is_trustworthy"]

LARGEST_LOGIT_NOISE = 0.5
LARGEST_CONDITION = 1e10
LARGEST_OMISSION = 0.6
"""What may be left out, of half the width of the interval."""


def is_trustworthy(
    *,
    converged: bool,
    logit_noise: float,
    condition: float,
    wild_loss: float = 0.0,
    omitted: float = 0.0,
    half_width: float = math.inf,
) -> bool:
    """Return whether an estimated change of loss deserves belief.

    Parameters
    ----------
    converged : bool
        Whether the solver reached its tolerance.
    logit_noise : float
        Root mean square noise of one run in a test record's logit; for a squared loss what is said above.
    condition : float
        Condition number of the Hessian, features scaled.
    wild_loss : float
        Test loss that hangs on records whose predictor one run leaves undetermined.
    omitted : float
        Size of the next term, which the rung left out.
    half_width : float
        Half the width of the prediction interval.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_trustworthy(converged=True, logit_noise=0.1, condition=100.0)
    True
    >>> is_trustworthy(converged=True, logit_noise=0.9, condition=100.0)
    False
    """
    tolerable = LARGEST_OMISSION * half_width
    return (
        converged
        and logit_noise <= LARGEST_LOGIT_NOISE
        and condition <= LARGEST_CONDITION
        and abs(omitted) <= tolerable
        and wild_loss <= tolerable
    )

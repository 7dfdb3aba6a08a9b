# SPDX-License-Identifier: Apache-2.0
"""Money for records, in proportion to what they are worth."""

from __future__ import annotations

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_positive
from epsilens.errors import InputError

__all__ = ["share_payment"]


def share_payment(scores: FloatArray, amount: float) -> FloatArray:
    """Divide an amount among records in proportion to their positive scores.

    Harmful records get nothing. If no record helps, nobody is paid.

    Parameters
    ----------
    scores : array of shape (n,)
        From `leave_one_out` or `add_one`.
    amount : float > 0
        What is paid in all.

    Returns
    -------
    array of shape (n,)
        Sums to `amount`, or to 0.

    Examples
    --------
    >>> import numpy as np
    >>> share_payment(np.array([0.75, -0.5, 0.25]), 100.0).tolist()
    [75.0, 0.0, 25.0]
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InputError(
            f"`scores` must be finite numbers, one a record, got an array of shape {values.shape}."
        )
    helpful = np.maximum(values, 0.0)
    total = helpful.sum()
    if not total > 0:
        return np.zeros_like(values)
    paid: FloatArray = as_positive(amount, name="amount") * (helpful / total)
    return paid

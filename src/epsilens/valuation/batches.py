# SPDX-License-Identifier: Apache-2.0
"""What a batch of records is worth together: less than the sum of its records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_finite, as_positive
from epsilens.errors import InputError


def batch_correction(q: float, b: float, k: int) -> float:
    """Return by how much the sum of a batch's scores overstates what the batch is worth.

    Scored one by one, records of a batch are each judged as if they came first; together they are
    partly redundant. Divide every score by this number, and the sum is what the test loss is
    expected to fall by when the whole batch is taken in. It is above 1, near 1 for small batches.

    Parameters
    ----------
    q : float > 0
        Records that the model was trained on before the first batch.
    b : float > 0
        Records in a batch.
    k : int ≥ 1
        Which batch this is, counted from 1; all before it have been taken in.

    Returns
    -------
    float
        D_b(k) = 2(Q + kb)² / ((Q + (k−1)b)(2Q + (2k−1)b)).

    Notes
    -----
    P4 section 5: the risk of a linear model falls as R(x) = Q²r/(Q + x)² + const with x further
    records, if features come from one distribution and labels of old and new records from two; D is
    the slope at the start of the batch times b, over the fall across the batch. In P4's ΔR_b(k) the
    factor (2Q + (k−1)b)² is a slip for (2Q + (2k−1)b); D_b(k) as printed there is right.

    References
    ----------
    P4: A. Richardson, A. Filos-Ratsikas, L. Rokvic, B. Faltings, "Privately computing influence in
    regression models", AAAI 2020.

    Examples
    --------
    >>> round(batch_correction(500, 100, 1), 4)
    1.3091
    >>> batch_correction(500, 100, 20) < batch_correction(500, 100, 1)
    True
    """
    q, b, k = as_positive(q, name="q"), as_positive(b, name="b"), as_count(k, name="k")
    before, after = q + (k - 1) * b, q + k * b
    return 2.0 * after**2 / (before * (before + after))


@dataclass(frozen=True, repr=False)  # a printed score would be one of a record
class BatchScores:
    """Scores of a batch's records, corrected so that their sum is what the batch is worth.

    Attributes
    ----------
    corrected : array of shape (b,)
        Divided by the expected factor.
    expected_factor : float
        D_b(k).
    measured_factor : float or None
        Sum of the scores over the real fall of the test loss; None before the batch is taken in, or
        where one of the two is 0 or they differ in sign: dividing by it would turn help into harm.
    corrected_by_measurement : array of shape (b,) or None
        Divided by the measured factor: the sum is the real fall.
    """

    corrected: FloatArray
    expected_factor: float
    measured_factor: float | None
    corrected_by_measurement: FloatArray | None


def correct_batch(
    scores: FloatArray, *, q: float, k: int = 1, loss_decrease: float | None = None
) -> BatchScores:
    """Scale the scores of one batch's records so that they add up to what the batch is worth.

    Parameters
    ----------
    scores : array of shape (b,)
        From `add_one`.
    q : float > 0
        Records that the model was trained on before the first batch.
    k : int ≥ 1
        Which batch this is, counted from 1.
    loss_decrease : float, optional
        How much the test loss really fell when the batch was taken in, if that is known: then the
        measured factor stands beside the expected one (P4 section 5, "a general way").

    Returns
    -------
    BatchScores

    Examples
    --------
    >>> import numpy as np
    >>> batch = correct_batch(np.full(100, 0.002), q=500, loss_decrease=0.16)
    >>> round(float(batch.corrected.sum()), 4), round(batch.measured_factor, 4)
    (0.1528, 1.25)
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise InputError(
            argument="scores",
            expected="finite numbers, one a record",
            got=f"an array of shape {values.shape}",
            hint="Take them from `add_one`.",
        )
    expected = batch_correction(q, len(values), k)
    measured: float | None = None
    by_measurement: FloatArray | None = None
    if loss_decrease is not None:
        fall = as_finite(loss_decrease, name="loss_decrease")
        total = float(values.sum())
        if fall * total > 0.0:
            measured = total / fall
            by_measurement = values / measured
    return BatchScores(values / expected, expected, measured, by_measurement)


# --- Money for records, in proportion to what they are worth ---


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
            argument="scores",
            expected="finite numbers, one a record",
            got=f"an array of shape {values.shape}",
        )
    helpful = np.maximum(values, 0.0)
    total = helpful.sum()
    if not total > 0:
        return np.zeros_like(values)
    paid: FloatArray = as_positive(amount, name="amount") * (helpful / total)
    return paid

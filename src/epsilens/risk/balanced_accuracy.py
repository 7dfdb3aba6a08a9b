# SPDX-License-Identifier: Apache-2.0
"""How often the attack is right on members and on others, each half of the weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray
from epsilens.risk.roc import HeldOutScores
from epsilens.risk.success_rate import lower_rate

__all__ = ["BalancedAccuracy", "balanced_accuracy"]


@dataclass(frozen=True, eq=False)
class BalancedAccuracy:
    """Balanced accuracy of the attack on each sample, at one threshold fixed beforehand.

    Attributes
    ----------
    per_sample : array of float64, (n_samples,)
        Mean of the rates of right judgements on members and on others. Sensitive: it says who is
        exposed. NaN where a sample could not be judged.
    max, mean : float
        Over the samples.
    max_lower_bound : float or None
        With the stated confidence the most exposed sample's balanced accuracy is at least this.
        None if the membership does not come from fair coins.
    threshold : float in (0, 1)
        On Λ; above it the attack says "member".
    confidence : float in (0, 1)
        Of the bound, for all samples at once.
    """

    per_sample: FloatArray
    max: float
    mean: float
    max_lower_bound: float | None
    threshold: float
    confidence: float

    def __repr__(self) -> str:
        """Return the numbers that describe no single record."""
        bound = "None" if self.max_lower_bound is None else f"{self.max_lower_bound:.4f}"
        return (
            f"BalancedAccuracy(max={self.max:.4f}, max_lower_bound={bound}, "
            f"mean={self.mean:.4f}, threshold={self.threshold:g}, confidence={self.confidence:g})"
        )


def balanced_accuracy(
    held_out: HeldOutScores,
    *,
    cut: float,
    threshold: float,
    confidence: float,
    with_bound: bool,
) -> BalancedAccuracy:
    """Return the balanced accuracy of judging every score above `cut` a member's.

    Parameters
    ----------
    held_out : HeldOutScores
        Standardised scores of the judged pairs.
    cut : float
        The threshold on the scale of the statistic.
    threshold : float
        The same on the scale of Λ, for the record.
    confidence : float in (0, 1)
        Of the lower bound.
    with_bound : bool
        Whether models are independent, so that a bound can be had.

    Returns
    -------
    BalancedAccuracy
        Per sample, its maximum and the bound of it.

    Notes
    -----
    Four Clopper–Pearson bounds a sample, members and others in each direction of the split, each
    at a 4N-th of the error; directions are averaged by their numbers of models.
    """
    n_samples = held_out.membership.shape[1]
    counts = np.zeros((2, 2, 2, n_samples), dtype=np.int64)  # half, side, right and all
    for half in (0, 1):
        said = held_out.statistic[half::2] > cut
        members = held_out.membership[half::2]
        n_models = members.shape[0]
        n_in, n_said, n_hit = (part.sum(axis=0) for part in (members, said, said & members))
        counts[half] = [[n_hit, n_in], [n_models - n_in - n_said + n_hit, n_models - n_in]]
    right, trials = counts[:, :, 0], counts[:, :, 1]
    usable = held_out.judged & (trials > 0).all(axis=1)
    weights = np.where(usable, trials.sum(axis=1), 0)
    total = weights.sum(axis=0)

    def averaged(rates: FloatArray) -> FloatArray:
        both = (rates.mean(axis=1) * weights).sum(axis=0)
        return np.where(total > 0, both / np.maximum(total, 1), np.nan)

    per_sample = averaged(right / np.maximum(trials, 1))
    bound = None
    if not (total > 0).any():
        return BalancedAccuracy(per_sample, np.nan, np.nan, None, threshold, confidence)
    if with_bound:
        level = (1.0 - confidence) / (4 * n_samples)
        bound = float(np.nanmax(averaged(lower_rate(right, trials, level=level))))
    per_sample.setflags(write=False)
    return BalancedAccuracy(
        per_sample=per_sample,
        max=float(np.nanmax(per_sample)),
        mean=float(np.nanmean(per_sample)),
        max_lower_bound=bound,
        threshold=threshold,
        confidence=confidence,
    )

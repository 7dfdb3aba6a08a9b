# SPDX-License-Identifier: Apache-2.0
"""Whose membership is recognised, group by group.

The attack is that of everybody: every record is judged by a fit of its own, so a group needs no attack of its own.
All bounds hold for all groups at once. No single record is named, and small groups get no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsilens._types import BoolArray
from epsilens.risk.membership_attack import HeldOutScores, MembershipAttack

FEWEST_FOR_MEAN = 30
"""Records in a group from which on its mean success rate is stated."""
FEWEST_FOR_TPR = 100
"""Records from which on it is stated who is found at 1 % false alarms. In a smaller group one record alone
has more than 1 % of all pairs."""
_FPR = 0.01
_RESAMPLES = 1000


def group_exposures(
    attack: MembershipAttack, groups: Sequence[BoolArray], *, seed: int
) -> list[dict[str, Any]]:
    """Return how exposed each group is: the numbers of `GroupRiskCell` about membership.

    Parameters
    ----------
    attack : MembershipAttack
    groups : sequence of array of bool, shape (n_samples,)
        Which of the attacked records are in each group. Groups may overlap.
    seed : int
        Seed of the resampling.

    Returns
    -------
    list of dict
        For each group: n_attacked, asr_mean, asr_mean_lower_bound, asr_mean_excess, asr_mean_excess_lower_bound,
        tpr_at_fpr_0_01, and the ends of its interval. None where there are too few records.

    Notes
    -----
    Lower bounds are Student's t over models, as of everybody's mean, at 1 − (1 − confidence)/G for G groups. The excess
    is the mean success rate of a group less that of all other attacked records, compared within each model. The interval
    of the true alarms is that of `MembershipAttack.tpr_interval` at the same level, with the false alarms counted within
    the group.

    Examples
    --------
    >>> from epsilens.risk import lira
    >>> rng = np.random.default_rng(0)
    >>> membership = rng.random((200, 300)) < 0.5
    >>> young = np.arange(300) < 120
    >>> scores = 1.5 * young * membership + rng.normal(size=membership.shape)
    >>> found = group_exposures(lira(scores, membership), [young, ~young], seed=0)
    >>> [round(one["asr_mean"], 2) for one in found]
    [0.72, 0.5]
    >>> found[0]["asr_mean_excess_lower_bound"] > 0.19
    True
    """
    known = attack.held_out.judged.any(axis=0)
    masks = [group & known for group in groups]
    large = [mask for mask in masks if int(mask.sum()) >= FEWEST_FOR_MEAN]
    level = 1.0 - (1.0 - attack.confidence) / max(len(large), 1)
    found = []
    for mask in masks:
        own, others = int(mask.sum()), int((known & ~mask).sum())
        numbers: dict[str, Any] = {"n_attacked": own}
        if own >= FEWEST_FOR_MEAN:
            part = _part(attack.held_out, mask)
            numbers["asr_mean"] = float(np.nanmean(part.model_rates()[0]))
            numbers["asr_mean_lower_bound"] = part.mean_lower_bound(level)
            if others >= FEWEST_FOR_MEAN:
                numbers |= _excess(part, _part(attack.held_out, known & ~mask), level)
        if own >= FEWEST_FOR_TPR:
            low, high = part.tpr_interval(_FPR, confidence=level, n_resamples=_RESAMPLES, seed=seed)
            numbers |= {
                "tpr_at_fpr_0_01": part.tpr_at_fpr(_FPR),
                "tpr_at_fpr_0_01_low": low,
                "tpr_at_fpr_0_01_high": high,
            }
        found.append(numbers)
    return found


def _part(held_out: HeldOutScores, mask: BoolArray) -> HeldOutScores:
    """Return the scores of some records only."""
    return HeldOutScores(
        held_out.statistic[:, mask],
        held_out.membership[:, mask],
        held_out.judged[:, mask],
        held_out.has_common_luck,
    )


def _excess(own: HeldOutScores, others: HeldOutScores, level: float) -> dict[str, float]:
    """Return how much more often a group is judged rightly than all others, with its lower bound."""
    differences = own.model_rates()[0] - others.model_rates()[0]
    differences = differences[np.isfinite(differences)]
    if len(differences) < 2:
        return {}
    return {
        "asr_mean_excess": float(differences.mean()),
        "asr_mean_excess_lower_bound": own.lower_end(differences, level),
    }

# SPDX-License-Identifier: Apache-2.0
"""One mask for everybody, by any of the three ways, or one for every person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_unit
from epsilens.document import MaskOutcome
from epsilens.masking.knapsack import MaskChoice, solve_mask
from epsilens.masking.plain_masks import mask_at_random, mask_most_identifying

__all__ = ["Method", "Scope", "choice_by", "joined", "outcome", "person_choices"]

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Method: TypeAlias = Literal["knapsack", "top-share", "random"]
Scope: TypeAlias = Literal["global", "identity"]


def choice_by(
    u: FloatArray, s: FloatArray, *, method: Method, alpha: float, share: float, seed: int
) -> MaskChoice:
    """Choose one mask for everybody.

    Parameters
    ----------
    u, s : array of shape (n_features,)
        Importance for the task and for the identity.
    method : {"knapsack", "top-share", "random"}
    alpha, share : float in [0, 1]
        What the first needs, and what the other two need.
    seed : int
        Of the last.
    """
    if method == "knapsack":
        return solve_mask(u, s, alpha=alpha)
    n_masked = round(as_unit(share, name="share") * len(u))
    kept = (
        mask_most_identifying(s, share=share)
        if method == "top-share"
        else mask_at_random(len(u), n_masked=n_masked, random_state=seed)
    )
    return MaskChoice(
        kept=kept,
        alpha=alpha,
        utility_kept=float(u[kept].sum() / u.sum()) if u.any() else 1.0,
        privacy_kept=float(s[kept].sum() / s.sum()) if s.any() else 0.0,
        utility_bound=1.0,
        solver="greedy",
    )


def person_choices(
    utility: FloatArray, privacy: FloatArray, *, alpha: float
) -> tuple[MaskChoice, ...]:
    """Choose a mask for every person (P5 Alg. 1).

    P5 has u by answer and s by person; a person's u is the mean over the answers that they give.

    Parameters
    ----------
    utility, privacy : array of shape (n_people, n_features)
    alpha : float in [0, 1]
    """
    return tuple(solve_mask(u, s, alpha=alpha) for u, s in zip(utility, privacy, strict=True))


def joined(choices: Sequence[MaskChoice], shares: FloatArray, alpha: float) -> MaskChoice:
    """Sum the masks of all people up, weighted by their records."""

    def mean(values: Sequence[float]) -> float:
        return float(np.dot(shares, values) / shares.sum())

    return MaskChoice(
        kept=np.all([choice.kept for choice in choices], axis=0),
        alpha=alpha,
        utility_kept=mean([choice.utility_kept for choice in choices]),
        privacy_kept=mean([choice.privacy_kept for choice in choices]),
        utility_bound=mean([choice.utility_bound for choice in choices]),
        solver="exact" if all(choice.solver == "exact" for choice in choices) else "greedy",
    )


def outcome(
    masking: Literal["none", "random", "chosen"],
    n_masked: int,
    judged: Sequence[tuple[BoolArray, BoolArray]],
) -> MaskOutcome:
    """Average over masks; the error is over test records, for all masks share them."""
    right = np.mean([one[0] for one in judged], axis=0)
    recognised = np.mean([one[1] for one in judged], axis=0)
    root = np.sqrt(len(right))
    return MaskOutcome(
        masking=masking,
        n_masked=n_masked,
        utility_accuracy=float(right.mean()),
        utility_error=float(right.std() / root),
        identity_accuracy=float(recognised.mean()),
        identity_error=float(recognised.std() / root),
    )

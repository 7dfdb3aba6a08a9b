# SPDX-License-Identifier: Apache-2.0
"""What must be said beside a mask."""

from __future__ import annotations

from epsilens._types import BoolArray, FloatArray
from epsilens.document import MASK_FROM_PUBLIC, MASK_NOT_PRIVATE, MaskOutcome
from epsilens.masking.importances import FEWEST_EXPLAINED
from epsilens.masking.knapsack import MaskChoice

__all__ = ["TELLS_WHO", "mask_notes"]

TELLS_WHO = (
    "every person has a mask of their own: which features are blank tells whose record it is. Use one mask for "
    "everybody unless that is accepted."
)
_CLEARLY = 2.0


def mask_notes(
    choice: MaskChoice,
    s: FloatArray,
    held: BoolArray,
    *,
    is_public: bool,
    is_by_person: bool,
    serves: bool,
    n_explained: int,
    before: MaskOutcome,
    guess: float,
    trained: tuple[int, int],
    tried: tuple[int, int],
) -> list[str]:
    """Return the warnings of a mask; none names a feature.

    Parameters
    ----------
    choice : MaskChoice
    s : array of shape (n_features,)
        Importance for the identity.
    held : array of bool, (n_features,)
        True for features that are never masked.
    is_public, is_by_person, serves : bool
        Whether public records chose the mask, every person has their own, and any feature serves the
        task.
    n_explained : int
    before : MaskOutcome
        With nothing masked.
    guess : float
        How often guessing the most common person is right.
    trained, tried : (int, int)
        Records that models were trained on, and shares that were tried, each out of how many.
    """
    notes = [MASK_FROM_PUBLIC if is_public else MASK_NOT_PRIVATE]
    if trained[0] < trained[1]:
        notes.append(
            f"to keep within the time, models were trained on {trained[0]:,} of {trained[1]:,} records, and "
            f"{n_explained:,} records were explained. With all records people are recognised more often. "
            "Allow more time with `seconds`."
        )
    if tried[0] < tried[1]:
        notes.append(
            f"the time was up after {tried[0]} of {tried[1]} other values of α. Allow more with `seconds`."
        )
    if is_by_person:
        notes.append(TELLS_WHO)
    if n_explained < FEWEST_EXPLAINED:
        notes.append(
            f"too few records to judge: only {n_explained} were explained, so that importances and mask may be "
            "chance. Set more records aside."
        )
    elif not serves:
        notes.append(
            "no feature clearly serves the task: on records set aside the model rests on noise, so that "
            "everything that identifies can go. Look at its accuracy first."
        )
    recognised, error = before.identity_accuracy, before.identity_error
    if recognised is not None and error is not None and recognised <= guess + _CLEARLY * error:
        notes.append(
            "people are not clearly recognised better than by guessing, even with all features: what is "
            "called identifying may be chance. Try another `identity_estimator` before trusting the mask."
        )
    total = float(s.sum())
    if total > 0 and s[held].sum() > (1.0 - choice.alpha + 1e-12) * total:
        notes.append(
            f"α = {choice.alpha:g} cannot be met: the features that must be kept hold "
            f"{100 * s[held].sum() / total:.0f} % of the identifying importance by themselves."
        )
    if serves and not choice.kept.any():
        notes.append("no feature is left: whatever serves the task identifies too.")
    return notes

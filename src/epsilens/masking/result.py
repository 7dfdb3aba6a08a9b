# SPDX-License-Identifier: Apache-2.0
"""The answer: which features go, and what is left without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epsilens._types import BoolArray, FloatArray
from epsilens.data.frames import Documented, like, to_pandas
from epsilens.document import MaskDocument, MaskOutcome
from epsilens.errors import setting
from epsilens.masking.choices import mask_at_random
from epsilens.masking.importances import FEWEST_EXPLAINED, TaskImportances
from epsilens.masking.knapsack import MaskChoice
from epsilens.notes import Note

if TYPE_CHECKING:
    import altair as alt

    from epsilens.masking.masked_risk import MaskedRisk


@dataclass(frozen=True, eq=False, repr=False)
class Mask(Documented):
    """Which features are kept, with what that does to the task and to recognising people.

    Attributes
    ----------
    document : MaskDocument
        The whole answer; what follows are views of it.
    kept : array of bool, (n_features,)
        True = kept. Where every person has a mask of their own: kept for all.
    utility, privacy : TaskImportances
        What the two models rest on.
    person_masks : array of bool, (n_people, n_features), or None
        With `scope="identity"`, the mask of each of `privacy.classes`. **Sensitive**: a mask tells
        whose it is.
    held : array of bool, (n_features,), or None
        Which features were to be kept in any case.
    risk : MaskedRisk or None
        The attacks behind a relaxed ε. **Sensitive**.
    """

    document: MaskDocument
    kept: BoolArray
    utility: TaskImportances
    privacy: TaskImportances
    person_masks: BoolArray | None = None
    held: BoolArray | None = None
    risk: MaskedRisk | None = None
    template: object = field(default=None, compare=False)

    def at_random(self, random_state: int = 0) -> BoolArray:
        """Return a mask of as many features, drawn among those that may go: the control.

        Parameters
        ----------
        random_state : int

        Returns
        -------
        array of bool, (n_features,)
            True = kept.
        """
        n_masked = int((~self.kept).sum())
        return mask_at_random(
            len(self.kept), n_masked=n_masked, random_state=random_state, keep=self.held
        )

    def to_frame(self) -> object:
        """Return one row per feature: name, utility, privacy, kept_share."""
        import pandas as pd

        rows = [feature.model_dump() for feature in self.document.features]
        return like(pd.DataFrame(rows), self.template)

    def keep_columns(self, X: object) -> object:
        """Return a table without the masked features."""
        frame = to_pandas(X)
        names = set(self.document.kept)
        return like(frame[[name for name in frame.columns if str(name) in names]], X)

    def plot(self) -> alt.VConcatChart:
        """Draw what every feature does for the task and for recognising people, and the curve of α."""
        from epsilens.show import mask_chart

        return mask_chart(self.document)

    def picture(self, shape: tuple[int, int]) -> alt.HConcatChart:
        """Draw the mask as a picture, for features that are the pixels of one.

        Parameters
        ----------
        shape : (height, width)
        """
        from epsilens.show import mask_picture

        return mask_picture(
            {
                "identifies": self.privacy.overall,
                "serves the task": self.utility.overall,
                "kept": self.kept,
            },
            shape=shape,
        )

    def __repr__(self) -> str:
        document = self.document
        return (
            f"Mask({len(document.kept)} features kept, {len(document.masked)} masked, alpha="
            f"{document.alpha:g}, {document.solver})"
        )


# --- What must be said beside a mask ---

MASK_NOT_PRIVATE = Note(
    "mask-not-private",
    "the mask was chosen by looking at these records, and what it does was measured on them: neither is "
    "private itself. Choose it on public records if it is to be published.",
)
MASK_FROM_PUBLIC = Note(
    "mask-from-public",
    "the mask comes from public records alone, but what it does was measured on private ones: these "
    "accuracies are not private.",
)
TELLS_WHO = Note(
    "mask-shows-person",
    "every person has a mask of their own: which features are blank tells whose record it is. Use one mask for "
    "everybody unless that is accepted.",
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
) -> Iterator[Note]:
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
    yield MASK_FROM_PUBLIC if is_public else MASK_NOT_PRIVATE
    if trained[0] < trained[1]:
        yield Note(
            "training-sample",
            f"to keep within the time, models were trained on {trained[0]:,} of {trained[1]:,} records, and "
            f"{n_explained:,} records were explained. With all records people are recognised more often. "
            f"Allow more time with {setting('seconds')}.",
        )
    if tried[0] < tried[1]:
        yield Note(
            "time-used-up",
            f"the time was up after {tried[0]} of {tried[1]} other values of α. Allow more with {setting('seconds')}.",
        )
    if is_by_person:
        yield TELLS_WHO
    if n_explained < FEWEST_EXPLAINED:
        yield Note(
            "few-explained",
            f"too few records to judge: only {n_explained} were explained, so that importances and mask may be "
            "chance. Set more records aside.",
        )
    elif not serves:
        yield Note(
            "no-useful-feature",
            "no feature clearly serves the task: on records set aside the model rests on noise, so that "
            "everything that identifies can go. Look at its accuracy first.",
        )
    recognised, error = before.identity_accuracy, before.identity_error
    if recognised is not None and error is not None and recognised <= guess + _CLEARLY * error:
        yield Note(
            "people-not-recognised",
            "people are not clearly recognised better than by guessing, even with all "
            "features: what is called identifying may be chance. Try another "
            "`identity_estimator` before trusting the mask.",
        )
    total = float(s.sum())
    if total > 0 and s[held].sum() > (1.0 - choice.alpha + 1e-12) * total:
        yield Note(
            "alpha-not-met",
            f"α = {choice.alpha:g} cannot be met: the features that must be kept hold "
            f"{100 * s[held].sum() / total:.0f} % of the identifying importance by themselves.",
        )
    if serves and not choice.kept.any():
        yield Note(
            "no-feature-left", "no feature is left: whatever serves the task identifies too."
        )

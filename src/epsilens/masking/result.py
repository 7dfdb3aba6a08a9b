# SPDX-License-Identifier: Apache-2.0
"""The answer: which features go, and what is left without them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epsilens._types import BoolArray
from epsilens.data.documented import Documented
from epsilens.data.frames import like, to_pandas
from epsilens.document import MaskDocument
from epsilens.masking.importances import TaskImportances
from epsilens.masking.plain_masks import mask_at_random

if TYPE_CHECKING:
    import altair as alt

    from epsilens.masking.relaxation import MaskedRisk

__all__ = ["Mask"]


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

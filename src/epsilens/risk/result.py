# SPDX-License-Identifier: Apache-2.0
"""The answer: what an attacker gets at each ε."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_count
from epsilens.data.documented import Documented
from epsilens.data.frames import like
from epsilens.document import RiskCell, RiskDocument
from epsilens.errors import InputError
from epsilens.risk.attack_limit import AttackChoice, choose_epsilon
from epsilens.risk.membership_attack import MembershipAttack

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

__all__ = ["RiskCurve", "risk_frame"]

CELL_COLUMNS = tuple(RiskCell.model_fields)


def risk_frame(document: RiskDocument) -> pd.DataFrame:
    """Return the cells of a document as a pandas frame, one row per ε."""
    import pandas as pd

    rows = [{name: getattr(cell, name) for name in CELL_COLUMNS} for cell in document.cells]
    frame = pd.DataFrame(rows, columns=list(CELL_COLUMNS))
    return frame.astype({c: "float64" for c in CELL_COLUMNS if c != "mechanism"})


@dataclass(frozen=True, repr=False)
class RiskCurve(Documented):
    """What attackers get at each ε, with floor and ceiling.

    Attributes
    ----------
    document : RiskDocument
        The whole answer; what follows are views of it.
    attacks : tuple of MembershipAttack
        The membership attack of every cell, record by record: sensitive, and in no document. Empty where
        the document alone is known, such as one that was loaded.
    targets : array of int
        The training rows that were attacked.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cells = [RiskCell(epsilon=epsilon, mechanism="rr", answer_inference_ceiling=ceiling)
    ...          for epsilon, ceiling in ((1.0, 0.8), (2.0, 0.9))]
    >>> curve = RiskCurve(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                                n_targets=9, cells=cells))
    >>> curve.choose(max_attack_rate=0.85).epsilon
    1.0
    """

    document: RiskDocument
    attacks: tuple[MembershipAttack, ...] = ()
    targets: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    template: object = field(default=None, compare=False)

    def to_frame(self) -> object:
        """Return one row per ε, in the frame library that the data came in."""
        return like(risk_frame(self.document), self.template)

    def plot(self) -> alt.VConcatChart:
        """Draw the attack rates against ε, with floor and ceiling."""
        from epsilens.show import risk_chart

        return risk_chart(self.document)

    def most_exposed(self, n: int = 20, *, epsilon: float | None = None) -> pd.DataFrame:
        """Return the training rows on which the membership attack succeeds most often.

        This is about single people: keep it on this machine.

        Parameters
        ----------
        n : int
            How many rows.
        epsilon : float, optional
            Of which cell; None: the largest ε.

        Returns
        -------
        pandas.DataFrame
            row (from 0, among the training records), asr.
        """
        import pandas as pd

        wanted = as_count(n, name="n", least=1)
        if not self.attacks:
            raise InputError(
                "which records are most exposed is in no document, and this curve was made from one. "
                "Attack the model again."
            )
        attack = self.attacks[self._place(epsilon)]
        order = np.argsort(-attack.asr, kind="stable")[:wanted]
        return pd.DataFrame({"row": self.targets[order], "asr": attack.asr[order]})

    def choose(self, *, max_attack_rate: float, measured: bool = False) -> AttackChoice:
        """Pick the largest ε at which attackers stay within what is feared; see `choose_epsilon`.

        Parameters
        ----------
        max_attack_rate : float in (0, 1)
            How often the attack may succeed at most.
        measured : bool
            Whether the upper end of the attack that was tried may meet the limit where the proven
            ceiling does not.

        Returns
        -------
        AttackChoice
        """
        return choose_epsilon(self.document, max_attack_rate=max_attack_rate, measured=measured)

    def _place(self, epsilon: float | None) -> int:
        if epsilon is None:
            return len(self.attacks) - 1
        for place, cell in enumerate(self.document.cells):
            if cell.epsilon == epsilon:
                return place
        raise InputError(
            f"`epsilon` must be one of the {len(self.attacks)} of this curve, got {epsilon:g}."
        )

    def __repr__(self) -> str:
        return (
            f"RiskCurve({len(self.document.cells)} epsilon, {self.document.n_models} shadow models, "
            f"{self.document.n_targets} records attacked)\n{risk_frame(self.document)}"
        )

    def _repr_html_(self) -> str:
        """Show itself in a notebook: a line that sums up, and a few rows of the grid."""
        from epsilens.show.notebook import risk_html

        return risk_html(self.document)

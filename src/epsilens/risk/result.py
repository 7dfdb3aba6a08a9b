# SPDX-License-Identifier: Apache-2.0
"""The answer: what an attacker gets at each ε."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_count, as_share
from epsilens.data.frames import Documented, like
from epsilens.document import RiskCell, RiskDocument
from epsilens.document.clauses import baseline_text
from epsilens.document.risk import CELL_WORDS
from epsilens.document.wording import at_most_text, own_budget
from epsilens.errors import InputError
from epsilens.risk.membership_attack import MembershipAttack

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


# --- The largest ε at which attackers stay within what is feared ---


@dataclass(frozen=True)
class AttackChoice:
    """The ε that a feared attack rate allows.

    Attributes
    ----------
    epsilon : float or None
        The largest ε that meets the limit together with every smaller one of the grid; None if there
        is none. Where columns have different budgets, that of a whole record.
    holds : bool
        Whether there is one.
    rests_on : {"proven", "measured"} or None
        Whether the ceiling meets the limit there, or only the upper end of what was measured.
    sentence : str
        The choice in words.
    """

    epsilon: float | None
    holds: bool
    rests_on: Literal["proven", "measured"] | None
    sentence: str


def choose_epsilon(
    document: RiskDocument, *, max_attack_rate: float, measured: bool = False
) -> AttackChoice:
    """Pick the largest ε at which attackers succeed no more often than is feared.

    For randomised response the attack is the guess of a person's own answer, for DP-SGD it is on
    membership. The limit is met where the ceiling is within it.

    Parameters
    ----------
    document : RiskDocument
        The risk.
    max_attack_rate : float in (0, 1)
        How often the attack may succeed at most: a share, not a percentage.
    measured : bool
        Whether the upper end of the measured rate may meet the limit where the ceiling does not;
        never the measured rate itself. That attack is one of many.

    Returns
    -------
    AttackChoice

    Notes
    -----
    The measured end is of this attack alone. The ceiling is of every attack, given the upper bound of
    what everybody else's data give away. An ε counts only if all smaller ones of the grid meet the limit too:
    otherwise the luckiest of many noisy rates would be picked.

    Examples
    --------
    >>> from epsilens.document import RiskCell, example_document
    >>> cells = [RiskCell(epsilon=epsilon, mechanism="dpsgd", delta=1e-5, asr_ceiling=ceiling)
    ...          for epsilon, ceiling in ((0.5, 0.63), (1.0, 0.74))]
    >>> choice = choose_epsilon(example_document("risk", cells=cells), max_attack_rate=0.7)
    >>> choice.epsilon, choice.rests_on
    (0.5, 'proven')
    """
    limit = as_share(max_attack_rate, name="max_attack_rate")
    cells = document.cells
    answers = all(cell.mechanism == "rr" for cell in cells)
    proven = _last_within(cells, _ceiling, limit)
    tried = _last_within(cells, lambda cell: cell.answer_inference_high, limit)
    said = f"{100 * limit:.4g}%"
    if tried is None or not measured or (proven is not None and proven >= tried):
        if proven is None:
            return AttackChoice(
                None, False, None, _nearest_miss(cells, said, answers=answers, measured=measured)
            )
        cell = cells[proven]
        whom, given = (
            ("no attack on the answer", " given its baseline")
            if answers
            else (
                "no membership attack",
                "",
            )
        )
        sentence = (
            f"Up to ε = {own_budget(cell):.3g} {whom} can exceed {said} (proven{given}: the ceiling "
            f"there is {_at_most(_ceiling(cell))})."
        )
        return AttackChoice(own_budget(cell), True, "proven", sentence)
    cell = cells[tried]
    beyond = "is proven at no ε of the grid"
    if proven is not None:
        beyond = (
            f"is proven only up to ε = {own_budget(cells[proven]):.3g} (ceiling "
            f"{_at_most(_ceiling(cells[proven]))})"
        )
    sentence = (
        f"Up to ε = {own_budget(cell):.3g} the attack that was tried stays within {said} (measured: 19 in "
        f"20 releases show at most {_at_most(cell.answer_inference_high)}). A better attack may exist: "
        f"that no attack can exceed {said} {beyond}."
    )
    return AttackChoice(own_budget(cell), True, "measured", sentence)


def _ceiling(cell: RiskCell) -> float | None:
    return cell.answer_inference_ceiling if cell.mechanism == "rr" else cell.asr_ceiling


def _last_within(
    cells: list[RiskCell], rate: Callable[[RiskCell], float | None], limit: float
) -> int | None:
    """Return the last place such that it and all before are within the limit."""
    found = None
    for place, cell in enumerate(cells):
        value = rate(cell)
        if value is None or value > limit:
            break
        found = place
    return found


def _nearest_miss(cells: list[RiskCell], said: str, *, answers: bool, measured: bool) -> str:
    if not cells:
        return "No budget was asked about."
    cell = cells[0]
    parts = []
    if (ceiling := _ceiling(cell)) is not None:
        before = baseline_text(cell) if answers else None
        given = "" if before is None else f" (everybody else's data give away up to {before})"
        parts.append(f"the proven ceiling is {at_most_text(ceiling)}{given}")
    if measured and cell.answer_inference_high is not None:
        parts.append(f"19 in 20 releases show at most {_at_most(cell.answer_inference_high)}")
    there = f"; at the smallest, ε = {own_budget(cell):.3g}, {' and '.join(parts)}" if parts else ""
    what = "guesses of the answer" if answers else "membership attacks"
    return f"No ε of the grid keeps {what} within {said}{there}."


def _at_most(share: float | None) -> str:
    return "unknown" if share is None else at_most_text(share)


# --- The answer: what an attacker gets at each ε ---

CELL_COLUMNS = tuple(name for name in RiskCell.model_fields if name != "group_epsilons")


def risk_frame(document: RiskDocument) -> pd.DataFrame:
    """Return the cells of a document as a pandas frame, one row per ε."""
    import pandas as pd

    groups = dict.fromkeys(name for cell in document.cells for name in cell.group_epsilons or ())
    rows = [
        {name: getattr(cell, name) for name in CELL_COLUMNS}
        | {f"epsilon_{name}": own for name, own in (cell.group_epsilons or {}).items()}
        for cell in document.cells
    ]
    columns = [*CELL_COLUMNS, *(f"epsilon_{name}" for name in groups)]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({c: "float64" for c in columns if c not in CELL_WORDS})


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
    >>> from epsilens.document import example_document
    >>> cells = [RiskCell(epsilon=epsilon, mechanism="rr", answer_inference_ceiling=ceiling)
    ...          for epsilon, ceiling in ((1.0, 0.8), (2.0, 0.9))]
    >>> curve = RiskCurve(example_document("risk", n_models=256,
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
            ε of the cell; None: the largest ε.

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
            argument="epsilon",
            expected=f"one of the {len(self.attacks)} of this curve",
            got=f"{epsilon:g}",
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

# SPDX-License-Identifier: Apache-2.0
"""The largest ε at which attackers stay within what is feared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from epsilens._validate import as_share
from epsilens.document import RiskCell, RiskDocument, at_most_text, baseline_text, own_budget

__all__ = ["AttackChoice", "choose_epsilon"]


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
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cells = [RiskCell(epsilon=epsilon, mechanism="dpsgd", delta=1e-5, asr_ceiling=ceiling)
    ...          for epsilon, ceiling in ((0.5, 0.63), (1.0, 0.74))]
    >>> choice = choose_epsilon(RiskDocument(provenance=Provenance(method="shadow models"),
    ...     n_models=256, n_targets=100, cells=cells), max_attack_rate=0.7)
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

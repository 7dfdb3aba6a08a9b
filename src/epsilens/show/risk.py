# SPDX-License-Identifier: Apache-2.0
"""What an attacker gets, as a table and sentences for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._validate import as_count
from epsilens.document import (
    RiskCell,
    RiskDocument,
    at_least_text,
    at_most_text,
    bound_text,
    delta_text,
)
from epsilens.show.cell_text import thinned
from epsilens.show.columns import rows_note
from epsilens.show.plain_table import ALL_ROWS, fill_columns, plain_table
from epsilens.show.report_words import ceiling_is_open, proof_text
from epsilens.show.risk_text import (
    compared_p_text,
    confidence_text,
    range_text,
    risk_columns,
    risk_notes,
    risk_title,
)
from epsilens.show.rounding import format_count, format_epsilon, format_percent
from epsilens.show.sentences import budget_distance, budget_text
from epsilens.show.words import answers_text, axis_budget

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["risk_sentences", "risk_table"]

_NOTICED = 0.05
"""A p-value above this is called chance."""
_COIN = 0.5


def risk_table(document: RiskDocument, *, max_rows: int = 12) -> Table:
    """Show what an attacker gets, a few rows from the smallest to the largest budget.

    For randomised response the guessed answer comes first, beside the same guess of people whom the
    model never saw and the proven ceiling; membership stands beside what chance reaches.

    Parameters
    ----------
    document : RiskDocument
        The risk.
    max_rows : int
        About how many rows to show; of a longer grid evenly spaced budgets are taken, always with
        both ends.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cells = [RiskCell(epsilon=float(epsilon), mechanism="rr", asr_max=0.6)
    ...          for epsilon in range(1, 31)]
    >>> risk_table(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                         n_targets=4774, cells=cells)).row_count
    12
    """
    as_count(max_rows, name="max_rows", least=2)
    shown = thinned(document.cells, max_rows)
    notes = [*risk_notes(document), *rows_note(len(shown), len(document.cells), ALL_ROWS)]
    table = plain_table(risk_title(document), notes=notes, collapse_padding=True, pad_edge=False)
    fill_columns(table, risk_columns(document), shown)
    return table


def risk_sentences(document: RiskDocument, *, epsilon: float | None = None) -> list[str]:
    """Say in plain words what an attacker gets at one budget.

    Parameters
    ----------
    document : RiskDocument
        The risk.
    epsilon : float, optional
        The budget to speak of; the nearest of the grid is taken, by default to 1.

    Returns
    -------
    list of str
        What is guessed or can be told at most, then what is recognised of membership.

    Examples
    --------
    >>> from epsilens.document import Provenance, RiskCell, RiskDocument
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", answer_inference_rate=0.721,
    ...     answer_inference_low=0.71, answer_inference_high=0.732,
    ...     answer_inference_unseen=0.718, answer_inference_baseline_high=0.735,
    ...     answer_inference_ceiling=0.858)
    >>> print(risk_sentences(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...     n_targets=4774, protect=["smokes"], cells=[cell]))[0])
    At ε = 1 the attack guesses the answer “smokes” of 72.1% of the people in the data (measured; 71.0–73.2%
    in 9 of 10 releases), and of 71.8% of those whom the model never saw (measured).
    """
    if not document.cells:
        return ["No budget was asked about."]
    target = 1.0 if epsilon is None else epsilon
    cell = min(document.cells, key=lambda one: budget_distance(axis_budget(document, one), target))
    said = _answer_sentences(document, cell) if cell.mechanism == "rr" else []
    if cell.mechanism == "dpsgd" and cell.asr_ceiling is not None:
        said.append(
            f"At {_budget_text(cell)} no attack can tell members of the training data from others "
            f"more than {at_most_text(cell.asr_ceiling)} of the time (proven)."
        )
    said += _membership_sentences(document, cell, opening="" if said else _budget_text(cell))
    if cell.mechanism == "dpsgd":
        said += _record_sentences(document, cell)
    return said + _comparison_sentences(document, cell)


def _answer_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    rate, unseen = cell.answer_inference_rate, cell.answer_inference_unseen
    if rate is None:
        return []
    runs = range_text(cell)
    kind = "measured" if runs is None else f"measured; {runs} in 9 of 10 releases"
    beside = ""
    if unseen is not None:
        beside = f", and of {format_percent(unseen)} of those whom the model never saw (measured)"
    said = [
        f"At {_budget_text(cell)} the attack guesses {answers_text(document.protect)} of "
        f"{format_percent(rate)} of the people in the data ({kind}){beside}."
    ]
    proof = proof_text(cell, many=len(document.protect) > 1)
    if proof is None:
        return said
    said.append(f"{proof[0].upper()}{proof[1:]}.")
    if cell.advantage is not None and not ceiling_is_open(cell):
        said.append(
            "Of the answers that the rest of the data do not give away, at most "
            f"{at_most_text(cell.advantage)} become guessable (advantage, proven)."
        )
    return said


def _membership_sentences(document: RiskDocument, cell: RiskCell, *, opening: str) -> list[str]:
    top, floor, chance = cell.asr_max, cell.asr_max_null_q95, cell.asr_max_p_value
    if top is None:
        return []
    at = f" at {opening}" if opening else ""
    count = format_count(document.n_targets)
    sure = "" if chance is None else f" (p {compared_p_text(chance)})"
    noticed = chance <= _NOTICED if chance is not None else floor is not None and top > floor
    if not noticed:
        beside = "" if floor is None else f"; chance alone reaches {format_percent(floor)}"
        return [
            f"Membership of the training data{at} is not distinguishable from chance{sure}: the most "
            f"exposed of {count} records is recognised {format_percent(top)} of the time"
            f"{beside} (measured). The largest of {count} rates says nothing more."
        ]
    beside = "" if floor is None else f"; chance alone reaches {format_percent(floor)}{sure}"
    least = ""
    if cell.asr_max_lower_bound is not None and cell.asr_max_lower_bound > _COIN:
        least = (
            f"; with {confidence_text(document)} confidence some record at least "
            f"{at_least_text(cell.asr_max_lower_bound)}"
        )
    return [
        f"Membership of the training data{at}: the most exposed of {count} records is recognised "
        f"{format_percent(top)} of the time{beside}{least} (measured)."
    ]


def _record_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    said = []
    if cell.epsilon_lower_bound:
        said.append(
            f"The attack proves, with {confidence_text(document)} confidence, that ε is at least "
            f"{bound_text(cell.epsilon_lower_bound)}; the accounting proves that it is at most "
            f"{format_epsilon(cell.epsilon)}."
        )
    if cell.accuracy is not None:
        before = document.baseline.accuracy if document.baseline is not None else None
        beside = (
            "" if before is None else f"; without privacy, on all of them, {format_percent(before)}"
        )
        said.append(
            f"The models, trained on half of the records, predict {format_percent(cell.accuracy)} of "
            f"the test rows correctly (measured{beside})."
        )
    return said


def _comparison_sentences(document: RiskDocument, cell: RiskCell) -> list[str]:
    """Say at which budget the other table exposes as much, where two were compared."""
    for found in document.equivalent_epsilon:
        if found.epsilon != cell.epsilon:
            continue
        here = (
            "exposes the most exposed record of the other table as much as "
            f"ε = {format_epsilon(found.epsilon)} exposes this one's"
        )
        if found.low is None or found.high is None:
            return [f"No ε of the grid {here} (estimated)."]
        low, high = format_epsilon(found.low), format_epsilon(found.high)
        if found.equivalent is None:
            return [f"Some ε from {low} to {high} {here} (estimated)."]
        return [
            f"ε = {format_epsilon(found.equivalent)} {here} (estimated; {low} to {high} cannot be told "
            "apart)."
        ]
    return []


def _budget_text(cell: RiskCell) -> str:
    if cell.mechanism == "dpsgd":
        delta = "" if cell.delta is None else f", δ = {delta_text(cell.delta)},"
        return f"ε = {format_epsilon(cell.epsilon)}{delta}"
    return budget_text(cell)

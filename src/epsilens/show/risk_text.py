# SPDX-License-Identifier: Apache-2.0
"""What every view of a risk says: the columns of its table, the titles of its plots, their words."""

from __future__ import annotations

import math

from epsilens.document import (
    RiskCell,
    RiskDocument,
    at_most_text,
    baseline_text,
    bound_text,
    delta_text,
)
from epsilens.show.columns import Column, budget_column, with_numbers
from epsilens.show.rounding import NOTHING, format_count, format_percent
from epsilens.show.words import answers_text, axis_budget

__all__ = [
    "before_text",
    "ceiling_note",
    "compared_p_text",
    "confidence_text",
    "is_randomised_response",
    "models_text",
    "outside_lines",
    "p_value_text",
    "range_text",
    "risk_columns",
    "risk_notes",
    "risk_title",
]


def is_randomised_response(document: RiskDocument) -> bool:
    """Say whether answers are randomised; otherwise whole records are protected by noisy training.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> is_randomised_response(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2,
    ...     n_targets=9, cells=[RiskCell(epsilon=1.0, mechanism="dpsgd", delta=1e-5)]))
    False
    """
    return all(cell.mechanism == "rr" for cell in document.cells)


def confidence_text(document: RiskDocument) -> str:
    """Give the confidence of the bounds in per cent.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> confidence_text(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2,
    ...                              n_targets=9, cells=[]))
    '95 %'
    """
    stated = document.provenance.settings.get("confidence")
    return f"{100 * (stated if isinstance(stated, float) else 0.95):.4g} %"


def models_text(document: RiskDocument) -> str:
    """Say what the attacks were measured on.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> models_text(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...                          n_targets=9, cells=[]))
    'measured on 256 models, each trained on a random half of the records'
    """
    count = format_count(document.n_models)
    return f"measured on {count} models, each trained on a random half of the records"


def risk_title(document: RiskDocument) -> str:
    """Name the table of a risk.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> risk_title(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2,
    ...     n_targets=9, protect=["smokes"],
    ...     cells=[RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.6)]))
    'How often an attacker guesses the answer “smokes”, and recognises a member'
    """
    if is_randomised_response(document):
        what = answers_text(document.protect)
        return f"How often an attacker guesses {what}, and recognises a member"
    deltas = {cell.delta for cell in document.cells if cell.delta is not None}
    at = f" (δ = {delta_text(deltas.pop())})" if len(deltas) == 1 else ""
    return f"How often an attacker recognises a member of the training data{at}"


def risk_columns(document: RiskDocument) -> list[Column[RiskCell]]:
    """List the columns that a table of a risk has: those with numbers, the answer first.

    Parameters
    ----------
    document : RiskDocument
        The risk.

    Returns
    -------
    list of Column
        The budget first.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cell = RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.61, asr_max_p_value=0.2)
    >>> columns = risk_columns(RiskDocument(provenance=Provenance(method="shadow models"),
    ...                                     n_models=2, n_targets=9, cells=[cell]))
    >>> [(column.title, column.text(cell)) for column in columns]
    [('ε', '1'), ('most exposed', '61.0%'), ('p', '0.20')]
    """
    columns: list[Column[RiskCell]] = [budget_column(document)]
    if is_randomised_response(document):
        columns += [
            _percent(
                "guessed, all at once" if len(document.protect) > 1 else "guessed",
                "answer_inference_rate",
            ),
            Column("9 in 10 releases", lambda cell: range_text(cell) or NOTHING),
            _percent("never seen", "answer_inference_unseen"),
            _ceiling("answer_inference_ceiling"),
        ]
    columns += [
        _percent("most exposed", "asr_max"),
        _percent("chance reaches", "asr_max_null_q95"),
        Column("p", lambda cell: p_value_text(cell.asr_max_p_value)),
    ]
    if not is_randomised_response(document):
        columns += [
            _ceiling("asr_ceiling"),
            _percent("found at 1% false alarms", "tpr_at_fpr_0_01"),
            Column("ε at least (proven)", lambda cell: _bound(cell.epsilon_lower_bound)),
            _percent("accuracy", "accuracy"),
        ]
    return with_numbers(columns, document.cells)


def risk_notes(document: RiskDocument) -> list[str]:
    """Explain the columns of a table of a risk, a sentence each.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> risk_notes(RiskDocument(provenance=Provenance(method="shadow models"), n_models=256,
    ...     n_targets=9, cells=[RiskCell(epsilon=1.0, mechanism="rr", asr_max=0.6)]))[0][:23]
    'Measured on 256 models,'
    """
    titles = {column.title for column in risk_columns(document)}
    said = models_text(document)
    notes = [f"{said[0].upper()}{said[1:]}."]
    if "guessed, all at once" in titles:
        notes.append("A person counts as guessed if all protected answers are right at once.")
    if "never seen" in titles:
        notes.append("Never seen: the same guess of people whom the model was not trained on.")
    if "ceiling (proven)" in titles:
        notes.append(
            ceiling_note(document)
            if is_randomised_response(document)
            else "Ceiling: no attack can exceed it in the long run; a single rate above it is luck."
        )
    if "chance reaches" in titles:
        notes.append(
            "Most exposed: the record whose membership is seen most often. The largest of "
            f"{format_count(document.n_targets)} is large by chance alone; p is how often chance "
            "reaches it."
        )
        if is_randomised_response(document):
            notes.append(
                "Randomised response protects the answer, not membership: no ceiling there."
            )
    return notes


def ceiling_note(document: RiskDocument) -> str:
    """Say what the ceiling of an answer is a ceiling of.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> ceiling_note(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2, n_targets=9,
    ...     cells=[RiskCell(epsilon=1.0, mechanism="rr", answer_inference_baseline_high=0.724)]))
    "Ceiling (proven given b): from everybody else's data an attacker guesses up to b = 72.4% of the
    answers; with the person's own randomised answer at most this share."
    """
    before = before_text(document)
    b = "b" if before is None else f"b = {before}"
    if len(document.protect) > 1:
        return (
            "Ceiling (proven given b): from everybody else's data an attacker guesses the protected "
            f"answers, all of them at once, of up to {b} of the people; with their own randomised answers of at most this share."
        )
    return (
        f"Ceiling (proven given b): from everybody else's data an attacker guesses up to {b} of the "
        "answers; with the person's own randomised answer at most this share."
    )


def before_text(document: RiskDocument) -> str | None:
    """Write how often answers are guessed from everybody else's data; it is one for all ε.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> before_text(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2, n_targets=9,
    ...     cells=[RiskCell(epsilon=1.0, mechanism="rr", answer_inference_baseline=0.724)]))
    '72.4%'
    """
    return baseline_text(document.cells[0]) if document.cells else None


def outside_lines(document: RiskDocument) -> list[str]:
    """Say what was measured at ε = ∞, which has no place on a logarithmic axis.

    Examples
    --------
    >>> from epsilens.document import Provenance
    >>> cell = RiskCell(epsilon=float("inf"), mechanism="rr", asr_max=0.6)
    >>> outside_lines(RiskDocument(provenance=Provenance(method="shadow models"), n_models=2,
    ...                            n_targets=9, cells=[cell]))
    ['ε = ∞ (nothing is randomised) lies outside the axis: there the most exposed record is recognised
    60.0% of the time.']
    """
    lines = []
    for cell in document.cells:
        if not math.isinf(axis_budget(document, cell)):
            continue
        parts = []
        if cell.answer_inference_rate is not None:
            at_once = ", all answers at once," if len(document.protect) > 1 else ""
            parts.append(f"{format_percent(cell.answer_inference_rate)} are guessed{at_once}")
        if cell.asr_max is not None:
            rate = format_percent(cell.asr_max)
            floor = cell.asr_max_null_q95
            beside = "" if floor is None else f" (chance: {format_percent(floor)})"
            parts.append(f"the most exposed record is recognised {rate} of the time{beside}")
        why = "nothing is randomised" if cell.mechanism == "rr" else "no noise"
        there = f": there {' and '.join(parts)}." if parts else "."
        lines.append(f"ε = ∞ ({why}) lies outside the axis{there}")
    return lines


def range_text(cell: RiskCell) -> str | None:
    """Give the range of the guessed share that nine of ten releases show, or None without one.

    Examples
    --------
    >>> range_text(RiskCell(epsilon=1.0, mechanism="rr", answer_inference_low=0.71,
    ...                     answer_inference_high=0.732))
    '71.0–73.2%'
    """
    low, high = cell.answer_inference_low, cell.answer_inference_high
    if low is None or high is None:
        return None
    return f"{100 * low:.1f}–{100 * high:.1f}%"


def p_value_text(value: float | None) -> str:
    """Write a p-value, two digits; the smallest are not told apart.

    Examples
    --------
    >>> [p_value_text(value) for value in (0.4, 0.0123, 1e-9, None)]
    ['0.40', '0.012', '< 0.001', '–']
    """
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def compared_p_text(value: float) -> str:
    """Write a p-value behind its name, with the sign that belongs there.

    Examples
    --------
    >>> compared_p_text(0.4), compared_p_text(1e-9)
    ('= 0.40', '< 0.001')
    """
    text = p_value_text(value)
    return text if text.startswith("<") else f"= {text}"


def _percent(title: str, field: str) -> Column[RiskCell]:
    return Column(title, lambda cell: format_percent(getattr(cell, field)))


def _ceiling(field: str) -> Column[RiskCell]:
    return Column("ceiling (proven)", lambda cell: _at_most(getattr(cell, field)))


def _at_most(share: float | None) -> str:
    return NOTHING if share is None else at_most_text(share)


def _bound(epsilon: float | None) -> str:
    return NOTHING if epsilon is None else bound_text(epsilon)

# SPDX-License-Identifier: Apache-2.0
"""An audit in words for the terminal: the bound beside the claim and the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens.document import AuditDocument, bound_text, delta_text
from epsilens.show.plain_table import plain_table
from epsilens.show.rounding import NOTHING, format_count, format_epsilon

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["audit_sentence", "audit_table"]


def audit_sentence(document: AuditDocument) -> str:
    """Say in a sentence what an audit found.

    Examples
    --------
    >>> from epsilens.document import AuditDocument, Provenance
    >>> audit_sentence(AuditDocument(provenance=Provenance(method="pure"), mechanism="rr",
    ...     epsilon_lower_bound=2.1, confidence=0.95, method="pure", selection="path",
    ...     is_confidence_bound=True, assumptions=[], claimed_epsilon=1.0, claimed_delta=0.0,
    ...     true_epsilon=None, is_broken=True, verdict="the claim is broken: ε is at least 2.1.",
    ...     n_canaries=1000, n_guesses=500, n_correct=365))
    'The claim is broken: ε is at least 2.1.'
    """
    sentence = document.verdict[:1].upper() + document.verdict[1:]
    if document.is_broken or not sentence.startswith("No evidence"):
        return sentence
    if document.true_epsilon is not None and document.epsilon_lower_bound > document.true_epsilon:
        return sentence  # of which the end says more: the bound is above the truth already
    return f"{sentence} That proves nothing good: a better attack may exist."


def audit_table(document: AuditDocument) -> Table:
    """Show what was proved, claimed and is true, and how it was found.

    Parameters
    ----------
    document : AuditDocument
        The audit.

    Returns
    -------
    rich.table.Table
        A table for `rich.console.Console.print`.

    Examples
    --------
    >>> from epsilens.document import AuditDocument, Provenance
    >>> audit_table(AuditDocument(provenance=Provenance(method="pure"), mechanism="rr",
    ...     epsilon_lower_bound=0.8, confidence=0.95, method="pure", selection="path",
    ...     is_confidence_bound=True, assumptions=["pure differential privacy"],
    ...     claimed_epsilon=1.0, claimed_delta=0.0, true_epsilon=1.0, is_broken=False,
    ...     verdict="no evidence of a breach", n_canaries=1000, n_guesses=500,
    ...     n_correct=365)).row_count
    7
    """
    from rich.text import Text

    at = f" at δ = {delta_text(document.claimed_delta)}" if document.claimed_delta else ""
    table = plain_table(f"One-run audit of {document.mechanism}{at}", show_header=False)
    table.add_column("what")
    table.add_column("value", overflow="fold")
    rows = [
        _bound_row(document),
        ("claimed ε", format_epsilon(document.claimed_epsilon)),
        (
            "theoretical ε",
            NOTHING
            if document.true_epsilon is None
            else f"{format_epsilon(document.true_epsilon)} (proven)",
        ),
        (
            "guesses",
            f"{format_count(document.n_correct)} right of {format_count(document.n_guesses)}, "
            f"{format_count(document.n_canaries)} canaries",
        ),
        ("method", document.method),
        ("guesses chosen by", _selection_words(document.selection)),
        ("assumes", ", ".join(document.assumptions) or NOTHING),
    ]
    for what, value in rows:
        table.add_row(Text(what), Text(value))
    return table


def _bound_row(document: AuditDocument) -> tuple[str, str]:
    number = bound_text(document.epsilon_lower_bound)
    if not document.is_confidence_bound:
        return "as printed", f"{number} (no bound)"
    if document.epsilon_lower_bound == 0.0:
        return "ε is at least", f"{number} (nothing is proved)"
    at = " at δ = 0" if document.method == "pure" and document.claimed_delta else ""
    return "ε is at least", f"{number}{at} (proven, {100 * document.confidence:.10g} % confidence)"


def _selection_words(selection: str) -> str:
    return f"{selection} on each side, fixed beforehand" if selection.isdecimal() else selection

# SPDX-License-Identifier: Apache-2.0
"""Documents for people: tables and sentences in the terminal, and the one-file report."""

from __future__ import annotations

from epsilens.reporting.audit import audit_sentence, audit_table
from epsilens.reporting.decision import decision_table
from epsilens.reporting.federation import federation_sentences, ledger_table, version_table
from epsilens.reporting.mask import mask_sentences, mask_table, relaxed_sentence
from epsilens.reporting.private_valuation import valuation_sentences
from epsilens.reporting.report import write_report
from epsilens.reporting.risk import risk_sentences, risk_table
from epsilens.reporting.sentences import cell_sentence, whatif_sentence
from epsilens.reporting.terminal import gap_table, inspect_table, release_summary, whatif_table
from epsilens.reporting.value import value_sentences, value_table

__all__ = [
    "audit_sentence",
    "audit_table",
    "cell_sentence",
    "decision_table",
    "federation_sentences",
    "gap_table",
    "inspect_table",
    "ledger_table",
    "mask_sentences",
    "mask_table",
    "relaxed_sentence",
    "release_summary",
    "risk_sentences",
    "risk_table",
    "valuation_sentences",
    "value_sentences",
    "value_table",
    "version_table",
    "whatif_sentence",
    "whatif_table",
    "write_report",
]

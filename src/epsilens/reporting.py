# SPDX-License-Identifier: Apache-2.0
"""Tables, sentences and the report of a document: public names of `epsilens.show`."""

from __future__ import annotations

from epsilens.show import (
    audit_sentence,
    audit_table,
    cell_sentence,
    decision_table,
    federation_sentences,
    gap_table,
    inspect_table,
    ledger_table,
    mask_sentences,
    mask_table,
    relaxed_sentence,
    release_summary,
    risk_sentences,
    risk_table,
    valuation_sentences,
    value_sentences,
    value_table,
    version_table,
    whatif_sentence,
    whatif_table,
    write_report,
)

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

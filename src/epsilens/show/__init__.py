# SPDX-License-Identifier: Apache-2.0
"""Documents for people: charts, tables and sentences, the notebook and the one-file report."""

from __future__ import annotations

from epsilens.show.audit import audit_chart, audit_sentence, audit_table
from epsilens.show.comparison import comparison_chart
from epsilens.show.cost import available_outcomes, cost_chart, save_chart
from epsilens.show.decision import decision_chart
from epsilens.show.federation import (
    federation_chart,
    federation_sentences,
    ledger_table,
    valuation_sentences,
    version_table,
)
from epsilens.show.mask import (
    mask_chart,
    mask_picture,
    mask_sentences,
    mask_table,
    relaxed_sentence,
)
from epsilens.show.page import page_chart, risk_page_chart
from epsilens.show.report import write_report
from epsilens.show.risk import risk_chart
from epsilens.show.sentences import cell_sentence, whatif_sentence
from epsilens.show.terminal import (
    decision_table,
    gap_table,
    inspect_table,
    release_summary,
    risk_sentences,
    risk_table,
    whatif_table,
)
from epsilens.show.value import value_chart, value_sentences, value_table
from epsilens.show.words import Outcome

__all__ = [
    "Outcome",
    "audit_chart",
    "audit_sentence",
    "audit_table",
    "available_outcomes",
    "cell_sentence",
    "comparison_chart",
    "cost_chart",
    "decision_chart",
    "decision_table",
    "federation_chart",
    "federation_sentences",
    "gap_table",
    "inspect_table",
    "ledger_table",
    "mask_chart",
    "mask_picture",
    "mask_sentences",
    "mask_table",
    "page_chart",
    "relaxed_sentence",
    "release_summary",
    "risk_chart",
    "risk_page_chart",
    "risk_sentences",
    "risk_table",
    "save_chart",
    "valuation_sentences",
    "value_chart",
    "value_sentences",
    "value_table",
    "version_table",
    "whatif_sentence",
    "whatif_table",
    "write_report",
]

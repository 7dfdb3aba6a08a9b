# SPDX-License-Identifier: Apache-2.0
"""Documents for people: charts, tables and sentences, the notebook and the one-file report."""

from __future__ import annotations

from epsilens.show.audit import audit_sentence, audit_table
from epsilens.show.audit_chart import audit_chart
from epsilens.show.charts import available_outcomes, cost_chart, save_chart
from epsilens.show.comparison_chart import comparison_chart
from epsilens.show.decision import decision_table
from epsilens.show.decision_chart import decision_chart
from epsilens.show.federation import federation_sentences, ledger_table, version_table
from epsilens.show.federation_chart import federation_chart
from epsilens.show.mask import mask_sentences, mask_table, relaxed_sentence
from epsilens.show.mask_chart import mask_chart, mask_picture
from epsilens.show.page_chart import page_chart, risk_page_chart
from epsilens.show.private_valuation import valuation_sentences
from epsilens.show.report import write_report
from epsilens.show.risk import risk_sentences, risk_table
from epsilens.show.risk_chart import risk_chart
from epsilens.show.sentences import cell_sentence, whatif_sentence
from epsilens.show.terminal import gap_table, inspect_table, release_summary, whatif_table
from epsilens.show.value import value_sentences, value_table
from epsilens.show.value_chart import value_chart
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

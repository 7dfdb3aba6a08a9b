# SPDX-License-Identifier: Apache-2.0
"""Documents for people: charts, tables and sentences, the notebook and the one-file report."""

from __future__ import annotations

from epsilens.document.federation_view import valuation_sentences
from epsilens.document.other_views import relaxed_sentence
from epsilens.document.sentences import cell_sentence, risk_sentences, whatif_sentence
from epsilens.document.wording import Outcome
from epsilens.show.audit import audit_chart
from epsilens.show.comparison import comparison_chart
from epsilens.show.cost import cost_chart, save_chart
from epsilens.show.decision import decision_chart, document_chart
from epsilens.show.federation import federation_chart
from epsilens.show.look import available_outcomes
from epsilens.show.mask import mask_chart, mask_picture
from epsilens.show.mechanisms import mechanism_chart
from epsilens.show.page import page_chart, risk_page_chart
from epsilens.show.report import write_report
from epsilens.show.risk import risk_chart
from epsilens.show.terminal import (
    decision_details,
    decision_lines,
    document_table,
    release_summary,
)
from epsilens.show.value import value_chart

__all__ = [
    "Outcome",
    "audit_chart",
    "available_outcomes",
    "cell_sentence",
    "comparison_chart",
    "cost_chart",
    "decision_chart",
    "decision_details",
    "decision_lines",
    "document_chart",
    "document_table",
    "federation_chart",
    "mask_chart",
    "mask_picture",
    "mechanism_chart",
    "page_chart",
    "relaxed_sentence",
    "release_summary",
    "risk_chart",
    "risk_page_chart",
    "risk_sentences",
    "save_chart",
    "valuation_sentences",
    "value_chart",
    "whatif_sentence",
    "write_report",
]

# SPDX-License-Identifier: Apache-2.0
"""Charts drawn from documents: public names of `epsilens.show`."""

from __future__ import annotations

from epsilens.show import (
    Outcome,
    audit_chart,
    available_outcomes,
    comparison_chart,
    cost_chart,
    decision_chart,
    federation_chart,
    mask_chart,
    mask_picture,
    page_chart,
    risk_chart,
    risk_page_chart,
    save_chart,
    value_chart,
)

__all__ = [
    "Outcome",
    "audit_chart",
    "available_outcomes",
    "comparison_chart",
    "cost_chart",
    "decision_chart",
    "federation_chart",
    "mask_chart",
    "mask_picture",
    "page_chart",
    "risk_chart",
    "risk_page_chart",
    "save_chart",
    "value_chart",
]

# SPDX-License-Identifier: Apache-2.0
"""Charts drawn from documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens.display.audit_chart import audit_chart
from epsilens.display.charts import available_outcomes, cost_chart, save_chart
from epsilens.display.comparison_chart import comparison_chart
from epsilens.display.decision_chart import decision_chart
from epsilens.display.federation_chart import federation_chart
from epsilens.display.mask_chart import mask_chart, mask_picture
from epsilens.display.page_chart import page_chart, risk_page_chart
from epsilens.display.risk_chart import risk_chart
from epsilens.display.value_chart import value_chart
from epsilens.display.words import Outcome

if TYPE_CHECKING:
    from epsilens.display.matplotlib_display import CostDisplay

__all__ = [
    "CostDisplay",
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


def __getattr__(name: str) -> object:
    # Matplotlib is an extra, so its display waits until it is asked for.
    if name == "CostDisplay":
        from epsilens.display.matplotlib_display import CostDisplay

        return CostDisplay
    raise AttributeError(f"module 'epsilens.display' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

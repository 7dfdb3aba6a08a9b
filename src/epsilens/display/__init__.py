# SPDX-License-Identifier: Apache-2.0
"""Charts drawn from documents."""

from __future__ import annotations

from epsilens.display.charts import available_outcomes, cost_chart, save_chart
from epsilens.display.page_chart import page_chart
from epsilens.display.words import Outcome

__all__ = ["Outcome", "available_outcomes", "cost_chart", "page_chart", "save_chart"]

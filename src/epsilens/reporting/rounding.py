# SPDX-License-Identifier: Apache-2.0
"""The rounding of terminal and report: that of every other view too."""

from __future__ import annotations

from epsilens.display.rounding import (
    MINUS,
    NOTHING,
    change_decimals,
    format_auc,
    format_auc_change,
    format_change,
    format_count,
    format_epsilon,
    format_loss,
    format_percent,
    format_points,
    format_seconds,
    rounds_to_zero,
)

__all__ = [
    "MINUS",
    "NOTHING",
    "change_decimals",
    "format_auc",
    "format_auc_change",
    "format_change",
    "format_count",
    "format_epsilon",
    "format_loss",
    "format_percent",
    "format_points",
    "format_seconds",
    "rounds_to_zero",
]

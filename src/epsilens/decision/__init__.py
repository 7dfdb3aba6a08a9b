# SPDX-License-Identifier: Apache-2.0
"""The decision: what each budget costs and what it buys on one axis, and the budget that limits lead to."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilens.decision.lever import masking_lever
    from epsilens.decision.result import Decision, Standing
    from epsilens.decision.rules import decide

_HOME = {
    "Decision": "epsilens.decision.result",
    "Standing": "epsilens.decision.result",
    "decide": "epsilens.decision.rules",
    "masking_lever": "epsilens.decision.lever",
}

__all__ = ["Decision", "Standing", "decide", "masking_lever"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'epsilens.decision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

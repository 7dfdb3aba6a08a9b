# SPDX-License-Identifier: Apache-2.0
"""The decision: what each budget costs and what it buys on one axis, and the budget that limits lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._lazy import lazy_exports

if TYPE_CHECKING:
    from epsilens.decision.lever import masking_lever
    from epsilens.decision.result import Decision, Standing
    from epsilens.decision.rules import decide


__all__ = ["Decision", "Standing", "decide", "masking_lever"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "epsilens.decision.lever": ["masking_lever"],
        "epsilens.decision.result": ["Decision", "Standing"],
        "epsilens.decision.rules": ["decide"],
    },
)

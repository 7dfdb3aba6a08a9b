# SPDX-License-Identifier: Apache-2.0
"""The same protection, cheaper: mask the features that identify people and do not serve the task (P5).

Two models are explained: one that does the task, one that recognises people. Features on which the
second rests and the first does not can go; whether ε may then be larger is measured by attack.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilens.masking.importances import TaskImportances, explain_task
    from epsilens.masking.knapsack import MaskChoice, choose_mask, mask_curve, solve_mask
    from epsilens.masking.plain_masks import mask_at_random, mask_most_identifying
    from epsilens.masking.relaxation import MaskedRisk, attack_masked
    from epsilens.masking.result import Mask
    from epsilens.masking.study import MaskStudy
    from epsilens.masking.transformer import FeatureMasker

_HOME = {
    "FeatureMasker": "epsilens.masking.transformer",
    "Mask": "epsilens.masking.result",
    "MaskChoice": "epsilens.masking.knapsack",
    "MaskStudy": "epsilens.masking.study",
    "MaskedRisk": "epsilens.masking.relaxation",
    "TaskImportances": "epsilens.masking.importances",
    "attack_masked": "epsilens.masking.relaxation",
    "choose_mask": "epsilens.masking.knapsack",
    "explain_task": "epsilens.masking.importances",
    "mask_at_random": "epsilens.masking.plain_masks",
    "mask_curve": "epsilens.masking.knapsack",
    "mask_most_identifying": "epsilens.masking.plain_masks",
    "solve_mask": "epsilens.masking.knapsack",
}

__all__ = [
    "FeatureMasker",
    "Mask",
    "MaskChoice",
    "MaskStudy",
    "MaskedRisk",
    "TaskImportances",
    "attack_masked",
    "choose_mask",
    "explain_task",
    "mask_at_random",
    "mask_curve",
    "mask_most_identifying",
    "solve_mask",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'epsilens.masking' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

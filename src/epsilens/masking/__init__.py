# SPDX-License-Identifier: Apache-2.0
"""The same protection, cheaper: mask the features that identify people and do not serve the task (P5).

Two models are explained: one that does the task, one that recognises people. Features on which the
second rests and the first does not can go; whether ε may then be larger is measured by attack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._lazy import lazy_exports

if TYPE_CHECKING:
    from epsilens.masking.choices import mask_at_random, mask_most_identifying
    from epsilens.masking.importances import TaskImportances, explain_task
    from epsilens.masking.knapsack import MaskChoice, choose_mask, mask_curve, solve_mask
    from epsilens.masking.masked_risk import MaskedRisk, attack_masked
    from epsilens.masking.result import Mask
    from epsilens.masking.study import MaskStudy
    from epsilens.masking.transformer import FeatureMasker


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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "epsilens.masking.importances": ["TaskImportances", "explain_task"],
        "epsilens.masking.knapsack": ["MaskChoice", "choose_mask", "mask_curve", "solve_mask"],
        "epsilens.masking.choices": ["mask_at_random", "mask_most_identifying"],
        "epsilens.masking.masked_risk": ["MaskedRisk", "attack_masked"],
        "epsilens.masking.result": ["Mask"],
        "epsilens.masking.study": ["MaskStudy"],
        "epsilens.masking.transformer": ["FeatureMasker"],
    },
)

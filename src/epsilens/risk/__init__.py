# SPDX-License-Identifier: Apache-2.0
"""What an attacker really gets: membership inference with its noise floor and what it proves.

Many models are trained on random halves of the data. From what they say of a record it is guessed which of
them had seen it, and what its protected answers are; every rate of right guesses comes with what
chance alone would give, and with what no attack can exceed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilens.models.dp_sgd_settings import DPSGDSettings
    from epsilens.risk.answer_inference import inference_ceiling
    from epsilens.risk.balanced_accuracy import BalancedAccuracy
    from epsilens.risk.equivalent import equivalent_epsilon
    from epsilens.risk.likelihood_ratio import lira
    from epsilens.risk.logits import scores_from_logits, scores_from_margins
    from epsilens.risk.membership_attack import MembershipAttack
    from epsilens.risk.proven_epsilon import ProvenEpsilon
    from epsilens.risk.result import RiskCurve
    from epsilens.risk.shadow_ensemble import ShadowEnsemble, TorchTraining
    from epsilens.risk.study import AttackStudy
    from epsilens.risk.success_rate import NullOfMaximum, null_of_maximum

_HOME = {
    "AttackStudy": "epsilens.risk.study",
    "BalancedAccuracy": "epsilens.risk.balanced_accuracy",
    "DPSGDSettings": "epsilens.models.dp_sgd_settings",
    "MembershipAttack": "epsilens.risk.membership_attack",
    "NullOfMaximum": "epsilens.risk.success_rate",
    "ProvenEpsilon": "epsilens.risk.proven_epsilon",
    "RiskCurve": "epsilens.risk.result",
    "ShadowEnsemble": "epsilens.risk.shadow_ensemble",
    "TorchTraining": "epsilens.risk.shadow_ensemble",
    "equivalent_epsilon": "epsilens.risk.equivalent",
    "inference_ceiling": "epsilens.risk.answer_inference",
    # Not in a module of its own name: the import system would put the module in its place.
    "lira": "epsilens.risk.likelihood_ratio",
    "null_of_maximum": "epsilens.risk.success_rate",
    "scores_from_logits": "epsilens.risk.logits",
    "scores_from_margins": "epsilens.risk.logits",
}

__all__ = [
    "AttackStudy",
    "BalancedAccuracy",
    "DPSGDSettings",
    "MembershipAttack",
    "NullOfMaximum",
    "ProvenEpsilon",
    "RiskCurve",
    "ShadowEnsemble",
    "TorchTraining",
    "equivalent_epsilon",
    "inference_ceiling",
    "lira",
    "null_of_maximum",
    "scores_from_logits",
    "scores_from_margins",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'epsilens.risk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

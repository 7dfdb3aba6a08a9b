# SPDX-License-Identifier: Apache-2.0
"""What an attacker really gets: membership inference with its noise floor and what it proves.

Many models are trained on random halves of the data. From what they say of a record it is guessed which of
them had seen it, and what its protected answers are; every rate of right guesses comes with what
chance alone would give, and with what no attack can exceed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._lazy import lazy_exports

if TYPE_CHECKING:
    from epsilens.mechanisms._advantage import inference_ceiling
    from epsilens.models.dp_sgd_settings import DPSGDSettings
    from epsilens.risk.attack_methods import Rmia
    from epsilens.risk.compared import AttackEnvelope, attack_membership, strongest_attack
    from epsilens.risk.equivalent import equivalent_epsilon
    from epsilens.risk.likelihood_ratio import lira
    from epsilens.risk.logits import (
        scores_from_logits,
        scores_from_margins,
        scores_from_residuals,
    )
    from epsilens.risk.membership_attack import (
        BalancedAccuracy,
        MembershipAttack,
        NullOfMaximum,
        null_of_maximum,
    )
    from epsilens.risk.power import detectable_effect, models_needed
    from epsilens.risk.proven_epsilon import ProvenEpsilon
    from epsilens.risk.result import RiskCurve
    from epsilens.risk.shadow_ensemble import ShadowEnsemble, TorchTraining
    from epsilens.risk.study import AttackStudy


__all__ = [
    "AttackEnvelope",
    "AttackStudy",
    "BalancedAccuracy",
    "DPSGDSettings",
    "MembershipAttack",
    "NullOfMaximum",
    "ProvenEpsilon",
    "RiskCurve",
    "Rmia",
    "ShadowEnsemble",
    "TorchTraining",
    "attack_membership",
    "detectable_effect",
    "equivalent_epsilon",
    "inference_ceiling",
    "lira",
    "models_needed",
    "null_of_maximum",
    "scores_from_logits",
    "scores_from_margins",
    "scores_from_residuals",
    "strongest_attack",
]

# Functions are not in modules of their own names: the import system would put the module in its place.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "epsilens.models.dp_sgd_settings": ["DPSGDSettings"],
        "epsilens.mechanisms._advantage": ["inference_ceiling"],
        "epsilens.risk.attack_methods": ["Rmia"],
        "epsilens.risk.compared": ["AttackEnvelope", "attack_membership", "strongest_attack"],
        "epsilens.risk.equivalent": ["equivalent_epsilon"],
        "epsilens.risk.likelihood_ratio": ["lira"],
        "epsilens.risk.logits": [
            "scores_from_logits",
            "scores_from_margins",
            "scores_from_residuals",
        ],
        "epsilens.risk.membership_attack": [
            "BalancedAccuracy",
            "MembershipAttack",
            "NullOfMaximum",
            "null_of_maximum",
        ],
        "epsilens.risk.power": ["detectable_effect", "models_needed"],
        "epsilens.risk.proven_epsilon": ["ProvenEpsilon"],
        "epsilens.risk.result": ["RiskCurve"],
        "epsilens.risk.shadow_ensemble": ["ShadowEnsemble", "TorchTraining"],
        "epsilens.risk.study": ["AttackStudy"],
    },
)

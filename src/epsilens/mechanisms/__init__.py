# SPDX-License-Identifier: Apache-2.0
"""Mechanisms behind one protocol, compared by what an attacker gains.

The ε of two mechanisms cannot be compared. The advantage can: of the answers that the rest of the data do
not give away, the share that becomes guessable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._lazy import lazy_exports

if TYPE_CHECKING:
    from epsilens.mechanisms._advantage import (
        HasAdvantage,
        advantage,
        answer_ceiling,
        approximate_advantage,
        gaussian_advantage,
        guess_ceiling,
        inference_ceiling,
        joint_advantage,
        pld_advantage,
        replaced_advantage,
        zcdp_advantage,
    )
    from epsilens.mechanisms.ceilings import (
        approximate_tpr,
        gaussian_tpr,
        pld_tpr,
        randomised_response_tpr,
        zcdp_tpr,
    )
    from epsilens.mechanisms.protocol import (
        MECHANISMS,
        Mechanism,
        Preview,
        Runs,
        Task,
        mechanism_class,
    )

__all__ = [
    "MECHANISMS",
    "HasAdvantage",
    "Mechanism",
    "Preview",
    "Runs",
    "Task",
    "advantage",
    "answer_ceiling",
    "approximate_advantage",
    "approximate_tpr",
    "gaussian_advantage",
    "gaussian_tpr",
    "guess_ceiling",
    "inference_ceiling",
    "joint_advantage",
    "mechanism_class",
    "pld_advantage",
    "pld_tpr",
    "randomised_response_tpr",
    "replaced_advantage",
    "zcdp_advantage",
    "zcdp_tpr",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "epsilens.mechanisms._advantage": [
            "HasAdvantage",
            "advantage",
            "answer_ceiling",
            "approximate_advantage",
            "gaussian_advantage",
            "guess_ceiling",
            "inference_ceiling",
            "joint_advantage",
            "pld_advantage",
            "replaced_advantage",
            "zcdp_advantage",
        ],
        "epsilens.mechanisms.ceilings": [
            "approximate_tpr",
            "gaussian_tpr",
            "pld_tpr",
            "randomised_response_tpr",
            "zcdp_tpr",
        ],
        "epsilens.mechanisms.protocol": [
            "MECHANISMS",
            "Mechanism",
            "Preview",
            "Runs",
            "Task",
            "mechanism_class",
        ],
    },
)

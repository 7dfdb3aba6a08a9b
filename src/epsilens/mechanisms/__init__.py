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
    "gaussian_advantage",
    "guess_ceiling",
    "inference_ceiling",
    "joint_advantage",
    "mechanism_class",
    "pld_advantage",
    "replaced_advantage",
    "zcdp_advantage",
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

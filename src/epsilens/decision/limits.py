# SPDX-License-Identifier: Apache-2.0
"""The limits of a decision: the acceptable loss, and what an attacker may get."""

from __future__ import annotations

from dataclasses import dataclass

from epsilens._validate import as_loss_limit, as_share
from epsilens.errors import InputError

__all__ = [
    "CLEAR_COST",
    "DEFAULT_MAX_ADVANTAGE",
    "NO_COST",
    "PROVES",
    "SMALL_COST",
    "Limits",
    "read_limits",
]

DEFAULT_MAX_ADVANTAGE = 0.1
"""Largest advantage where no limit is given."""
PROVES = 0.8
"""Largest advantage at which the proof is said to say something."""
SMALL_COST = 0.01
"""Share of the loss before up to which an expected increase may count as none."""
CLEAR_COST = 0.05
"""Share of the loss before that the upper end of a cost may not pass where the cost counts as none."""
NO_COST = 0.001
"""Share of the loss before up to which every increase counts as none."""


@dataclass(frozen=True)
class Limits:
    """Checked limits; at least one of the first three is set."""

    loss: float | None
    rate: float | None
    advantage: float | None
    confidence: float
    is_default: bool = False

    @property
    def is_loss_alone(self) -> bool:
        """Whether nothing limits what an attacker gets."""
        return self.rate is None and self.advantage is None


def read_limits(
    *,
    max_loss_increase: float | None,
    max_attack_rate: float | None,
    max_advantage: float | None,
    confidence: float,
) -> Limits:
    """Check the limits; without any the default on the advantage holds."""
    if max_attack_rate is not None and max_advantage is not None:
        raise InputError(
            "expected one limit on the attack, got two. Give `max_attack_rate` or `max_advantage`."
        )
    is_default = max_loss_increase is None and max_attack_rate is None and max_advantage is None
    advantage = DEFAULT_MAX_ADVANTAGE if is_default else max_advantage
    return Limits(
        loss=None if max_loss_increase is None else as_loss_limit(max_loss_increase),
        rate=None if max_attack_rate is None else as_share(max_attack_rate, name="max_attack_rate"),
        advantage=None if advantage is None else as_share(advantage, name="max_advantage"),
        confidence=as_share(confidence, name="confidence"),
        is_default=is_default,
    )

# SPDX-License-Identifier: Apache-2.0
"""The limits of a decision: the acceptable loss, and what an attacker may get."""

from __future__ import annotations

from dataclasses import dataclass

from epsilens._validate import as_at_least_zero, as_loss_limit, as_share
from epsilens.document.risk_wording import PROVES
from epsilens.errors import InputError, setting

__all__ = [
    "CLEAR_COST",
    "DEFAULT_MAX_ADVANTAGE",
    "NO_COST",
    "PROVES",
    "RETRAINING_SECONDS",
    "SIMULATED_CONFIDENCE",
    "SMALL_COST",
    "CheckedLimits",
    "read_limits",
]

DEFAULT_MAX_ADVANTAGE = 0.1
"""Largest advantage where no limit is given."""
RETRAINING_SECONDS = 20.0
"""Time for training again where the cost failed its check."""
SIMULATED_CONFIDENCE = 0.9
"""Confidence level of the interval that comes with a measured attack rate."""
SMALL_COST = 0.01
"""Share of the loss before up to which an expected increase may count as none."""
CLEAR_COST = 0.05
"""Share of the loss before that the upper end of a cost may not pass where the cost counts as none."""
NO_COST = 0.001
"""Share of the loss before up to which every increase counts as none."""


@dataclass(frozen=True)
class CheckedLimits:
    """Checked limits; at least one of the first three is set."""

    loss: float | None
    rate: float | None
    advantage: float | None
    confidence: float
    seconds: float
    is_default: bool = False

    @property
    def is_loss_alone(self) -> bool:
        """Whether nothing limits what an attacker gets."""
        return self.rate is None and self.advantage is None


def read_limits(
    *,
    max_loss_increase: float | None = None,
    max_attack_rate: float | None = None,
    max_advantage: float | None = None,
    confidence: float = SIMULATED_CONFIDENCE,
    measured: bool = False,
    proven_only: bool = False,
    seconds: float = RETRAINING_SECONDS,
) -> CheckedLimits:
    """Check the limits of `decide`; without any the default on the advantage holds.

    Raises
    ------
    InputError
        If one is no limit, or two exclude each other.

    Examples
    --------
    >>> read_limits().advantage, read_limits(max_loss_increase=0.01).loss
    (0.1, 0.01)
    """
    if max_attack_rate is not None and max_advantage is not None:
        raise InputError(
            "expected one limit on the attack, got two. Give "
            f"{setting('max_attack_rate')} or {setting('max_advantage')}."
        )
    if measured and proven_only:
        raise InputError(
            f"{setting('measured')} and {setting('proven_only')} contradict each other. Leave one of them "
            "out; without either the proven ceiling decides."
        )
    is_default = max_loss_increase is None and max_attack_rate is None and max_advantage is None
    advantage = DEFAULT_MAX_ADVANTAGE if is_default else max_advantage
    return CheckedLimits(
        loss=None if max_loss_increase is None else as_loss_limit(max_loss_increase),
        rate=None if max_attack_rate is None else _as_rate(max_attack_rate),
        advantage=None if advantage is None else as_share(advantage, name="max_advantage"),
        confidence=as_share(confidence, name="confidence"),
        seconds=as_at_least_zero(seconds, name="seconds"),
        is_default=is_default,
    )


def _as_rate(value: float) -> float:
    if isinstance(value, int | float) and not 0 < value < 1:
        raise InputError(
            argument="max_attack_rate",
            expected="greater than 0 and less than 1",
            got=f"{value:g}",
            hint="Give a share, for instance 0.8.",
        )
    return as_share(value, name="max_attack_rate")

# SPDX-License-Identifier: Apache-2.0
"""See what a privacy budget costs and what it buys, before you spend it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from epsilens.errors import (
        ApproximationWarning,
        BudgetExceededError,
        EstimateNotTrustworthyError,
        InputError,
        InputTypeError,
        MissingExtraError,
        PrivacyLeakWarning,
    )
    from epsilens.whatif import Choice, LossChangeEstimate, WhatIf

_HOME = {
    "ApproximationWarning": "epsilens.errors",
    "BudgetExceededError": "epsilens.errors",
    "Choice": "epsilens.whatif",
    "EstimateNotTrustworthyError": "epsilens.errors",
    "InputError": "epsilens.errors",
    "InputTypeError": "epsilens.errors",
    "LossChangeEstimate": "epsilens.whatif",
    "MissingExtraError": "epsilens.errors",
    "PrivacyLeakWarning": "epsilens.errors",
    "WhatIf": "epsilens.whatif",
}

__all__ = [
    "ApproximationWarning",
    "BudgetExceededError",
    "Choice",
    "EstimateNotTrustworthyError",
    "InputError",
    "InputTypeError",
    "LossChangeEstimate",
    "MissingExtraError",
    "PrivacyLeakWarning",
    "WhatIf",
    "__version__",
]


def __getattr__(name: str) -> object:
    # Heavy imports wait until a name is used: `epsilens --help` must answer at once.
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'epsilens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

# SPDX-License-Identifier: Apache-2.0
"""See what a privacy budget costs and what it buys, before you spend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._lazy import lazy_exports

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
    from epsilens.study import Study
    from epsilens.whatif import Choice, LossChangeEstimate, WhatIf


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
    "Study",
    "WhatIf",
    "__version__",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "epsilens.errors": [
            "ApproximationWarning",
            "BudgetExceededError",
            "EstimateNotTrustworthyError",
            "InputError",
            "InputTypeError",
            "MissingExtraError",
            "PrivacyLeakWarning",
        ],
        "epsilens.study": ["Study"],
        "epsilens.whatif": ["Choice", "LossChangeEstimate", "WhatIf"],
        "epsilens": ["__version__"],
    },
)

# SPDX-License-Identifier: Apache-2.0
"""Models that may be published: scikit-learn estimators with a proven guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._lazy import lazy_exports

if TYPE_CHECKING:
    from epsilens.models.model_file import load_model
    from epsilens.models.private_logistic import PrivateLogisticRegression
    from epsilens.models.private_ridge import PrivateRidge

__all__ = ["PrivateLogisticRegression", "PrivateRidge", "load_model"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "epsilens.models.model_file": ["load_model"],
        "epsilens.models.private_logistic": ["PrivateLogisticRegression"],
        "epsilens.models.private_ridge": ["PrivateRidge"],
    },
)

# SPDX-License-Identifier: Apache-2.0
"""A ridge model that may be published, and what its budget would cost.

`PrivateRidge` fits and adds noise that is provably enough; `what_if_rho` says beforehand what each
budget would do to the test loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epsilens._lazy import lazy_exports

if TYPE_CHECKING:
    from epsilens.models.gaussian_release import GaussianRelease, epsilon_of_rho, rho_of_epsilon
    from epsilens.models.private_ridge import PrivateRidge
    from epsilens.models.ridge_bounds import (
        ClippedShare,
        RidgeBounds,
        balanced_alpha,
        ridge_sensitivity,
    )
    from epsilens.whatif.rho import what_if_rho


__all__ = [
    "ClippedShare",
    "GaussianRelease",
    "PrivateRidge",
    "RidgeBounds",
    "balanced_alpha",
    "epsilon_of_rho",
    "rho_of_epsilon",
    "ridge_sensitivity",
    "what_if_rho",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "epsilens.models.gaussian_release": ["GaussianRelease", "epsilon_of_rho", "rho_of_epsilon"],
        "epsilens.models.private_ridge": ["PrivateRidge"],
        "epsilens.models.ridge_bounds": [
            "ClippedShare",
            "RidgeBounds",
            "balanced_alpha",
            "ridge_sensitivity",
        ],
        "epsilens.whatif.rho": ["what_if_rho"],
    },
)

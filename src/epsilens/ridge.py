# SPDX-License-Identifier: Apache-2.0
"""A ridge model that may be published, and what its budget would cost.

`PrivateRidge` fits and adds noise that is provably enough; `what_if_rho` says beforehand what each
budget would do to the test loss.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilens.models.gaussian_release import GaussianRelease, epsilon_of_rho, rho_of_epsilon
    from epsilens.models.private_ridge import PrivateRidge
    from epsilens.models.ridge_bounds import ClippedShare, RidgeBounds
    from epsilens.models.ridge_sensitivity import balanced_alpha, ridge_sensitivity
    from epsilens.whatif.rho import what_if_rho

_HOME = {
    "ClippedShare": "epsilens.models.ridge_bounds",
    "GaussianRelease": "epsilens.models.gaussian_release",
    "PrivateRidge": "epsilens.models.private_ridge",
    "RidgeBounds": "epsilens.models.ridge_bounds",
    "balanced_alpha": "epsilens.models.ridge_sensitivity",
    "epsilon_of_rho": "epsilens.models.gaussian_release",
    "rho_of_epsilon": "epsilens.models.gaussian_release",
    "ridge_sensitivity": "epsilens.models.ridge_sensitivity",
    "what_if_rho": "epsilens.whatif.rho",
}

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


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'epsilens.ridge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

# SPDX-License-Identifier: Apache-2.0
"""The federation on Flower: a thin adapter around the plain functions (extra `federated`)."""

from __future__ import annotations

__all__ = ["FAILURE", "SIMULATED_SITES"]

FAILURE = "failure"
"""The kind of error in a result that is a mistake of ours, told by its place alone."""

SIMULATED_SITES = "EPSILENS_SIMULATED_SITES"
"""The environment variable that names, in a simulation, the folder with the folders of all sites."""

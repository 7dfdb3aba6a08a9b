# SPDX-License-Identifier: Apache-2.0
"""A federation whose sites may change their mind: tighten ε, or leave, without training again (P2)."""

from __future__ import annotations

from epsilens.federated.aggregate import Objective, Penalty
from epsilens.federated.change import Step, Trust, change_step, judge, removal_step
from epsilens.federated.coordinator import Coordinator
from epsilens.federated.declaration import DeclaredColumn, FederationSchema, Records
from epsilens.federated.guarantee import after_change, after_exact, expected_share
from epsilens.federated.ledger import LedgerEntry, spend
from epsilens.federated.local_parties import LocalParties
from epsilens.federated.parties import Parties, Traffic
from epsilens.federated.randomisation import (
    as_budget,
    channels_between,
    degrade,
    randomise,
    relax,
)
from epsilens.federated.site import Draw, Pending, Site, SiteState, Wish
from epsilens.federated.sums import SiteSums, add_up, expected_sums, site_sums
from epsilens.federated.training import Trained, federated_averaging, newton_rounds
from epsilens.federated.versions import CoordinatorState, Intention, Version

__all__ = [
    "Coordinator",
    "CoordinatorState",
    "DeclaredColumn",
    "Draw",
    "FederationSchema",
    "Intention",
    "LedgerEntry",
    "LocalParties",
    "Objective",
    "Parties",
    "Penalty",
    "Pending",
    "Records",
    "Site",
    "SiteState",
    "SiteSums",
    "Step",
    "Traffic",
    "Trained",
    "Trust",
    "Version",
    "Wish",
    "add_up",
    "after_change",
    "after_exact",
    "as_budget",
    "change_step",
    "channels_between",
    "degrade",
    "expected_share",
    "expected_sums",
    "federated_averaging",
    "judge",
    "newton_rounds",
    "randomise",
    "relax",
    "removal_step",
    "site_sums",
    "spend",
]

# SPDX-License-Identifier: Apache-2.0
"""A federation whose sites may change their mind: tighten ε, or leave, without training again (P2)."""

from __future__ import annotations

from epsilens.federated.as_document import federation_document
from epsilens.federated.change import Step, Trust, acceptance_step, change_step, judge, removal_step
from epsilens.federated.coordinator import Coordinator
from epsilens.federated.coordinator_store import (
    CoordinatorStore,
    Member,
    create_coordinator_store,
)
from epsilens.federated.declaration import DeclaredColumn, FederationSchema, Records
from epsilens.federated.declare import agree, declare
from epsilens.federated.guarantee import after_change, after_exact, expected_share
from epsilens.federated.ledger import LedgerEntry, spend
from epsilens.federated.parties import (
    TOGETHER,
    LocalParties,
    MaskedLocalParties,
    Parties,
    Traffic,
)
from epsilens.federated.plan import PlannedOperation, carry_out, story
from epsilens.federated.randomisation import (
    as_budget,
    channels_between,
    degrade,
    randomise,
    relax,
)
from epsilens.federated.rehearsal import Outcome, Rehearsal, divide, rehearse
from epsilens.federated.site import Site
from epsilens.federated.site_state import Draw, Pending, SiteState, Wish
from epsilens.federated.site_store import RawFile, SiteStore, create_site_store, open_site
from epsilens.federated.sums import (
    Objective,
    Penalty,
    SiteSums,
    accepted_sums,
    add_up,
    expected_sums,
    site_sums,
)
from epsilens.federated.training import Trained, federated_averaging, newton_rounds
from epsilens.federated.value_service import AnswerLimits
from epsilens.federated.valuing import Valuation, local_exchange, model_for_provider, value
from epsilens.federated.versions import CoordinatorState, Intention, Version

__all__ = [
    "TOGETHER",
    "AnswerLimits",
    "Coordinator",
    "CoordinatorState",
    "CoordinatorStore",
    "DeclaredColumn",
    "Draw",
    "FederationSchema",
    "Intention",
    "LedgerEntry",
    "LocalParties",
    "MaskedLocalParties",
    "Member",
    "Objective",
    "Outcome",
    "Parties",
    "Penalty",
    "Pending",
    "PlannedOperation",
    "RawFile",
    "Records",
    "Rehearsal",
    "Site",
    "SiteState",
    "SiteStore",
    "SiteSums",
    "Step",
    "Traffic",
    "Trained",
    "Trust",
    "Valuation",
    "Version",
    "Wish",
    "acceptance_step",
    "accepted_sums",
    "add_up",
    "after_change",
    "after_exact",
    "agree",
    "as_budget",
    "carry_out",
    "change_step",
    "channels_between",
    "create_coordinator_store",
    "create_site_store",
    "declare",
    "degrade",
    "divide",
    "expected_share",
    "expected_sums",
    "federated_averaging",
    "federation_document",
    "judge",
    "local_exchange",
    "model_for_provider",
    "newton_rounds",
    "open_site",
    "randomise",
    "rehearse",
    "relax",
    "removal_step",
    "site_sums",
    "spend",
    "story",
    "value",
]

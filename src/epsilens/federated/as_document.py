# SPDX-License-Identifier: Apache-2.0
"""Versions and ledger of a federation as its document."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from epsilens.document import (
    FederationDocument,
    FederationEntry,
    FederationValuation,
    FederationVersion,
    Provenance,
)
from epsilens.document.federation import Engine, federation_number_types
from epsilens.federated.coordinator import Coordinator
from epsilens.federated.disclosure_summary import disclosure_summary
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.parties import Traffic
from epsilens.federated.valuing import Valuation
from epsilens.federated.versions import Version
from epsilens.notes import Note


def federation_document(
    coordinator: Coordinator,
    provenance: Provenance,
    *,
    engine: Engine = "in process",
    notes: Sequence[Note] = (),
) -> FederationDocument:
    """Write what a coordinator has done as a document.

    Parameters
    ----------
    coordinator : Coordinator
    provenance : Provenance
    engine : {"in process", "flower simulation", "flower"}
    notes : sequence of Note

    Returns
    -------
    FederationDocument

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.federated import (DeclaredColumn, FederationSchema, LocalParties, Records, Site)
    >>> schema = FederationSchema((DeclaredColumn("sex", ("f", "m")),),
    ...                           DeclaredColumn("smokes", ("no", "yes")), ("smokes",))
    >>> records = Records(np.array([[0, 1], [1, 0]] * 20), np.empty((40, 0)))
    >>> leader = Coordinator(schema, LocalParties([Site(0, schema, records, epsilon=3.0)]))
    >>> version = leader.train()
    >>> federation_document(leader, Provenance(method="newton")).ledger[0].total_epsilon
    3.0
    """
    return document_of(
        coordinator.versions,
        coordinator.parties.ledger(),
        provenance,
        protect=coordinator.schema.protected,
        engine=engine,
        notes=notes,
    )


def document_of(
    versions: Sequence[Version],
    ledger: Sequence[LedgerEntry],
    provenance: Provenance,
    *,
    protect: Sequence[str],
    engine: Engine = "in process",
    carried: Traffic | None = None,
    notes: Sequence[Note] = (),
    valuations: Sequence[Valuation] = (),
    secure_aggregation: bool = False,
) -> FederationDocument:
    """Write versions and ledger as a document.

    Parameters
    ----------
    versions : sequence of Version
    ledger : sequence of LedgerEntry
    provenance : Provenance
    protect : sequence of str
        The protected columns.
    engine : {"in process", "flower simulation", "flower"}
    carried : Traffic, optional
        What the transport has carried in all.
    notes : sequence of Note
    valuations : sequence of Valuation
    secure_aggregation : bool
        Whether sums are masked; if those of some versions were not, it is not said of all.

    Returns
    -------
    FederationDocument
    """
    return FederationDocument(
        provenance=provenance,
        notes=list(notes),
        number_types=federation_number_types(),
        protect=list(protect),
        n_sites=len({entry.site for entry in ledger}),
        engine=engine,
        carried_messages=None if carried is None else carried.messages,
        carried_bytes=None if carried is None else carried.bytes,
        versions=[_version(version) for version in versions],
        ledger=[FederationEntry(**dataclasses.asdict(entry)) for entry in ledger],
        secure_aggregation=secure_aggregation and all(version.masked for version in versions),
        valuations=[_valuation(valuation) for valuation in valuations],
    )


def _valuation(valuation: Valuation) -> FederationValuation:
    own = {"n", "harmful", "seconds", "learnt"}
    names = FederationValuation.model_fields.keys() - own
    return FederationValuation(
        n=valuation.n_items,
        harmful=valuation.n_harmful,
        seconds=round(valuation.seconds, 4),
        learnt=disclosure_summary(valuation),
        **{name: getattr(valuation, name) for name in names},
    )


def _version(version: Version) -> FederationVersion:
    names = FederationVersion.model_fields.keys() - {"sites", "seconds"}
    return FederationVersion(
        sites=list(version.sites),
        seconds=round(version.seconds, 4),
        **{name: getattr(version, name) for name in names},
    )

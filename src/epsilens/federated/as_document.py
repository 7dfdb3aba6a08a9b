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
from epsilens.federated.ledger import LedgerEntry
from epsilens.federated.parties import Traffic
from epsilens.federated.valuing import Valuation
from epsilens.federated.versions import Version
from epsilens.notes import Note
from epsilens.valuation.model_moves import n_coefficients

# --- Who learnt what in a valuation between parties: five short lines, for thirty seconds ---


def disclosure_summary(valuation: Valuation) -> list[str]:
    """Say in at most five short lines what each party knows after a valuation that it did not know before.

    Parameters
    ----------
    valuation : Valuation

    Returns
    -------
    list of str

    Examples
    --------
    >>> import numpy as np
    >>> found = Valuation(provider=1, tester=3, mode="items", change="add", scores=np.zeros(4),
    ...     resolution=1e-9, n_items=4, version=0, n_parameters=12, messages=6, bytes=2_000_000,
    ...     seconds=1.5)
    >>> for line in disclosure_summary(found):
    ...     print(line)
    Site 1, provider: the model and its inverse Hessian; nothing of site 3.
    Site 3, tester: 4 scores, one a record; no record.
    Coordinator: the same 4 scores; what it carried it cannot open.
    Provider and coordinator: 4 equations about 90 numbers of site 3.
    Tester and coordinator: drawn records of few possible values. No ε is spent.
    """
    a, b = valuation.provider, valuation.tester
    first = f"Site {a}, provider: the model and its inverse Hessian; nothing of site {b}."
    return [first, *(_of_batch if valuation.mode == "batch" else _of_items)(valuation)]


def _of_items(valuation: Valuation) -> list[str]:
    n, b, p = valuation.n_items, valuation.tester, valuation.n_parameters
    carried = "what it carried it cannot open."
    if valuation.accepted is not None:
        carried = "of what was accepted, gradient and Hessian."
    unsafe = f"; {p} give its gradient!" if n >= p else "."
    return [
        f"Site {b}, tester: {n} scores, one a record; no record.",
        f"Coordinator: the same {n} scores; {carried}",
        f"Provider and coordinator: {n} equations about {n_coefficients(p):,} numbers of site {b}{unsafe}",
        "Tester and coordinator: drawn records of few possible values. No ε is spent.",
    ]


def _of_batch(valuation: Valuation) -> list[str]:
    a, b, p = valuation.provider, valuation.tester, valuation.n_parameters
    lines = [
        f"Site {b}, tester: how the model would move, {p} numbers, and one score.",
        f"Coordinator: that score and {p} sums over site {a}'s records: weak, use items.",
        "All of it comes from drawn records: no ε is spent.",
    ]
    if valuation.accepted is not None:
        lines.insert(2, "Accepted: the coordinator also has gradient and Hessian of the offer.")
    return lines


# --- Versions and ledger of a federation as its document ---


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

# SPDX-License-Identifier: Apache-2.0
"""What the command line makes of a federation's outcome: document, chart, tables, words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epsilens.document import FederationDocument
    from epsilens.federated import FederationSchema
    from epsilens.federated.rehearsal import Outcome


def federation_of(
    outcome: Outcome,
    contract: FederationSchema,
    settings: dict[str, object],
    *,
    in_process: bool,
    seed: int,
    seconds: float,
) -> FederationDocument:
    """Write what came of a rehearsal as a document."""
    from epsilens.document import Provenance
    from epsilens.federated.as_document import document_of

    return document_of(
        outcome.versions,
        outcome.ledger,
        Provenance(
            method=str(settings["algorithm"]),
            settings=settings,
            seed=seed,
            simulated=True,
            schema_fingerprint=contract.fingerprint,
            seconds=round(seconds, 3),
        ),
        protect=contract.protected,
        engine="in process" if in_process else "flower simulation",
        carried=outcome.carried,
        valuations=outcome.valuations,
        secure_aggregation=bool(settings.get("secure_aggregation", False)),
    )


def write_federation(document: FederationDocument, out: str) -> None:
    """Write the document or its chart, as the ending of the file says."""
    from pathlib import Path

    from epsilens.data import write_text
    from epsilens.document import to_json
    from epsilens.show import federation_chart, save_chart

    if Path(out).suffix.lower() == ".json":
        write_text(to_json(document) + "\n", out)
    else:
        save_chart(federation_chart(document), out)


def print_federation(document: FederationDocument, *, quiet: bool, out: str | None) -> None:
    """Print versions and ledger as tables, and what they mean in words."""
    from rich.console import Console
    from rich.text import Text

    from epsilens.cli.session import print_notes
    from epsilens.document import view
    from epsilens.show import document_table, valuation_sentences

    console = Console()
    if not quiet:
        if document.versions:
            console.print(document_table(document))
        console.print(document_table(document, place=1))
        print_notes(console, document.notes)
    for sentence in view(document).sentences:
        console.print(Text(sentence))
    for valuation in document.valuations:
        for sentence in valuation_sentences(valuation):
            console.print(Text(sentence))
    if not quiet and out is not None:
        console.print(Text(f"Written: {out}"), soft_wrap=True)

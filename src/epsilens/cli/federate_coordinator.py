# SPDX-License-Identifier: Apache-2.0
"""`epsilens federate` at the coordinator: train, apply, remove, value, status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.federate import AlgorithmChoice, RungChoice
from epsilens.cli.federate_input import sites_of
from epsilens.cli.federate_members import OPERATION_BUSY, State
from epsilens.cli.federate_valuation import (
    Accept,
    Items,
    ScoreFile,
    SecureAggregation,
    ValueModeChoice,
    check_secure,
    write_scores,
)
from epsilens.cli.option_groups import option_groups
from epsilens.cli.options import Json, Quiet

if TYPE_CHECKING:
    from epsilens.federated.coordinator_store import CoordinatorStore
    from epsilens.federated.flower.operations import OperationRunner


Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="How long the answers to one message may take.",
        min=1.0,
    ),
]
Patience = Annotated[
    float,
    typer.Option(
        "--patience", metavar="SECONDS", help="How long sites have to come online.", min=0.0
    ),
]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """How one operation of the coordinator is run and shown, as it was typed."""

    state: str
    timeout: Timeout = 60.0
    patience: Patience = 30.0
    json: Json = False
    quiet: Quiet = False

    def carry_out(
        self,
        work: Callable[[OperationRunner], object],
        name: str,
        *,
        secure_aggregation: bool | None = None,
        without: tuple[int, ...] = (),
        leaving: tuple[int, ...] = (),
    ) -> OperationRunner:
        """Carry one operation out as one run, and show what came of it."""
        from epsilens.federated.coordinator_store import CoordinatorStore
        from epsilens.federated.flower.services import locked, require_deployment

        require_deployment()
        from epsilens.federated.flower.link import Link
        from epsilens.federated.flower.operations import OperationRunner
        from epsilens.federated.flower.server_app import read_records

        store = CoordinatorStore(self.state)
        link = Link(store.folder)
        nodes = {member.site: member.node for member in store.members}
        test = store.folder / "test.npz"
        with (
            locked(store.folder / "operation.lock", taken=OPERATION_BUSY),
            link.run(patience=self.timeout) as grid,
        ):
            lead = OperationRunner(
                grid,
                store,
                timeout=self.timeout,
                patience=self.patience,
                secure_aggregation=secure_aggregation,
                everybody=name == "train",
                without=without,
                leaving=leaving,
                test=read_records(test) if test.exists() else None,
            )
            work(lead)
        for site in set(nodes) & set(lead.coordinator.state.left):
            node = nodes[site]
            if node is not None:
                link.unregister(node)
        _show(store, name, json=self.json, quiet=self.quiet, lead=lead)
        return lead


@option_groups
def train(
    state: State,
    algorithm: Annotated[
        AlgorithmChoice, typer.Option("--algorithm", help="How the sites train.")
    ] = AlgorithmChoice.newton,
    at_least: Annotated[
        int,
        typer.Option("--at-least", metavar="N", min=1, help="With fewer sites nothing happens."),
    ] = 2,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="SITE", help="Leave a site out this time (repeat)."),
    ] = None,
    secure_aggregation: Annotated[
        bool | None,
        typer.Option(
            "--secure-aggregation/--no-secure-aggregation",
            help="Mask every site's sums, so that the coordinator sees those over all sites only; "
            "remembered from then on. As before unless given.",
        ),
    ] = None,
    *,
    operation: Operation,
) -> None:
    """Train the common model with the sites that answer; who does not is named and left out.

    Example: [bold]epsilens federate train --state coordinator --timeout 30[/bold]
    """
    left_out = sites_of(without, option="--without")
    check_secure(algorithm.value, secure=bool(secure_aggregation))
    operation.carry_out(
        lambda lead: lead.train(algorithm=algorithm.value, at_least=at_least),
        "train",
        secure_aggregation=secure_aggregation,
        without=left_out,
    )


@option_groups
def apply(
    state: State,
    rung: Annotated[
        RungChoice,
        typer.Option(
            "--rung",
            help="How the model follows: one message from each changing site, a Newton step, or rounds "
            "with all sites until it is what training again would give.",
        ),
    ] = RungChoice.one_message,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would come of it; nothing changes.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="SITE", help="Let a site's wish wait (repeat)."),
    ] = None,
    secure_aggregation: SecureAggregation = False,
    *,
    operation: Operation,
) -> None:
    """Ask the sites what they wish, and let the model follow.

    A site asks with `epsilens federate request`; what it asks for waits there until this command.

    Example: [bold]epsilens federate apply --state coordinator --preview[/bold]
    """
    waiting = sites_of(without, option="--without")
    operation.carry_out(
        lambda lead: lead.apply(rung=rung.value, preview=preview, without=waiting),
        "apply",
        secure_aggregation=secure_aggregation or None,
    )


@option_groups
def remove(
    site: Annotated[
        str, typer.Argument(metavar="SITE", help="The number of the site that leaves.")
    ],
    state: State,
    rung: Annotated[
        RungChoice,
        typer.Option(
            "--rung",
            help="one-message: a step from the sums that are here, which asks nobody; newton: a second "
            "step, for which all who stay are asked once; exact: rounds with all who stay.",
        ),
    ] = RungChoice.newton,
    secure_aggregation: SecureAggregation = False,
    *,
    operation: Operation,
) -> None:
    """Take a site out of the model and of the federation, whether it answers or not.

    Its sums are deleted here; its ledger stays, since what it has released cannot be taken back.

    Example: [bold]epsilens federate remove 4 --state coordinator[/bold]
    """
    leaving = sites_of([site], option="SITE")
    operation.carry_out(
        lambda lead: lead.remove(leaving, rung=rung.value),
        "remove",
        leaving=leaving,
        secure_aggregation=secure_aggregation or None,
    )


@option_groups
def value(
    state: State,
    provider: Annotated[
        int, typer.Option("--provider", metavar="A", min=0, help="Site whose records are valued.")
    ],
    tester: Annotated[int, typer.Option("--tester", metavar="B", min=0, help="On whose records.")],
    mode: Annotated[
        ValueModeChoice,
        typer.Option(
            "--mode",
            help="items: a score for each record, under encryption; batch: one score, and the coordinator "
            "sees how the model would move (weak).",
        ),
    ] = ValueModeChoice.items,
    items: Items = None,
    accept: Accept = False,
    scores: ScoreFile = None,
    secure_aggregation: SecureAggregation = False,
    *,
    operation: Operation,
) -> None:
    """Find out what a site's records are worth on another's; neither shows its records.

    A site that joined with `--offer` has those records valued, and others those it has in the model.

    Example: [bold]epsilens federate value --state coordinator --provider 1 --tester 3
    --scores scores.csv[/bold]
    """
    from epsilens.cli.session import check_target

    check_target(scores, sources={}, suffixes=(".csv",), option="--scores")
    lead = operation.carry_out(
        lambda lead: lead.value(provider, tester, mode=mode.value, items=items, accept=accept),
        "value",
        secure_aggregation=secure_aggregation or None,
    )
    if scores is not None:
        write_scores(lead.valuations, scores)


def status(state: State, json: Json = False, quiet: Quiet = False) -> None:
    """Show versions, ledger and sites from the coordinator's folder; no site is asked.

    Example: [bold]epsilens federate status --state coordinator[/bold]
    """
    from epsilens.federated.coordinator_store import CoordinatorStore

    _show(CoordinatorStore(state), "status", json=json, quiet=quiet)


def _show(
    store: CoordinatorStore,
    operation: str,
    *,
    json: bool,
    quiet: bool,
    lead: OperationRunner | None = None,
) -> None:
    from epsilens.cli.federate_output import print_federation
    from epsilens.cli.session import print_json
    from epsilens.document import Provenance, to_json
    from epsilens.federated.as_document import document_of
    from epsilens.notes import Note

    kept = store.load()
    said = [] if lead is None else [*lead.notes]
    if kept.intention is not None:
        said.append(
            Note(
                "operation-interrupted",
                f"an operation ({kept.intention.operation}) was interrupted; the next one finishes it, or "
                "gives it up",
            )
        )
    document = document_of(
        kept.versions,
        kept.ledger,
        Provenance(
            method=operation,
            settings={"regularisation": store.regularisation},
            schema_fingerprint=store.schema.fingerprint,
        ),
        protect=store.schema.protected,
        engine="flower",
        notes=said,
        valuations=() if lead is None else lead.valuations,
        secure_aggregation=store.masked,
    )
    if quiet:
        # Who was left out is said all the same.
        for note in said:
            typer.echo(f"Note: {note}.", err=True)
    if json:
        print_json(to_json(document))
        return
    if lead is None:
        members = ", ".join(str(member.site) for member in store.members) or "none"
        typer.echo(f"Sites that may take part: {members}. Left: {_listed(kept.left)}.")
        asked = (
            "under masks: those over all sites will be seen"
            if store.masked
            else "in clear: each site's will be seen"
        )
        typer.echo(f"The next operation asks for sums {asked} here.")
        if not kept.versions:
            typer.echo("There is no model yet.")
            return
    else:
        made = document.versions[lead.first :]
        masked = store.masked and all(version.masked for version in made)
        document = document.model_copy(update={"versions": made, "secure_aggregation": masked})
        if not document.versions and not document.valuations:
            for note in () if quiet else said:
                typer.echo(f"Note: {note}.")
            typer.echo("No site asks for a change; the model is as it was.")
            return
    print_federation(document, quiet=quiet, out=None)


def _listed(sites: tuple[int, ...]) -> str:
    return ", ".join(map(str, sites)) or "nobody"

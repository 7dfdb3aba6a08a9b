# SPDX-License-Identifier: Apache-2.0
"""`epsilens federate` at the coordinator: serve, register sites, train, apply, remove, value, status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.federate import AlgorithmChoice, RungChoice, show_federation
from epsilens.cli.federate_input import (
    Accept,
    Items,
    ScoreFile,
    SecureAggregation,
    ValueModeChoice,
    check_numbers,
    check_secure,
    sites_of,
    write_scores,
)
from epsilens.cli.option_groups import choice, option, option_groups, switch
from epsilens.cli.output import (
    Force,
    Json,
    Output,
    Quiet,
    check_new,
    check_state,
    check_target,
    print_json,
)
from epsilens.errors import COMMAND_LINE, InputError

if TYPE_CHECKING:
    from epsilens.federated.coordinator_store import CoordinatorStore
    from epsilens.federated.flower.operations import OperationRunner


State = Annotated[str, option("The coordinator's folder; nobody else reads it.", "DIR")]
OPERATION_BUSY = (
    "operations must come one after another, but another one is running. Wait until it has ended."
)
_BUSY = "sites are registered one after another, but another command does so now. Try again."
Timeout = Annotated[
    float, option("How long the answers to one message may take.", "SECONDS", min=1.0)
]
Patience = Annotated[float, option("How long sites have to come online.", "SECONDS", min=0.0)]


# --- Where sites connect, and who may take part ---

DEFAULT_PORT = 9092


def server(
    state: State,
    schema: Annotated[
        str | None,
        option(
            "The contract, as `epsilens federate schema` drafts it; needed the first time, unless "
            "sites declare.",
            "FILE",
        ),
    ] = None,
    declaration: Annotated[
        list[str] | None,
        option(
            "What a site declares, drafted likewise at the site (repeat): what they have in common is "
            "written as contract.json, to be confirmed by `--schema`.",
            "FILE",
        ),
    ] = None,
    host: Annotated[
        str, option("Where to listen. Sites elsewhere need an address of the network.")
    ] = "127.0.0.1",
    port: Annotated[int, option("Where to listen.", min=1, max=65535)] = DEFAULT_PORT,
    address: Annotated[
        list[str] | None,
        option(
            "A name or address by which sites reach this machine (repeat); it goes into the "
            "certificate and the invitations.",
            "NAME",
        ),
    ] = None,
    tls: Annotated[
        str | None,
        option("Certificates that others have made; otherwise they are made here.", "CERT,KEY,CA"),
    ] = None,
    regularisation: Annotated[
        float, option("λ of the penalty ½λ‖θ‖² beside the mean loss.", "L")
    ] = 1e-3,
    test: Annotated[
        str | None, option("Records of the coordinator's own, to measure versions on.", "FILE")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Serve a federation: sites connect here, and operations run from other terminals.

    It ends with Ctrl-C; started again with the same folder it goes on. Sites must be registered, and
    whoever is not is refused; only this folder's owner can start an operation.

    Example: [bold]epsilens federate server --state coordinator --schema contract.json
    --host 0.0.0.0 --address hospital.example.org[/bold]
    """
    from epsilens.federated import FederationSchema
    from epsilens.federated.coordinator_store import (
        DATABASE,
        CoordinatorStore,
        create_coordinator_store,
    )
    from epsilens.federated.flower.services import require_deployment

    require_deployment()
    check_numbers(regularisation, None)
    from epsilens.federated.flower.server_service import serve_federation, use_certificates

    folder = check_state(state)
    if declaration:
        _agree(folder, declaration, schema)
        return
    contract = None if schema is None else FederationSchema.read(schema)
    if (folder / DATABASE).exists():
        store = CoordinatorStore(folder)
        if contract is not None and contract.fingerprint != store.schema.fingerprint:
            raise InputError(
                "`--schema` must be the contract that the federation has agreed on, got another. A new "
                "contract needs a new folder."
            )
    elif contract is None:
        raise InputError(
            "`--schema` must name the contract the first time. Draft one with `epsilens federate schema`, or "
            "let sites do so and give theirs to `--declaration`."
        )
    else:
        store = create_coordinator_store(folder, contract, regularisation=regularisation)
    if tls is not None:
        use_certificates(folder, tls.split(","))
    if test is not None:
        _keep_test(store, test)
    serve_federation(
        store,
        host=host,
        port=port,
        names=address or (),
        say=lambda text: None if quiet else typer.echo(text),
    )


def _agree(folder: Path, files: list[str], schema: str | None) -> None:
    """Write the contract that the sites' declarations lead to, for the operator to confirm."""
    import json

    from epsilens.data import write_text
    from epsilens.data.private_files import writable
    from epsilens.federated import FederationSchema
    from epsilens.federated.coordinator_store import DATABASE
    from epsilens.federated.declare import agree

    if schema is not None or (folder / DATABASE).exists():
        raise InputError(
            "`--declaration` is for the time before there is a contract, and there is one already. Leave "
            "it out; a new contract needs a new folder."
        )
    found = agree({f"the declaration {name}": FederationSchema.read(name) for name in files})
    with writable(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = folder / "contract.json"
    write_text(json.dumps(found.to_dict(), ensure_ascii=False, indent=2) + "\n", str(target))
    typer.echo(
        f"{len(files)} declarations agree: {len(found.columns)} columns and the label, "
        f"{len(found.protected)} protected. Check {target}, and start the server with --schema {target}."
    )


def _keep_test(store: CoordinatorStore, path: str) -> None:
    from epsilens.data import read_table
    from epsilens.federated.flower.server_app import save_records

    save_records(
        store.folder / "test.npz", store.schema.encode(read_table(path, what="`--test`").frame)
    )


def register(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The site's public key: its site.pub.")],
    state: State,
    out: Annotated[str, option("Where the invitation goes: a .json file.", "FILE")],
    site: Annotated[
        int | None,
        option("Its number; the next one unless given. A known one: a new key for it.", min=0),
    ] = None,
    server_address: Annotated[
        str | None, option("Where the site finds the server.", "HOST:PORT", "--server")
    ] = None,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Let a site take part, and write the invitation for it: number, contract, address, certificate.

    The invitation holds no secret, but hand it over so that the site can be sure whose it is.

    Example: [bold]epsilens federate register site.pub --state coordinator
    --out invitation-0.json[/bold]
    """
    from epsilens.data import write_text
    from epsilens.federated.coordinator_store import CoordinatorStore
    from epsilens.federated.flower.services import locked, require_deployment

    require_deployment()
    from epsilens.federated.flower.keys import CA_CERTIFICATE, read_public_key
    from epsilens.federated.flower.link import Link
    from epsilens.federated.flower.site_service import Invitation

    check_target(out, sources={"the key": key}, suffixes=(".json",))
    check_new(out, force=force)
    store = CoordinatorStore(state)
    link = Link(store.folder)
    text = read_public_key(key)
    # Killed anywhere in between, the same command does the rest.
    with locked(store.folder / "members.lock", taken=_BUSY):
        member = store.register(text, site=site)
        store.note_node(member.site, link.register(text))
        link.unregister_all_but(m.node for m in store.members if m.node is not None)
    invitation = Invitation(
        member.site,
        server_address or link.address,
        store.schema.to_dict(),
        (store.folder / CA_CERTIFICATE).read_text(encoding="ascii"),
    )
    write_text(invitation.text() + "\n", out)
    if not quiet:
        typer.echo(f"Site {member.site} may take part. Written: {out}.")


def unregister(
    site: Annotated[
        int, typer.Argument(metavar="SITE", min=0, help="The number of the site that is forgotten.")
    ],
    state: State,
    quiet: Quiet = False,
) -> None:
    """Let a site take part no longer that is not in the model: registered by mistake, or never come.

    One that is in the model is taken out by `epsilens federate remove`. What it has released stays in
    the ledger, and its number is then given to nobody else.

    Example: [bold]epsilens federate unregister 5 --state coordinator[/bold]
    """
    from epsilens.federated.coordinator_store import CoordinatorStore
    from epsilens.federated.flower.services import locked, require_deployment

    require_deployment()
    from epsilens.federated.flower.link import WHERE, Link

    store = CoordinatorStore(state)
    with (
        locked(store.folder / "operation.lock", taken=OPERATION_BUSY),
        locked(store.folder / "members.lock", taken=_BUSY),
    ):
        # A server that does not run lets nobody in, and begins with those who are registered.
        link = Link(store.folder) if (store.folder / WHERE).exists() else None
        gone = store.unregister(site)
        if link is not None and gone.node is not None:
            link.unregister(gone.node)
    if not quiet:
        typer.echo(f"Site {site} may take part no longer.")


# --- Operations ---


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
        AlgorithmChoice, choice(AlgorithmChoice, "How the sites train.")
    ] = "newton",
    at_least: Annotated[int, option("With fewer sites nothing happens.", "N", min=1)] = 2,
    without: Annotated[
        list[str] | None, option("Leave a site out this time (repeat).", "SITE")
    ] = None,
    secure_aggregation: Annotated[
        bool | None,
        switch(
            "--secure-aggregation/--no-secure-aggregation",
            "Mask every site's sums, so that the coordinator sees those over all sites only; "
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
    check_secure(algorithm, secure=bool(secure_aggregation))
    operation.carry_out(
        lambda lead: lead.train(algorithm=algorithm, at_least=at_least),
        "train",
        secure_aggregation=secure_aggregation,
        without=left_out,
    )


@option_groups
def apply(
    state: State,
    rung: Annotated[
        RungChoice,
        choice(
            RungChoice,
            "How the model follows: one message from each changing site, a Newton step, or rounds "
            "with all sites until it is what training again would give.",
        ),
    ] = "one-message",
    preview: Annotated[
        bool, switch("--preview", "Show what would come of it; nothing changes.")
    ] = False,
    without: Annotated[list[str] | None, option("Let a site's wish wait (repeat).", "SITE")] = None,
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
        lambda lead: lead.apply(rung=rung, preview=preview, without=waiting),
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
        choice(
            RungChoice,
            "one-message: a step from the sums that are here, which asks nobody; newton: a second "
            "step, for which all who stay are asked once; exact: rounds with all who stay.",
        ),
    ] = "newton",
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
        lambda lead: lead.remove(leaving, rung=rung),
        "remove",
        leaving=leaving,
        secure_aggregation=secure_aggregation or None,
    )


@option_groups
def value(
    state: State,
    provider: Annotated[int, option("Site whose records are valued.", "A", min=0)],
    tester: Annotated[int, option("On whose records.", "B", min=0)],
    mode: Annotated[
        ValueModeChoice,
        choice(
            ValueModeChoice,
            "items: a score for each record, under encryption; batch: one score, and the coordinator "
            "sees how the model would move (weak).",
        ),
    ] = "items",
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
    check_target(scores, sources={}, suffixes=(".csv",), option="--scores")
    lead = operation.carry_out(
        lambda lead: lead.value(provider, tester, mode=mode, items=items, accept=accept),
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
            typer.echo(f"Note: {note.render(COMMAND_LINE).rstrip('.')}.", err=True)
    if json:
        print_json(to_json(document))
        return
    if lead is None:
        members = ", ".join(str(member.site) for member in store.members) or "none"
        typer.echo(
            f"Sites that may take part: {members}. Left: {', '.join(map(str, kept.left)) or 'nobody'}."
        )
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
                typer.echo(f"Note: {note.render(COMMAND_LINE).rstrip('.')}.")
            typer.echo("No site asks for a change; the model is as it was.")
            return
    show_federation(document, Output(quiet=quiet))

# SPDX-License-Identifier: Apache-2.0
"""`epsilens federate` at the coordinator: who may take part."""

from __future__ import annotations

from typing import Annotated

import typer

from epsilens.cli.options import Force, Quiet

State = Annotated[
    str,
    typer.Option("--state", metavar="DIR", help="The coordinator's folder; nobody else reads it."),
]
OPERATION_BUSY = (
    "operations must come one after another, but another one is running. Wait until it has ended."
)
_BUSY = "sites are registered one after another, but another command does so now. Try again."


def register(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The site's public key: its site.pub.")],
    state: State,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Where the invitation goes: a .json file.")
    ],
    site: Annotated[
        int | None,
        typer.Option(
            "--site",
            min=0,
            help="Its number; the next one unless given. A known one: a new key for it.",
        ),
    ] = None,
    server_address: Annotated[
        str | None,
        typer.Option("--server", metavar="HOST:PORT", help="Where the site finds the server."),
    ] = None,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Let a site take part, and write the invitation for it: number, contract, address, certificate.

    The invitation holds no secret, but hand it over so that the site can be sure whose it is.

    Example: [bold]epsilens federate register site.pub --state coordinator
    --out invitation-0.json[/bold]
    """
    from epsilens.cli.session import check_new, check_target
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

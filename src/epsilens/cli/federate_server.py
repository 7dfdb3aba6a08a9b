# SPDX-License-Identifier: Apache-2.0
"""`epsilens federate server`: where sites connect, under the contract that they have agreed on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilens.cli.federate_input import check_numbers
from epsilens.cli.federate_members import State
from epsilens.cli.options import Quiet
from epsilens.errors import InputError

if TYPE_CHECKING:
    from epsilens.federated.coordinator_store import CoordinatorStore


DEFAULT_PORT = 9092


def server(
    state: State,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="The contract, as `epsilens federate schema` drafts it; needed the first time, unless "
            "sites declare.",
        ),
    ] = None,
    declaration: Annotated[
        list[str] | None,
        typer.Option(
            "--declaration",
            metavar="FILE",
            help="What a site declares, drafted likewise at the site (repeat): what they have in common is "
            "written as contract.json, to be confirmed by `--schema`.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="Where to listen. Sites elsewhere need an address of the network."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="Where to listen.")
    ] = DEFAULT_PORT,
    address: Annotated[
        list[str] | None,
        typer.Option(
            "--address",
            metavar="NAME",
            help="A name or address by which sites reach this machine (repeat); it goes into the "
            "certificate and the invitations.",
        ),
    ] = None,
    tls: Annotated[
        str | None,
        typer.Option(
            "--tls",
            metavar="CERT,KEY,CA",
            help="Certificates that others have made; otherwise they are made here.",
        ),
    ] = None,
    regularisation: Annotated[
        float,
        typer.Option(
            "--regularisation", metavar="L", help="λ of the penalty ½λ‖θ‖² beside the mean loss."
        ),
    ] = 1e-3,
    test: Annotated[
        str | None,
        typer.Option(
            "--test",
            metavar="FILE",
            help="Records of the coordinator's own, to measure versions on.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Serve a federation: sites connect here, and operations run from other terminals.

    It ends with Ctrl-C; started again with the same folder it goes on. Sites must be registered, and
    whoever is not is refused; only this folder's owner can start an operation.

    Example: [bold]epsilens federate server --state coordinator --schema contract.json
    --host 0.0.0.0 --address hospital.example.org[/bold]
    """
    from epsilens.cli.session import check_state
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

    save_records(store.folder / "test.npz", store.schema.encode(read_table(path).frame))

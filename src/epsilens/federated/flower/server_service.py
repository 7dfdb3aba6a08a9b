# SPDX-License-Identifier: Apache-2.0
"""The coordinator's server as a running program: Flower's SuperLink, its keys, and who may come."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from epsilens.data.private_files import write_private
from epsilens.errors import InputError
from epsilens.federated.coordinator_store import CoordinatorStore
from epsilens.federated.flower.keys import (
    CA_CERTIFICATE,
    CA_KEY,
    SERVER_CERTIFICATE,
    SERVER_KEY,
    make_certificates,
    secret_in,
)
from epsilens.federated.flower.link import CONTROL_TOKEN, EXECUTION_SECRET, WHERE, Link
from epsilens.federated.flower.services import Service, environment, last_words, locked

SECONDS_TO_START = 60.0
_SECONDS_BETWEEN_LOOKS = 0.1


def use_certificates(folder: Path, files: Sequence[str]) -> None:
    """Take certificates that others have made: the server's, its key, and the authority's.

    Parameters
    ----------
    folder : Path
        Folder of the coordinator.
    files : sequence of three str
    """
    if len(files) != 3:
        raise InputError(
            "`--tls` must be three files separated by commas: the server's certificate, its key, and the "
            f"authority's certificate, got {len(files)}."
        )
    try:
        texts = [Path(name).read_bytes() for name in files]
    except OSError as error:
        raise InputError(
            f"`--tls` must name files that can be read, got {type(error).__name__}."
        ) from None
    for name, text in zip((SERVER_CERTIFICATE, SERVER_KEY, CA_CERTIFICATE), texts, strict=True):
        write_private(folder / name, text)
    (folder / CA_KEY).unlink(missing_ok=True)


def serve_federation(
    store: CoordinatorStore,
    *,
    host: str,
    port: int,
    names: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Serve until the program is told to end.

    Parameters
    ----------
    store : CoordinatorStore
    host : str
        The address that the server listens at.
    port : int
    names : sequence of str
        By which sites reach it.
    say : callable
        Gets a sentence when something has happened.

    Raises
    ------
    InputError
        If the server does not start, or stops.
    """
    folder = store.folder
    taken = "the coordinator's server must run once, but another process runs it already."
    with locked(folder / "server.lock", taken=taken):
        wildcard = host in {"0.0.0.0", "::"}  # noqa: S104
        make_certificates(folder, [*names, *([] if wildcard else [host])])
        for name in (CONTROL_TOKEN, EXECUTION_SECRET):
            secret_in(folder, name)
        service = _start(folder, host, port)
        where = folder / WHERE
        try:
            address = f"https://127.0.0.1:{port}"
            authority = folder / CA_CERTIFICATE
            if not service.answers(address, seconds=SECONDS_TO_START, authority=authority):
                raise InputError(
                    f"the server must start, but did not ({last_words(service.log)!r}). Is port {port} in use?"
                )
            link = Link(folder, port=port)
            for member in store.members:
                store.note_node(member.site, link.register(member.public_key))
            public = names[0] if names else ("127.0.0.1" if wildcard else host)
            facts = {"port": port, "address": f"{public}:{port}", "process": os.getpid()}
            write_private(where, json.dumps(facts).encode("utf-8"))
            say(
                f"The server listens at {host}:{port}; {len(store.members)} sites are registered. Contract "
                f"{store.schema.fingerprint[:16]}."
            )
            while not service.has_ended:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
            raise InputError(
                f"the server must run until it is ended, but stopped ({last_words(service.log)!r}). Start "
                "it again."
            )
        finally:
            where.unlink(missing_ok=True)
            service.end()


def _start(folder: Path, host: str, port: int) -> Service:
    arguments = [str(folder / CONTROL_TOKEN), "--host", host, "--port", str(port)]
    arguments += ["--ssl-certfile", str(folder / SERVER_CERTIFICATE)]
    arguments += ["--ssl-keyfile", str(folder / SERVER_KEY)]
    arguments += ["--ssl-ca-certfile", str(folder / CA_CERTIFICATE)]
    arguments += ["--enable-supernode-auth", "--isolation", "process"]
    arguments += ["--superexec-auth-secret-file", str(folder / EXECUTION_SECRET)]
    arguments += ["--disable-runtime-dependency-installation"]
    home = folder / "flower"
    home.mkdir(mode=0o700, exist_ok=True)
    own = environment(FLWR_HOME=str(home))
    return Service("superlink", arguments, log=folder / "server.log", environment=own)

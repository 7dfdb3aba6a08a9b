# SPDX-License-Identifier: Apache-2.0
"""Starts the server: on this machine only, with a link that nobody can guess."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from pathlib import Path

from epsilens.errors import InputError

HOST = "127.0.0.1"


def run(
    data: str | None,
    *,
    port: int,
    state: str | Path | None,
    anonymous: bool,
    max_upload: int,
    announce: Callable[[str, Path], None],
    browse: Callable[[str], None] | None = None,
    own_model: str | None = None,
) -> None:
    """Serve the page until somebody ends it.

    Parameters
    ----------
    data : str, optional
        A table to begin with.
    port : int
        0: one that is free.
    state : path, optional
        Where studies are kept.
    anonymous : bool
        Whether names are withheld.
    max_upload : int
        The largest file, in bytes.
    own_model : str, optional
        A model of the user's own, as MODULE:NAME.
    announce : callable
        Called with the link and the folder once the server answers.
    browse : callable, optional
        Called then with the address of a file that only this user can read and that leads to the
        link: whoever lists the processes would read the link itself.
    """
    import uvicorn

    from epsilens.app.access import Gate
    from epsilens.app.api import create_app
    from epsilens.app.folder import clear_signposts, default_folder, open_folder, put_signpost
    from epsilens.app.http_limits import LARGEST_HEADERS, LimitedProtocol
    from epsilens.app.service import PageService
    from epsilens.app.store import Store

    listening = _listen(port)
    try:
        store = Store(open_folder(default_folder() if state is None else state))
        try:
            service = PageService(
                store, anonymous=anonymous, max_upload=max_upload, data=data, own_model=own_model
            )
        except BaseException:
            store.close()
            raise
        clear_signposts(store.folder)
        gate = Gate()
        gate.on_exchange = lambda: clear_signposts(store.folder)
        config = uvicorn.Config(
            create_app(service, gate),
            access_log=False,
            log_level="error",
            server_header=False,
            date_header=False,
            ws="none",
            timeout_graceful_shutdown=3,
            http=LimitedProtocol,
            h11_max_incomplete_event_size=LARGEST_HEADERS,
        )
        server = uvicorn.Server(config)
        address = gate.link(f"http://{HOST}:{listening.getsockname()[1]}")
        startup = server.startup

        async def started(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets=sockets)
            announce(address, store.folder)
            if browse is not None:
                browse(put_signpost(store.folder, address).as_uri())

        server.startup = started  # type: ignore[method-assign]
        try:
            server.run(sockets=[listening])
        finally:
            clear_signposts(store.folder)
    finally:
        listening.close()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        # Until it listens, another program could take the same port.
        listening.listen()
    except OSError as error:
        listening.close()
        reason = {
            errno.EADDRINUSE: f"must be free, but another program uses {port}. End that program,",
            errno.EACCES: f"must be open to you, but the system keeps {port} for itself. Please",
        }.get(error.errno or 0, f"must be usable, but the system refuses {port}. Please")
        raise InputError(f"`--port` {reason} choose another port, or leave `--port` out.") from None
    return listening

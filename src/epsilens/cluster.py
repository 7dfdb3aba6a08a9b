# SPDX-License-Identifier: Apache-2.0
"""Let a Ray cluster do the work that is too much for one machine.

`use(address)` connects with a cluster that is already running; from then on passes over large tables and
shadow models are computed there, with the same numbers. `stop()` comes back to this machine.
"""

from __future__ import annotations

from typing import overload

from epsilens.models.ray_connection import Connection, connect, is_connected, open_connection

__all__ = ["Connection", "is_connected", "stop", "use"]


@overload
def use(address: str) -> Connection: ...
@overload
def use(address: None) -> None: ...
def use(address: str | None) -> Connection | None:
    """Let an existing Ray cluster carry the passes and the shadow models.

    The numbers are the same as on this machine. The cluster must be trusted with the data: its workers
    read the files, or are sent the training features; see `docs/cluster.md`.

    Parameters
    ----------
    address : str or None
        `ray://HOST:10001` from anywhere; `HOST:6379` or `auto` on a node of the cluster. None goes back
        to this machine.

    Returns
    -------
    Connection
        Can be used in a `with` statement, which disconnects at its end.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.
    InputError
        If nobody answers there, a node lacks this package, or versions differ.

    Examples
    --------
    >>> import epsilens.cluster
    >>> with epsilens.cluster.use("ray://head:10001"):  # doctest: +SKIP
    ...     curve = study.estimate(epsilon="0.1:10:10", shadow_models=10_000)
    >>> epsilens.cluster.use(None)
    """
    if address is None:
        stop()
        return None
    return connect(address)


def stop() -> None:
    """Disconnect from the cluster, if one is in use, and work on this machine again.

    Examples
    --------
    >>> stop()
    >>> is_connected()
    False
    """
    connection = open_connection()
    if connection is not None:
        connection.stop()

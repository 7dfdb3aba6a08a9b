# SPDX-License-Identifier: Apache-2.0
"""`--cluster`: a Ray cluster that is already running does the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

__all__ = ["Cluster", "on_cluster"]

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="A running Ray cluster that does the work, such as ray://head:10001, or auto on one of its "
        "nodes. It must be trusted with the data. Needs the extra cluster.",
    ),
]


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Let a cluster carry passes and shadow models while a command works; None: this machine.

    Examples
    --------
    >>> with on_cluster(None):
    ...     pass
    """
    if address is None:
        yield
        return
    from epsilens.cluster import use

    with use(address):
        yield

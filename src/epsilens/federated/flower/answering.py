# SPDX-License-Identifier: Apache-2.0
"""How a site on Flower answers: one transaction of its own store, and never with the text of a surprise."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from epsilens.errors import InputError, SiteError
from epsilens.federated.flower import SIMULATED_SITES
from epsilens.federated.flower.messages import Content, arrays_asked, refusal, unpack
from epsilens.federated.site import Site
from epsilens.federated.site_store import SiteStore

IN_CLEAR = frozenset({"sums", "difference", "steps", "value_submit", "value_move"})
"""Queries whose answer is a sum over this site's records alone."""

Answer: TypeAlias = Callable[[Site, Content, Context], RecordDict]


def site_folder(context: Context) -> Path:
    """Return the folder of this node's site: its own setting, never the coordinator's.

    Parameters
    ----------
    context : flwr.app.Context
        With `state` in the node's configuration; a simulated node has its place instead.
    """
    given = context.node_config.get("state")
    if isinstance(given, str) and given:
        return Path(given)
    everywhere, place = os.environ.get(SIMULATED_SITES), context.node_config.get("partition-id")
    if not everywhere or place is None:
        raise InputError(
            "this node has no site: its configuration must name the site's folder as `state`."
        )
    return Path(everywhere) / f"site-{int(place)}"


def answers(app: ClientApp, name: str) -> Callable[[Answer], Answer]:
    """Let a function answer a query, within one transaction.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
    name : str
        Name of the query.
    """

    def register(answer: Answer) -> Answer:
        @app.query(name)
        def handle(message: Message, context: Context) -> Message:
            try:
                store = _opened(context)
                content = unpack(
                    message.content,
                    store.fingerprint,
                    sender="the coordinator",
                    arrays=arrays_asked(name, store.schema.n_parameters),
                )
                with store.transaction() as site:
                    _require_masks(site, name)
                    # The answer is made within the transaction, and leaves after the commit.
                    reply = answer(site, content, context)
            except Exception as error:  # Flower would send the text of the error, data and all
                reply = refusal(error)
            return Message(reply, reply_to=message)

        return answer

    return register


def _require_masks(site: Site, query: str) -> None:
    if site.state.insists_on_masks and query in IN_CLEAR:
        raise SiteError(
            site.number,
            "insists on masks, and this would be its own sums in clear. Use "
            "`--secure-aggregation`; to take it out of the model, `remove` it with `--rung exact`.",
        )


def _opened(context: Context) -> SiteStore:
    """Open the site's store; what is wrong with it, and where it is, stays at the site."""
    try:
        return SiteStore(site_folder(context))
    except InputError as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201
        raise InputError(
            "this node's own store cannot be opened. Look at what the site has written on its terminal."
        ) from None

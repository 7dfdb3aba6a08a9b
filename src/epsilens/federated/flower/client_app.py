# SPDX-License-Identifier: Apache-2.0
"""A site on Flower: each query is one transaction of the site's own store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from epsilens.errors import InputError
from epsilens.federated.aggregate import Penalty
from epsilens.federated.flower import SIMULATED_SITES
from epsilens.federated.flower.messages import Content, pack, pack_sums, refusal, unpack
from epsilens.federated.site import Site
from epsilens.federated.site_store import SiteStore
from epsilens.federated.written import budget_text, ledger_text, read_wish, wish_text

__all__ = ["app", "site_folder"]

MOST_LOCAL_STEPS = 100_000
ONLY_ASKED = "only-asked"
"""Set in the configuration of a node whose site changes nothing that it has not asked for."""

Answer: TypeAlias = Callable[[Site, Content], RecordDict]

app = ClientApp()


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


def _query(name: str) -> Callable[[Answer], Answer]:
    """Let a function answer a query, within one transaction."""

    def register(answer: Answer) -> Answer:
        @app.query(name)
        def handle(message: Message, context: Context) -> Message:
            try:
                store = SiteStore(site_folder(context))
                content = unpack(message.content, store.fingerprint, sender="the coordinator")
                with store.transaction() as site:
                    if context.node_config.get(ONLY_ASKED):
                        _require_asked(name, site, content)
                    # The answer is made within the transaction, and leaves after the commit.
                    reply = answer(site, content)
            except Exception as error:  # Flower would send the text of the error, data and all
                reply = refusal(error)
            return Message(reply, reply_to=message)

        return answer

    return register


def _require_asked(query: str, site: Site, content: Content) -> None:
    """Refuse a change that the site itself has not asked for, whoever says that it has."""
    if query != "prepare":
        return
    wish = read_wish(content.setting("wish", str))
    if wish == site.wish or (content.setting("preview", bool) and wish.mode == "degrade"):
        return
    raise InputError(
        f"site {site.number} has not asked for this change. Ask at the site: `epsilens federate request`."
    )


@_query("hello")
def _hello(site: Site, content: Content) -> RecordDict:
    version = content.setting("version", int)
    if version < site.state.version:
        raise InputError(
            f"site {site.number} has version {site.state.version} of the model, and the coordinator "
            f"{'none' if version < 0 else version}: an old copy of its store. Bring back a newer one, or "
            "start the site with `--new-coordinator`."
        )
    return pack(
        site.schema.fingerprint,
        site=site.number,
        n=site.n,
        budget=budget_text(site.budget),
        ledger=ledger_text(site.ledger),
        wish="" if site.wish is None else wish_text(site.wish),
        version=site.state.version,
    )


@_query("sums")
def _sums(site: Site, content: Content) -> RecordDict:
    theta = content.vector("theta", site.schema.n_parameters)
    found = site.sums(
        theta,
        hessian=content.setting("hessian", bool),
        pending=content.setting("pending", bool),
    )
    return pack_sums(site.schema.fingerprint, found)


@_query("steps")
def _steps(site: Site, content: Content) -> RecordDict:
    schema, steps = site.schema, content.setting("steps", int)
    if not 1 <= steps <= MOST_LOCAL_STEPS:
        raise InputError(f"local steps must be from 1 to {MOST_LOCAL_STEPS}, got {steps}.")
    strength = content.setting("regularisation", float)
    local = site.local_steps(
        content.vector("theta", schema.n_parameters),
        steps=steps,
        learning_rate=content.setting("learning_rate", float),
        penalty=Penalty(strength, schema.n_features, schema.loss.n_outputs, schema.intercept),
    )
    return pack(schema.fingerprint, arrays={"theta": local}, n=site.n)


@_query("prepare")
def _prepare(site: Site, content: Content) -> RecordDict:
    site.prepare(
        read_wish(content.setting("wish", str)),
        preview=content.setting("preview", bool),
        as_printed=content.setting("as_printed", bool),
    )
    return pack(site.schema.fingerprint, ledger=ledger_text(site.ledger))


@_query("difference")
def _difference(site: Site, content: Content) -> RecordDict:
    theta = content.vector("theta", site.schema.n_parameters)
    found = site.difference(theta, hessian=content.setting("hessian", bool))
    return pack_sums(site.schema.fingerprint, found)


@_query("settle")
def _settle(site: Site, content: Content) -> RecordDict:
    content.vector("theta", site.schema.n_parameters)
    site.settle(content.setting("version", int), changed=content.setting("changed", bool))
    return pack(site.schema.fingerprint, budget=budget_text(site.budget))


@_query("end_preview")
def _end_preview(site: Site, content: Content) -> RecordDict:
    site.end_preview()
    return pack(site.schema.fingerprint)

# SPDX-License-Identifier: Apache-2.0
"""A site on Flower: each query is one transaction of the site's own store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from epsilens.errors import InputError, SiteError
from epsilens.federated.aggregate import Penalty
from epsilens.federated.flower import mask_queries, value_queries
from epsilens.federated.flower.answering import answers, site_folder
from epsilens.federated.flower.messages import Content, pack, pack_sums
from epsilens.federated.site import Site
from epsilens.federated.value_service import ValueService
from epsilens.federated.written import budget_text, ledger_text, read_wish, wish_text

__all__ = ["app", "site_folder"]

MOST_LOCAL_STEPS = 100_000
ONLY_ASKED = "only-asked"
"""Set in the configuration of a node whose site changes nothing that it has not asked for."""

Answer: TypeAlias = Callable[[Site, Content], RecordDict]

app = ClientApp()
mask_queries.register(app)
value_queries.register(app)


def _query(name: str) -> Callable[[Answer], Answer]:
    """Let a function that needs nothing of Flower answer a query."""

    def register(answer: Answer) -> Answer:
        @answers(app, name)
        def handle(site: Site, content: Content, context: Context) -> RecordDict:
            if context.node_config.get(ONLY_ASKED):
                _require_asked(name, site, content)
            return answer(site, content)

        return answer

    return register


def _require_asked(query: str, site: Site, content: Content) -> None:
    """Refuse a change that the site itself has not asked for, whoever says that it has."""
    if query != "prepare":
        return
    wish = read_wish(content.setting("wish", str))
    if wish == site.wish or (content.setting("preview", bool) and wish.mode == "degrade"):
        return
    raise SiteError(
        site.number, "has not asked for this change. Ask at the site: `epsilens federate request`."
    )


@_query("hello")
def _hello(site: Site, content: Content) -> RecordDict:
    version = content.setting("version", int)
    if version < site.state.version:
        raise SiteError(
            site.number,
            f"has version {site.state.version} of the model, and the coordinator "
            f"{'none' if version < 0 else version}: an old copy of its store. Bring back a newer one, or "
            "start the site with `--new-coordinator`.",
        )
    return pack(
        site.schema.fingerprint,
        site=site.number,
        n=site.n,
        budget=budget_text(site.budget),
        ledger=ledger_text(site.ledger),
        wish="" if site.wish is None else wish_text(site.wish),
        version=site.state.version,
        anchored=site.is_anchored,
        draw=site.state.draw_name,
        insists=site.state.insists_on_masks,
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
    )
    return pack(site.schema.fingerprint, ledger=ledger_text(site.ledger))


@_query("difference")
def _difference(site: Site, content: Content) -> RecordDict:
    theta = content.vector("theta", site.schema.n_parameters)
    found = site.difference(theta, hessian=content.setting("hessian", bool))
    return pack_sums(site.schema.fingerprint, found)


@answers(app, "settle")
def _settle(site: Site, content: Content, context: Context) -> RecordDict:
    theta = content.vector("theta", site.schema.n_parameters)
    version, before = content.setting("version", int), site.state.version
    site.settle(version, changed=content.setting("changed", bool))
    ValueService(site_folder(context)).settle(version, theta, before=before)
    return pack(
        site.schema.fingerprint,
        budget=budget_text(site.budget),
        n=site.n,
        anchored=site.is_anchored,
    )


@_query("end_preview")
def _end_preview(site: Site, content: Content) -> RecordDict:
    site.end_preview()
    return pack(site.schema.fingerprint)

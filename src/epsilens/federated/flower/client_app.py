# SPDX-License-Identifier: Apache-2.0
"""A site on Flower: each query is one transaction of the site's own store, and no answer tells of a surprise.

What a site keeps for valuations is in its own folder; its keys for masks live as long as the run, in
Flower's own context.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from epsilens._types import FloatArray
from epsilens.errors import InputError, SiteError
from epsilens.federated.flower import SIMULATED_SITES
from epsilens.federated.flower.messages import (
    Content,
    Setting,
    arrays_asked,
    pack,
    pack_sums,
    refusal,
    unpack,
)
from epsilens.federated.flower.value_messages import ASKED, SETTINGS, SPENDING, packed, read
from epsilens.federated.masked_sums import MaskedQuestion, Masking
from epsilens.federated.site import Site
from epsilens.federated.site_logs import MaskLog
from epsilens.federated.site_store import SiteStore
from epsilens.federated.sums import Penalty
from epsilens.federated.value_service import ValueQuery, ValueService
from epsilens.federated.written import budget_text, ledger_text, read_wish, wish_text

__all__ = ["app", "site_folder"]

IN_CLEAR = frozenset({"sums", "difference", "steps", "value_submit", "value_move"})
"""Queries whose answer is a sum over this site's records alone."""
MOST_LOCAL_STEPS = 100_000
MOST_SITES = 10_000
ONLY_ASKED = "only-asked"
"""Set in the configuration of a node whose site changes nothing that it has not asked for."""
_SHARED = "with-"
_T = TypeVar("_T", str, int, bool)


@dataclass(frozen=True, repr=False)
class Asked:
    """A message that was checked, and the site that answers it."""

    site: Site
    content: Content
    context: Context

    @property
    def theta(self) -> FloatArray:
        """The model that it is about."""
        return self.content.vector("theta", self.site.schema.n_parameters)

    @property
    def values(self) -> ValueService:
        """The site's part in valuations."""
        return ValueService(site_folder(self.context))

    def pack(
        self, arrays: Mapping[str, FloatArray] | None = None, **settings: Setting
    ) -> RecordDict:
        """Return an answer."""
        return pack(self.site.schema.fingerprint, arrays=arrays, **settings)


Answer: TypeAlias = Callable[[Asked], RecordDict]

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
                store = _opened(context)
                content = unpack(
                    message.content,
                    store.fingerprint,
                    sender="the coordinator",
                    arrays=arrays_asked(name, store.schema.n_parameters),
                )
                with store.transaction() as site:
                    if site.state.insists_on_masks and name in IN_CLEAR:
                        raise SiteError(
                            site.number,
                            "insists on masks, and this would be its own sums in clear. Use "
                            "`--secure-aggregation`; to take it out of the model, `remove` it with `--rung exact`.",
                        )
                    # The answer is made within the transaction, and leaves after the commit.
                    reply = answer(Asked(site, content, context))
            except Exception as error:  # Flower would send the text of the error, data and all
                reply = refusal(error)
            return Message(reply, reply_to=message)

        return answer

    return register


def _opened(context: Context) -> SiteStore:
    """Open the site's store; what is wrong with it, and where it is, stays at the site."""
    try:
        return SiteStore(site_folder(context))
    except InputError as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201
        raise InputError(
            "this node's own store cannot be opened. Look at what the site has written on its terminal."
        ) from None


# --- Training and changes ---


@_query("hello")
def _hello(asked: Asked) -> RecordDict:
    site, version = asked.site, asked.content.setting("version", int)
    standing = site.standing
    if version < standing.version:
        raise SiteError(
            site.number,
            f"has version {standing.version} of the model, and the coordinator "
            f"{'none' if version < 0 else version}: an old copy of its store. Bring back a newer one, or "
            "start the site with `--new-coordinator`.",
        )
    return asked.pack(
        site=site.number,
        ledger=ledger_text(site.ledger),
        wish="" if site.wish is None else wish_text(site.wish),
        **{**vars(standing), "budget": budget_text(standing.budget)},
    )


@_query("sums")
def _sums(asked: Asked) -> RecordDict:
    found = asked.site.sums(
        asked.theta,
        hessian=asked.content.setting("hessian", bool),
        pending=asked.content.setting("pending", bool),
    )
    return pack_sums(asked.site.schema.fingerprint, found)


@_query("difference")
def _difference(asked: Asked) -> RecordDict:
    found = asked.site.difference(asked.theta, hessian=asked.content.setting("hessian", bool))
    return pack_sums(asked.site.schema.fingerprint, found)


@_query("steps")
def _steps(asked: Asked) -> RecordDict:
    schema, steps = asked.site.schema, asked.content.setting("steps", int)
    if not 1 <= steps <= MOST_LOCAL_STEPS:
        raise InputError(f"local steps must be from 1 to {MOST_LOCAL_STEPS}, got {steps}.")
    strength = asked.content.setting("regularisation", float)
    local = asked.site.local_steps(
        asked.theta,
        steps=steps,
        learning_rate=asked.content.setting("learning_rate", float),
        penalty=Penalty(strength, schema.n_features, schema.loss.n_outputs, schema.intercept),
    )
    return asked.pack({"theta": local}, n=asked.site.n)


@_query("prepare")
def _prepare(asked: Asked) -> RecordDict:
    site, wish = asked.site, read_wish(asked.content.setting("wish", str))
    preview = asked.content.setting("preview", bool)
    is_asked = wish == site.wish or (preview and wish.mode == "degrade")
    # Whoever says that it has.
    if asked.context.node_config.get(ONLY_ASKED) and not is_asked:
        raise SiteError(
            site.number,
            "has not asked for this change. Ask at the site: `epsilens federate request`.",
        )
    site.prepare(wish, preview=preview)
    return asked.pack(ledger=ledger_text(site.ledger))


@_query("settle")
def _settle(asked: Asked) -> RecordDict:
    site, theta, before = asked.site, asked.theta, asked.site.state.version
    version = asked.content.setting("version", int)
    site.settle(version, changed=asked.content.setting("changed", bool))
    asked.values.settle(version, theta, before=before)
    return asked.pack(budget=budget_text(site.budget), n=site.n, anchored=site.is_anchored)


@_query("end_preview")
def _end_preview(asked: Asked) -> RecordDict:
    asked.site.end_preview()
    return asked.pack()


# --- Valuations ---


@_query("value_submit")
def _submit(asked: Asked) -> RecordDict:
    sums = asked.values.submit(asked.site, asked.theta)
    return pack_sums(asked.site.schema.fingerprint, sums)


def _valued(query: ValueQuery, asked: Asked) -> RecordDict:
    """Answer as a tester or as a provider."""
    site, content, schema = asked.site, asked.content, asked.site.schema
    said = [read(kind, content, schema.n_parameters) for kind in ASKED[query]]
    settings = {name: content.setting(name, int) for name in SETTINGS[query]}
    found = getattr(asked.values, query)(site, *said, **settings)
    ledger = {"ledger": ledger_text(site.ledger)} if query in SPENDING else {}
    return packed(schema.fingerprint, *(found if isinstance(found, tuple) else (found,)), **ledger)


for _name in ASKED:
    _query(f"value_{_name}")(partial(_valued, _name))


# --- Under masks ---


@_query("mask_key")
def _key(asked: Asked) -> RecordDict:
    """Begin a group with a fresh key."""
    place = _place(asked)
    if place in asked.context.state:
        raise SiteError(asked.site.number, "has a key for this group already. Begin a new one.")
    part = Masking.begin()
    _keep(asked.context, place, part)
    return asked.pack(key=part.public)


@_query("masked")
def _masked(asked: Asked) -> RecordDict:
    """Answer a question under masks; with the others' keys the first time."""
    site, content, place = asked.site, asked.content, _place(asked)
    part = _kept(asked.context, place)
    keys = _by_site(content, "keys", str)
    if keys:
        part = part.meet(site.number, {i: _bytes(key) for i, key in keys.items()})
    question = MaskedQuestion(
        number=content.setting("number", int),
        what=content.setting("what", str),  # type: ignore[arg-type]
        theta=asked.theta,
        hessian=content.setting("hessian", bool),
        pending=tuple(_by_site(content, "pending", bool)),
        records=_by_site(content, "records", int),
    )
    hidden, part = part.answer(site, question)
    if site.state.insists_on_masks:
        MaskLog(site_folder(asked.context)).note(site, question)
    _keep(asked.context, place, part)
    return asked.pack(masked=hidden.astype(np.dtype("<u8")).tobytes())


def _place(asked: Asked) -> str:
    return f"masks-{asked.content.setting('group', str)}"


def _by_site(content: Content, name: str, kind: type[_T]) -> dict[int, _T]:
    """Read a JSON object of one value a site."""
    text = content.setting(name, str)
    try:
        found = {int(site): value for site, value in json.loads(text).items()}
    except (ValueError, AttributeError):
        found = {-1: None}
    fits = all(site >= 0 and type(value) is kind for site, value in found.items())
    if not fits or len(found) > MOST_SITES:
        raise InputError(f"a message must have {name!r} for each site, got something else.")
    return found


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InputError("a site's key for the masks is no key. Nothing was sent.") from None


def _keep(context: Context, place: str, part: Masking) -> None:
    shared = {f"{_SHARED}{i}": secret for i, secret in part.shared.items()}
    context.state[place] = ConfigRecord(
        {"private": part.private, "next": part.next_number, **shared}
    )


def _kept(context: Context, place: str) -> Masking:
    found = context.state.get(place)
    if not isinstance(found, ConfigRecord):
        raise InputError(
            "this site has no key for the masks any more: it was started anew. Begin the operation again."
        )
    shared = {
        int(name.removeprefix(_SHARED)): secret
        for name, secret in found.items()
        if name.startswith(_SHARED)
    }
    return Masking(found["private"], shared, found["next"])

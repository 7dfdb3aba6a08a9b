# SPDX-License-Identifier: Apache-2.0
"""A site on Flower that answers under masks. Its keys live as long as the run, in Flower's own context."""

from __future__ import annotations

import json
from typing import TypeVar

import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.clientapp import ClientApp

from epsilens.errors import InputError, SiteError
from epsilens.federated.flower.answering import answers, site_folder
from epsilens.federated.flower.messages import Content, pack
from epsilens.federated.mask_log import MaskLog
from epsilens.federated.masked_sums import MaskedQuestion, Masking
from epsilens.federated.site import Site

MOST_SITES = 10_000
_T = TypeVar("_T", str, int, bool)
_SHARED = "with-"


def register(app: ClientApp) -> None:
    """Let an app answer `mask_key` and `masked`."""
    answers(app, "mask_key")(_key)
    answers(app, "masked")(_masked)


def _key(site: Site, content: Content, context: Context) -> RecordDict:
    """Begin a group with a fresh key."""
    place = _place(content)
    if place in context.state:
        raise SiteError(site.number, "has a key for this group already. Begin a new one.")
    part = Masking.begin()
    _keep(context, place, part)
    return pack(site.schema.fingerprint, key=part.public)


def _masked(site: Site, content: Content, context: Context) -> RecordDict:
    """Answer a question under masks; with the others' keys the first time."""
    place = _place(content)
    part = _kept(context, place)
    keys = _by_site(content, "keys", str)
    if keys:
        part = part.meet(site.number, {i: _bytes(key) for i, key in keys.items()})
    question = MaskedQuestion(
        number=content.setting("number", int),
        what=content.setting("what", str),  # type: ignore[arg-type]
        theta=content.vector("theta", site.schema.n_parameters),
        hessian=content.setting("hessian", bool),
        pending=tuple(_by_site(content, "pending", bool)),
        records=_by_site(content, "records", int),
    )
    hidden, part = part.answer(site, question)
    if site.state.insists_on_masks:
        MaskLog(site_folder(context)).note(site, question)
    _keep(context, place, part)
    return pack(site.schema.fingerprint, masked=hidden.astype(np.dtype("<u8")).tobytes())


def _place(content: Content) -> str:
    return f"masks-{content.setting('group', str)}"


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

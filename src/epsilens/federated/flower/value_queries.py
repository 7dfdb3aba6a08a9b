# SPDX-License-Identifier: Apache-2.0
"""A site on Flower that values records, or has its own valued: keys and counts in its own folder."""

from __future__ import annotations

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from epsilens.federated.flower.answering import answers, site_folder
from epsilens.federated.flower.messages import Content, pack, pack_sums
from epsilens.federated.flower.value_messages import (
    move_parts,
    question_parts,
    read_move,
    read_provider_model,
    read_question,
    read_reply,
    read_tester_model,
    reply_parts,
    score_parts,
    together,
)
from epsilens.federated.site import Site
from epsilens.federated.value_service import ValueService
from epsilens.federated.written import ledger_text


def register(app: ClientApp) -> None:
    """Let an app answer the queries of a valuation."""
    answers(app, "value_question")(_question)
    answers(app, "value_reply")(_reply)
    answers(app, "value_scores")(_scores)
    answers(app, "value_left")(_left)
    answers(app, "value_move")(_move)
    answers(app, "value_score")(_score)
    answers(app, "value_submit")(_submit)


def _question(site: Site, content: Content, context: Context) -> RecordDict:
    model = read_tester_model(content, site.schema.n_parameters)
    question, left = ValueService(site_folder(context)).question(
        site, model, provider=content.setting("provider", int)
    )
    return together(site.schema.fingerprint, question_parts(question), left=_written(left))


def _left(site: Site, content: Content, context: Context) -> RecordDict:
    provider = content.setting("provider", int)
    left = ValueService(site_folder(context)).left(site, provider=provider)
    return pack(site.schema.fingerprint, left=_written(left))


def _written(left: int | None) -> int:
    # −1: without end.
    return -1 if left is None else max(left, 0)


def _reply(site: Site, content: Content, context: Context) -> RecordDict:
    model = read_provider_model(content, site.schema.n_parameters)
    reply, change = ValueService(site_folder(context)).reply(
        site,
        model,
        read_question(content),
        tester=content.setting("tester", int),
        n_items=content.setting("items", int),
    )
    ledger = ledger_text(site.ledger)
    return together(site.schema.fingerprint, reply_parts(reply), change=change, ledger=ledger)


def _scores(site: Site, content: Content, context: Context) -> RecordDict:
    model = read_tester_model(content, site.schema.n_parameters)
    scores = ValueService(site_folder(context)).scores(
        site, model, read_reply(content), provider=content.setting("provider", int)
    )
    return together(site.schema.fingerprint, score_parts(scores), ledger=ledger_text(site.ledger))


def _move(site: Site, content: Content, context: Context) -> RecordDict:
    model = read_provider_model(content, site.schema.n_parameters)
    move = ValueService(site_folder(context)).move(site, model)
    return together(site.schema.fingerprint, move_parts(move), ledger=ledger_text(site.ledger))


def _score(site: Site, content: Content, context: Context) -> RecordDict:
    p = site.schema.n_parameters
    score = ValueService(site_folder(context)).score_of(
        site,
        read_tester_model(content, p),
        read_move(content, p),
        provider=content.setting("provider", int),
    )
    return together(site.schema.fingerprint, score_parts(score), ledger=ledger_text(site.ledger))


def _submit(site: Site, content: Content, context: Context) -> RecordDict:
    theta = content.vector("theta", site.schema.n_parameters)
    sums = ValueService(site_folder(context)).submit(site, theta)
    return pack_sums(site.schema.fingerprint, sums)

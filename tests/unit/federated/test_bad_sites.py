# SPDX-License-Identifier: Apache-2.0
"""Sites that send nonsense, refuse or fall silent half-way: nothing is lost, and nobody is held up."""

from __future__ import annotations

import io
import shutil
from typing import get_args

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.federated import Coordinator, LocalParties, SiteStore
from epsilens.federated.coordinator_store import CoordinatorStore

from .conftest import Killed, copied, let_messages_be_made, make_sites, numbers

pytest.importorskip("flwr")

from flwr.app import Array, ConfigRecord, Error, Message

from epsilens.federated.flower.deployed_parties import SilentSitesError
from epsilens.federated.flower.messages import pack, pack_sums
from epsilens.federated.sums import SiteSums
from epsilens.federated.versions import Begun


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    let_messages_be_made(monkeypatch)


def nan(schema):
    return with_gradient(schema, np.full(schema.n_parameters, np.nan))


def with_gradient(schema, gradient):
    p = schema.n_parameters
    return pack_sums(schema.fingerprint, SiteSums(5, 1.0, gradient, np.zeros((p, p))))


def with_loss(schema, n, loss):
    p = schema.n_parameters
    return pack_sums(schema.fingerprint, SiteSums(n, loss, np.zeros(p), np.zeros((p, p))))


def written(schema, data):
    """Sums whose gradient is these bytes."""
    content = with_loss(schema, 80, 1.0)
    content["arrays"]["gradient"] = Array("float64", (7,), "numpy.ndarray", data)
    return content


def claiming(shape):
    """A file of numpy's whose header claims a shape."""
    stream = io.BytesIO()
    head = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, head)
    return stream.getvalue() + bytes(64)


def unlisted(schema):
    content = with_loss(schema, 80, 1.0)
    content["arrays"]["diary"] = Array(np.zeros(3))
    return content


FORM = "site 1 must send the array 'gradient' as a row of float64 numbers"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda schema: written(schema, b""), FORM),
        (lambda schema: written(schema, b"PK\x03\x04"), FORM),
        (lambda schema: written(schema, claiming((10**15,))), FORM),
        (lambda schema: written(schema, claiming((10**25,))), FORM),
        (lambda schema: written(schema, b"\x93NUMPY\x02\x00\xff\xff\xff\x7f"), FORM),
        (unlisted, "site 1 must send the arrays that it was asked for, got another"),
        (nan, "site 1 must send finite numbers"),
        (lambda schema: with_gradient(schema, np.zeros(3)), "'gradient' with 7 numbers"),
        (lambda schema: with_gradient(schema, np.zeros(10**6)), "'gradient' with 7 numbers"),
        (lambda schema: pack("0" * 64), "site 1 has agreed to another contract"),
        (lambda schema: with_loss(schema, 80, 1e308), "site 1 must send sums within the bounds"),
        (lambda schema: with_loss(schema, 81, 1.0), "site 1 takes part with another number of rec"),
        (lambda schema: pack("", refused="\x1b[2Jwell", kind="InputError"), r"^site 1:  \[2Jwell$"),
    ],
    ids=[
        *("no-bytes", "zip", "petabytes", "beyond-64-bits", "huge-header", "unlisted"),
        *("nan", "shape", "huge", "contract", "loss", "n", "command"),
    ],
)
def test_what_cannot_be_stops_the_operation_and_changes_nothing(world, schema, content, words):
    before = numbers(world.store.load())
    target = list(world.grid.nodes)[1]

    def spoil(node, reply):
        if node == target and world.grid.types[-1] == "query.sums":
            reply.content = content(schema)
        return reply

    world.grid.spoil = spoil
    with pytest.raises(InputError, match=words):
        world.train()
    assert numbers(world.store.load()) == before
    lead = world.lead(everybody=True, without=[1])
    lead.train()
    assert lead.versions[0].sites == (0, 2, 3, 4)


def test_an_answer_that_comes_twice_counts_once_and_a_broken_node_not_at_all(fresh, schema):
    send = fresh.grid.send_and_receive

    def twice(messages, *, timeout=None):
        replies = list(send(messages, timeout=timeout))
        return [*replies, *replies]

    fresh.grid.send_and_receive = twice
    near = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
    np.testing.assert_array_equal(fresh.train().versions[0].theta, near.train().theta)
    target = next(iter(fresh.grid.nodes))

    def broken(node, reply):
        if node != target:
            return reply
        found = Message(
            Error(code=2, reason="a person's answer"), reply_to=Message(pack(""), 1, "query")
        )
        found.metadata.__dict__["_src_node_id"] = node
        return found

    fresh.grid.send_and_receive, fresh.grid.spoil = send, broken
    lead = fresh.train()
    assert lead.versions[0].sites == (1, 2, 3, 4)
    assert "person" not in " ".join(note.text for note in lead.notes)


@pytest.mark.parametrize("kind", get_args(Begun))
def test_whatever_was_begun_is_settled_by_the_next_operation(
    offering, tmp_path, schema, monkeypatch, kind
):
    there = copied(offering, tmp_path / "world", schema)
    there.ask(2, 1.0)
    keep = CoordinatorStore.keep

    def killed(store, state):
        keep(store, state)
        if state.intention is not None and state.intention.operation == kind:
            raise Killed

    begin = {
        "preview": lambda: there.apply(preview=True),
        "change": there.apply,
        "remove": lambda: there.remove(4),
        "accept": lambda: there.lead().coordinator.accept(1),
    }
    monkeypatch.setattr(CoordinatorStore, "keep", killed)
    with pytest.raises(Killed):
        begin[kind]()
    monkeypatch.setattr(CoordinatorStore, "keep", keep)
    assert there.store.load().intention.operation == kind
    versions = there.lead().versions
    assert there.store.load().intention is None
    assert [v.operation for v in versions] == ([] if kind == "preview" else [kind])
    if kind == "remove":
        # Typed again, it is what was meant, not a mistake.
        again = copied(offering, tmp_path / "again", schema)
        monkeypatch.setattr(CoordinatorStore, "keep", killed)
        with pytest.raises(Killed):
            again.remove(4)
        monkeypatch.setattr(CoordinatorStore, "keep", keep)
        assert again.remove(4).versions[-1].sites == (4,)


def test_a_newton_removal_needs_all_who_stay(world, schema):
    near = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
    near.train()
    near.remove([4])
    world.silence(3)
    with pytest.raises(SilentSitesError, match="site 3 did not answer"):
        world.remove(4)
    assert len(world.store.load().versions) == 1
    # Interrupted where the others are asked, it waits for nobody; and nobody waits for it.
    world.silence(3, kinds=["query.sums"])
    with pytest.raises(SilentSitesError, match="site 3 did not answer"):
        world.remove(4)
    assert world.store.load().intention.operation == "remove"
    world.silence(3)
    lead = world.apply()
    assert "removal of site 4 that had been interrupted is given up" in lead.notes[0].text
    one = copied(world.folder, world.folder.with_name("one"), schema)
    one.silence(3)
    assert one.remove(4, rung="one-message").versions[-1].sites == (4,)  # asks nobody
    world.grid.spoil = lambda node, reply: reply
    np.testing.assert_array_equal(world.remove(4).versions[-1].theta, near.theta)


def test_two_modes_do_not_mix_draws_when_a_version_is_lost_between_them(world, schema):
    for site in (1, 2):
        with SiteStore(world.folders[site]).transaction() as found:
            found.allow(100.0)
    world.ask(1, 1.0)
    world.ask(2, 1.0, mode="redraw")
    carry = world.grid.send_and_receive
    lost = list(world.grid.nodes)[1]

    def losing(messages, *, timeout=None):
        messages = list(messages)
        kept = [
            m
            for m in messages
            if (m.metadata.dst_node_id, m.metadata.message_type) != (lost, "query.settle")
        ]
        return carry(kept, timeout=timeout)

    world.grid.send_and_receive = losing
    lead = world.apply()
    assert [v.mode for v in lead.versions] == ["degrade"]
    assert "the change of site 2 by `redraw` waits until all sites have that version" in [
        note.text for note in lead.notes
    ]
    world.grid.send_and_receive = carry
    lead = world.apply()
    assert [v.mode for v in lead.versions] == ["redraw"]
    near = Coordinator(schema, LocalParties(make_sites(schema, limit=100.0)), regularisation=1e-2)
    near.train()
    near.change({1: 1.0})
    near.change({2: 1.0}, mode="redraw")
    np.testing.assert_array_equal(lead.versions[-1].theta, near.theta)


def test_a_site_that_sends_nonsense_in_a_change_is_in_nobodys_way(world, schema):
    before = numbers(world.store.load())[0]
    world.ask(1, 1.0)
    world.ask(2, 1.0)

    def spoil(grid):
        def spoilt(node, reply):
            if node == list(grid.nodes)[2] and grid.types[-1] in {"query.difference", "query.sums"}:
                reply.content = nan(schema)
            return reply

        grid.spoil = spoilt

    spoil(world.grid)
    with pytest.raises(InputError, match="site 2 must send finite numbers"):
        world.apply()
    state = world.store.load()
    assert state.intention is None
    assert numbers(state)[0] == before
    # What was drawn is counted, here and there.
    assert [e.operation for e in state.ledger if e.site == 2] == ["train", "change"]
    other = copied(world.folder, world.folder.with_name("other"), schema)
    spoil(other.grid)
    world.lead().apply(without=[2])
    assert world.store.load().versions[-1].sites == (1,)
    assert (world.site(1).state.draws, world.site(2).state.draws) == (2, 2)
    world.remove(2, rung="exact")
    assert world.store.load().left == (2,)
    assert other.remove(2).versions[-1].sites == (2,)  # its sums are here since the training


def test_a_site_whose_greeting_cannot_be_can_be_removed(world):
    world.ask(3, 1.0)
    world.silence(3, kinds=["query.difference"])
    with pytest.raises(SilentSitesError):
        world.apply()
    world.grid.spoil = lambda node, reply: reply
    shutil.rmtree(world.folders[3])
    shutil.copytree(world.folders[1], world.folders[3])
    for operation in (world.apply, world.train, lambda: world.remove(4)):
        with pytest.raises(
            InputError, match=r"says that it is site 1\..* remove 3` .*, or `train --wi"
        ):
            operation()
    lead = world.remove(3)
    assert lead.versions[-1].sites == (3,)
    assert lead.notes[0].text.startswith("site 3, which leaves, is not believed: the node that was")
    assert "change of site 3 that had been interrupted is given up" in lead.notes[1].text
    # Its releases stay counted.
    assert [e.operation for e in world.store.load().ledger if e.site == 3] == ["train", "change"]
    assert world.apply().notes == []


@pytest.mark.parametrize("claimed", [1, 2**63 - 2])
def test_a_version_that_was_never_made_is_not_believed(world, claimed):
    target = list(world.grid.nodes)[1]

    def spoil(node, reply):
        if node == target and world.grid.types[-1] == "query.hello":
            said = {**reply.content["settings"], "version": claimed}
            reply.content["settings"] = ConfigRecord(said)
        return reply

    world.grid.spoil = spoil
    with pytest.raises(InputError, match=r"site 1 claims a version .* never made.*--without 1"):
        world.train()
    lead = world.lead(everybody=True, without=[1])
    assert lead.train().version == 1


def test_a_coordinator_without_versions_takes_no_boundless_one(fresh):
    target = list(fresh.grid.nodes)[1]

    def spoil(node, reply):
        if node == target and fresh.grid.types[-1] == "query.hello":
            said = {**reply.content["settings"], "version": 2**31}
            reply.content["settings"] = ConfigRecord(said)
        return reply

    fresh.grid.spoil = spoil
    with pytest.raises(InputError, match="site 1 claims a version"):
        fresh.train()


def test_a_version_that_a_site_refuses_is_made_all_the_same(world, schema):
    world.ask(1, 1.0)
    target = list(world.grid.nodes)[3]

    def spoil(node, reply):
        if node == target and world.grid.types[-1] == "query.settle":
            reply.content = pack("", refused="no room.", kind="InputError")
        return reply

    world.grid.spoil = spoil
    lead = world.apply()
    assert [note.text for note in lead.notes] == [
        "site 3 has not taken the new version: site 3: no room"
    ]
    assert world.store.load().versions[-1].sites == (1,)
    assert world.site(1).budget.per_record == 2.0

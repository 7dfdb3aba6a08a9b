# SPDX-License-Identifier: Apache-2.0
"""Operations with silent, lying, forgetful and restarted parties: a clear word, one model, one count."""

from __future__ import annotations

import dataclasses
import shutil
from typing import get_args

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.federated import Coordinator, LocalParties, SiteStore
from epsilens.federated.coordinator_store import CoordinatorStore, create_coordinator_store

from .conftest import FakeGrid, let_messages_be_made, make_sites, site_folders

pytest.importorskip("flwr")

from flwr.app import Error, Message

from epsilens.federated.flower.client_app import ONLY_ASKED
from epsilens.federated.flower.deployed_parties import NoAnswer
from epsilens.federated.flower.messages import pack, pack_sums
from epsilens.federated.flower.operations import Lead
from epsilens.federated.sums import SiteSums
from epsilens.federated.versions import Begun, model_sites


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    let_messages_be_made(monkeypatch)


class World:
    """A coordinator and five sites, in folders."""

    def __init__(self, folder, schema, **options):
        self.folder = folder
        self.folders = site_folders(schema, folder, **options)
        self.grid = FakeGrid(self.folders, **{ONLY_ASKED: True})
        store = create_coordinator_store(folder / "coordinator", schema, regularisation=1e-2)
        for site, node in enumerate(self.grid.nodes):
            store.register(f"key {site}")
            store.note_node(site, node)

    @property
    def store(self):
        return CoordinatorStore(self.folder / "coordinator")

    def lead(self, **options):
        return Lead(self.grid, self.store, timeout=7.0, patience=0.0, **options)

    def train(self, **options):
        lead = self.lead(everybody=True)
        lead.train(**options)
        return lead

    def ask(self, site, epsilon, **options):
        with SiteStore(self.folders[site]).transaction() as found:
            found.ask_for(epsilon, **options)

    def apply(self, **options):
        lead = self.lead()
        lead.apply(**options)
        return lead

    def remove(self, *sites, **options):
        lead = self.lead(leaving=sites)
        lead.remove(sites, **options)
        return lead

    def site(self, number):
        with SiteStore(self.folders[number]).transaction() as found:
            return found

    def silence(self, *sites, kinds=None):
        """Let sites do what they are asked, and their answers be lost."""
        nodes = [list(self.grid.nodes)[site] for site in sites]

        def spoil(node, reply):
            lost = node in nodes and (kinds is None or self.grid.types[-1] in kinds)
            return None if lost else reply

        self.grid.spoil = spoil


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, schema):
    """A world that is made once and copied for each test."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        let_messages_be_made(patch)
        world = World(folder, schema)
        shutil.copytree(folder, folder.with_name("new"))
        world.train()
    return folder


def copied(source, target, schema):
    shutil.copytree(source, target)
    world = World.__new__(World)
    world.folder = target
    world.folders = [target / f"site-{i}" for i in range(5)]
    world.grid = FakeGrid(world.folders, **{ONLY_ASKED: True})
    return world


@pytest.fixture
def world(prepared, tmp_path, schema):
    """Five sites that have trained."""
    return copied(prepared, tmp_path / "world", schema)


@pytest.fixture
def fresh(prepared, tmp_path, schema):
    """Five sites that have not."""
    return copied(prepared.with_name("new"), tmp_path / "fresh", schema)


def numbers(state):
    """What must not depend on interruptions: every version and the ledger."""
    versions = [(v.operation, v.sites, v.model_budgets, v.theta.tolist()) for v in state.versions]
    return versions, state.ledger, state.left


def test_the_story_is_that_of_sites_in_process(world, schema):
    near = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
    near.train()
    near.preview({1: 2.0, 2: 1.0})
    near.change({1: 2.0, 2: 1.0})
    near.remove([4])
    world.ask(2, 1.0)
    world.ask(1, 2.0)
    assert world.apply(preview=True).versions[0].operation == "preview"
    assert world.apply().notes == []
    assert world.apply().versions == ()
    world.remove(4)
    state = world.store.load()
    assert numbers(state) == numbers(dataclasses.replace(near.state, left=(4,)))
    assert model_sites(state) == (0, 1, 2, 3)
    with pytest.raises(InputError, match="site 4 is not in the model"):
        world.remove(4)


@pytest.mark.parametrize("which", ["messages", "states"])
def test_a_coordinator_killed_anywhere_goes_on_to_the_same_end(
    prepared, tmp_path, schema, which, monkeypatch
):
    def begin(name):
        there = copied(prepared, tmp_path / name, schema)
        there.ask(2, 1.0)
        return there

    def finish(there):
        there.apply()
        there.remove(4)

    line = begin("line")
    finish(line)
    wanted, total = numbers(line.store.load()), line.site(2).total_epsilon
    stops = {"messages": range(0, 40, 3), "states": range(20)}[which]
    for stop in stops:
        there, left = begin(f"stop-{stop}"), [stop]

        def count(left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        keep = CoordinatorStore.keep

        def kept(store, state, count=count, keep=keep):
            count()  # before it is on the disk
            keep(store, state)
            count()  # and after

        def spoil(node, reply, count=count):
            count()  # the site has acted, and its answer is lost
            return reply

        with monkeypatch.context() as patch:
            if which == "messages":
                there.grid.spoil = spoil
            else:
                patch.setattr(CoordinatorStore, "keep", kept)
            try:
                finish(there)
                break
            except Killed:
                there.grid.spoil = lambda node, reply: reply
        if not there.store.load().left:
            there.apply()
        if not there.store.load().left:
            there.remove(4)
        assert numbers(there.store.load()) == wanted
        assert (there.site(2).total_epsilon, there.site(2).state.draws) == (total, 2)
    else:
        pytest.fail("the operations have more steps than were tried")
    assert stop > 9


@pytest.fixture(scope="module")
def offering(tmp_path_factory, schema):
    """A world whose sites have records on offer."""
    folder = tmp_path_factory.mktemp("offering")
    with pytest.MonkeyPatch.context() as patch:
        let_messages_be_made(patch)
        World(folder, schema, offer=40).train()
    return folder


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


def test_a_silent_site_is_left_out_of_training_and_comes_back_with_the_next(fresh):
    fresh.silence(3, kinds=["query.sums"])
    lead = fresh.train()
    assert lead.versions[0].sites == (0, 1, 2, 4)
    assert lead.notes == ["site 3 did not answer: not part of this model, until the next training"]
    with pytest.raises(
        InputError, match=r"at least 5 sites must answer, but 4 did: site 3 did not"
    ):
        fresh.train(at_least=5)
    assert len(fresh.store.load().versions) == 1
    fresh.grid.spoil = lambda node, reply: reply
    fresh.ask(0, 1.0)
    fresh.apply(rung="exact")  # without site 3, whose records are not in the model
    assert model_sites(fresh.store.load()) == (0, 1, 2, 4)
    assert fresh.train().versions[0].sites == (0, 1, 2, 3, 4)
    assert fresh.site(3).state.version == 2


def test_a_site_that_misses_the_training_version_is_part_of_the_model(fresh):
    fresh.silence(3, kinds=["query.settle"])
    lead = fresh.train()
    assert lead.versions[0].sites == (0, 1, 2, 3, 4)
    assert lead.notes == ["site 3 did not answer: told of the new version when back"]


def test_a_site_that_misses_its_own_version_hears_of_it_when_it_is_back(world):
    world.ask(2, 1.0)
    world.silence(1, 2, kinds=["query.settle"])
    # Here the message was lost on the way there, too.
    before = {i: world.folder / f"kept-{i}" for i in (1, 2)}
    lead = world.lead()
    find = lead.parties.settle

    def settle(*arguments, **options):
        for i, copy in before.items():
            shutil.copytree(world.folders[i], copy)
        find(*arguments, **options)
        for i, copy in before.items():
            shutil.rmtree(world.folders[i])
            shutil.copytree(copy, world.folders[i])

    lead.parties.settle = settle
    lead.apply()
    assert lead.notes == ["sites 1, 2 did not answer: told of the new version when back"]
    assert world.site(2).state.version == 0
    assert world.site(2).budget.per_record == 6.0
    world.grid.spoil = lambda node, reply: reply
    assert world.apply().versions == ()
    assert [world.site(i).state.version for i in (1, 2)] == [1, 1]
    assert world.site(2).budget.per_record == 2.0
    assert world.site(2).wish is None


def test_a_site_killed_before_its_message_is_waited_for_and_spends_nothing_twice(world):
    world.ask(2, 1.0)
    world.silence(2, kinds=["query.difference"])
    with pytest.raises(NoAnswer, match=r"^site 2 did not answer within 7 seconds"):
        world.apply()
    assert world.store.load().intention is not None
    drawn = world.site(2).state.draws
    world.silence(2)
    lead = world.apply()
    assert any(
        "change of site 2 that had been interrupted is given up, since site 2" in note
        for note in lead.notes
    )
    assert world.store.load().intention is None
    world.grid.spoil = lambda node, reply: reply
    world.apply()
    assert world.site(2).state.draws == drawn
    assert [entry.operation for entry in world.site(2).ledger] == ["train", "change"]
    assert world.store.load().versions[-1].operation == "change"


def test_a_silent_site_can_leave(world):
    world.silence(4)
    copy = world.folder.with_name("copy")
    shutil.copytree(world.folder, copy)
    world.remove(4)  # its sums at the present model are here since the training
    assert world.store.load().left == (4,)
    other = copied(copy, copy.with_name("other"), None)
    other.ask(0, 1.0)
    other.apply()  # now they are not
    other.silence(4)
    with pytest.raises(InputError, match=r"site 4 does not answer, and its sums .* rung `exact`"):
        other.remove(4)
    other.silence(3, 4)
    with pytest.raises(NoAnswer, match="site 3 did not answer"):
        other.remove(4, rung="exact")
    other.silence(4)
    other.remove(4, rung="exact")
    assert other.store.load().versions[-1].model_epsilon == 0.0
    assert 4 not in other.store.load().sums


def test_a_newton_removal_needs_all_who_stay(world, schema):
    near = Coordinator(schema, LocalParties(make_sites(schema)), regularisation=1e-2)
    near.train()
    near.remove([4])
    world.silence(3)
    with pytest.raises(NoAnswer, match="site 3 did not answer"):
        world.remove(4)
    assert len(world.store.load().versions) == 1
    # Interrupted where the others are asked, it waits for nobody; and nobody waits for it.
    world.silence(3, kinds=["query.sums"])
    with pytest.raises(NoAnswer, match="site 3 did not answer"):
        world.remove(4)
    assert world.store.load().intention.operation == "remove"
    world.silence(3)
    lead = world.apply()
    assert "removal of site 4 that had been interrupted is given up" in lead.notes[0]
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
    assert "the change of site 2 by `redraw` waits until all sites have that version" in lead.notes
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
    with pytest.raises(NoAnswer):
        world.apply()
    world.grid.spoil = lambda node, reply: reply
    shutil.rmtree(world.folders[3])
    shutil.copytree(world.folders[1], world.folders[3])
    for operation in (world.apply, world.train, lambda: world.remove(4)):
        with pytest.raises(
            InputError, match=r"says that it is site 1\..* remove 3`, or `train --wi"
        ):
            operation()
    lead = world.remove(3)
    assert lead.versions[-1].sites == (3,)
    assert lead.notes[0].startswith("site 3, which leaves, is not believed: the node that was")
    assert "change of site 3 that had been interrupted is given up" in lead.notes[1]
    # Its releases stay counted.
    assert [e.operation for e in world.store.load().ledger if e.site == 3] == ["train", "change"]
    assert world.apply().notes == []


def test_a_version_that_a_site_refuses_is_made_all_the_same(world, schema):
    world.ask(1, 1.0)
    target = list(world.grid.nodes)[3]

    def spoil(node, reply):
        if node == target and world.grid.types[-1] == "query.settle":
            reply.content = pack("", refused="no room.", kind="InputError")
        return reply

    world.grid.spoil = spoil
    lead = world.apply()
    assert lead.notes == ["site 3 has not taken the new version: site 3: no room"]
    assert world.store.load().versions[-1].sites == (1,)
    assert world.site(1).budget.per_record == 2.0


def nan(schema):
    return with_gradient(schema, np.full(schema.n_parameters, np.nan))


def with_gradient(schema, gradient):
    p = schema.n_parameters
    return pack_sums(schema.fingerprint, SiteSums(5, 1.0, gradient, np.zeros((p, p))))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (nan, "site 1 must send finite numbers"),
        (lambda schema: with_gradient(schema, np.zeros(3)), "'gradient' with 7 numbers"),
        (lambda schema: with_gradient(schema, np.zeros(10**6)), "'gradient' with 7 numbers"),
        (lambda schema: pack("0" * 64), "site 1 has agreed to another contract"),
    ],
    ids=["nan", "shape", "huge", "contract"],
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
    assert "person" not in " ".join(lead.notes)


def test_old_copies_of_either_store_are_noticed(world):
    world.ask(2, 1.0)
    old = world.folder.with_name("old")
    shutil.copytree(world.folder, old)
    world.apply()
    shutil.rmtree(world.folder / "coordinator")
    shutil.copytree(old / "coordinator", world.folder / "coordinator")
    with pytest.raises(
        InputError, match=r"site 0 has version 1 of the model, and the coordinator 0"
    ):
        world.train()
    for number in range(5):
        with SiteStore(world.folders[number]).transaction() as site:
            site.follow_new_coordinator()
    world.train()
    assert world.site(2).total_epsilon == 6.0
    assert world.store.load().versions[-1].model_budgets[2].per_record == 2.0
    shutil.rmtree(world.folders[2])
    shutil.copytree(old / "site-2", world.folders[2])
    with pytest.raises(InputError, match=r"site 2 has forgotten releases"):
        world.train()


def test_a_site_under_another_number_is_refused(world):
    shutil.rmtree(world.folders[3])
    shutil.copytree(world.folders[1], world.folders[3])
    with pytest.raises(InputError, match="registered as site 3 says that it is site 1"):
        world.train()


def test_a_site_changes_nothing_that_it_has_not_asked_for(world):
    leader = world.lead().coordinator
    for mode in ("degrade", "as_printed"):
        with pytest.raises(InputError, match="site 2 has not asked for this change"):
            leader.change({2: 1.0}, mode=mode)
    with pytest.raises(InputError, match="site 2 has not asked for this change"):
        leader.preview({2: 1.0}, as_printed=True)
    assert len(world.site(2).ledger) == 1
    leader.preview({2: 1.0})  # from the draw alone: it spends nothing
    assert world.site(2).total_epsilon == 6.0
    world.ask(2, 1.0, mode="as_printed", not_private=True)
    assert world.lead().apply(preview=True) == ()
    assert world.apply().versions[0].model_epsilon == float("inf")


def test_masks_are_remembered_until_a_training_without_them(fresh):
    fresh.lead(everybody=True, secure=True).train()
    fresh.ask(1, 1.0)
    fresh.ask(2, 1.0)
    with pytest.raises(InputError, match="made under masks"):
        fresh.lead(secure=False)
    fresh.grid.types.clear()
    fresh.apply()
    fresh.remove(4, rung="exact")
    assert {"query.masked", "query.settle"} < set(fresh.grid.types)
    assert not {"query.sums", "query.difference"} & set(fresh.grid.types)
    fresh.silence(0, 1, 2, kinds=["query.sums"])
    with pytest.raises(InputError, match="at least 2 sites"):
        fresh.lead(everybody=True, secure=False).train()
    assert fresh.store.masked  # nothing came of it
    fresh.grid.spoil = lambda node, reply: reply
    fresh.lead(everybody=True, secure=False).train()
    assert not fresh.lead().masked


def test_a_site_can_insist_on_masks(world):
    world.ask(2, 1.0)
    with SiteStore(world.folders[2]).transaction() as site:
        site.insist_on_masks()
    for operation in (world.train, world.apply):
        with pytest.raises(InputError, match=r"site 2 insists on masks.*`--secure-aggregation`"):
            operation()
    assert len(world.store.load().versions) == 1
    lead = world.lead(secure=True)
    lead.apply()
    assert lead.versions[-1].sites == (2,)
    # The sums of one who leaves alone are its own.
    with pytest.raises(InputError, match=r"site 2 insists on masks.*`--rung exact`"):
        world.remove(2)
    assert world.remove(2, rung="exact").versions[-1].sites == (2,)


def test_without_a_model_or_sites_there_is_a_word(fresh, schema, tmp_path):
    with pytest.raises(InputError, match="no model yet"):
        fresh.apply()
    empty = create_coordinator_store(tmp_path / "empty", schema)
    with pytest.raises(InputError, match="at least one site must be registered"):
        Lead(fresh.grid, empty, everybody=True, patience=0.0)
    fresh.grid.nodes = {}
    with pytest.raises(
        InputError, match="at least 2 sites must answer, but 0 did: sites 0, 1, 2, 3, 4"
    ):
        fresh.train()

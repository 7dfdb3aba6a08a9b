# SPDX-License-Identifier: Apache-2.0
"""Operations with silent, lying, forgetful and restarted parties: a clear word, one model, one count."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

from epsilens.document import Provenance, view
from epsilens.errors import InputError
from epsilens.federated import (
    Coordinator,
    LocalParties,
    RawFile,
    Site,
    SiteStore,
    create_site_store,
)
from epsilens.federated.as_document import document_of
from epsilens.federated.coordinator_store import CoordinatorStore, create_coordinator_store

from .conftest import Killed, copied, let_messages_be_made, make_sites, numbers

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Message

from epsilens.federated.flower.deployed_parties import DeployedParties, SilentSitesError
from epsilens.federated.flower.messages import pack
from epsilens.federated.flower.operations import OperationRunner
from epsilens.federated.randomisation import as_budget
from epsilens.federated.site_state import Wish


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    let_messages_be_made(monkeypatch)


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
    assert state.model_sites == (0, 1, 2, 3)
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


def test_a_silent_site_is_left_out_of_training_and_comes_back_with_the_next(fresh):
    fresh.silence(3, kinds=["query.sums"])
    lead = fresh.train()
    assert lead.versions[0].sites == (0, 1, 2, 4)
    assert [note.text for note in lead.notes] == [
        "site 3 did not answer: not part of this model, until the next training"
    ]
    with pytest.raises(
        InputError, match=r"at least 5 sites must answer, but 4 did: site 3 did not"
    ):
        fresh.train(at_least=5)
    assert len(fresh.store.load().versions) == 1
    fresh.grid.spoil = lambda node, reply: reply
    fresh.ask(0, 1.0)
    fresh.apply(rung="exact")  # without site 3, whose records are not in the model
    assert fresh.store.load().model_sites == (0, 1, 2, 4)
    assert fresh.train().versions[0].sites == (0, 1, 2, 3, 4)
    assert fresh.site(3).state.version == 2


def test_a_site_that_misses_the_training_version_is_part_of_the_model(fresh):
    fresh.silence(3, kinds=["query.settle"])
    lead = fresh.train()
    assert lead.versions[0].sites == (0, 1, 2, 3, 4)
    assert [note.text for note in lead.notes] == [
        "site 3 did not answer: told of the new version when back"
    ]


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
    assert [note.text for note in lead.notes] == [
        "sites 1, 2 did not answer: told of the new version when back"
    ]
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
    with pytest.raises(SilentSitesError, match=r"^site 2 did not answer within 7 seconds"):
        world.apply()
    assert world.store.load().intention is not None
    drawn = world.site(2).state.draws
    world.silence(2)
    lead = world.apply()
    assert any(
        "change of site 2 that had been interrupted is given up, since site 2" in note.text
        for note in lead.notes
    )
    assert world.store.load().intention is None
    world.grid.spoil = lambda node, reply: reply
    world.apply()
    assert world.site(2).state.draws == drawn
    assert [entry.operation for entry in world.site(2).ledger] == ["train", "change"]
    assert world.store.load().versions[-1].operation == "change"


def test_a_change_taken_up_again_says_who_has_not_heard_of_it(world):
    world.ask(2, 1.0)
    world.silence(2, kinds=["query.difference"])
    with pytest.raises(SilentSitesError):
        world.apply()
    world.silence(2, kinds=["query.settle"])
    assert [note.text for note in world.apply().notes] == [
        "the change of site 2 that had been interrupted is finished",
        "site 2 did not answer: told of the new version when back",
    ]


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
    with pytest.raises(SilentSitesError, match="site 3 did not answer"):
        other.remove(4, rung="exact")
    other.silence(4)
    other.remove(4, rung="exact")
    assert other.store.load().versions[-1].model_epsilon == 0.0
    assert 4 not in other.store.load().sums


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


def draw_again(world, schema, number):
    """Let a site join anew under its number, in an empty folder, from the same records."""
    folder = world.folders[number]
    for file in folder.glob("*.sqlite*"):
        file.unlink()
    raw = RawFile.at(folder / "raw.parquet")
    create_site_store(folder, Site(number, schema, raw.read(schema), epsilon=3.0), raw)


def test_a_second_draw_under_the_same_number_is_counted_on(world, schema):
    before = world.site(2).total_epsilon
    world.ask(2, 1.0)
    world.apply()
    lines = [entry for entry in world.store.load().ledger if entry.site == 2]
    draw_again(world, schema, 2)
    with pytest.raises(InputError, match=r"site 2 has drawn again.*Train again"):
        world.lead()
    for times in (2, 3):
        lead = world.train()
        assert (
            f"site 2 has drawn again under its number: the {before * (times - 1):g} "
            in lead.notes[0].text
        )
        ledger = [entry for entry in world.store.load().ledger if entry.site == 2]
        assert ledger[: len(lines)] == lines
        assert ledger[-1].total_epsilon == times * before
        assert world.train().notes == []  # said once, counted for good
        lines = [entry for entry in world.store.load().ledger if entry.site == 2]
        draw_again(world, schema, 2)
    world.ask(2, 2.0)
    world.train()
    world.apply()
    assert [e.total_epsilon for e in world.store.load().ledger if e.site == 2][-1] == 4 * before


def test_a_version_that_a_site_has_forgotten_is_noticed(world):
    with SiteStore(world.folders[2]).transaction() as site:
        site.follow_new_coordinator()
    assert (
        "site 2 had version 0 of the model and says that it has none" in world.lead().notes[0].text
    )
    assert world.lead().notes == []


def test_a_ledger_is_compared_line_by_line(world):
    target = list(world.grid.nodes)[2]

    def spoil(node, reply):
        if node == target:
            said = dict(reply.content["settings"])
            said["ledger"] = said["ledger"].replace('"total_epsilon": 6.0', '"total_epsilon": 1.0')
            reply.content["settings"] = ConfigRecord(said)
        return reply

    world.grid.spoil = spoil
    words = r"site 2 has forgotten releases.*`unregister 2` if it is not in the model"
    with pytest.raises(InputError, match=words):
        world.lead()


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
    fresh.lead(everybody=True, secure_aggregation=True).train()
    fresh.ask(1, 1.0)
    fresh.ask(2, 1.0)
    with pytest.raises(InputError, match="made under masks"):
        fresh.lead(secure_aggregation=False)
    fresh.grid.types.clear()
    fresh.apply()
    fresh.remove(4, rung="exact")
    assert {"query.masked", "query.settle"} < set(fresh.grid.types)
    assert not {"query.sums", "query.difference"} & set(fresh.grid.types)
    fresh.silence(0, 1, 2, kinds=["query.sums"])
    with pytest.raises(InputError, match="at least 2 sites"):
        fresh.lead(everybody=True, secure_aggregation=False).train()
    assert fresh.store.masked  # nothing came of it
    fresh.grid.spoil = lambda node, reply: reply
    fresh.lead(everybody=True, secure_aggregation=False).train()
    assert not fresh.lead().masked


def test_a_site_can_insist_on_masks(world):
    world.ask(2, 1.0)
    with SiteStore(world.folders[2]).transaction() as site:
        site.insist_on_masks()
    for operation in (world.train, world.apply):
        with pytest.raises(InputError, match=r"site 2 insists on masks.*`--secure-aggregation`"):
            operation()
    assert len(world.store.load().versions) == 1
    # Nor is there another to hide its change in.
    with pytest.raises(
        InputError, match=r"site 2 insists.*would change alone.*`apply --rung exact`"
    ):
        world.lead(secure_aggregation=True).apply()
    lead = world.lead(secure_aggregation=True)
    lead.apply(rung="exact")
    assert lead.versions[-1].sites == (2,)
    # The sums of one who leaves alone are its own.
    with pytest.raises(InputError, match=r"site 2 insists on masks.*`--rung exact`"):
        world.remove(2)
    assert world.remove(2, rung="exact").versions[-1].sites == (2,)


def test_it_is_said_of_each_version_whether_it_was_masked(world):
    lead = world.lead(everybody=True, secure_aggregation=True)
    lead.train()
    state = world.store.load()
    assert [version.masked for version in state.versions] == [False, True]
    made = Provenance(method="status")
    document = document_of(
        state.versions, state.ledger, made, protect=["smokes"], secure_aggregation=True
    )
    assert not document.secure_aggregation
    said = " ".join(view(document).sentences)
    assert "in version 1 the coordinator saw sums over the randomised records of all sites" in said
    assert "in version 0, in clear, it saw those of each site" in said


def insist(world):
    for folder in world.folders:
        with SiteStore(folder).transaction() as site:
            site.insist_on_masks()


def masked(world):
    members = {m.site: m.node for m in world.store.members}
    state = world.store.load()
    return DeployedParties(
        world.grid,
        world.store.schema,
        members,
        state=state,
        timeout=7.0,
        patience=0.0,
        masked=True,
    )


@pytest.mark.parametrize("query", ["sums", "difference", "steps", "value_submit", "value_move"])
def test_no_sum_of_its_own_leaves_an_insisting_site(world, schema, query):
    insist(world)
    node = next(iter(world.grid.nodes))
    message = Message(pack(schema.fingerprint), node, f"query.{query}")
    (reply,) = world.grid.send_and_receive([message], timeout=1)
    assert "insists on masks" in reply.content["settings"]["refused"]


def test_sites_that_insist_train_change_and_leave_together(world):
    insist(world)
    world.silence(3, kinds=["query.masked"])
    lead = world.lead(everybody=True, secure_aggregation=True)
    assert lead.train().sites == (0, 1, 2, 4)  # begun again without site 3, at another model
    world.grid.spoil = lambda node, reply: reply
    world.lead(everybody=True).train()
    world.ask(1, 2.0)
    world.ask(2, 1.0)
    world.apply(preview=True)
    assert world.apply(rung="newton").versions[-1].sites == (1, 2)
    world.ask(1, 1.0)
    assert world.apply(rung="exact").versions[-1].sites == (1,)
    assert world.remove(4, rung="exact").versions[-1].sites == (4,)
    assert world.lead(everybody=True).train().sites == (0, 1, 2, 3)


def test_an_insisting_site_previews_its_own_wish_only(world, schema):
    insist(world)
    parties = masked(world)
    with pytest.raises(
        InputError, match="site 2 insists on masks, and lets nobody see the preview"
    ):
        parties.prepare({2: Wish(as_budget(schema, 1e-9))}, preview=True)


def test_an_insisting_site_answers_one_group_at_a_model(world, schema, monkeypatch):
    insist(world)
    parties, n = masked(world), masked(world).records()
    theta = np.full(schema.n_parameters, 0.1)

    def ask(*sites, what="sums", at=theta, pending=()):
        return parties._secure.ask(what, at, {i: n[i] for i in sites}, pending=pending)

    first = ask(0, 1)
    np.testing.assert_array_equal(
        ask(0, 1).gradient, first.gradient
    )  # the same again tells nothing
    for others in ((0, 2), (0, 1, 2), (1, 2)):
        with pytest.raises(InputError, match=r"has answered at this model with another group"):
            ask(*others)
    for site in (1, 2, 3):
        world.ask(site, 1.0)
    parties.prepare({i: world.site(i).wish for i in (1, 2, 3)}, preview=False)
    with pytest.raises(InputError, match="or for other changes"):
        ask(0, 1, pending=(1,))  # less the first it would be the change of site 1
    ask(*range(5), what="difference", pending=(1, 2))
    with pytest.raises(InputError, match="or for other changes"):
        ask(*range(5), what="difference", pending=(1, 3))
    # What is noted stays when the site starts anew, and the note does not grow without end.
    world.grid.states.clear()
    parties = masked(world)
    with pytest.raises(InputError, match="has answered at this model"):
        ask(0, 2)
    monkeypatch.setattr("epsilens.federated.site_logs.MOST_ANSWERS", 1)
    with pytest.raises(InputError, match="which is all it keeps a note of"):
        ask(0, 1, at=theta + 1.0)


def test_without_a_model_or_sites_there_is_a_word(fresh, schema, tmp_path):
    with pytest.raises(InputError, match="no model yet"):
        fresh.apply()
    empty = create_coordinator_store(tmp_path / "empty", schema)
    with pytest.raises(InputError, match="at least one site must be registered"):
        OperationRunner(fresh.grid, empty, everybody=True, patience=0.0)
    fresh.grid.nodes = {}
    with pytest.raises(
        InputError, match="at least 2 sites must answer, but 0 did: sites 0, 1, 2, 3, 4"
    ):
        fresh.train()

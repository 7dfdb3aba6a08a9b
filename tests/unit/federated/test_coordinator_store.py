# SPDX-License-Identifier: Apache-2.0
"""The coordinator's folder: exact, killed at any statement either old or new, and closed to others."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import stat
import subprocess
import sys

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.federated import Coordinator, LocalParties
from epsilens.federated.coordinator_store import (
    DATABASE,
    CoordinatorStore,
    create_coordinator_store,
)
from epsilens.federated.database import blob_of

from .conftest import make_sites, truth


@pytest.fixture
def store(schema, tmp_path):
    return create_coordinator_store(tmp_path / "coordinator", schema, regularisation=1e-2)


@pytest.fixture
def coordinator(schema, store):
    return Coordinator(
        schema,
        LocalParties(make_sites(schema)),
        regularisation=1e-2,
        test=truth(schema, 50, seed=9),
        state=store.load(),
        keep=store.keep,
    )


def plain(state):
    """A state without its arrays, which do not compare."""
    return dataclasses.replace(
        state,
        versions=[dataclasses.replace(version, theta=None) for version in state.versions],
        sums=None,
    )


def assert_same(a, b):
    assert plain(a) == plain(b)
    for left, right in zip(a.versions, b.versions, strict=True):
        np.testing.assert_array_equal(left.theta, right.theta)
    assert (a.sums is None) == (b.sums is None)
    for site, part in (a.sums or {}).items():
        other = b.sums[site]
        assert (part.n, part.loss) == (other.n, other.loss)
        np.testing.assert_array_equal(part.gradient, other.gradient)
        np.testing.assert_array_equal(part.hessian, other.hessian)


def test_every_state_of_an_operation_comes_back_exactly(store, coordinator):
    kept = []
    keep = coordinator._keep

    def checked(state):
        keep(state)
        kept.append(state)
        assert_same(CoordinatorStore(store.folder).load(), state)

    coordinator._keep = checked
    coordinator.train()
    coordinator.preview({2: 1.0})
    coordinator.change({2: 1.0, 0: 2.0}, rung="newton")
    coordinator.remove([4])
    assert len(kept) >= 9
    assert [state.intention for state in kept].count(None) < len(kept)


def test_nothing_of_who_left_stays_in_the_folder(store, coordinator):
    coordinator.train()
    parts = dict(store.load().sums)

    def found(site):
        files = [path.read_bytes() for path in store.folder.iterdir()]
        return any(blob_of(parts[site].gradient)[-40:] in text for text in files)

    assert found(4)
    assert found(3)
    coordinator.remove([4], rung="exact")
    assert not found(4)
    assert 4 not in store.load().sums
    assert store.load().left == (4,)


def test_killed_at_any_statement_it_is_the_old_state_or_the_new(store, coordinator):
    coordinator.train()
    program = """
import os, shutil, signal, sys
from dataclasses import replace
from pathlib import Path
from epsilens.data.private_files import PrivateStore
from epsilens.federated import CoordinatorStore

def seen(state):
    return len(state.versions), state.sums is None, state.undelivered, state.left, len(state.ledger)

connect = PrivateStore._connect
for killed_at in range(1, 100):
    folder = Path(sys.argv[1]).with_name(f"copy-{killed_at}")
    shutil.copytree(sys.argv[1], folder)
    child = os.fork()
    if child == 0:
        store = CoordinatorStore(folder)
        old = store.load()
        version = replace(old.versions[-1], version=1)
        new = replace(old, versions=(*old.versions, version), sums=None, undelivered=True, left=(4,),
                      ledger=(*old.ledger, old.ledger[0]))
        statements = []
        def count(text):
            statements.append(text)
            if len(statements) == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
        def counted(store):
            connection = connect(store)
            connection.set_trace_callback(count)
            return connection
        PrivateStore._connect = counted
        store.keep(new)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(*seen(CoordinatorStore(folder).load()), sep=";")
    shutil.rmtree(folder)
    if not os.WIFSIGNALED(status):
        break
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(store.folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = done.stdout.split("\n")[:-1]
    old, new = "1;False;False;();5", "2;True;True;(4,);6"
    assert set(seen) == {old, new}
    assert len(seen) > 8
    assert seen == sorted(seen)  # once new, always new


def test_killed_while_it_is_made_there_is_none_or_a_whole_one(schema, tmp_path):
    program = """
import json, os, signal, sys
from pathlib import Path
from epsilens.federated import CoordinatorStore, FederationSchema
from epsilens.federated.coordinator_store import DATABASE, create_coordinator_store

schema = FederationSchema.from_dict(json.loads(sys.argv[2]))
create_coordinator_store(Path(sys.argv[1]) / "first", schema)  # imports what it needs
for killed_at in range(1, 200):
    folder = Path(sys.argv[1]) / str(killed_at)
    child = os.fork()
    if child == 0:
        seen = []
        def count(event, arguments):
            seen.append(event)
            if len(seen) == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        create_coordinator_store(folder, schema)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    made = (folder / DATABASE).exists()
    store = CoordinatorStore(folder) if made else create_coordinator_store(folder, schema)
    print(made, store.register("a key").site, *(path.name for path in folder.glob("*.part")))
    if not os.WIFSIGNALED(status):
        break
"""
    arguments = [str(tmp_path), json.dumps(schema.to_dict())]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = done.stdout.splitlines()
    assert set(seen) == {"False 0", "True 0"}  # and nothing of the stopped one stays
    assert len(seen) > 8
    assert seen == sorted(seen)  # once made, always made


def test_only_its_owner_can_read_it_and_it_is_made_once(store, schema):
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in store.folder.iterdir())
    with pytest.raises(InputError, match="has a coordinator already"):
        create_coordinator_store(store.folder, schema)


def test_the_log_of_a_store_that_is_gone_is_not_played_into_a_new_one(schema, tmp_path):
    (tmp_path / f"{DATABASE}-wal").write_bytes(b"pages")
    with pytest.raises(InputError, match="a coordinator that is gone, but has 'coordinator"):
        create_coordinator_store(tmp_path, schema)
    assert not (tmp_path / DATABASE).exists()


def test_what_is_no_store_of_ours_is_refused(store, tmp_path):
    with pytest.raises(InputError, match="must be the folder of a coordinator"):
        CoordinatorStore(tmp_path)
    path = store.folder / DATABASE
    for statement, words in (
        ("UPDATE coordinator SET store_version = 9", "has version 9, and this epsilens reads 1"),
        ("UPDATE coordinator SET store_version = 1, fingerprint = 'x'", "not the one that it was"),
        ("UPDATE coordinator SET contract = '{'", "incomplete or damaged"),
        ("DELETE FROM coordinator", "incomplete or damaged"),
    ):
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
        with pytest.raises(InputError, match=words):
            CoordinatorStore(store.folder)
    path.write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match="incomplete or damaged"):
        CoordinatorStore(store.folder)


def test_a_key_belongs_to_one_site_and_can_be_replaced(store, coordinator):
    assert [store.register(f"key {i}").site for i in range(5)] == list(range(5))
    assert store.register("key 2").site == 2  # once more, after something went wrong
    store.note_node(1, 2**64 - 1)
    assert store.members[1].node == 2**64 - 1
    with pytest.raises(InputError, match="belongs to site 1"):
        store.register("key 1", site=3)
    assert store.register("another", site=1).site == 1
    assert store.members[1].node is None
    coordinator.train()
    coordinator.remove([4])
    assert [member.site for member in store.members] == [0, 1, 2, 3]
    with pytest.raises(InputError, match="site 4 has left"):
        store.register("key 4", site=4)
    assert store.register("key 4").site == 5


def test_who_is_not_in_the_model_can_be_forgotten(store, coordinator):
    for i in range(7):
        store.register(f"key {i}")
    store.note_node(6, 77)
    assert store.register("key 6").node == 77  # once more: nothing is lost
    coordinator.train()
    with pytest.raises(InputError, match=r"site 2 is in the model.*federate remove 2"):
        store.unregister(2)
    with pytest.raises(InputError, match=r"site 9 is not registered\. There are: 0, 1, 2"):
        store.unregister(9)
    assert store.unregister(6).node == 77
    assert store.register("another").site == 6  # nobody has heard of the first one
    state = store.load()
    entry = dataclasses.replace(state.ledger[0], site=5)
    store.keep(dataclasses.replace(state, ledger=(*state.ledger, entry)))
    store.unregister(5)  # it was in an earlier model, say
    with pytest.raises(InputError, match="site 5 has left"):
        store.register("key 5", site=5)
    assert [member.site for member in store.members] == [0, 1, 2, 3, 4, 6]


def test_a_version_is_undelivered_until_all_sites_were_told(schema, sites):
    kept = []
    Coordinator(schema, LocalParties(sites), regularisation=1e-2, keep=kept.append).train()
    assert [(len(state.versions), state.undelivered) for state in kept] == [(1, True), (1, False)]


def test_what_is_deleted_from_a_store_is_overwritten(schema, tmp_path):
    store = create_coordinator_store(tmp_path / "leader", schema)
    with store._store.connected() as connection:
        assert connection.execute("PRAGMA secure_delete").fetchone()[0] == 1

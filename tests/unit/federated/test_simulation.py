# SPDX-License-Identifier: Apache-2.0
"""The simulation engine, really: the same numbers, no call to the outside, nothing left running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from epsilens._processes import running
from epsilens.errors import InputError, MissingExtraError
from epsilens.federated.flower import simulation
from epsilens.federated.flower.simulation import ProcessTree
from epsilens.federated.plan import PlannedOperation, story
from epsilens.federated.rehearsal import Rehearsal, rehearse

from .conftest import SIZES, table_of, truth

linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")


@pytest.fixture
def rehearsal(schema):
    steps, _ = story(
        schema,
        epsilon=3.0,
        n_sites=5,
        changes=[{2: 1.0}, {0: 1.0, 3: 2.0}],
        remove=[4],
        values=[PlannedOperation("value", sites=(1, 3), items=2)],
    )
    tables = tuple(table_of(schema, truth(schema, n, 10 + i)) for i, n in enumerate(SIZES))
    test = truth(schema, 100, seed=99)
    return Rehearsal(
        schema,
        tables,
        steps,
        3.0,
        regularisation=0.01,
        test=test,
        seed=7,
        secure_aggregation=True,
        offers={1: 0.25},
    )


def marked(mark):
    """Return the processes that carry a mark in their environment."""
    found = []
    for process in running():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if f"EPSILENS_SIMULATION={mark}".encode() in environment.split(b"\0"):
            found.append(process.pid)
    return found


@pytest.fixture
def mark(monkeypatch):
    """Return the mark that the engine's processes will carry."""
    word = os.urandom(8).hex()
    monkeypatch.setattr(simulation.secrets, "token_hex", lambda size: word)
    return word


@pytest.fixture
def proxy(monkeypatch):
    """Count who asks for the way out: whatever honours a proxy would come here."""
    asked = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            asked.append(connection.recv(200))
            connection.close()

    threading.Thread(target=listen, daemon=True).start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, address)
        monkeypatch.setenv(name.lower(), address)
    yield asked
    listener.close()


@linux
@pytest.mark.slow
def test_flower_gives_the_numbers_of_one_process_and_goes(rehearsal, mark, proxy):
    pytest.importorskip("flwr")
    pytest.importorskip("ray")
    pytest.importorskip("tenseal")
    before = set(os.listdir(tempfile.gettempdir()))
    said = []
    far = simulation.simulate(rehearsal, progress=lambda *step: said.append(step[:2]))
    near = rehearse(rehearsal)
    assert marked(mark) == []
    assert not [n for n in set(os.listdir(tempfile.gettempdir())) - before if "epsilens-" in n]
    assert proxy == []
    for a, b in zip(near.versions, far.versions, strict=True):
        # Sums travel exactly, masked or not; what may differ is how many threads a product took.
        np.testing.assert_allclose(b.theta, a.theta, rtol=0, atol=1e-12)
        assert (a.operation, a.messages, a.bytes, a.model_budgets) == (
            b.operation,
            b.messages,
            b.bytes,
            b.model_budgets,
        )
    assert near.ledger == far.ledger
    (score,), (same,) = near.valuations, far.valuations
    # Two encryptions of the same numbers, rounded to seven digits.
    np.testing.assert_allclose(same.scores, score.scores, rtol=1e-4)
    assert (same.n_items, same.change, same.messages) == (2, "add", score.messages)
    assert far.carried.messages > sum(version.messages for version in far.versions)
    assert said == sorted(said)
    assert {total for _, total in said} == {len(rehearsal.operations)}


@linux
@pytest.mark.slow
def test_ctrl_c_takes_the_engine_down(rehearsal, tmp_path):
    pytest.importorskip("flwr")
    pytest.importorskip("ray")
    path = tmp_path / "all.csv"
    rehearsal.tables[0].to_csv(path, index=False)
    command = "federate simulate --sites 2 --epsilon 3 --label smokes --protect smokes --data"
    with subprocess.Popen(
        [sys.executable, "-m", "epsilens", *command.split(), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        tree = ProcessTree(process, "NOBODY=0")
        started: set[object] = set()
        # Some live shortly only: all that were seen count, whether they are still there or not.
        while len(started) < 3 and process.poll() is None:
            time.sleep(0.1)
            alive = tree.running
            started |= {found for found in running() if found.pid in alive}
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "Interrupted: nothing half-written was left behind."
    assert len(started) >= 3
    assert not started & set(running())


@linux
def test_an_engine_that_fails_leaves_nothing(rehearsal, mark, monkeypatch):
    pytest.importorskip("flwr")

    def fails(service, address, *, seconds):
        assert marked(mark)
        service.log.write_text("\x1b[91mERROR\x1b[0m: no port\n─────\n")
        return False

    monkeypatch.setattr(simulation.Service, "answers", fails)
    monkeypatch.setattr(simulation, "require_flower", lambda: None)
    with pytest.raises(InputError, match=r"did not \('ERROR: no port'\).*`--in-process`"):
        simulation.simulate(rehearsal)
    assert marked(mark) == []


def test_the_folder_of_a_killed_simulation_goes_with_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "_base", lambda: tmp_path)
    program = """
import sys, time
from pathlib import Path
from epsilens.federated.flower import simulation

simulation._base = lambda: Path(sys.argv[1])
with simulation._temporary_folder() as folder:
    (folder / "sites").mkdir()
    (folder / "sites" / "data.parquet").write_text("records")
    print(folder.name, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        killed = tmp_path / process.stdout.readline().strip()
        for name in ("epsilens-of-somebody", "other"):
            (tmp_path / name).mkdir()
        (tmp_path / "epsilens-link").symlink_to(killed)
        with simulation._temporary_folder() as folder:
            assert killed.exists()  # its process is alive
        assert not folder.exists()
        process.send_signal(signal.SIGKILL)
    assert (killed / "sites" / "data.parquet").exists()
    with simulation._temporary_folder() as folder:
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == sorted([folder.name, "epsilens-link", "epsilens-of-somebody", "other"])


def test_a_folder_that_only_has_the_names_of_a_simulation_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "_base", lambda: tmp_path)
    claimed = tmp_path / "claimed"
    claimed.write_bytes(simulation._CLAIM_TEXT)
    makers = {
        "mywork": lambda lock: lock.write_text(""),
        "words": lambda lock: lock.write_bytes(simulation._CLAIM_TEXT + b"and mine"),
        "link": lambda lock: lock.symlink_to(claimed),
        "pipe": os.mkfifo,
    }
    for name, make in makers.items():
        folder = tmp_path / f"epsilens-{name}"
        folder.mkdir()
        make(folder / "simulation.lock")
        (folder / "thesis.txt").write_text("years of work")
    with simulation._temporary_folder():
        pass
    for name in makers:
        assert (tmp_path / f"epsilens-{name}" / "thesis.txt").exists()


def test_where_files_cannot_be_locked_nothing_stays_open(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    opened, closed = [], []
    original = os.close

    def refuse(descriptor, operation):
        opened.append(descriptor)
        raise OSError

    def close(descriptor):
        closed.append(descriptor)
        original(descriptor)

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(os, "close", close)
    with pytest.raises(OSError, match=r"^$"):
        simulation._claim(tmp_path)
    assert len(opened) == 1
    assert set(opened) <= set(closed)


@linux
def test_children_in_sessions_of_their_own_are_found_and_ended():
    script = "trap '' TERM; setsid sleep 60 & (sleep 60 &) ; echo ready; wait; sleep 60"
    process = subprocess.Popen(
        ["sh", "-c", script],
        env={**os.environ, "EPSILENS_SIMULATION": "orphans"},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout.readline() == b"ready\n"
    tree = ProcessTree(process, "EPSILENS_SIMULATION=orphans")
    assert len(tree.running) >= 3  # the shell, one with a session, and one without parents
    tree.end(seconds=0.2)  # the shell does not listen and is killed
    process.stdout.close()
    assert tree.running == marked("orphans") == []


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[federated\]"'):
        simulation.require_flower()

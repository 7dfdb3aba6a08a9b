"""Passes on a real cluster of two nodes, each with processes of its own; nothing leaves the machine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import epsilens.cluster
from epsilens.cli import main
from epsilens.data.parquet_pieces import open_parquet
from epsilens.errors import ApproximationWarning, InputError
from epsilens.models.dp_sgd import DPSGDSettings, score_ensemble
from epsilens.models.passes import LocalPasses, current_passes, reduce_pass, use_passes
from epsilens.risk import AttackStudy
from epsilens.whatif import WhatIf

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the cluster is started as on Linux"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra cluster"),
    pytest.mark.slow,
]

SOURCE = str(Path(epsilens.__file__).parents[1])
# In a process of its own, which ends its nodes when we end; a line takes the second node away.
TWO_NODES = """
import socket
import sys
from ray.cluster_utils import Cluster

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
node = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_log_monitor": False}
soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
soon |= {"health_check_failure_threshold": 3}
head = {**node, "include_dashboard": False, "no_monitor": True, "_system_config": soon}
head |= {"ray_client_server_port": port}
cluster = Cluster(initialize_head=True, connect=False, shutdown_at_exit=True, head_node_args=head)
second = cluster.add_node(**node)
print(cluster.address, port, flush=True)
for line in sys.stdin:
    cluster.remove_node(second, allow_graceful=False)
    print("gone", flush=True)
cluster.shutdown()
"""


class Nodes:
    """Two nodes of one processor each."""

    def __init__(self, process):
        self.process = process
        self.address, port = process.stdout.readline().split()
        self.client_address = f"ray://{self.address.rpartition(':')[0]}:{port}"

    def lose_one(self):
        self.process.stdin.write("now\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "gone\n"


@pytest.fixture(scope="module")
def cluster():
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # the paths of sockets are short
    # Without this file in its home Ray asks three cloud providers whether it runs at theirs.
    (folder / "ray_bootstrap_config.yaml").write_text("{}\n")
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {
        "HOME": str(folder),
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")])),
        "NO_PROXY": "*",
        "no_proxy": "*",
    }
    with (
        open(folder / "log.txt", "wb") as log,
        subprocess.Popen(
            [sys.executable, "-c", TWO_NODES],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        yield Nodes(process)
        epsilens.cluster.stop()
        process.stdin.close()
        process.wait(timeout=60)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def connected(cluster):
    with epsilens.cluster.use(cluster.address) as connection:
        yield connection


def diary(folder):
    """Give what work writes down whenever it is done, and how to read it."""
    path = folder / "done.txt"

    def write(task):
        import os

        import ray

        line = f"{task} {os.getpid()} {ray.get_runtime_context().get_node_id()}\n"
        place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(place, line.encode())
        os.close(place)

    def read():
        text = path.read_text() if path.exists() else ""
        return [
            (int(task), int(pid), node) for task, pid, node in map(str.split, text.splitlines())
        ]

    return write, read


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def sums_over_pieces(path, theta):
    """Give the gradient and the Hessian of a piece of a file, as a streamed fit wants them."""

    def work(piece):
        first, last = piece
        rows = np.load(path, mmap_mode="r")[first:last]
        X, y = np.array(rows[:, :-1]), np.array(rows[:, -1])
        p = 1 / (1 + np.exp(-X @ theta))
        return {"gradient": X.T @ (p - y), "hessian": X.T @ (X * (p * (1 - p))[:, None])}

    return work


def test_a_pass_gives_the_same_numbers_as_here(connected, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 12))
    np.save(tmp_path / "data.npy", np.column_stack([X, rng.random(3000) < 0.4]))
    pieces = [(first, min(first + 170, 3000)) for first in range(0, 3000, 170)]
    work = sums_over_pieces(str(tmp_path / "data.npy"), rng.normal(size=12))
    seen = []
    there = reduce_pass(work, pieces, progress=lambda done, total, _: seen.append((done, total)))
    with use_passes(LocalPasses()):
        here = reduce_pass(work, pieces)
    for name in here:
        np.testing.assert_allclose(there[name], here[name], rtol=1e-10, atol=0)
    assert seen == [(done, 18) for done in range(1, 19)]


def test_large_arrays_travel_once_and_are_known_by_what_they_hold(connected, monkeypatch):
    passes, sent = current_passes(), []
    put = passes._shipping._put
    monkeypatch.setattr(passes._shipping, "_put", lambda array: sent.append(1) or put(array))
    large = np.arange(100_000.0)

    def work(task):
        return float(large[task])

    assert list(passes.map(work, range(20))) == [float(k) for k in range(20)]
    assert list(passes.map(work, range(3))) == [0.0, 1.0, 2.0]
    assert len(sent) == 1
    large[0] = -1.0
    assert list(passes.map(work, range(3))) == [-1.0, 1.0, 2.0]
    assert len(sent) == 2


def test_what_work_raises_and_warns_of_arrives_as_itself(connected):
    def refuse(task):
        if task == 3:
            raise InputError("the piece must be another one.")
        return task

    def warn(task):
        import warnings

        from epsilens.errors import ApproximationWarning

        warnings.warn("this is less certain.", ApproximationWarning, stacklevel=1)
        return task

    with pytest.raises(InputError, match=r"^the piece must be another one\.$") as raised:
        list(current_passes().map(refuse, range(100)))
    assert raised.type is InputError
    with pytest.raises(ZeroDivisionError) as mistake:
        list(current_passes().map(lambda task: 1 // (task - 1), range(4)))
    assert "At a worker of the cluster" in mistake.value.__notes__[0]
    with pytest.warns(ApproximationWarning, match="less certain"):
        assert list(current_passes().map(warn, [1, 2])) == [1, 2]
    with pytest.raises(InputError, match="every node must see the same files under the same path"):
        list(current_passes().map(lambda task: Path("/nowhere").read_text(), [1]))


def test_tasks_that_nobody_waits_for_are_not_begun(connected, tmp_path):
    write, read = diary(tmp_path)
    results = current_passes().map(write, range(1000))
    next(results)
    results.close()
    list(current_passes().map(abs, range(20)))
    assert len(read()) <= 6  # three a processor are under way


def test_a_lost_worker_costs_its_task_and_no_other(connected, tmp_path):
    write, read = diary(tmp_path)
    told = tmp_path / "go"
    fatal = 7

    def work(task):
        import time

        write(task)
        while task == fatal and not told.exists():
            time.sleep(0.01)
        return np.full(3, task / 7)

    results = current_passes().map(work, range(16))
    found = [next(results) for _ in range(fatal)]
    wait_for(lambda: any(task == fatal for task, *_ in read()))
    (pid,) = [pid for task, pid, _ in read() if task == fatal]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: sum(task == fatal for task, *_ in read()) == 2)
    told.touch()
    found += results
    assert np.array_equal(found, [np.full(3, task / 7) for task in range(16)])
    counted = Counter(task for task, *_ in read())
    assert counted == {task: 2 if task == fatal else 1 for task in range(16)}


def numbers_of(document):
    return {
        (k, name): number
        for k, cell in enumerate(document.cells)
        for name, number in cell.model_dump().items()
        if isinstance(number, float)
    }


@pytest.mark.parametrize("kind", ["randomised", "retrained"])
def test_models_trained_there_are_those_trained_here(connected, survey, pipeline, kind):
    data = (survey.X, survey.y, survey.X_test, survey.y_test)
    answers = {"region": ["north", "south", "east"], "smokes": ["no", "yes"]}

    def ask():
        question = {"protect": list(answers), "categories": answers, "epsilon": [2.0]}
        if kind == "retrained":
            return WhatIf(pipeline()).fit(*data).retrain(**question, repeats=3).document
        return AttackStudy(pipeline()).fit(*data).estimate(**question, shadow_models=80).document

    there = ask()
    with use_passes(LocalPasses()):
        here = ask()
    # On one kind of processor bit for bit; a BLAS for another adds in another order.
    assert numbers_of(there) == pytest.approx(numbers_of(here), rel=1e-10, abs=1e-12)
    assert len(numbers_of(here)) > 4
    assert there.provenance.settings["cluster"] is True


def test_models_of_noisy_training_are_the_same(connected, tmp_path):
    rng = np.random.default_rng(0)
    X, membership = rng.normal(size=(300, 4)), rng.random((20, 300)) < 0.5
    # Infinity, since finding the noise of an epsilon takes longer than all the rest.
    settings = DPSGDSettings(epsilon=np.inf, batch=20, epochs=2)

    def train(checkpoint=None):
        given = (X, (X[:, 0] > 0).astype(int), membership, settings)
        how = {"score": lambda logits: logits[:, :, 0], "score_name": "margins", "block_size": 6}
        return score_ensemble(*given, **how, random_state=0, checkpoint=checkpoint)

    there = train(tmp_path / "blocks")
    (tmp_path / "blocks" / "block-000001.npz").unlink()
    again = train(tmp_path / "blocks")
    with use_passes(LocalPasses()):
        here = train()
    np.testing.assert_allclose(there, here, rtol=1e-10)
    assert np.array_equal(there, again)


def test_a_streamed_study_is_the_same(connected, survey, tmp_path, monkeypatch):
    frame = survey.X.drop(columns="region").assign(smokes=survey.y.astype(str), w=1.0)
    frame["income"] /= 10_000
    monkeypatch.chdir(tmp_path)  # which a worker does not follow
    Path("people").mkdir()
    for k in range(6):
        frame[k * 100 : k * 100 + 100].to_parquet(f"people/{k}.parquet")
    passes = []

    def ask():
        study = WhatIf(LogisticRegression()).fit_parquet(
            "people", label="smokes", weight="w", progress=lambda *step: passes.append(step)
        )
        question = {
            "protect": "smokes",
            "epsilon": [1.0, 4.0],
            "categories": {"smokes": ["no", "yes"]},
        }
        groups = {"young": "age < 40", "old": "age > 50"}
        cells = study.estimate(**question, groups=groups, method="exact").document
        table = study.point_table(protect="smokes", categories=question["categories"])
        return numbers_of(cells), table.contributions

    there = ask()
    with use_passes(LocalPasses()):
        here = ask()
    assert there[0] == pytest.approx(here[0], rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(there[1], here[1], rtol=1e-10, atol=1e-14)
    assert len(here[0]) > 10
    assert max(total for _, total, _ in passes) == 6


def test_a_file_that_a_worker_does_not_see_is_named(connected, survey, tmp_path):
    frame = survey.X[["age", "children"]].assign(smokes=survey.y.astype(str))
    frame.to_parquet(tmp_path / "train.parquet")
    source = open_parquet(tmp_path / "train.parquet")
    (tmp_path / "train.parquet").unlink()

    def read(piece):
        return [table.num_rows for _, table in source.batches(piece, ["age"])]

    with pytest.raises(
        InputError, match=r"'train\.parquet' must stay where it is .* under the same path"
    ):
        list(current_passes().map(read, source.pieces))


def test_a_lost_node_costs_its_tasks_and_no_others(cluster, connected, tmp_path, capfd):
    """The last test with two nodes."""
    write, read = diary(tmp_path)
    told = tmp_path / "go"

    def work(task):
        import time

        write(task)
        while not told.exists():
            time.sleep(0.01)
        return task * task

    def lose():
        wait_for(lambda: len({node for *_, node in read()}) == 2)
        cluster.lose_one()
        told.touch()

    helper = threading.Thread(target=lose)
    helper.start()
    assert list(current_passes().map(work, range(12))) == [task * task for task in range(12)]
    helper.join()
    counted = Counter(task for task, *_ in read())
    assert sum(counted.values()) == 13  # one of them twice: the one that the lost node had begun
    wait_for(lambda: current_passes().n_workers == 1)
    assert capfd.readouterr() == ("", "")


def test_the_command_says_that_a_cluster_was_used_and_not_which(cluster, capfd, survey, tmp_path):
    epsilens.cluster.stop()
    survey.X.assign(smokes=survey.y.astype(str)).to_csv(tmp_path / "survey.csv", index=False)
    typed = ["risk", str(tmp_path / "survey.csv"), "--label", "smokes", "--epsilon", "2"]
    typed += ["--shadow-models", "20", "--categories", "smokes=no|yes", "--json"]
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    before = dict(os.environ)
    assert main([*typed, "--cluster", cluster.client_address]) == 0
    out, said = capfd.readouterr()
    assert json.loads(out)["provenance"]["settings"]["cluster"] is True
    assert "ray://" not in out
    assert said.count("\n") == said.count("Warning: ")  # our lines, and none of Ray's
    assert not epsilens.cluster.is_connected()
    assert isinstance(current_passes(), LocalPasses)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    added = set(os.environ) - set(before)
    assert added <= {"RAY_CLIENT_MODE"}  # which Ray sets when it is imported

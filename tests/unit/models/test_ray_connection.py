"""What is said when there is no such cluster, or it is not one of ours."""

from __future__ import annotations

import socket
import sys

import pytest

import epsilens
import epsilens.cluster
from epsilens.cli import main
from epsilens.errors import InputError, MissingExtraError
from epsilens.models import ray_connection
from epsilens.models.passes import LocalPasses, current_passes

MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.40.0
    Python: 3.12.1
This process on Ray Client was started with:
    Ray: 2.55.1
    Python: 3.11.7
"""


@pytest.fixture
def ray_is_there(monkeypatch):
    monkeypatch.setattr(ray_connection, "require_extra", lambda *names: None)


@pytest.fixture
def port():
    """Give a port where somebody takes calls and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield silent.getsockname()[1]


def test_without_the_extra_the_command_that_installs_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[cluster\]"'):
        epsilens.cluster.use("auto")


@pytest.mark.parametrize("address", ["", "local", "head", "ray://head", "http://head:1", "head:0"])
def test_other_addresses_are_refused(ray_is_there, address):
    with pytest.raises(InputError, match="address of a cluster must be `ray://HOST:10001`"):
        epsilens.cluster.use(address)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_somebody_who_does_not_answer_as_ray_is_nobody(ray_is_there, monkeypatch, port, scheme):
    monkeypatch.setattr(ray_connection, "SECONDS_TO_REACH", 0.2)
    with pytest.raises(InputError, match=r"no Ray cluster answers at .* within \d+ seconds\."):
        epsilens.cluster.use(f"{scheme}127.0.0.1:{port}")
    assert isinstance(current_passes(), LocalPasses)


def test_a_wrong_address_is_one_line_and_exit_code_2(ray_is_there, capsys, port, tmp_path):
    data = tmp_path / "survey.csv"
    data.write_text("age,smokes\n30,yes\n")
    typed = ["--label", "smokes", "--cluster", "127.0.0.1:1"]
    for command in ("risk", "decide"):
        assert main([command, str(data), *typed]) == 2
        out, said = capsys.readouterr()
        assert out == ""
        assert said.count("\n") == 1
        assert "no Ray cluster answers at 127.0.0.1:1. Check" in said  # refused at once


def test_a_cluster_without_anything_to_do_is_refused(capsys, tmp_path):
    data = tmp_path / "survey.csv"
    data.write_text("age,smokes\n30,yes\n")
    assert main(["whatif", str(data), "--label", "smokes", "--cluster", "127.0.0.1:1"]) == 2
    assert (
        "`--cluster` carries what `--stream` or `--method retrain` asks for"
        in capsys.readouterr().err
    )


class FakeRay:
    """Fails to connect as Ray does, with an error each time."""

    def __init__(self, *errors):
        self.errors, self.n_left = list(errors), 0

    def init(self, **_):
        if self.errors:
            raise self.errors.pop(0)

    def shutdown(self):
        self.n_left += 1


def test_a_client_is_tried_twice_and_whatever_fails_is_left():
    failure = ConnectionAbortedError("Initialization failure from server: many lines")
    ray = FakeRay(failure)
    ray_connection._join(ray, "ray://head:10001")
    assert ray.n_left == 1
    ray = FakeRay(failure, failure)
    with pytest.raises(InputError, match="did not start what serves a client"):
        ray_connection._join(ray, "ray://head:10001")
    assert ray.n_left == 2
    with pytest.raises(InputError, match=r"no Ray cluster answers at head:6379\. Check"):
        ray_connection._join(FakeRay(ConnectionError("gone")), "head:6379")
    with pytest.raises(InputError, match="this machine is not a node of the cluster"):
        ray_connection._join(FakeRay(RuntimeError("No node info found matching ...")), "head:6379")


def test_other_versions_are_named_in_one_line():
    assert ray_connection._refusal(MISMATCH) == (
        "the cluster runs Ray 2.40.0, Python 3.12.1, and this program Ray 2.55.1, Python 3.11.7: they "
        "must be the same. Install the cluster's versions here."
    )
    other = ray_connection._refusal("something\n  long " + 100 * "and longer ")
    assert "\n" not in other
    assert len(other) < 250


def test_a_node_without_the_package_or_with_another_is_refused():
    ours = epsilens.__version__
    ray_connection._require_package([ours, ours])
    with pytest.raises(
        InputError, match=r"^1 of 2 nodes .* do not have epsilens. Run at every node"
    ):
        ray_connection._require_package([ours, None])
    with pytest.raises(InputError, match=f"have epsilens 0.0.1, and this program {ours}"):
        ray_connection._require_package([ours, "0.0.1"])

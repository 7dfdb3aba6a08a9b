# SPDX-License-Identifier: Apache-2.0
"""Messages and the sites behind them: the same numbers as in process, and what either side refuses."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from epsilens.errors import BudgetExceededError, InputError
from epsilens.federated import Coordinator, LocalParties, SiteSums
from epsilens.federated.plan import carry_out, story
from epsilens.federated.site_store import SiteStore

from .conftest import (
    FakeGrid,
    contract,
    let_messages_be_made,
    make_sites,
    site_folders,
    truth,
)

flwr = pytest.importorskip("flwr")

from flwr.app import (  # noqa: E402
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    RecordDict,
)

from epsilens.federated.flower import SIMULATED_SITES  # noqa: E402
from epsilens.federated.flower.client_app import site_folder  # noqa: E402
from epsilens.federated.flower.grid_parties import GridParties  # noqa: E402
from epsilens.federated.flower.messages import arrays_answered, pack, pack_sums, read_sums, unpack  # noqa: E402
from epsilens.federated.flower.server_app import follow, save_records  # noqa: E402


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    let_messages_be_made(monkeypatch)


@pytest.fixture
def folders(schema, tmp_path):
    return site_folders(schema, tmp_path)


@pytest.fixture
def grid(folders):
    return FakeGrid(folders)


def spoil(grid, site, change):
    """Let one site's replies be changed, or lost, from now on."""
    target = list(grid.nodes)[site]
    grid.spoil = lambda node, reply: change(reply) if node == target else reply


def theta(schema):
    return np.linspace(-0.5, 0.5, schema.n_parameters)


def reply_with(content):
    def change(reply):
        reply.content = content
        return reply

    return change


@pytest.mark.parametrize(
    ("algorithm", "rung"), [("newton", "one-message"), ("newton", "exact"), ("fedavg", "newton")]
)
def test_versions_ledger_and_traffic_are_those_of_sites_in_process(schema, grid, algorithm, rung):
    steps, _ = story(
        schema,
        epsilon=3.0,
        n_sites=5,
        changes=[{2: 1.0}, {0: 1.0, 3: 2.0}],
        remove=[4],
        algorithm=algorithm,
        rung=rung,
    )
    test = truth(schema, 100, seed=99)
    near = Coordinator(schema, LocalParties(make_sites(schema)), test=test)
    far = Coordinator(schema, GridParties(grid, schema, n_sites=5), test=test)
    carry_out(near, steps)
    carry_out(far, steps)
    for a, b in zip(near.versions, far.versions, strict=True):
        np.testing.assert_array_equal(a.theta, b.theta)
        plain = [dataclasses.replace(v, theta=None, seconds=0) for v in (a, b)]
        assert plain[0] == plain[1]
    assert list(near.parties.ledger()) == far.parties.ledger()
    assert near.parties.traffic == far.parties.traffic
    assert far.parties.carried.messages == 2 * len(grid.types)
    assert far.parties.budgets() == near.parties.budgets()


@pytest.mark.parametrize("n", [-16, 0, 10**12])
def test_a_site_weighs_in_the_average_as_much_as_it_has_said(schema, grid, n):
    parties = GridParties(grid, schema, n_sites=5)
    arrays = {"theta": theta(schema)}
    spoil(grid, 2, reply_with(pack(schema.fingerprint, arrays=arrays, n=n)))
    coordinator = Coordinator(schema, parties)
    with pytest.raises(InputError, match="site 2 takes part with another number of records"):
        coordinator.train(algorithm="fedavg", learning_rate=0.1)
    assert coordinator.versions == ()


def test_sums_survive_the_journey_and_only_half_a_hessian_travels(schema, sites):
    p = schema.n_parameters
    sums = sites[0].sums(theta(schema))
    content = pack_sums(schema.fingerprint, sums)
    assert content["arrays"]["hessian"].numpy().size == p * (p + 1) // 2
    back = read_sums(
        unpack(content, schema.fingerprint, sender="site 0", arrays=arrays_answered("sums", p)),
        p,
        hessian=True,
    )
    np.testing.assert_array_equal(back.gradient, sums.gradient)
    np.testing.assert_array_equal(back.hessian, np.triu(sums.hessian) + np.triu(sums.hessian, 1).T)
    assert (back.n, back.loss) == (sums.n, sums.loss)


def other_version(schema):
    content = pack(schema.fingerprint)
    content["settings"] = ConfigRecord({**content["settings"], "protocol": 99})
    return content


def with_array(schema, array, *, name="gradient"):
    arrays = ArrayRecord()
    arrays[name] = Array(array)
    content = pack(schema.fingerprint, n=5, loss=1.0)
    content["arrays"] = arrays
    return content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (other_version, "site 1 speaks version 99 of the protocol, and here it is 1"),
        (lambda schema: pack("0" * 64), "site 1 has agreed to another contract"),
        (lambda schema: RecordDict({}), "site 1 sent a message of an unknown form"),
        (
            lambda schema: with_array(schema, np.array([1.0, np.nan])),
            "site 1 must send finite numbers, but 1 of 2",
        ),
        (
            lambda schema: with_array(schema, np.zeros(3, dtype=np.float32)),
            "site 1 must send the array 'gradient' as a row of float64 numbers, got something else",
        ),
        (
            lambda schema: with_array(schema, np.zeros(10_000)),
            "site 1: a message must have the array 'gradient' with 7 numbers, got 10000",
        ),
        (
            lambda schema: with_array(schema, np.zeros(7), name="diary"),
            "site 1 must send the arrays that it was asked for, got another",
        ),
        (
            lambda schema: pack_sums(
                schema.fingerprint, SiteSums(0, 1.0, np.zeros(7), np.zeros((7, 7)))
            ),
            "site 1: a site's sums must be over at least one record",
        ),
        (
            lambda schema: pack(schema.fingerprint, n=True, loss=1.0),
            "site 1: a message must have the setting 'n' as int, got bool",
        ),
    ],
    ids=["version", "contract", "form", "nan", "float32", "huge", "unlisted", "empty", "setting"],
)
def test_a_coordinator_refuses_what_cannot_be(schema, grid, content, words):
    parties = GridParties(grid, schema, n_sites=5)
    spoil(grid, 1, reply_with(content(schema)))
    with pytest.raises(InputError, match=words):
        parties.sums(theta(schema))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (other_version, "site 0: the coordinator speaks version 99"),
        (lambda schema: pack("0" * 64), "the coordinator has agreed to another contract"),
        (
            lambda schema: pack(
                schema.fingerprint,
                arrays={"theta": np.full(7, np.inf)},
                hessian=True,
                pending=False,
            ),
            "the coordinator must send finite numbers",
        ),
        (
            lambda schema: pack(
                schema.fingerprint, arrays={"theta": np.zeros(8)}, hessian=True, pending=False
            ),
            "'theta' with 7 numbers, got 8",
        ),
        (lambda schema: pack(schema.fingerprint), "'theta' with 7 numbers, got none"),
    ],
    ids=["version", "contract", "infinite", "shape", "nothing"],
)
def test_a_site_refuses_what_cannot_be(schema, grid, content, words):
    node = next(iter(grid.nodes))
    message = Message(content(schema), node, "query.sums", ttl=5.0)
    (reply,) = grid.send_and_receive([message], timeout=5.0)
    parties = GridParties(grid, schema, n_sites=5)
    with pytest.raises(InputError, match=words):
        parties._opened("sums", reply, "site 0")


def test_a_refusal_names_the_site_and_an_unforeseen_error_tells_no_value(
    schema, grid, folders, monkeypatch
):
    leader = Coordinator(schema, GridParties(grid, schema, n_sites=5))
    leader.train()
    before = [SiteStore(folder) for folder in folders]
    with pytest.raises(InputError, match=r"^site 2 can only become stricter"):
        leader.change({2: 5.0})
    with pytest.raises(BudgetExceededError, match=r"^site 2 would have spent"):
        leader.change({2: 1.0}, mode="redraw")
    with before[2].transaction() as site:
        assert len(site.ledger) == 1

    def fails(site, theta, **options):
        raise KeyError("a person's answer")

    monkeypatch.setattr("epsilens.federated.site.Site.sums", fails)
    with pytest.raises(InputError) as raised:
        leader.parties.sums(theta(schema))
    assert str(raised.value) == "site 0: failed with KeyError."


def test_a_site_that_does_not_answer_or_breaks_down_is_named(schema, grid):
    parties = GridParties(grid, schema, n_sites=5, timeout=9.0)
    spoil(grid, 3, lambda reply: None)
    with pytest.raises(InputError, match="site 3 did not answer within 9 seconds"):
        parties.sums(theta(schema))

    def broken(reply):
        asked = Message(pack(""), 1, "query.sums")
        found = Message(Error(code=2, reason="a person's answer"), reply_to=asked)
        found.metadata.__dict__["_src_node_id"] = reply.metadata.src_node_id
        return found

    spoil(grid, 3, broken)
    with pytest.raises(InputError, match=r"site 3 could not answer \(Flower's error 2\)") as raised:
        parties.sums(theta(schema))
    assert "person" not in str(raised.value)


def test_sites_that_do_not_come_or_take_a_place_twice_are_refused(schema, folders, grid):
    with pytest.raises(InputError, match="6 sites must come online within 0 seconds, but only 5"):
        GridParties(grid, schema, n_sites=6, patience=0.0)
    with pytest.raises(InputError, match="two sites say that they are site 0"):
        GridParties(FakeGrid([folders[0], folders[1], folders[0]]), schema, n_sites=3)
    with pytest.raises(
        InputError, match=r"a site \(1 of 5\): the coordinator has agreed to another"
    ):
        GridParties(grid, contract(3), n_sites=5)


def test_a_simulated_node_finds_its_folder_by_its_place_alone(monkeypatch, tmp_path):
    monkeypatch.setenv(SIMULATED_SITES, str(tmp_path))
    context = Context(1, 2, {"partition-id": 3}, RecordDict(), {"state": "/elsewhere"})
    assert site_folder(context) == tmp_path / "site-3"
    monkeypatch.delenv(SIMULATED_SITES)
    with pytest.raises(InputError, match="must name the site's folder"):
        site_folder(context)


def test_the_coordinator_writes_its_result_or_why_there_is_none(schema, grid, tmp_path):
    save_records(tmp_path / "test.npz", truth(schema, 50, seed=99))
    steps, _ = story(schema, epsilon=3.0, n_sites=5, changes=[{1: 2.0}])
    plan = {
        "schema": schema.to_dict(),
        "operations": [step.to_dict() for step in steps],
        "n_sites": 5,
        "regularisation": 0.01,
        "test": str(tmp_path / "test.npz"),
        "timeout": 5.0,
        "patience": 5.0,
        "progress": str(tmp_path / "progress.json"),
        "result": str(tmp_path / "result.json"),
    }
    follow(grid, plan)
    result = json.loads((tmp_path / "result.json").read_text())
    assert [v["operation"] for v in result["versions"]] == ["train", "preview", "change"]
    assert json.loads((tmp_path / "progress.json").read_text())["done"] == 3
    follow(grid, {**plan, "n_sites": 9, "patience": 0.0})
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["error"] == "InputError"
    assert "9 sites must come online" in result["message"]
    follow(grid, {**plan, "schema": None})
    assert json.loads((tmp_path / "result.json").read_text())["error"] == "InputError"


def test_a_mistake_of_ours_is_told_by_its_place_and_never_by_its_text(schema, tmp_path):
    class Mistaken:
        def get_node_ids(self):
            raise KeyError("a person's answer")

    plan = {
        "schema": schema.to_dict(),
        "operations": [],
        "n_sites": 5,
        "regularisation": 0.01,
        "test": None,
        "timeout": 5.0,
        "patience": 5.0,
        "progress": str(tmp_path / "progress.json"),
        "result": str(tmp_path / "result.json"),
    }
    follow(Mistaken(), plan)
    text = (tmp_path / "result.json").read_text()
    assert "person" not in text
    result = json.loads(text)
    assert result["error"] == "failure"
    assert result["message"].splitlines()[-1] == "KeyError"
    assert "in get_node_ids" in result["message"]


def test_replies_that_never_come_whole_share_one_time_out(monkeypatch):
    from epsilens.federated.flower import link

    now, given = [100.0], []

    def pull(object_ids, pull_object_fn, *, max_time, **options):
        given.append(max_time)
        now[0] += min(max_time, 6.0)
        return {}

    monkeypatch.setattr(link.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(link, "pull_objects", pull)
    monkeypatch.setattr(link.http_grid, "pull_objects", None)
    grid = link._PromptGrid("127.0.0.1:9", b"", "token", patience=10.0)
    for _ in range(3):
        link.http_grid.pull_objects(object_ids=["a"], pull_object_fn=bytes)
    assert given == [10.0, 4.0, 0.0]
    grid.close()

# SPDX-License-Identifier: Apache-2.0
"""Valuations and masked sums over messages: the numbers of one process, nothing else on the wire, refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from epsilens.cli.federate_input import keep_limits
from epsilens.errors import BudgetExceededError, InputError
from epsilens.federated import (
    Coordinator,
    DeclaredColumn,
    FederationSchema,
    LocalParties,
    Records,
    Site,
    model_for_provider,
)
from epsilens.federated.coordinator_store import create_coordinator_store
from epsilens.federated.parties import TOGETHER
from epsilens.federated.plan import PlannedOperation, carry_out, story
from epsilens.federated.site_store import RawFile, SiteStore, create_site_store
from epsilens.federated.value_service import AnswerLimits, ValueService
from epsilens.federated.valuing import local_exchange, value
from epsilens.valuation import AnswerBook, BatchMove, ItemTester, Yardstick, item_moves

from .conftest import (
    SIZES,
    FakeGrid,
    copied,
    let_messages_be_made,
    make_sites,
    site_folders,
    table_of,
)

pytest.importorskip("flwr")
pytest.importorskip("tenseal")

from epsilens.federated.flower.deployed_parties import DeployedParties
from epsilens.federated.flower.grid_parties import GridParties
from epsilens.federated.flower.operations import OperationRunner
from epsilens.federated.flower.value_messages import GridExchange


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    let_messages_be_made(monkeypatch)


@pytest.fixture
def folders(schema, tmp_path):
    return site_folders(schema, tmp_path, offer=40)


@pytest.fixture
def grid(folders):
    return FakeGrid(folders)


def led(schema, grid, **options):
    parties = GridParties(grid, schema, n_sites=5, **options)
    leader = Coordinator(schema, parties, regularisation=1e-2)
    leader.train()
    return leader, GridExchange(leader.parties)


def replies(grid):
    """Return all that sites have sent."""
    return [sent for sent in grid.record if sent[1] == "site"]


def listed():
    """Return the fields that the documentation lists for each message."""
    page = Path(__file__).parents[3] / "docs" / "who-sees-what.md"
    found = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("| `") and cells[2] in {"coordinator", "site"}:
            found[f"query.{cells[1].strip('`')}", cells[2]] = set(
                re.findall(r"`([^`]+)`", cells[3])
            )
    # "and the question", "and the reply": what another has sent is relayed.
    for relayed, source in (("value_reply", "value_question"), ("value_scores", "value_reply")):
        found[f"query.{relayed}", "coordinator"] |= found[f"query.{source}", "site"]
    return found


def unlisted(grid):
    """Return the fields of masks and values that crossed the wire and are not documented."""
    known, found = listed(), set()
    for kind, sender, content in grid.record:
        if kind.startswith(("query.mask", "query.value")) and "refused" not in content["settings"]:
            fields = {*content["arrays"], *content["settings"]} - {"protocol", "contract"}
            fields = {re.sub(r"-\d+$", "-*", field) for field in fields}
            found |= {(kind, sender, field) for field in fields - known[kind, sender]}
    return found


def numbers_in(content):
    """Return everything in a message that could be read as numbers."""
    found = {name: array.numpy() for name, array in content["arrays"].items()}
    for name, setting in content["settings"].items():
        if isinstance(setting, bytes) and len(setting) % 8 == 0:
            found[name] = np.frombuffer(setting, dtype="<u8")
    return found


def test_under_masks_nothing_of_a_single_site_crosses_the_wire(schema, grid):
    steps, _ = story(schema, epsilon=3.0, n_sites=5, changes=[{0: 1.0, 3: 2.0}], remove=[1, 4])
    near = Coordinator(schema, LocalParties(make_sites(schema, offer=40)), regularisation=1e-2)
    far, _ = led(schema, grid, masked=True)
    far = Coordinator(schema, far.parties, regularisation=1e-2)
    carry_out(near, steps)
    carry_out(far, steps)
    for a, b in zip(near.versions, far.versions, strict=True):
        # Rounds begin elsewhere under masks; both end where the gradient is below 1e-10.
        np.testing.assert_allclose(b.theta, a.theta, rtol=0, atol=2e-8)
    assert list(near.ledger) == list(far.ledger)
    kinds = {kind: set(numbers_in(content)) for kind, _, content in replies(grid)}
    assert set(kinds) == {
        *(f"query.{name}" for name in ("hello", "mask_key", "masked", "prepare")),
        *("query.settle", "query.end_preview"),
    }
    assert kinds["query.masked"] == {"masked"}
    assert all(not kinds[kind] for kind in kinds if kind not in {"query.masked", "query.mask_key"})
    masked = [
        numbers_in(content)["masked"]
        for kind, _, content in replies(grid)
        if kind == "query.masked"
    ]
    # No two answers are alike or look like sums: the leading bit is a coin's, within five deviations.
    top = np.concatenate(masked) >> np.uint64(63)
    assert abs(top.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(top))
    assert unlisted(grid) == set()
    # One who leaves alone is asked for its own sums, and for nothing else.
    far.remove([2])
    assert [kind for kind, *_ in replies(grid)].count("query.sums") == 1


def test_a_site_that_fails_under_masks_leaves_nothing_half_done(schema, grid, folders):
    leader, _ = led(schema, grid, masked=True)
    target = list(grid.nodes)[3]
    grid.spoil = lambda node, reply: None if node == target else reply
    before = leader.theta
    with pytest.raises(InputError, match="site 3 did not answer"):
        leader.change({2: 1.0})
    np.testing.assert_array_equal(leader.theta, before)
    grid.spoil = lambda node, reply: reply
    # The question that broke off is not asked again under its number; the next one is answered.
    assert leader.resume().sites == (2,)
    with SiteStore(folders[2]).transaction() as site:
        assert [line.operation for line in site.ledger] == ["train", "change"]
    # A node that was started anew has no keys; the next run begins with new ones.
    grid.states[target].clear()
    with pytest.raises(InputError, match="site 3: this site has no key"):
        leader.parties.sums(leader.theta)
    members = dict(enumerate(grid.nodes))
    again = DeployedParties(grid, schema, members, state=leader.state, masked=True)
    assert list(again.sums(leader.theta)) == [TOGETHER]


@pytest.fixture(scope="module")
def wide():
    """A contract with thirty numbers in the model, and two sites of 150 records."""
    columns = tuple(DeclaredColumn(f"x{j}", encoding="number") for j in range(29))
    label = DeclaredColumn("y", ("no", "yes"))
    schema = FederationSchema(columns, label, ("y",))
    rng = np.random.default_rng(5)
    weights, records = rng.normal(size=29) / 4, []
    for _ in range(2):
        X = rng.normal(size=(150, 29))
        y = (X @ weights + rng.logistic(size=150) > 0).astype(np.int64)
        records.append(Records(y[:, None], X))
    return schema, records


def test_a_hundred_encrypted_scores_of_thirty_numbers_are_the_plain_ones(wide, tmp_path):
    schema, records = wide
    folders = []
    sites = [Site(i, schema, r, epsilon=3.0, seed=3) for i, r in enumerate(records)]
    for site, own in zip(sites, records, strict=True):
        place = tmp_path / f"site-{site.number}"
        place.mkdir()
        table_of(schema, own).to_parquet(place / "raw.parquet")
        create_site_store(place, site, RawFile.at(place / "raw.parquet"))
        AnswerLimits(limit=100).write(place)
        folders.append(place)
    grid = FakeGrid(folders)
    leader = Coordinator(schema, GridParties(grid, schema, n_sites=2), regularisation=1e-2)
    leader.train()
    exchange = GridExchange(leader.parties)
    found = value(leader, exchange, provider=0, tester=1)
    model = model_for_provider(leader.present())
    data = [(schema.design(s.in_use).block(slice(None)), schema.labels(s.in_use)) for s in sites]
    stick = Yardstick.of(model.for_tester(), *data[1], schema.loss)
    moves = item_moves(model, data[0][0][:100], data[0][1][:100], schema.loss, change="remove")
    plain = stick.worth(moves, change="remove")
    assert (found.n_items, found.change, found.n_parameters) == (100, "remove", 30)
    # Error of CKKS and of rounding, of the largest score; then of each that is a hundredth of it.
    np.testing.assert_allclose(found.scores, plain, rtol=0, atol=2e-7 * np.abs(plain).max())
    large = np.abs(plain) > 0.01 * np.abs(plain).max()
    assert large.sum() > 25
    np.testing.assert_allclose(found.scores[large], plain[large], rtol=1e-4)
    assert found.messages == 6
    assert 1e6 < found.bytes < 2e7
    sent = {kind: content for kind, _, content in replies(grid) if "value" in kind}
    assert not numbers_in(sent["query.value_question"]).keys() & {"scores", "move", "gradient"}
    assert set(sent["query.value_reply"]["arrays"]) == set()
    assert set(sent["query.value_scores"]["arrays"]) == {"scores"}
    assert unlisted(grid) == set()
    # The same exchange again is the same answer, counted once; another one is refused.
    again = value(leader, exchange, provider=0, tester=1)
    np.testing.assert_array_equal(again.scores, found.scores)
    (folders[1] / "value.key").unlink()
    with pytest.raises(InputError, match="site 0 answers a tester once for each version"):
        value(leader, exchange, provider=0, tester=1)
    operations = [line.operation for line in leader.parties.ledger()]
    assert operations == ["train", "value", "train", "value"]
    assert {line.total_epsilon for line in leader.parties.ledger()} == {3.0}


def test_an_offer_is_valued_accepted_and_takes_part_from_then_on(schema, grid, folders):
    leader, exchange = led(schema, grid)
    n = sum(leader.parties.records().values())
    found = value(leader, exchange, provider=0, tester=2, mode="batch", accept=True)
    near = Coordinator(schema, LocalParties(make_sites(schema, offer=40)), regularisation=1e-2)
    near.train()
    with local_exchange(near.parties) as twin:
        same = value(near, twin, provider=0, tester=2, mode="batch", accept=True)
    np.testing.assert_array_equal(found.scores, same.scores)
    assert (found.accepted, found.change, found.mode) == (same.accepted, "add", "batch")
    assert found.accepted == 1
    assert leader.parties.records() == near.parties.records()
    assert sum(leader.parties.records().values()) == n + 40
    np.testing.assert_allclose(leader.theta, near.theta, rtol=0, atol=1e-12)
    assert leader.versions[-1].operation == "accept"
    assert unlisted(grid) == set()
    # One Newton step from the optimum: training again with the new records is close by.
    step = leader.versions[-1].distance_to_previous
    before = leader.theta
    assert np.linalg.norm(leader.train().theta - before) < 0.2 * step
    with pytest.raises(InputError, match="are in the model already"):
        value(leader, exchange, provider=0, tester=2, mode="batch", accept=True)


def test_a_coordinator_that_stops_while_it_accepts_goes_on(schema):
    kept = {}
    parties = LocalParties(make_sites(schema, offer=40))
    leader = Coordinator(schema, parties, keep=lambda state: kept.update(last=state))
    leader.train()
    settle, parties.settle = (
        parties.settle,
        lambda *a, **o: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        leader.accept(1)
    parties.settle = settle
    again = Coordinator(schema, parties, state=kept["last"])
    assert again.resume().operation == "accept"
    assert parties.records()[1] == 80
    assert again.resume() is None
    # A change that is prepared after a submission is what the next version is about.
    parties.sites[2].submit(again.theta)
    again.change({2: 1.0})
    assert parties.records()[2] == 60


def test_scores_are_counted_by_the_tester_and_end(schema, grid, folders):
    leader, exchange = led(schema, grid)
    first = value(leader, exchange, provider=1, tester=3, items=2)
    assert (first.n_items, first.change) == (2, "add")
    leader.change({4: 1.0})
    second = value(leader, exchange, provider=1, tester=3)
    assert second.n_items == 1  # three in all for seven numbers, whatever the version
    leader.change({4: 0.5})
    with pytest.raises(BudgetExceededError, match="site 1 has got all the scores"):
        value(leader, exchange, provider=1, tester=3)
    assert (folders[3] / "value.key").stat().st_mode & 0o077 == 0
    assert ValueService(folders[3])._log(schema).given_to("site 1") == 3


def test_a_deployed_coordinator_masks_values_and_accepts_from_its_store(schema, grid, tmp_path):
    store = create_coordinator_store(tmp_path / "leader", schema, regularisation=1e-2)
    for i, node in enumerate(grid.nodes):
        store.register(f"key of site {i}")
        store.note_node(i, node)
    OperationRunner(grid, store, secure_aggregation=True, everybody=True).train()
    assert set(store.load().sums) == {TOGETHER}
    target = next(iter(grid.nodes))
    lead = OperationRunner(grid, store, secure_aggregation=True)
    # The provider's word that it has the new version gets lost.
    grid.spoil = lambda node, reply: (
        None if node == target and grid.types[-1] == "query.settle" else reply
    )
    found = lead.value(0, 2, mode="batch", accept=True)
    assert found.accepted == store.load().versions[-1].version == 1
    assert [line.operation for line in store.load().ledger if line.site == 2] == ["train", "value"]
    grid.spoil = lambda node, reply: reply
    later = OperationRunner(grid, store, secure_aggregation=True)
    # Told again it changes nothing, and takes part with what was accepted.
    assert later.parties.records()[0] == SIZES[0]
    later.remove([4])
    assert sum(later.parties.records().values()) == sum(SIZES[:4]) - 3 * 40
    with pytest.raises(InputError, match="site 4 does not take part"):
        later.value(0, 4)


def test_records_are_valued_at_the_settled_model_only(schema, grid):
    leader, exchange = led(schema, grid)
    model = model_for_provider(leader.present())
    other = replace(model, theta=model.theta + 1e-9)
    for ask in (
        lambda: exchange.ask("move", 0, other),
        lambda: exchange.ask("question", 2, other.for_tester(), provider=0),
        lambda: exchange.ask(
            "score", 2, other.for_tester(), BatchMove(other.name, "add", other.scale), provider=0
        ),
        lambda: leader.parties.submission(other.theta, 0),
    ):
        with pytest.raises(InputError, match="asked about another model than that"):
            ask()
    # A version is settled once; a coordinator that settles the next one is counted, not believed.
    with pytest.raises(InputError, match="settled with other numbers"):
        leader.parties.settle([], other.theta, version=0)
    # The number of records is the coordinator's word: it makes no new question.
    question, _ = exchange.ask("question", 2, model.for_tester(), provider=0)
    first, _ = exchange.ask("reply", 0, model, question, tester=2, items=2)
    again, _ = exchange.ask("reply", 0, model, question, tester=4, items=9)
    assert again == first
    larger = replace(model, n_records=model.n_records + 1)
    question, _ = exchange.ask("question", 2, larger.for_tester(), provider=0)
    with pytest.raises(InputError, match="once for each version"):
        exchange.ask("reply", 0, larger, question, tester=2, items=2)


def test_testers_that_a_coordinator_invents_are_few_or_none(schema, grid, folders, tmp_path, capfd):
    leader, exchange = led(schema, grid)
    model = model_for_provider(leader.present())
    # Whatever the coordinator likes to know of every item, under a key of its own.
    stick = Yardstick(np.eye(7)[0], np.zeros((7, 7)), 1)

    def invented(k):
        book = AnswerBook(tmp_path / f"{k}.sqlite", n_parameters=7)
        told = model.for_tester()
        return ItemTester(told, stick, key_file=tmp_path / f"{k}.key", answers=book).question()

    for k in range(3):
        exchange.ask("reply", 0, model, invented(k), tester=10 + k, items=1)
    with pytest.raises(BudgetExceededError, match="be scored 3 times in all"):
        exchange.ask("reply", 0, model, invented(3), tester=13, items=1)
    with pytest.raises(InputError, match="no tester of its own"):
        exchange.ask("reply", 1, model, invented(0), tester=1, items=1)
    # The people at both sites read the same twenty digits, and may name them.
    known = ValueService(folders[2]).fingerprint()
    AnswerLimits(testers=(known.upper().replace("-", " "),)).write(folders[1])
    with pytest.raises(InputError, match="answers testers whose fingerprints it knows"):
        exchange.ask("reply", 1, model, invented(0), tester=2, items=1)
    capfd.readouterr()
    assert value(leader, exchange, provider=1, tester=2, items=1).n_items == 1
    assert f"Site 2 asks as tester {known}." in capfd.readouterr().err


def test_an_insisting_site_scores_its_records_for_keys_that_it_was_told_only(schema, grid, folders):
    leader, exchange = led(schema, grid, masked=True)
    with SiteStore(folders[0]).transaction() as site:
        site.insist_on_masks()
    with pytest.raises(InputError, match=r"site 0 insists on masks.*--tester-key"):
        value(leader, exchange, provider=0, tester=2, items=3)
    keep_limits(folders[0], limit=None, testers=[ValueService(folders[2]).fingerprint()])
    assert value(leader, exchange, provider=0, tester=2, items=3).n_items == 3
    replace(AnswerLimits.read(folders[1]), replies=0).write(folders[1])
    with pytest.raises(BudgetExceededError, match="scored 0 times in all"):
        value(leader, exchange, provider=1, tester=3, items=3)


def test_a_valuation_names_the_version_of_the_model_and_not_a_preview(offering, tmp_path, schema):
    there = copied(offering, tmp_path / "world", schema)
    there.ask(2, 1.0)
    there.apply(preview=True)
    assert there.lead().value(1, 3, mode="batch").version == there.site(1).state.version


def test_a_batch_is_told_to_nobody_if_its_tester_answers_no_more(offering, tmp_path, schema):
    there = copied(offering, tmp_path / "world", schema)
    there.lead().value(1, 3, mode="items")
    there.grid.types.clear()
    with pytest.raises(
        BudgetExceededError, match=r"site 3 has given all .* `epsilens federate site --score-l"
    ):
        there.lead().value(1, 3, mode="batch")
    assert "query.value_move" not in there.grid.types


def test_an_insisting_provider_is_asked_for_nothing_that_it_would_refuse(
    offering, tmp_path, schema
):
    there = copied(offering, tmp_path / "world", schema)
    with SiteStore(there.folders[1]).transaction() as site:
        site.insist_on_masks()
    for options in ({"accept": True}, {"mode": "batch"}):
        there.grid.types.clear()
        with pytest.raises(InputError, match=r"site 1 insists on masks.*`--no-insist-on-masks`"):
            there.lead(secure_aggregation=True).value(1, 3, **options)
        assert set(there.grid.types) == {"query.hello"}


def test_every_move_of_the_same_batch_needs_more_records(schema, tmp_path):
    # P4's bound for seven numbers is eight records; a second model makes seven equations more.
    grid = FakeGrid(site_folders(schema, tmp_path, offer=8))
    leader, exchange = led(schema, grid)
    model = model_for_provider(leader.present())
    move = exchange.ask("move", 0, model)
    np.testing.assert_array_equal(exchange.ask("move", 0, model).move, move.move)
    assert [e.operation for e in leader.parties.ledger() if e.site == 0] == ["train", "value"]
    leader.change({4: 1.0})
    with pytest.raises(InputError, match=r"at least 9 records .* asked about so often, got 8"):
        exchange.ask("move", 0, model_for_provider(leader.present()))
    # The offer can still be accepted, once: at another version its sums would be as many again.
    leader.parties.submission(leader.theta, 0)
    leader.change({4: 0.5})
    with pytest.raises(InputError, match=r"at least 15 records"):
        leader.parties.submission(leader.theta, 0)


def test_a_site_that_stops_between_its_notes_has_counted(schema, grid, folders, monkeypatch):
    leader, exchange = led(schema, grid)
    note, stops = Site.note_value, iter([True, False, True])

    def dies(site):
        if next(stops, False):
            raise KeyboardInterrupt
        note(site)

    monkeypatch.setattr(Site, "note_value", dies)
    for _ in range(2):  # the provider stops, then the tester
        with pytest.raises(KeyboardInterrupt):
            value(leader, exchange, provider=1, tester=3, items=2)
    # What was told is on the disk before the ledger is; taken up again it is told and counted once.
    assert ValueService(folders[3])._log(schema).given_to("site 1") == 2
    found = value(leader, exchange, provider=1, tester=3, items=2)
    assert found.n_items == 2
    assert ValueService(folders[3])._log(schema).given_to("site 1") == 2
    for site in (1, 3):
        with SiteStore(folders[site]).transaction() as kept:
            assert [line.operation for line in kept.ledger] == ["train", "value"]


def test_a_limit_that_is_typed_leaves_the_others_as_they_are(tmp_path):
    AnswerLimits(limit_in_all=50, noise=0.5, replies=4).write(tmp_path)
    keep_limits(tmp_path, limit=40, testers=None)
    keep_limits(tmp_path, limit=None, testers=["0123456789abcdef0123"])
    assert AnswerLimits.read(tmp_path) == AnswerLimits(
        40, 50, 0.5, 4, ("0123-4567-89ab-cdef-0123",)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]
    assert (tmp_path / "value.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InputError, match="must be 20 hexadecimal digits"):
        keep_limits(tmp_path, limit=None, testers=["abc"])
    (tmp_path / "value.json").write_text('{"limits": 3}')
    with pytest.raises(InputError, match="must hold limit, limit_in_all"):
        AnswerLimits.read(tmp_path)


def test_a_valuation_names_its_version_and_refuses_before_a_score_is_spent(schema):
    parties = LocalParties(make_sites(schema))
    Coordinator(schema, parties).train()
    later = Coordinator(
        schema, parties
    )  # its store was lost: versions go on from what the sites have
    assert later.train().version == 1
    with local_exchange(parties) as exchange:
        left = exchange.ask("left", 2, provider=0)
        with pytest.raises(InputError, match="are in the model already"):
            value(later, exchange, provider=0, tester=2, mode="batch", accept=True)
        assert exchange.ask("left", 2, provider=0) == left
        assert value(later, exchange, provider=0, tester=2, mode="batch").version == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"provider": 1, "tester": 1}, "provider and tester must be two sites"),
        ({"provider": 9, "tester": 1}, "site 9 does not take part"),
        ({"provider": 1, "tester": 0, "mode": "batch"}, "a batch must have at least 8 records"),
        ({"provider": 1, "tester": 0, "items": 0}, "`items` must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_valued_is_refused(schema, options, words):
    leader = Coordinator(schema, LocalParties(make_sites(schema, offer=5)))
    leader.train()
    with local_exchange(leader.parties) as exchange, pytest.raises(InputError, match=words):
        value(leader, exchange, **options)


def test_a_planned_valuation_survives_being_written_down():
    planned = PlannedOperation("value", sites=(0, 2), value_mode="batch", items=3, accept=True)
    assert PlannedOperation.from_dict(planned.to_dict()) == planned

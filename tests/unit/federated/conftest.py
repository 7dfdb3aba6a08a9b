# SPDX-License-Identifier: Apache-2.0
"""Five sites with one-label shards, as P2 splits them, and a small contract."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epsilens.federated import (
    Coordinator,
    DeclaredColumn,
    FederationSchema,
    LocalParties,
    RawFile,
    Records,
    Site,
    SiteStore,
    create_site_store,
)
from epsilens.federated.coordinator_store import CoordinatorStore, create_coordinator_store

SIZES = (120, 80, 100, 60, 90)


def contract(n_labels: int = 2, *, intercept: bool = True) -> FederationSchema:
    return FederationSchema(
        columns=(
            DeclaredColumn("sex", ("f", "m")),
            DeclaredColumn("region", ("n", "e", "s", "w")),
            DeclaredColumn("age", encoding="number", centre=40.0, scale=10.0),
            DeclaredColumn("class", ("low", "mid", "high"), "code", centre=1.0),
        ),
        label=DeclaredColumn("smokes", tuple(f"answer {k}" for k in range(n_labels))),
        protected=("smokes", "region"),
        intercept=intercept,
    )


def truth(schema: FederationSchema, n: int, seed: int) -> Records:
    """Records whose label follows the features, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    features = np.column_stack(
        [rng.integers(0, 2, n), rng.integers(0, 4, n), rng.integers(0, 3, n)]
    )
    age = rng.normal(40, 10, n)
    k = schema.label.size
    scores = np.column_stack(
        [0.8 * c * (features[:, 0] + (age - 40) / 10 - features[:, 1] / 2) for c in range(k)]
    )
    label = (scores + rng.gumbel(size=(n, k))).argmax(axis=1)
    return Records(np.column_stack([features, label]).astype(np.int64), age[:, None])


def make_sites(schema: FederationSchema, *, epsilon: float = 3.0, **options: object) -> list[Site]:
    return [
        Site(i, schema, truth(schema, n, seed=10 + i), epsilon=epsilon, seed=7, **options)
        for i, n in enumerate(SIZES)
    ]


@pytest.fixture(scope="session")
def schema() -> FederationSchema:
    return contract()


@pytest.fixture
def sites(schema: FederationSchema) -> list[Site]:
    return make_sites(schema)


@pytest.fixture
def coordinator(schema: FederationSchema, sites: list[Site]) -> Coordinator:
    test = truth(schema, 400, seed=99)
    leader = Coordinator(schema, LocalParties(sites), regularisation=1e-2, test=test)
    leader.train()
    return leader


def table_of(schema: FederationSchema, records: Records) -> pd.DataFrame:
    """Return records as the table that a site would have."""
    columns: dict[str, np.ndarray] = {}
    coded = numeric = 0
    for column in (*schema.columns, schema.label):
        if column.categories is None:
            columns[column.name] = records.numbers[:, numeric]
            numeric += 1
        else:
            columns[column.name] = np.array(column.categories)[records.codes[:, coded]]
            coded += 1
    return pd.DataFrame(columns)


def site_folders(schema: FederationSchema, folder: Path, **options: object) -> list[Path]:
    """Make five sites, each with a folder and a file of its own."""
    found = []
    for site in make_sites(schema, **options):
        place = folder / f"site-{site.number}"
        place.mkdir(parents=True)
        raw = place / "raw.parquet"
        table_of(schema, truth(schema, SIZES[site.number], seed=10 + site.number)).to_parquet(raw)
        create_site_store(place, site, RawFile.at(raw))
        found.append(place)
    return found


class FakeGrid:
    """Delivers each message to the real ClientApp of its site, in this process."""

    def __init__(self, folders, **node_config):
        # Flower's ids are random and in no order.
        self.nodes = {1000 - 7 * i: folder for i, folder in enumerate(folders)}
        self.spoil = lambda node, reply: reply
        self.types = []
        self.record = []
        """Every message and every reply: type, sender, content."""
        self._node_config = node_config
        self.states = {}
        """What each node keeps during the run."""

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout=None):
        from flwr.app import Context, RecordDict

        from epsilens.federated.flower.client_app import app

        assert timeout is not None
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            kind = message.metadata.message_type
            self.types.append(kind)
            self.record.append((kind, "coordinator", message.content))
            config = {"state": str(self.nodes[node]), **self._node_config}
            state = self.states.setdefault(node, RecordDict())
            reply = app(message, Context(1, node, config, state, {}))
            reply.metadata.__dict__["_src_node_id"] = node
            self.record.append((kind, "site", reply.content))
            spoilt = self.spoil(node, reply)
            replies += [] if spoilt is None else [spoilt]
        return reversed(replies)


def let_messages_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process create messages, as Flower lets its own."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


class Killed(BaseException):
    """Stands for the end of a process."""


class World:
    """A coordinator and five sites, in folders."""

    def __init__(self, folder, schema, **options):
        self.folder = folder
        self.folders = site_folders(schema, folder, **options)
        self.grid = FakeGrid(self.folders, **{"only-asked": True})
        store = create_coordinator_store(folder / "coordinator", schema, regularisation=1e-2)
        for site, node in enumerate(self.grid.nodes):
            store.register(f"key {site}")
            store.note_node(site, node)

    @property
    def store(self):
        return CoordinatorStore(self.folder / "coordinator")

    def lead(self, **options):
        from epsilens.federated.flower.operations import OperationRunner

        return OperationRunner(self.grid, self.store, timeout=7.0, patience=0.0, **options)

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


@pytest.fixture(scope="session")
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
    world.grid = FakeGrid(world.folders, **{"only-asked": True})
    return world


@pytest.fixture
def world(prepared, tmp_path, schema):
    """Five sites that have trained."""
    return copied(prepared, tmp_path / "world", schema)


@pytest.fixture
def fresh(prepared, tmp_path, schema):
    """Five sites that have not."""
    return copied(prepared.with_name("new"), tmp_path / "fresh", schema)


@pytest.fixture(scope="module")
def offering(tmp_path_factory, schema):
    """A world whose sites have records on offer."""
    folder = tmp_path_factory.mktemp("offering")
    with pytest.MonkeyPatch.context() as patch:
        let_messages_be_made(patch)
        World(folder, schema, offer=40).train()
    return folder


def numbers(state):
    """What must not depend on interruptions: every version and the ledger."""
    versions = [(v.operation, v.sites, v.model_budgets, v.theta.tolist()) for v in state.versions]
    return versions, state.ledger, state.left

# SPDX-License-Identifier: Apache-2.0
"""Every message of every operation, recorded and compared with the page that lists them."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "who-sees-what.md"
HEAD = {"protocol", "contract"}


def helpers():
    """The fake grid and the sites of the unit tests."""
    path = ROOT / "tests" / "unit" / "federated" / "conftest.py"
    spec = importlib.util.spec_from_file_location("federated_conftest", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def listed(p):
    """The page's table: for each message and sender, its settings and the sizes of its arrays."""
    sizes = {"p": p, "p(p+1)/2": p * (p + 1) // 2}
    found = {}
    text = PAGE.read_text(encoding="utf-8").split("## The operations")[0]
    for kind, sender, settings, arrays in re.findall(
        r"^\| (`\w+`|any) \| ([^|]+) \| ([^|]*) ?\| ([^|]*) ?\|$", text, flags=re.MULTILINE
    ):
        named = {
            name: sizes[size] for name, size in re.findall(r"`(\w+)`: ([^,]+?)(?:,|\s|$)", arrays)
        }
        found[kind.strip("`"), sender.strip()] = set(re.findall(r"`(\w+)`", settings)), named
    return found


def listed_apart():
    """The page's second table, of masks and valuations: the fields of each message, and its bytes."""
    text = PAGE.read_text(encoding="utf-8").split("### Under masks")[1].split("## The op")[0]
    rows = re.findall(
        r"^\| `(\w+)` \| (coordinator|site) \| ([^|]+) \| ([^|]+) \|", text, flags=re.MULTILINE
    )
    found = {
        (kind, sender): (set(re.findall(r"`([^`]+)`", fields)), size.strip())
        for kind, sender, fields, size in rows
    }
    # What another site has sent is handed on.
    for kind, source in (("value_reply", "value_question"), ("value_scores", "value_reply")):
        sent = found[source, "site"][0] - {"left", "change", "ledger"}
        found[kind, "coordinator"][0].update(sent)
    return found


def formula(text, p):
    """The number of bytes that a cell of the table says, or None if it is no formula in p."""
    if not re.fullmatch(r"[\dp()+/ ]+", text):
        return None
    return eval(re.sub(r"(?<=[\dp)])(?=[p(])", "*", text), {"p": p})


def weight(content):
    """Bytes of arrays, keys and ciphertexts; of the text if there is nothing else."""
    settings = [v for k, v in content["settings"].items() if k not in HEAD]
    heavy = sum(array.numpy().nbytes for array in content["arrays"].values())
    heavy += sum(len(value) for value in settings if isinstance(value, bytes))
    return heavy or sum(len(value) for value in settings if isinstance(value, str))


class Federation:
    """Five sites and a coordinator in folders, and all that passes between them."""

    def __init__(self, folder, monkeypatch, **options):
        from epsilens.federated.coordinator_store import create_coordinator_store
        from epsilens.federated.flower.client_app import ONLY_ASKED

        conftest = helpers()
        conftest.let_messages_be_made(monkeypatch)
        self.schema = conftest.contract()
        self.folders = conftest.site_folders(self.schema, folder, **options)
        self.grid = conftest.FakeGrid(self.folders, **{ONLY_ASKED: True})
        self.store = create_coordinator_store(
            folder / "coordinator", self.schema, regularisation=1e-2
        )
        for site, node in enumerate(self.grid.nodes):
            self.store.register(f"key {site}")
            self.store.note_node(site, node)

    def lead(self, **options):
        from epsilens.federated.flower.operations import OperationRunner

        return OperationRunner(self.grid, self.store, patience=0.0, **options)

    def ask(self, number, epsilon):
        from epsilens.federated import SiteStore

        with SiteStore(self.folders[number]).transaction() as site:
            site.ask_for(epsilon)


def test_nothing_that_is_not_listed_crosses_the_wire(tmp_path, monkeypatch):
    from epsilens.errors import InputError

    there = Federation(tmp_path, monkeypatch)
    lead, grid = there.lead, there.grid
    lead(everybody=True).coordinator.train(algorithm="fedavg", rounds=2)
    lead(everybody=True).train()
    for epsilon, rung in ((2.0, "one-message"), (1.0, "newton"), (0.5, "exact")):
        there.ask(2, epsilon)
        lead().apply(rung=rung, preview=True)
        lead().apply(rung=rung)
    with pytest.raises(InputError):
        lead().coordinator.change({1: 1.0})
    before = grid.types.count("query.sums")
    lead().remove([4])  # the sums are here since the exact rounds: the second question alone
    assert grid.types.count("query.sums") == before + 4
    lead().remove([3], rung="exact")

    table = listed(there.schema.n_parameters)
    used = set()
    for message, sender, content in grid.record:
        kind = message.removeprefix("query.")
        settings = set(content["settings"]) - HEAD
        refused = sender == "site" and "refused" in settings
        key = ("any", "site, refusing") if refused else (kind, sender)
        assert key in table, f"{key} is not listed"
        used.add(key)
        names, sizes = table[key]
        assert settings == names, key
        assert set(content) == {"settings", "arrays"}
        for name, array in content["arrays"].items():
            assert array.numpy().size == sizes[name], (key, name)
    assert used == set(table), "listed, but never sent"
    assert len(grid.record) == 2 * len(grid.types) > 200


def test_nothing_else_crosses_the_wire_under_masks_and_in_valuations(tmp_path, monkeypatch):
    pytest.importorskip("tenseal")
    there = Federation(tmp_path, monkeypatch, offer=40)
    there.lead(everybody=True, secure_aggregation=True).train()
    there.ask(1, 2.0)
    there.ask(2, 1.0)
    there.lead().apply(rung="newton")
    there.lead().remove([4])
    there.lead().value(0, 2, items=3)
    there.lead().value(0, 3, mode="batch")
    there.lead().coordinator.accept(0)

    p, table = there.schema.n_parameters, listed_apart()
    plain, used, heaviest = listed(p), set(), {}
    for message, sender, content in there.grid.record:
        kind = message.removeprefix("query.")
        fields = {*content["settings"], *content["arrays"]} - HEAD
        if (kind, sender) not in table:
            settings, arrays = plain[kind, sender]
            assert fields == {*settings, *arrays}, (kind, sender)
            continue
        used.add((kind, sender))
        fields = {re.sub(r"-\d+$", "-*", field) for field in fields}
        assert fields == table[kind, sender][0], (kind, sender)
        heaviest[kind, sender] = max(heaviest.get((kind, sender), 0), weight(content))
    assert used == set(table), "listed, but never sent"
    sizes = {key: formula(size, p) for key, (_, size) in table.items()}
    assert {key: heaviest[key] for key, size in sizes.items() if size} == {
        key: size for key, size in sizes.items() if size
    }
    assert sum(size is not None for size in sizes.values()) > 8
    # One who leaves alone is asked for its own sums, and nobody else is.
    assert there.grid.types.count("query.sums") == 1

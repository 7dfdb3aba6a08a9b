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


def test_nothing_that_is_not_listed_crosses_the_wire(tmp_path, monkeypatch):
    from epsilens.errors import InputError
    from epsilens.federated import SiteStore
    from epsilens.federated.coordinator_store import create_coordinator_store
    from epsilens.federated.flower.client_app import ONLY_ASKED
    from epsilens.federated.flower.operations import Lead

    conftest = helpers()
    conftest.let_messages_be_made(monkeypatch)
    schema = conftest.contract()
    folders = conftest.site_folders(schema, tmp_path)
    grid = conftest.FakeGrid(folders, **{ONLY_ASKED: True})
    store = create_coordinator_store(tmp_path / "coordinator", schema, regularisation=1e-2)
    for site, node in enumerate(grid.nodes):
        store.register(f"key {site}")
        store.note_node(site, node)

    def lead(**options):
        return Lead(grid, store, patience=0.0, **options)

    lead(everybody=True).coordinator.train(algorithm="fedavg", rounds=2)
    lead(everybody=True).train()
    for epsilon, rung in ((2.0, "one-message"), (1.0, "newton"), (0.5, "exact")):
        with SiteStore(folders[2]).transaction() as site:
            site.ask_for(epsilon)
        lead().apply(rung=rung, preview=True)
        lead().apply(rung=rung)
    with pytest.raises(InputError):
        lead().coordinator.change({1: 1.0})
    lead().remove([4])
    lead().remove([3], rung="exact")

    table = listed(schema.n_parameters)
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

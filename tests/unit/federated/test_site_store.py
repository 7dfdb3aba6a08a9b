# SPDX-License-Identifier: Apache-2.0
"""A site's folder: exact, killed at any point either old or new, and closed to others."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from epsilens.channels import Budget
from epsilens.errors import InputError
from epsilens.federated import Site, Wish
from epsilens.federated.site_store import RawFile, SiteStore, create_site_store, open_site

from .conftest import contract, table_of, truth

ONE = Wish(Budget({"smokes": 1.0, "region": 2.0}))


def written(schema):
    """Records whose numbers are few digits, which every pandas reads back from a file as they were."""
    records = truth(schema, 40, seed=1)
    return replace(records, numbers=records.numbers.round(2))


@pytest.fixture
def store(schema, tmp_path):
    records = written(schema)
    table_of(schema, records).to_csv(tmp_path / "raw.csv", index=False)
    site = Site(3, schema, records, epsilon=3.0, limit=40.0, seed=7)
    return create_site_store(tmp_path / "site", site, RawFile.at(tmp_path / "raw.csv"))


def state_of(store):
    with store.transaction() as site:
        return site.state


def assert_same(a, b):
    """Compare two states, or two parts of them, number by number."""
    if hasattr(a, "codes"):
        assert a.codes.dtype == b.codes.dtype == np.int64
        np.testing.assert_array_equal(a.codes, b.codes)
        np.testing.assert_array_equal(a.numbers, b.numbers)
    elif hasattr(a, "__dataclass_fields__"):
        for field in fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    else:
        assert a == b


def test_what_is_kept_comes_back_exactly(store):
    twin = Site.restore(store.schema, written(store.schema), state_of(store))
    looser = Wish(Budget({"smokes": 5.0, "region": 0.7}), "redraw")
    printed = Wish(Budget({"smokes": 0.5, "region": 0.5}), "as_printed")
    steps = [
        lambda site: site.ask_for(ONE.budget),
        lambda site: site.prepare(ONE, preview=True),
        lambda site: site.end_preview(),
        lambda site: site.prepare(ONE),
        lambda site: site.settle(1),
        lambda site: site.prepare(looser),  # reads the raw file
        lambda site: site.settle(2),
        lambda site: site.ask_for(printed.budget, mode="as_printed", not_private=True),
        lambda site: site.prepare(printed),
    ]
    for step in steps:
        with store.transaction() as site:
            step(site)
        step(twin)
        assert_same(state_of(SiteStore(store.folder)), twin.state)
    assert twin.total_epsilon == math.inf
    assert open_site(store.folder, store.schema).ledger == twin.ledger


def test_an_error_undoes_the_whole_operation(store):
    before = state_of(store)

    def interrupted():
        with store.transaction() as site:
            site.prepare(ONE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert_same(state_of(store), before)


def test_killed_within_an_operation_the_old_state_is_there(store):
    program = (
        "import sys, time\n"
        "from epsilens.channels import Budget\n"
        "from epsilens.federated import Wish\n"
        "from epsilens.federated.site_store import SiteStore, _save\n"
        "store = SiteStore(sys.argv[1])\n"
        "with store._store.connected() as connection:\n"
        "    connection.execute('BEGIN IMMEDIATE')\n"
        "    site = store._load(connection)\n"
        "    before = site.state\n"
        "    site.prepare(Wish(Budget({'smokes': 1.0, 'region': 2.0})))\n"
        "    _save(connection, site.state, before=before)\n"  # all is written but the commit
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    before = state_of(store)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(store.folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert_same(state_of(SiteStore(store.folder)), before)
    with store.transaction() as site:
        site.prepare(ONE)
    assert len(state_of(store).ledger) == len(before.ledger) + 1


def test_only_its_owner_can_read_it(store):
    with store.transaction() as site:
        site.prepare(ONE)
        assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
        names = os.listdir(store.folder)
        assert "site.sqlite" in names
        for name in names:  # the write-ahead log too
            assert stat.S_IMODE((store.folder / name).stat().st_mode) == 0o600


def test_noise_is_added_without_the_raw_file_and_a_changed_file_is_noticed(store):
    raw = store.folder.parent / "raw.csv"
    raw.write_text(raw.read_text() + "\n")
    with store.transaction() as site:
        site.prepare(ONE)
        site.settle(1)
    redraw = Wish(Budget({"smokes": 0.5, "region": 0.5}), "redraw")
    with pytest.raises(InputError, match="data file was changed"), store.transaction() as site:
        site.prepare(redraw)
    raw.unlink()
    with pytest.raises(InputError, match="file that can be read"), store.transaction() as site:
        site.prepare(redraw)


def test_what_is_no_store_of_ours_is_refused(store, schema, tmp_path):
    with pytest.raises(InputError, match="has a site already"):
        create_site_store(
            store.folder, Site(0, schema, truth(schema, 5, 1), epsilon=1.0), store.raw_file
        )
    with pytest.raises(InputError, match="holds none"):
        SiteStore(tmp_path / "nowhere")
    with pytest.raises(InputError, match="another contract"):
        open_site(store.folder, contract(3))
    for statement, words in (
        ("UPDATE site SET schema_version = 99", "has version 99, and this epsilens reads 1"),
        ("UPDATE site SET schema_version = 1, fingerprint = 'x'", "not the one that it was"),
        ("UPDATE site SET raw_file = '{'", "incomplete or damaged"),
        ("UPDATE site SET contract = '{'", "incomplete or damaged"),
        ("DELETE FROM site", "incomplete or damaged"),
    ):
        with sqlite3.connect(store.folder / "site.sqlite") as connection:
            connection.execute(statement)
        connection.close()
        with pytest.raises(InputError, match=words):
            SiteStore(store.folder)
    (store.folder / "site.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(InputError, match="damaged"):
        SiteStore(store.folder)

# SPDX-License-Identifier: Apache-2.0
"""A site's note of what it was told and has told: in a file that stays, and closed to others."""

from __future__ import annotations

import sqlite3
import stat

import numpy as np
import pytest

from epsilens.errors import InputError
from epsilens.federated.site_logs import ProviderLog, theta_name


def test_what_was_told_is_there_after_a_restart_and_told_again(tmp_path):
    file = tmp_path / "provider.sqlite"
    ProviderLog(file).settle(0, np.zeros(2))
    ProviderLog(file).settle(1, np.ones(2))
    ProviderLog(file).tell("items", "a model", b"a reply", asker="a key", called="site 3")
    log = ProviderLog(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert log.settled() == (1, theta_name(np.ones(2)))
    for who in ({"asker": "a key"}, {"called": "site 3"}):  # under another name, or another key
        assert log.told("items", "a model", **who) == b"a reply"
    assert log.told("items", "another model", asker="a key") is None
    assert (log.count("items"), log.count("items", "batch"), log.count("batch")) == (1, 1, 0)


def test_a_note_whose_making_was_stopped_is_made_later(tmp_path):
    connection = sqlite3.connect(tmp_path / "provider.sqlite")
    connection.execute("PRAGMA journal_mode = WAL")  # from here on the file is no longer empty
    connection.close()
    log = ProviderLog(tmp_path / "provider.sqlite")
    assert log.settled() is None
    log.settle(0, np.zeros(2))
    assert log.settled() == (0, theta_name(np.zeros(2)))


def test_a_file_that_is_no_note_is_said(tmp_path):
    (tmp_path / "provider.sqlite").write_text("Dear hospital, " * 500)
    with pytest.raises(InputError, match="note of what it has told of its records cannot be read"):
        ProviderLog(tmp_path / "provider.sqlite").settled()

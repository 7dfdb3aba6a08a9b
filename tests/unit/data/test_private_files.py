# SPDX-License-Identifier: Apache-2.0
"""Files for their owner's eyes: closed to others, whole, and killed at any statement either old or new."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys

import pytest

from epsilens.data.private_files import PrivateStore, make_private_folder, write_private
from epsilens.errors import InputError

TABLES = ("CREATE TABLE IF NOT EXISTS note (text TEXT)",)


def store_at(file, *, tables=TABLES):
    return PrivateStore(
        file, whose="the site", damaged="it is damaged.", busy="it is busy.", tables=tables
    )


def test_what_is_written_is_whole_and_for_its_owner(tmp_path):
    folder = tmp_path / "a" / "b"
    make_private_folder(folder)
    for content in (b"old", b"new"):
        write_private(folder / "key", content)
        assert (folder / "key").read_bytes() == content
    assert [path.name for path in folder.iterdir()] == ["key"]
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_store_is_made_once_and_never_anew_without_a_word(tmp_path):
    store = store_at(tmp_path / "notes #1?.sqlite")
    with store.transaction() as notes:
        notes.execute("INSERT INTO note VALUES ('one')")
        for path in tmp_path.iterdir():  # the write-ahead log too
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with store_at(store.file).transaction() as notes:
        assert notes.execute("SELECT COUNT(*) FROM note").fetchone()[0] == 1
        assert notes.execute("PRAGMA secure_delete").fetchone()[0] == 1
    store.file.unlink()
    words = "the site's store must be a file that can be written, but .* cannot: SQLITE_CANTOPEN"
    for gone in (store, store_at(store.file, tables=())):
        with pytest.raises(InputError, match=words), gone.transaction():
            pass
    assert not store.file.exists()


def test_what_cannot_be_opened_is_said_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "letter").write_text("Dear hospital, " * 500)
    with (
        pytest.raises(InputError, match=r"^it is damaged\.$"),
        store_at(tmp_path / "letter").transaction(),
    ):
        pass
    with (
        pytest.raises(InputError, match="'a' cannot: FileNotFoundError"),
        store_at(tmp_path / "nowhere" / "a").transaction(),
    ):
        pass
    monkeypatch.setattr("epsilens.data.private_files.SECONDS_TO_WAIT", 0.01)
    store = store_at(tmp_path / "notes")
    with (
        store.transaction(),
        pytest.raises(InputError, match=r"^it is busy\.$"),
        store.transaction(),
    ):
        pass


def test_an_error_undoes_the_whole_operation(tmp_path):
    store = store_at(tmp_path / "notes")

    def interrupted():
        with store.transaction() as notes:
            notes.execute("INSERT INTO note VALUES ('one')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    with store.transaction() as notes:
        assert notes.execute("SELECT COUNT(*) FROM note").fetchone()[0] == 0


def test_a_full_disk_is_said_in_one_line_and_undoes_the_whole_operation(tmp_path):
    store = store_at(tmp_path / "notes")

    def filled():
        with store.transaction() as notes:
            notes.execute("PRAGMA max_page_count = 4")
            for _ in range(10):
                notes.execute("INSERT INTO note VALUES (?)", ("long " * 1000,))

    with pytest.raises(InputError, match=r"'notes' cannot: SQLITE_FULL\. Look at its folder"):
        filled()
    with store.transaction() as notes:
        assert notes.execute("SELECT COUNT(*) FROM note").fetchone()[0] == 0


def test_a_wrong_statement_is_not_blamed_on_the_disk(tmp_path):
    with (
        pytest.raises(sqlite3.OperationalError, match="no such table: nots"),
        store_at(tmp_path / "notes").transaction() as notes,
    ):
        notes.execute("SELECT * FROM nots")


def test_what_was_deleted_leaves_the_log_while_others_have_the_store_open(tmp_path):
    store = store_at(tmp_path / "notes")

    def stays():
        return any(b"told once" in path.read_bytes() for path in tmp_path.iterdir())

    with store.transaction() as notes:
        notes.execute("INSERT INTO note VALUES ('told once')")
    with store.connected() as other:
        other.execute("BEGIN")
        assert other.execute("SELECT COUNT(*) FROM note").fetchone()[0] == 1
        assert stays()
        with store.transaction() as notes:
            notes.execute("DELETE FROM note")
        # Who reads is not waited for, and sees what was there.
        assert other.execute("SELECT COUNT(*) FROM note").fetchone()[0] == 1
        other.execute("COMMIT")
        with store.transaction():
            pass
        assert not stays()
        with store.transaction() as notes:
            notes.execute("INSERT INTO note VALUES ('told once')")
        with store.transaction() as notes:
            notes.execute("DELETE FROM note")
        assert not stays()


def test_killed_at_any_statement_an_operation_is_done_or_not_begun(tmp_path):
    program = """
import os, signal, sqlite3, sys
from pathlib import Path
from epsilens.data.private_files import PrivateStore

opened = sqlite3.connect
def store_at(file):
    tables = "CREATE TABLE IF NOT EXISTS note (text TEXT)", "CREATE TABLE IF NOT EXISTS sum (n INTEGER)"
    return PrivateStore(file, whose="x", damaged="damaged", busy="busy", tables=tables)

for killed_at in range(1, 100):
    file = Path(sys.argv[1]) / f"{killed_at}.sqlite"
    child = os.fork()
    if child == 0:
        statements = []
        def count(text):
            statements.append(text)
            if len(statements) == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
        def traced(*arguments, **options):
            connection = opened(*arguments, **options)
            connection.set_trace_callback(count)
            return connection
        sqlite3.connect = traced
        with store_at(file).transaction() as store:
            store.execute("INSERT INTO note VALUES ('one')")
            store.execute("INSERT INTO sum VALUES (1)")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    with store_at(file).transaction() as store:
        print(*(store.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in ("note", "sum")))
    if not os.WIFSIGNALED(status):
        break
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = done.stdout.split("\n")[:-1]
    assert set(seen) == {"0 0", "1 1"}
    assert len(seen) > 8
    assert seen == sorted(seen)  # once done, always done


def test_a_store_whose_making_was_stopped_is_made_later(tmp_path):
    connection = sqlite3.connect(tmp_path / "notes")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert (tmp_path / "notes").stat().st_size  # no longer empty, and without any table
    with store_at(tmp_path / "notes").transaction() as notes:
        notes.execute("INSERT INTO note VALUES ('one')")

# SPDX-License-Identifier: Apache-2.0
"""The ledger of releases: what it recognises, adds up and refuses."""

from __future__ import annotations

import math
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epsilens.channels import Budget
from epsilens.channels.ledger import LEDGER_FILE, ReleaseLedger, column_digests
from epsilens.errors import BudgetExceededError

TABLE = pd.DataFrame(
    {
        "smokes": ["no", "yes", None, "no"],
        "children": [0, 2, 1, 1],
        "income": [1.5, 2.0, np.nan, 3.25],
        "country": ["DE"] * 4,
    }
)
ONE = Budget({"smokes": 1.0})


def test_a_column_is_known_in_every_type_and_without_the_others() -> None:
    known = column_digests(TABLE)
    assert len(set(known.values())) == 4
    others = TABLE.assign(
        smokes=TABLE["smokes"].astype("category"),
        children=TABLE["children"].astype("Int8"),
        income=["1.50", "2", None, "3.25"],
    )
    assert column_digests(others) == known
    for name in ("smokes", "children", "income"):
        assert column_digests(TABLE[[name]])[name] == known[name]
    # One answer for everybody is known only together with the rest.
    assert column_digests(TABLE[["country"]])["country"] != known["country"]
    changed = column_digests(TABLE.iloc[::-1])
    assert not set(changed.values()) & set(known.values())


def test_an_entry_has_no_answer_and_no_digest_that_could_be_compared(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    found = []
    for folder in folders:
        folder.mkdir()
        ReleaseLedger(folder).enter(column_digests(TABLE), ONE, output="may.csv")
        connection = sqlite3.connect(folder / LEDGER_FILE)
        found.append(connection.execute("SELECT answers FROM seen").fetchall())
        row = connection.execute("SELECT output, name, epsilon FROM spent").fetchall()
        assert row == [("may.csv", "smokes", 1.0)]
        connection.close()
    assert not set(found[0]) & set(found[1])
    assert not {digest for (digest,) in found[0]} & set(column_digests(TABLE).values())


def test_totals_by_column_and_by_record(tmp_path: Path) -> None:
    ledger, digests = ReleaseLedger(tmp_path), column_digests(TABLE)
    first = ledger.enter(digests, Budget({"smokes": 0.1, "children": 1.0}), output="a")
    assert (dict(first.epsilon), first.record_epsilon) == ({"smokes": 0.1, "children": 1.0}, 1.1)
    assert first.notes() == ()
    second = ledger.enter(digests, Budget({"smokes": 0.2}), output="b")
    assert (dict(second.epsilon), second.record_epsilon) == ({"smokes": 0.3}, 1.3)
    repeated, others = (note.text for note in second.notes())
    assert repeated.startswith("The answers of 'smokes' were released before.")
    assert others.endswith("a record has spent ε = 1.3.")
    other = ledger.enter(column_digests(TABLE.iloc[:3]), ONE, output="c")
    assert (dict(other.n_releases), other.record_epsilon) == ({"smokes": 1}, 1.0)
    open_one = ledger.enter(digests, Budget({"smokes": math.inf}), output="d")
    assert open_one.record_epsilon == math.inf
    assert open_one.notes()[0].text.endswith("add up to ε = inf.")


def test_a_copy_of_a_column_under_another_name_is_the_same_answers(tmp_path: Path) -> None:
    table = TABLE.assign(copy=TABLE["smokes"])
    budget = Budget({"smokes": 0.5, "copy": 0.5})
    found = ReleaseLedger(tmp_path).enter(column_digests(table), budget, output="a")
    assert found.epsilon == {"smokes": 1.0, "copy": 1.0}


def test_many_at_once_keep_the_limit(tmp_path: Path) -> None:
    digests = column_digests(TABLE)

    def attempt(number: int) -> bool:
        try:
            ReleaseLedger(tmp_path).enter(digests, ONE, output=str(number), limit=3.0)
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(attempt, range(6))) == 3


def test_a_question_makes_no_ledger_and_no_entry(tmp_path: Path) -> None:
    ledger, digests = ReleaseLedger(tmp_path), column_digests(TABLE)
    ledger.require(digests, ONE, limit=1.0)
    assert not list(tmp_path.iterdir())
    with pytest.raises(BudgetExceededError, match="they come to 1"):
        ledger.require(digests, ONE, limit=0.5)
    ledger.enter(digests, ONE, output="a")
    for _ in range(2):
        ledger.require(digests, ONE, limit=2.0)
    with pytest.raises(BudgetExceededError, match=r"total of ε = 1.5, but .* they come to 2"):
        ledger.require(digests, ONE, limit=1.5)

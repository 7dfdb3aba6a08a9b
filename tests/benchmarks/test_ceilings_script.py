# SPDX-License-Identifier: Apache-2.0
"""The benchmark of ceilings on generated tables: no attacker's lower bound is above the ceiling."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import ceilings


@pytest.fixture(scope="module")
def crashes() -> pd.DataFrame:
    """A feature that follows from another column, and one of four answers."""
    rng = np.random.default_rng(0)
    year = rng.integers(1980, 2002, 700)
    return pd.DataFrame(
        {
            "year": year,
            "airbag": np.where(rng.random(700) < np.where(year > 1992, 0.95, 0.05), "yes", "no"),
            "seat": rng.choice(["left", "right", "middle", "back"], 700, p=[0.4, 0.3, 0.2, 0.1]),
            "speed": rng.normal(size=700),
            "dead": np.where(rng.random(700) < 0.4, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def attacked(crashes):
    """Return what is found of a case; the same is not attacked twice."""

    @cache
    def attack(*protect):
        case = ceilings.Case("generated/crashes", "dead", protect)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ceilings.attack(crashes, case, seed=0)

    return attack


@pytest.mark.parametrize("protect", [("airbag",), ("dead",), ("seat",), ("airbag", "dead")])
def test_no_attack_exceeds_the_ceiling(attacked, protect):
    rows = attacked(*protect)
    assert len(rows) == 6 * len(ceilings.EPSILONS)
    assert not [row for row in rows if row.exceeds]
    if protect == ("airbag",):
        # The holder learns from the table what the year says, at any ε.
        assert all(row.baseline > 0.9 for row in rows)
        assert max(row.rate for row in rows if row.epsilon == 0.2) > 0.9
    text = ceilings.markdown(rows)
    assert "0 of 18 lower confidence bounds" in text


def test_the_attackers_use_the_report(attacked):
    """With much ε every holder is nearly always right, whatever the other columns say."""
    rows = attacked("dead")
    holders = [row for row in rows if row.epsilon == 3.0 and row.attacker.startswith("holder")]
    assert min(row.rate for row in holders) > 0.9

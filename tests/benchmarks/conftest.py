# SPDX-License-Identifier: Apache-2.0
"""The scripts of benchmarks/ import each other by name, as they do when they are run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def make_adult():
    """Return a maker of people like those of Adult."""

    def make(n: int, *, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        works = ["Private", "State-gov", "Self-emp-inc", "Never-worked", "Without-pay", "?"]
        marriages = ["Married-civ-spouse", "Married-AF-spouse", "Never-married", "Widowed"]
        return pd.DataFrame(
            {
                "age": rng.integers(17, 20, n),
                "workclass": rng.choice(works, n),
                "fnlwgt": rng.integers(1, 10**6, n),
                "education": rng.choice(["Masters", "9th"], n),
                "education-num": rng.integers(1, 4, n),
                "marital-status": rng.choice(marriages, n),
                "occupation": rng.choice(["Sales", "Armed-Forces", "Protective-serv", "?"], n),
                "relationship": rng.choice(["Wife", "Husband"], n),
                "race": rng.choice(["White", "Black"], n),
                "sex": rng.choice(["Male", "Female"], n),
                "capital-gain": rng.choice([0, 99], n),
                "capital-loss": rng.choice([0, 5], n),
                "hours-per-week": rng.choice([20, 40], n),
                "native-country": rng.choice(["Peru", "Holand-Netherlands", "?"], n),
                "income": rng.choice(["<=50K", ">50K"], n),
            }
        )

    return make

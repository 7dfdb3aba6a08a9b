# SPDX-License-Identifier: Apache-2.0
"""A small task with numbers and categories."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens.document import Baseline
from epsilens.mechanisms.protocol import Task

COLOURS = ("blue", "green", "red")


def encode(table: pd.DataFrame) -> np.ndarray:
    """Return standardised ages and one column a colour."""
    ages = (table["age"].to_numpy(dtype=float) - 50.0) / 17.0
    colours = table["colour"].to_numpy()[:, None] == np.array(COLOURS)
    return np.column_stack([ages, colours.astype(float)])


def small_task(n: int, *, n_test: int = 400, seed: int = 0) -> Task:
    """Return a task whose label follows age and colour."""
    rng = np.random.default_rng(seed)
    whole = pd.DataFrame(
        {
            "age": rng.integers(20, 81, n + n_test).astype(float),
            "colour": rng.choice(COLOURS, n + n_test),
        }
    )
    logits = (whole["age"] - 50) / 8 + 2.0 * (whole["colour"] == "red") - 0.5
    y = (rng.random(n + n_test) < 1 / (1 + np.exp(-logits))).astype(np.intp).to_numpy()
    X = encode(whole)
    model = LogisticRegression().fit(X[:n], y[:n])
    chances = model.predict_proba(X[n:])
    own = chances[np.arange(n_test), y[n:]]
    baseline = Baseline(
        n_train=n,
        n_test=n_test,
        n_parameters=5,
        loss=float(-np.log(own).mean()),
        accuracy=float((own > 0.5).mean()),
        auc=None,
    )
    return Task(
        X=X[:n],
        y=y[:n],
        X_test=X[n:],
        y_test=y[n:],
        n_classes=2,
        table=whole.iloc[:n].reset_index(drop=True),
        table_test=whole.iloc[n:].reset_index(drop=True),
        label="ill",
        protected=("ill",),
        x_bound=2.5,
        baseline=baseline,
        declared={"age": (18.0, 90.0), "colour": COLOURS},
        encode=encode,
    )


@pytest.fixture(scope="session", name="small_task")
def _small_task() -> Callable[..., Task]:
    return small_task

# SPDX-License-Identifier: Apache-2.0
"""Five sites with one-label shards, as P2 splits them, and a small contract."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.federated import (
    Coordinator,
    DeclaredColumn,
    FederationSchema,
    LocalParties,
    Records,
    Site,
)

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

"""Where a curve must not be used, or not be believed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.influence import label_noise

GRID = np.geomspace(0.1, 10.0, 12)


def study_of(n, k, *, signal=1.0, C=1.0, weights=None, p=4, m=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + m, p))
    scores = X @ rng.normal(size=(p, k)) * signal + rng.gumbel(size=(n + m, k))
    y = pd.Series(pd.Categorical(scores.argmax(axis=1)), name="y")
    X = pd.DataFrame(X, columns=list("abcdef")[:p])
    model = LogisticRegression(C=C, max_iter=10_000)
    return WhatIf(model).fit(X[:n], y[:n], X[n:], y[n:], sample_weight=weights)


@pytest.mark.parametrize("share", [40, 800])
def test_trust_is_the_same_in_a_grid_and_alone(share):
    study = study_of(800, 2, signal=30.0, C=100.0)
    question = {"groups": {"some": np.arange(800) < share}, "method": "exact"}
    together = study.estimate(epsilon=GRID, **question).to_frame()
    alone = pd.concat(
        [study.estimate(epsilon=[e], **question).to_frame() for e in GRID], ignore_index=True
    )
    assert together["trusted"].tolist() == alone["trusted"].tolist()
    np.testing.assert_allclose(together["loss_change"], alone["loss_change"], rtol=0.02, atol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_a_group_without_weight_changes_nothing(k):
    weights = np.r_[np.zeros(300), np.ones(500)]
    study = study_of(800, k, weights=weights)
    frame = study.estimate(
        epsilon=GRID, groups={"nobody": np.arange(800) < 300}, method="exact"
    ).to_frame()
    for column in ("loss_change", "loss_change_low", "loss_change_high"):
        # Drawn runs are in single precision.
        np.testing.assert_allclose(frame[column], 0.0, atol=1e-8)


def test_a_few_heavy_records_are_drawn_one_by_one(monkeypatch):
    """A survey weight of 1,000 on ten records: the run is lumpy however many others change."""
    weights = np.ones(8000)
    weights[:10] = 1000.0
    study = study_of(8000, 2, weights=weights)
    question = {"epsilon": [3.0], "method": "exact", "n_draws": 2000}
    found = study.estimate(**question).to_frame()
    monkeypatch.setattr(label_noise, "MANY_CHANGES", np.inf)
    drawn = study.estimate(**question).to_frame()
    pd.testing.assert_frame_equal(found, drawn)
    monkeypatch.setattr(label_noise, "MANY_CHANGES", 0.0)
    monkeypatch.setattr(label_noise, "FEW_CHANGES", 0.0)
    normal = study.estimate(**question).to_frame()
    width = float(drawn["loss_change_high"].iloc[0] - drawn["loss_change_low"].iloc[0])
    apart = abs(float(normal["loss_change_high"].iloc[0] - drawn["loss_change_high"].iloc[0]))
    assert apart > 0.1 * width

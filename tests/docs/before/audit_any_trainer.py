# SPDX-License-Identifier: Apache-2.0
"""Scores of somebody's own attack, a release with enough noise, and a model with the labels it was trained on."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

_rng = np.random.default_rng(2)
included = _rng.random(1000) < 0.5
scores = 1.2 * included + _rng.normal(size=1000)
pd.DataFrame({"included": included.astype(int), "score": scores}).to_csv("scores.csv", index=False)


def my_release(rows):
    """Add enough noise for ε well below 1."""
    return rows.sum(axis=0) + np.random.default_rng(1).normal(0, 100, rows.shape[1])


X = _rng.normal(size=(400, 3))
labels = (_rng.random(400) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
model = LogisticRegression().fit(X, labels)
likely = np.column_stack([1 / (1 + np.exp(X[:, 0])), 1 / (1 + np.exp(-X[:, 0]))])

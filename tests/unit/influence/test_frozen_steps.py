# SPDX-License-Identifier: Apache-2.0
"""Frozen steps of a pipeline that is trained again by several threads."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epsilens import WhatIf
from epsilens.influence.any_model import fit_any_model

# LogisticRegression warns of the number of threads that it is given.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, np.where(X[:, 0] + rng.normal(size=200) > 0, "yes", "no")


def test_every_training_has_a_frozen_step_of_its_own_around_the_same_transformer():
    X, y = problem()
    scaler = StandardScaler().fit(X)
    pipeline = make_pipeline(FrozenEstimator(scaler), LogisticRegression())
    model = fit_any_model(
        pipeline, X, y, X, y, sample_weight=None, sample_weight_test=None, reason=""
    )
    steps = [pipeline[0], *(model.train(model.label.y, seed=seed)[0] for seed in range(2))]
    assert len({id(step) for step in steps}) == 3
    assert all(step.estimator is scaler for step in steps)


def test_a_curve_of_a_pipeline_with_a_frozen_step_is_that_of_columns_encoded_before():
    X, y = problem()
    scaler = StandardScaler().fit(X)
    settings = {
        "epsilon": [0.5, 1.0, 2.0],
        "method": "curve",
        "categories": {"label": ["no", "yes"]},
    }
    pipeline = make_pipeline(FrozenEstimator(scaler), LogisticRegression())
    frozen = WhatIf(pipeline).fit(X, y, X, y).estimate(**settings).to_frame()
    scaled = scaler.transform(X)
    before = WhatIf(LogisticRegression()).fit(scaled, y, scaled, y).estimate(**settings).to_frame()
    np.testing.assert_allclose(frozen["loss_change"], before["loss_change"], rtol=1e-9)

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from epsilens import WhatIf
from epsilens.channels import LocalHashing, RandomizedResponse
from epsilens.errors import InputError
from epsilens.influence.alternatives import ProtectedFeature, UnaryBlock, channel_of


@pytest.fixture(scope="module")
def study(survey, pipeline):
    return WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)


@pytest.mark.parametrize("kind", ["olh", "blh"])
def test_local_hashing_is_response_at_its_effective_epsilon(study, kind):
    hashed = study.estimate(epsilon=2.0, mechanism=kind, method="exact").document.cells[0]
    effective = LocalHashing(2, 2.0, kind=kind).effective_epsilon
    plain = study.estimate(epsilon=effective, method="exact").document.cells[0]
    assert hashed.loss_change == pytest.approx(plain.loss_change, abs=1e-9)
    # The budget spent is still the one that was asked for.
    assert hashed.record_epsilon == 2.0
    matrix = channel_of(kind, 5, 1.5).matrix
    np.testing.assert_allclose(matrix, LocalHashing(5, 1.5, kind=kind).matrix, atol=1e-12)
    assert channel_of("rr", 3, 1.0) == RandomizedResponse(3, 1.0)


@pytest.mark.parametrize("kind", ["oue", "rappor", "the"])
def test_all_patterns_of_a_few_bits_are_followed(kind):
    feature = ProtectedFeature("c", np.array([0, 2, 1]), np.arange(3), np.eye(3))
    block = UnaryBlock.of(kind, feature, epsilon=1.0, seed=0)
    assert not block.is_sampled
    joint = block.joint(1.0)
    np.testing.assert_allclose(joint.sum(axis=1), 1.0)
    # Each bit by itself has the chance of its mechanism.
    from epsilens.channels import UnaryEncoding

    expected = UnaryEncoding(3, 1.0, kind=kind).expected()
    np.testing.assert_allclose(joint @ block.patterns, expected, atol=1e-12)
    assert {tuple(row) for row in block.patterns.tolist()} == set(
        itertools.product([False, True], repeat=3)
    )


def test_many_categories_are_sampled():
    feature = ProtectedFeature("c", np.arange(12), np.arange(12), np.eye(12))
    block = UnaryBlock.of("oue", feature, epsilon=1.0, seed=0)
    assert block.is_sampled
    joint = block.joint(1.0)
    np.testing.assert_allclose(joint.sum(axis=1), 1.0)
    from epsilens.channels import UnaryEncoding

    expected = UnaryEncoding(12, 1.0, kind="oue").expected()
    # 42 patterns a category: five standard errors of a share.
    assert np.abs(joint @ block.patterns - expected).max() <= 5 * 0.5 / np.sqrt(42)


@pytest.mark.slow
def test_sampled_patterns_state_their_error_and_cover_the_truth():
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(9)
    job = rng.integers(0, 10, 2500)
    effect = np.linspace(-1.5, 1.5, 10)[job]
    X = pd.DataFrame({"job": [f"job {code}" for code in job], "age": rng.normal(size=2500)})
    y = pd.Series(rng.random(2500) < 1 / (1 + np.exp(-effect)), name="y").astype("category")
    encode = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    study = WhatIf(make_pipeline(encode, LogisticRegression())).fit(
        X[:1500], y[:1500], X[1500:], y[1500:]
    )
    question = {"protect": ["job"], "epsilon": 2.0, "mechanism": "oue"}
    result = study.estimate(**question, method="exact")
    assert any("Monte-Carlo error of" in text for text in result.document.warnings)
    cell = result.document.cells[0]
    runs = study.retrain(**question, repeats=60).draws()["loss_change"]
    inside = ((runs >= cell.loss_change_low) & (runs <= cell.loss_change_high)).mean()
    assert inside >= 0.8
    with pytest.raises(InputError, match="one epsilon at a time"):
        study.estimate(**{**question, "epsilon": [1.0, 2.0]})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["oue", "rappor", "the"])
def test_bits_against_retraining(survey_of, pipeline, kind):
    survey = survey_of(1500, 800, seed=31)
    study = WhatIf(pipeline()).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    question = {"protect": ["region"], "epsilon": [1.0, 3.0], "mechanism": kind}
    estimate = study.estimate(**question, method="exact").to_frame()
    runs = study.retrain(**question, repeats=80).draws()
    table = runs.pivot_table(index="epsilon", columns="repeat", values="loss_change").to_numpy()
    error = estimate["loss_change"].to_numpy() - table.mean(axis=1)
    assert (np.abs(error) <= 4 * table.std(axis=1) / np.sqrt(80)).all()
    low, high = estimate["loss_change_low"].to_numpy(), estimate["loss_change_high"].to_numpy()
    inside = ((table >= low[:, None]) & (table <= high[:, None])).mean()
    assert 0.82 <= inside <= 0.97  # 160 runs: 0.9 with a standard error of 0.024


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"protect": ["smokes"], "mechanism": "oue"}, "one protected one-hot feature"),
        ({"protect": ["region", "smokes"], "mechanism": "oue"}, "one protected one-hot feature"),
        ({"protect": ["region"], "mechanism": "oue", "epsilon": [1.0, np.inf]}, "at most 40"),
        ({"protect": ["smokes"], "mechanism": "olh", "epsilon": np.inf}, "finite"),
        ({"protect": ["smokes"], "mechanism": "laplace"}, "must be one of"),
        ({"protect": ["region"], "mechanism": "the", "method": "paper"}, "no printed formula"),
    ],
)
def test_what_makes_no_sense_is_refused(study, question, words):
    with pytest.raises(InputError, match=words):
        study.estimate(**{"epsilon": 1.0, **question})


def test_a_dropped_level_has_no_bits(survey):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    model = make_pipeline(
        make_column_transformer((OneHotEncoder(drop="first"), ["region"])), LogisticRegression()
    )
    study = WhatIf(model).fit(survey.X, survey.y, survey.X_test, survey.y_test)
    with pytest.raises(InputError, match="drop=None"):
        study.estimate(protect="region", epsilon=1.0, mechanism="oue")

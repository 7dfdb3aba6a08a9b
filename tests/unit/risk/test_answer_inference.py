"""The attack on answers against one that is written out, and the ceiling against Bayes' rule."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_expit, log_softmax
from sklearn.linear_model import LogisticRegression

from epsilens.channels import RandomizedResponse
from epsilens.errors import InputError
from epsilens.risk import AttackStudy, inference_ceiling
from epsilens.risk.answer_inference import Calibration, _fit_calibration

N_MODELS = 5


@pytest.mark.parametrize("protect", [["ill"], ["smokes"], ["town", "smokes"], ["town", "ill"]])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_guess_is_the_candidate_of_largest_belief(protect, n_classes, shadows_of):
    shadows = shadows_of(LogisticRegression(), protect, n_classes=n_classes)
    theta = shadows.training.train(0, range(N_MODELS), start=shadows.baseline.theta)
    attack, features = shadows.attack, shadows.asked.alternatives
    calibration = Calibration(share=0.3, evidence=0.9)
    found = attack.successes(theta, calibration)
    label_is_hidden = "ill" in protect
    for i in range(0, 240, 17):
        for j in range(N_MODELS):
            beliefs = {}
            for value in range(len(features.blocks)):
                x = (features.base.block(np.array([i])) + features.blocks[[value]])[0]
                s = x @ theta[:, j].reshape(-1, len(x)).T
                log_p = (
                    np.array([log_expit(-s[0]), log_expit(s[0])])
                    if n_classes == 2
                    else log_softmax(s)
                )
                for label in range(n_classes):
                    if label_is_hidden:
                        same = (features.codes == value) & (attack.classes == label)
                    elif label == attack.classes[i]:
                        same = features.codes == value
                    else:
                        continue
                    share = max(same.sum(), 0.5) / len(same)
                    beliefs[value, label] = 0.3 * math.log(share) + 0.9 * log_p[label]
            guess = max(beliefs, key=beliefs.get)
            assert found[i, j] == (guess == (features.codes[i], attack.classes[i]))


def test_calibration_is_maximum_likelihood():
    rng = np.random.default_rng(0)
    margin = rng.normal(size=4000)
    truth = (rng.random(4000) < 1 / (1 + np.exp(-(0.4 * margin - 0.8)))).astype(int)
    evidence = np.stack([log_expit(-margin), log_expit(margin)])
    shares = np.log([0.7, 0.3])
    found = _fit_calibration(shares, evidence, truth)
    twin = LogisticRegression(C=np.inf, tol=1e-10).fit(margin[:, None], truth)
    assert found.evidence == pytest.approx(twin.coef_[0, 0], abs=1e-4)
    assert found.share * (shares[1] - shares[0]) == pytest.approx(twin.intercept_[0], abs=1e-4)


def test_pure_noise_is_not_believed():
    rng = np.random.default_rng(1)
    margin, truth = rng.normal(size=20_000), (rng.random(20_000) < 0.3).astype(int)
    found = _fit_calibration(
        np.log([0.7, 0.3]), np.stack([log_expit(-margin), log_expit(margin)]), truth
    )
    # Its standard error is 1/√(n p q) = 0.015.
    assert abs(found.evidence) < 0.05
    assert found.share == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_nobody_who_sees_the_report_itself_exceeds_the_ceiling(k, epsilon):
    rng = np.random.default_rng(k)
    matrix = RandomizedResponse(k, epsilon).matrix
    people = rng.dirichlet(np.ones(k), size=200)  # what is known of each without the answer
    before = people.max(axis=1)
    joint = people[:, :, None] * matrix
    after = joint.max(axis=1).sum(axis=1)  # the best guess for every report
    ceilings = np.array([inference_ceiling(b, epsilon) for b in before])
    assert (after <= ceilings + 1e-12).all()
    assert after.mean() <= inference_ceiling(before.mean(), epsilon) + 1e-12


def test_the_ceiling_is_reached_by_two_equal_answers():
    keep = RandomizedResponse(2, 1.3).keep_probability
    assert inference_ceiling(0.5, 1.3) == pytest.approx(keep)


def test_the_ceiling_rises_and_has_its_limits():
    grid = np.geomspace(1e-3, 50, 30)
    values = [inference_ceiling(0.3, epsilon) for epsilon in grid]
    assert (np.diff(values) > 0).all()
    assert values[0] == pytest.approx(0.3, abs=1e-3)
    assert inference_ceiling(0.3, math.inf) == 1.0
    assert inference_ceiling(0.0, 5.0) == 0.0
    assert inference_ceiling(1.0, 0.1) == 1.0


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_a_rate_is_a_share(rate):
    with pytest.raises(InputError, match="`baseline_rate` must lie from 0 to 1, got"):
        inference_ceiling(rate, 1.0)


def memorised(share: float, n: int = 200, p: int = 150) -> AttackStudy:
    """A model that learns labels without any rule by heart."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(n, p))).add_prefix("x")
    y = pd.Series(pd.Categorical(rng.random(n) < share), name="y")
    half = n // 2
    return AttackStudy(LogisticRegression(C=1e3)).fit(X, y, X[:half], y[:half])


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_what_a_model_learnt_by_heart_is_read_from_it(share):
    study = memorised(share)
    frame = study.estimate(protect="y", epsilon=[0.5, 4.0, np.inf], shadow_models=64).to_frame()
    # Half of 200 records in 150 dimensions are learnt without error.
    assert frame["answer_inference_rate"].iloc[2] > 0.99
    keep = np.exp(4.0) / (1 + np.exp(4.0))
    assert frame["answer_inference_rate"].iloc[1] == pytest.approx(keep, abs=0.02)
    assert (frame["answer_inference_rate"].diff().dropna() > 0).all()
    assert (frame["answer_inference_rate"] <= frame["answer_inference_ceiling"] + 0.02).all()
    assert (frame["answer_inference_baseline"] >= max(share, 1 - share) - 0.06).all()


def test_the_baseline_is_one_and_the_best():
    """A label that the other columns decide is known without any answer, at every ε."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(600, 3)), columns=list("abc"))
    y = pd.Series(pd.Categorical(X["a"] > 0), name="y")
    study = AttackStudy(LogisticRegression()).fit(X[:400], y[:400], X[400:], y[400:])
    frame = study.estimate(protect="y", epsilon=[0.05, 1.0], shadow_models=64).to_frame()
    assert frame["answer_inference_baseline"].nunique() == 1
    assert frame["answer_inference_baseline"].iloc[0] > 0.95
    # The noisy models themselves know far less at a small ε.
    assert frame["answer_inference_unseen"].iloc[0] < 0.8
    assert frame["answer_inference_ceiling"].iloc[0] > 0.95


@pytest.mark.parametrize("protect", [["y"], ["g"], ["g", "y"]])
def test_measured_rates_stay_below_the_ceiling_and_rise(protect):
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(500, 12)), columns=[f"x{j}" for j in range(12)])
    X["g"] = pd.Categorical(rng.choice(["a", "b"], 500))
    y = X["x0"] + 2.0 * (X["g"] == "a") - 1 + 0.6 * rng.logistic(size=500) > 0
    y = pd.Series(pd.Categorical(y), name="y")
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encode = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), ["g"]), remainder="passthrough"
    )
    study = AttackStudy(make_pipeline(encode, LogisticRegression()))
    study.fit(X[:300], y[:300], X[300:], y[300:])
    frame = study.estimate(
        protect=protect, epsilon=[0.05, 0.5, 2.0, 8.0], shadow_models=200
    ).to_frame()
    # The standard error of a mean over 200 halves of 150 people is below 0.004.
    assert (frame["answer_inference_rate"] <= frame["answer_inference_ceiling"] + 0.012).all()
    assert (frame["answer_inference_ceiling"].diff().dropna() > 0).all()
    assert frame["answer_inference_rate"].iloc[-1] > frame["answer_inference_rate"].iloc[0] + 0.03
    assert (frame["answer_inference_low"] <= frame["answer_inference_rate"]).all()
    assert (frame["answer_inference_rate"] <= frame["answer_inference_high"]).all()


def test_the_interval_holds_one_release():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    y = pd.Series(pd.Categorical(X["a"] + rng.logistic(size=300) > 0), name="y")
    study = AttackStudy(LogisticRegression()).fit(X[:200], y[:200], X[200:], y[200:])

    def shadows(seed: int) -> object:
        from epsilens.influence.question import Question, read_question
        from epsilens.risk.randomised_shadows import RandomisedShadows

        asked = read_question(study.baseline_, Question(1.0, ["y"]), columns=list("abcd"))
        return RandomisedShadows(study.baseline_, asked, 400, seed, np.arange(200))

    cell = study.estimate(protect="y", epsilon=[1.0], shadow_models=400, random_state=1)
    low, high = (
        cell.document.cells[0].answer_inference_low,
        cell.document.cells[0].answer_inference_high,
    )
    (fresh,) = shadows(2).outcomes()
    inside = np.mean((fresh.inside >= low) & (fresh.inside <= high))
    # 90 % with an error of 1.5 points for the fresh releases and as much for the interval itself;
    # equal rates (multiples of 1/100) make it cover a little more.
    assert 0.85 <= inside <= 0.96

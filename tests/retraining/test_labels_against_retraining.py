"""The estimate against really retraining: its mean, and the coverage of its intervals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from epsilens import WhatIf

pytestmark = pytest.mark.slow

GRID = [0.1, 0.5, 1.0, 2.0, 3.0]
REPEATS = 200


@pytest.fixture(scope="module", params=["logistic", "ridge"])
def truth_and_estimate(request, pipeline, survey_of):
    survey = survey_of(1500, 800, seed=21)
    if request.param == "logistic":
        model, y, y_test = LogisticRegression(), survey.y, survey.y_test
    else:
        model = Ridge()
        y = (survey.y == "yes").astype(float).astype("category")
        y_test = (survey.y_test == "yes").astype(float)
    study = WhatIf(pipeline(model)).fit(survey.X, y, survey.X_test, y_test)
    rng = np.random.default_rng(22)
    groups = {
        "third": rng.random(1500) < 0.33,
        "northern": (survey.X["region"] == "north").to_numpy(),
        "all": np.ones(1500, dtype=bool),
    }
    question = {"epsilon": GRID, "groups": groups}
    truth = study.retrain(**question, repeats=REPEATS, random_state=5)
    estimate = study.estimate(**question, method="exact", n_draws=1000)
    sizes = {name: int(mask.sum()) for name, mask in groups.items()}
    return truth, estimate, sizes, study, question


def test_exact_hits_the_mean_within_the_error_of_the_retrainings(truth_and_estimate):
    truth, estimate, *_ = truth_and_estimate
    runs = truth.draws().groupby(["group", "epsilon"], sort=False)["loss_change"]
    error = (estimate.to_frame()["loss_change"].to_numpy() - runs.mean().to_numpy()) / (
        runs.std().to_numpy() / np.sqrt(REPEATS)
    )
    # 15 cells: four standard errors, and half an error of the expansion's own on the largest.
    assert np.abs(error).max() < 4.5


def test_exact_is_as_close_as_half_of_the_retrainings_to_the_other(truth_and_estimate):
    truth, estimate, *_ = truth_and_estimate
    table = truth.draws().pivot_table(
        index=["group", "epsilon"], columns="repeat", values="loss_change", sort=False
    )
    few = table.iloc[:, :10].to_numpy()
    halves = np.abs(few[:, :5].mean(axis=1) - few[:, 5:].mean(axis=1)).mean()
    ours = np.abs(estimate.to_frame()["loss_change"].to_numpy() - few.mean(axis=1)).mean()
    assert ours <= 1.5 * halves


def covered(runs, low, high):
    return float(((runs >= low) & (runs <= high)).mean())


def test_nine_in_ten_runs_fall_into_the_interval(truth_and_estimate):
    truth, estimate, sizes, *_ = truth_and_estimate
    runs, shares = truth.draws(), []
    for cell in estimate.document.cells:
        flips = sizes[cell.group] / (1 + np.exp(cell.epsilon))
        if flips < 20:
            continue
        mine = runs[(runs["group"] == cell.group) & (runs["epsilon"] == cell.epsilon)]
        shares.append(covered(mine["loss_change"], cell.loss_change_low, cell.loss_change_high))
    assert len(shares) >= 12
    # 200 runs a cell: the standard error of one share is 0.021, of their mean below 0.01.
    assert 0.87 <= np.mean(shares) <= 0.93
    assert min(shares) >= 0.82


def test_accuracy_and_auc_intervals_cover_too(truth_and_estimate):
    truth, estimate, sizes, study, _ = truth_and_estimate
    if not study.baseline_.is_classifier:
        assert estimate.document.intervals == []
        return
    runs = truth.draws()
    for outcome in ("accuracy", "auc"):
        shares = []
        for interval in estimate.document.intervals:
            if interval.outcome != outcome:
                continue
            if sizes[interval.group] / (1 + np.exp(interval.epsilon)) < 20:
                continue
            mine = runs[(runs["group"] == interval.group) & (runs["epsilon"] == interval.epsilon)]
            shares.append(covered(mine[f"{outcome}_change"], interval.low, interval.high))
        # Accuracy moves in steps of 1/800 and AUC has 100 draws behind it: wider than for the loss.
        assert 0.85 <= np.mean(shares) <= 0.96
        assert min(shares) >= 0.75


def test_newton_is_close_where_it_says_it_can_be_trusted(truth_and_estimate):
    truth, _, _, study, question = truth_and_estimate
    newton = study.estimate(**question, method="newton").to_frame()
    runs = truth.draws().groupby(["group", "epsilon"], sort=False)["loss_change"]
    spread = runs.std().to_numpy()
    error = np.abs(newton["loss_change"].to_numpy() - runs.mean().to_numpy())
    trusted = newton["trusted"].to_numpy()
    assert trusted.sum() >= 8
    assert (error[trusted] <= 1.0 * spread[trusted]).all()


def test_the_bias_term_matters_when_parameters_are_many():
    """n = 500, p = 20: without the bias term the mean would be 14 % too high."""
    rng = np.random.default_rng(30)
    X = rng.normal(size=(1500, 20))
    s = X @ rng.normal(scale=0.5, size=20)
    y = (rng.random(1500) < 1 / (1 + np.exp(-s))).astype(int)
    study = WhatIf(LogisticRegression(C=np.inf)).fit(X[:500], y[:500], X[500:], y[500:])
    domain = {"categories": {"label": [0, 1]}, "epsilon": 2.0}
    truth = study.retrain(**domain, repeats=800).draws()["loss_change"]
    estimate = study.estimate(**domain, method="exact").document.cells[0].loss_change
    # Four standard errors of the mean, and 3 % for the next order.
    assert abs(estimate - truth.mean()) <= 4 * truth.std() / np.sqrt(800) + 0.03 * truth.mean()

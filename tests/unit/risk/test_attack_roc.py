"""ROC, area and hits at few false alarms, each beside a slow twin; the interval simulated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid
from sklearn.metrics import roc_auc_score, roc_curve

from epsilens.risk import lira
from epsilens.risk.membership_attack import HeldOutScores


def held_out(n_models=30, n_samples=40, *, seed=0, decimals=None, missing=False):
    rng = np.random.default_rng(seed)
    members = rng.random((n_models, n_samples)) < 0.5
    statistic = rng.normal(size=members.shape) + 1.5 * members
    if decimals is not None:
        statistic = np.round(statistic, decimals)
    judged = np.ones((2, n_samples), dtype=bool)
    statistic = statistic.astype(np.float32)
    if missing:
        judged[0, :3] = False
        statistic[0::2, :3] = np.nan
    return HeldOutScores(statistic, members, judged)


def pairs(scores):
    kept = np.isfinite(scores.statistic)
    return scores.membership[kept], scores.statistic[kept]


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("missing", [False, True])
def test_roc_and_area_agree_with_scikit_learn(decimals, missing):
    scores = held_out(decimals=decimals, missing=missing)
    truth, values = pairs(scores)
    assert scores.auc() == pytest.approx(roc_auc_score(truth, values), rel=1e-12)
    fpr, tpr = scores.roc(10_000)
    expected = roc_curve(truth, values, drop_intermediate=False)
    known = {(a, b) for a, b in zip(*expected[:2], strict=True)}
    assert all(point in known for point in zip(fpr, tpr, strict=True))
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0.0, 0.0, 1.0, 1.0)
    # Thresholds are scores of outsiders: between two of them a step is cut off by a line, which
    # costs less than one step, a 600th.
    assert trapezoid(tpr, fpr) == pytest.approx(scores.auc(), abs=1 / 600)
    few, _ = scores.roc(20)
    assert few.size <= 25


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.2, 0.999])
@pytest.mark.parametrize("decimals", [None, 1])
def test_hits_at_few_false_alarms(rate, decimals):
    scores = held_out(decimals=decimals)
    truth, values = pairs(scores)
    thresholds = np.append(np.unique(values), -np.inf)
    best = max(
        (values[truth] > t).mean() for t in thresholds if (values[~truth] > t).mean() <= rate
    )
    assert scores.tpr_at_fpr(rate) == pytest.approx(best)


def slow_interval(scores, rate, weights):
    """Repeat each model as often as it was drawn, and read the curve between two points."""
    found = []
    for draw in weights.astype(int):
        rows = np.repeat(np.arange(draw.size), draw)
        truth = scores.membership[rows].ravel()
        values = scores.statistic[rows].ravel()
        inside, outside = values[truth], values[~truth]
        cut = np.sort(outside)[::-1][int(rate * outside.size)]
        found.append((inside > cut).mean())
    return np.quantile(found, [0.025, 0.975])


def test_the_interval_is_that_of_really_drawing_models_again():
    scores = held_out(40, 200)
    rng = np.random.default_rng(1)
    weights = np.empty((2000, 40))
    for half in (0, 1):
        weights[:, half::2] = rng.multinomial(20, np.full(20, 1 / 20), size=2000)
    slow = slow_interval(scores, 0.02, weights)
    fast = scores.tpr_interval(0.02, confidence=0.95, n_resamples=2000, seed=3)
    # Other draws, and thresholds between neighbours: quantiles of 2,000 draws agree to a tenth
    # of the interval's length.
    assert np.abs(np.array(fast) - slow).max() < 0.1 * (slow[1] - slow[0])
    assert fast == scores.tpr_interval(0.02, confidence=0.95, n_resamples=2000, seed=3)


def test_samples_that_were_not_judged_do_not_count():
    scores = held_out(missing=True)
    trimmed = HeldOutScores(scores.statistic[:, 3:], scores.membership[:, 3:], scores.judged[:, 3:])
    low, high = scores.tpr_interval(0.05, confidence=0.95, n_resamples=200, seed=0)
    assert 0.0 <= low <= scores.tpr_at_fpr(0.05) <= high <= 1.0
    assert scores.auc() != trimmed.auc()  # the other half of those samples does count


@pytest.mark.slow
def test_the_interval_covers_when_models_leak_differently():
    # 200 studies: a rate of 95 % has a standard error of 1.5 %. Percentiles of 64 models fall short
    # by a few per cent; pairs drawn one by one would cover about half.
    rng = np.random.default_rng(2)
    found, intervals = [], []
    for _ in range(200):
        members = rng.random((64, 80)) < 0.5
        leak = np.exp(0.5 * rng.normal(size=(64, 1)))
        statistic = (rng.normal(size=members.shape) + leak * members).astype(np.float32)
        scores = HeldOutScores(statistic, members, np.ones((2, 80), dtype=bool))
        found.append(scores.tpr_at_fpr(0.05))
        intervals.append(scores.tpr_interval(0.05, confidence=0.95, n_resamples=400, seed=0))
    low, high = np.array(intervals).T
    truth = np.mean(found)
    covered = ((low <= truth) & (truth <= high)).mean()
    assert covered >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / 200) - 0.02
    assert np.mean(high - low) < 0.25


def test_one_sided_truth_has_no_curve():
    statistic = np.zeros((4, 2), dtype=np.float32)
    nobody = HeldOutScores(statistic, np.zeros((4, 2), bool), np.ones((2, 2), bool))
    assert nobody.auc() == 0.5
    assert nobody.tpr_at_fpr(0.1) == 0.0
    everybody = HeldOutScores(statistic, np.ones((4, 2), bool), np.ones((2, 2), bool))
    assert everybody.tpr_interval(0.1, confidence=0.9, n_resamples=10, seed=0)[0] >= 0.0
    assert everybody.roc(10)[0].tolist() == [0.0, 1.0]


def test_the_attack_passes_its_scores_on():
    rng = np.random.default_rng(3)
    members = rng.random((64, 30)) < 0.5
    attack = lira(rng.normal(size=members.shape) + members, members)
    assert attack.auc == attack.held_out.auc()
    assert attack.tpr_at_fpr(0.1) == attack.held_out.tpr_at_fpr(0.1)
    low, high = attack.tpr_interval(0.1)
    assert low <= attack.tpr_at_fpr(0.1) <= high
    fpr, tpr = attack.roc()
    assert fpr.size == tpr.size

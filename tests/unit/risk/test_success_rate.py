"""The largest success rate: its null distribution, its p-value and its lower bound, simulated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from epsilens.errors import InputError
from epsilens.risk import lira, null_of_maximum
from epsilens.risk.likelihood_ratio import doubts_about_the_coins
from epsilens.risk.membership_attack import (
    lower_rate,
    p_value_at_most,
    p_value_of_maximum,
    simulated_null,
    weighted_lower_rate,
)


@pytest.fixture
def rates_alone(monkeypatch):
    """Leave out what an attack proves about ε: it comes after the largest rate and has tests of its own."""
    monkeypatch.setattr("epsilens.risk.likelihood_ratio.proven_epsilon", lambda *_, **__: None)


def coins(rng, n_models, n_samples):
    """Fair coins, tossed again in the few studies of ten thousand where they are doubted."""
    while True:
        members = rng.random((n_models, n_samples)) < 0.5
        if not doubts_about_the_coins(members):
            return members


@pytest.mark.parametrize(
    ("n_samples", "mean"), [(80, 0.538), (210, 0.544), (1797, 0.554), (35_000, 0.566)]
)
def test_the_floor_of_a_thousand_models(n_samples, mean):
    # The figures of the mathematical specification, to its three digits.
    assert null_of_maximum(1000, n_samples).mean == pytest.approx(mean, abs=5e-4)


def test_the_null_is_the_largest_of_binomials():
    n_models, n_samples = 12, 5
    rates = np.arange(n_models + 1) / n_models
    below = binom.cdf(np.arange(n_models + 1), n_models, 0.5) ** n_samples
    chances = np.diff(below, prepend=0.0)
    null = null_of_maximum(n_models, n_samples)
    assert null.mean == pytest.approx((chances * rates).sum(), rel=1e-12)
    for probability in null:
        assert null[probability] == rates[np.argmax(below >= probability)]
    assert len(null) == 6
    for successes in range(n_models + 1):
        expected = chances[successes:].sum()
        found = p_value_of_maximum(successes / n_models, np.full(n_samples, n_models))
        assert found == pytest.approx(expected, rel=1e-9)


def test_samples_with_fewer_models_count_with_theirs():
    counts = np.array([4, 4, 10])
    rng = np.random.default_rng(0)
    drawn = (rng.binomial(counts, 0.5, size=(200_000, 3)) / counts).max(axis=1)
    null = null_of_maximum(counts)
    # 200,000 draws: a standard error of 4e-4 for the mean and 1.1e-3 for a probability.
    assert null.mean == pytest.approx(drawn.mean(), abs=2e-3)
    for rate in (0.7, 0.75, 0.9, 1.0):
        assert p_value_of_maximum(rate, counts) == pytest.approx(
            (drawn >= rate - 1e-12).mean(), abs=5e-3
        )


def test_bad_numbers_of_models_are_refused():
    with pytest.raises(InputError, match="n_samples"):
        null_of_maximum(10)
    with pytest.raises(InputError, match="at least 1"):
        null_of_maximum(0, 5)


def test_clopper_pearson():
    right, trials = np.array([0, 3, 10]), np.array([10, 10, 10])
    expected = [0.0, beta.ppf(0.01, 3, 8), beta.ppf(0.01, 10, 1)]
    np.testing.assert_allclose(lower_rate(right, trials, level=0.01), expected, rtol=1e-9)
    both = weighted_lower_rate(np.array([[3], [10]]), np.array([[10], [30]]), level=0.04)
    each = [beta.ppf(0.02, 3, 8), beta.ppf(0.02, 10, 21)]
    assert both[0] == pytest.approx(0.25 * each[0] + 0.75 * each[1])
    assert np.isnan(weighted_lower_rate(np.zeros((2, 1), int), np.zeros((2, 1), int), level=0.1))


@pytest.mark.slow
@pytest.mark.usefixtures("rates_alone")
@pytest.mark.parametrize(
    ("online", "n_models", "n_samples", "kind"),
    [
        (False, 64, 20, "normal"),
        (True, 64, 20, "normal"),
        (False, 50, 60, "skewed"),
        (False, 50, 20, "alike"),
        (False, 50, 20, "whole"),
    ],
)
def test_p_values_of_models_that_saw_nothing_are_uniform(
    online, n_models, n_samples, kind, monkeypatch
):
    # The online null is simulated; with 59 studies its p-values are multiples of a 60th.
    monkeypatch.setattr("epsilens.risk.likelihood_ratio._SIMULATIONS", (59, 59))
    rng = np.random.default_rng(11)
    n_studies = 200 if online else 600 if kind == "normal" else 300
    p_values = np.empty(n_studies)
    allowed = np.empty(n_studies)
    inside = 0
    for study in range(n_studies):
        members = coins(rng, n_models, n_samples)
        scores = rng.normal(size=members.shape)
        if kind == "skewed":
            scores = np.exp(1.5 * scores)
        elif kind == "alike":  # scores of all samples rise and fall together
            scores = scores[:, :1] + 0.1 * scores
        elif kind == "whole":
            scores = np.round(scores)
        found = lira(scores, members, online=online)
        assert found.asr_max_null.kind == ("redrawn coins" if online else "binomial")
        p_values[study] = found.asr_max_p_value
        inside += found.asr_max_null[0.05] <= found.asr_max <= found.asr_max_null[0.95]
        # The next smaller p-value that was possible: what discreteness takes away.
        allowed[study] = p_value_of_maximum(
            found.asr_max + 0.5 / n_models, np.full(n_samples, n_models)
        )
    for level in (0.05, 0.2, 0.5, 0.8):
        error = 3.0 * math.sqrt(level * (1 - level) / n_studies)
        assert (p_values <= level).mean() <= level + error  # valid
        assert (allowed <= level).mean() >= level - error  # and no more cautious than it must be
    assert inside / n_studies >= 0.9 - 3.0 * math.sqrt(0.09 / n_studies)


@pytest.mark.slow
def test_the_two_directions_hardly_depend_on_each_other():
    # The variance of a success rate at chance is 1/(4M) if the halves' judgements are
    # uncorrelated: over 1,500 studies of 40 samples the estimate has an error below one per cent.
    rng = np.random.default_rng(12)
    n_models, n_samples, n_studies = 32, 40, 1500
    rates = np.empty((n_studies, n_samples))
    for study in range(n_studies):
        members = coins(rng, n_models, n_samples)
        scores = rng.normal(size=members.shape)
        right = np.zeros(n_samples)
        for half in (0, 1):
            fit, seen = scores[1 - half :: 2], members[1 - half :: 2]
            mean = (fit * ~seen).sum(axis=0) / np.maximum((~seen).sum(axis=0), 1)
            right += ((scores[half::2] > mean) == members[half::2]).sum(axis=0)
        rates[study] = right / n_models
    assert rates.mean() == pytest.approx(0.5, abs=0.002)
    assert rates.var() * 4 * n_models == pytest.approx(1.0, abs=0.03)


def test_online_the_directions_succeed_together():
    # Chance that moves members the same way in both halves helps both directions: the largest rate
    # lies above what independent judgements would give, and the simulated null knows it.
    rng = np.random.default_rng(18)
    members = coins(rng, 100, 200)
    scores = rng.normal(size=members.shape)
    online = lira(scores, members, online=True)
    assert online.asr_max_null.mean > null_of_maximum(100, 200)[0.75]
    assert online.asr_max_null[0.05] <= online.asr_max <= online.asr_max_null[0.99]


def test_the_proven_p_value_is_above_the_simulated_one():
    rng = np.random.default_rng(19)
    halves = np.full((2, 30), 25)
    # Both halves the same: the worst that can happen.
    drawn = rng.binomial(25, 0.5, size=(20_000, 30)).max(axis=1) / 25
    for rate in (0.72, 0.8, 0.88):
        assert p_value_at_most(rate, halves) >= (drawn >= rate - 1e-12).mean()
    assert p_value_at_most(0.0, halves) == 1.0


def test_simulation_says_nothing_below_one_over_its_size():
    simulated = np.full(99, 0.6)
    _, seen = simulated_null(0.6, simulated, kind="redrawn coins", at_most=1e-9)
    _, unseen = simulated_null(0.9, simulated, kind="redrawn coins", at_most=1e-9)
    _, unproven = simulated_null(0.9, simulated, kind="redrawn coins")
    assert (seen, unseen, unproven) == (1.0, 1e-9, 0.01)


def true_rates(scores, members, leak):
    """Success rates of the offline attack on new models, given the fits of the two halves."""
    found = np.zeros(scores.shape[1])
    for half in (0, 1):
        fit, seen = scores[1 - half :: 2], members[1 - half :: 2]
        mean = (fit * ~seen).sum(axis=0) / (~seen).sum(axis=0)
        weight = scores[half::2].shape[0] / scores.shape[0]
        found += weight * 0.5 * (norm.cdf(mean) + 1.0 - norm.cdf(mean - leak))
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("rates_alone")
@pytest.mark.parametrize(
    ("n_models", "n_samples", "leak"),
    [
        (64, 20, 0.0),
        (65, 20, 1.0),
        (200, 5, 3.0),
        pytest.param(64, 1, 0.0, marks=pytest.mark.nightly),
        pytest.param(64, 1, 1.0, marks=pytest.mark.nightly),
        pytest.param(200, 1, 0.5, marks=pytest.mark.nightly),
    ],
)
def test_the_lower_bound_holds_at_chance_and_under_leaks(n_models, n_samples, leak):
    rng = np.random.default_rng(13)
    n_studies, above, bounds = 500, 0, []
    leaks = leak * (np.arange(n_samples) % 2 == 0)
    for _ in range(n_studies):
        members = coins(rng, n_models, n_samples)
        scores = rng.normal(size=members.shape) + leaks * members
        bound = lira(scores, members).asr_max_lower_bound
        bounds.append(bound)
        above += bound > true_rates(scores, members, leaks).max()
    assert above / n_studies <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / n_studies)
    if leak == 3.0:  # it is worth something: the truth is close to three in four
        assert np.mean(bounds) > 0.58


@pytest.mark.slow
@pytest.mark.usefixtures("rates_alone")
@pytest.mark.parametrize(("n_models", "n_samples", "leak"), [(64, 20, 0.0), (200, 5, 3.0)])
def test_the_upper_bound_holds_at_chance_and_under_leaks(n_models, n_samples, leak):
    rng = np.random.default_rng(14)
    n_studies, below = 500, 0
    leaks = leak * (np.arange(n_samples) % 2 == 0)
    for _ in range(n_studies):
        members = coins(rng, n_models, n_samples)
        scores = rng.normal(size=members.shape) + leaks * members
        below += (
            lira(scores, members).asr_max_upper_bound < true_rates(scores, members, leaks).max()
        )
    assert below / n_studies <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / n_studies)


def resubstituted_bound(scores, members):
    """Bound of the online attack that fits and judges the same models."""
    mean, variance = [], []
    for side in (members, ~members):
        n = side.sum(axis=0)
        mean.append((scores * side).sum(axis=0) / n)
        variance.append((np.square(scores - mean[-1]) * side).sum(axis=0) / (n - 1))
    ratio = norm.logpdf(scores, mean[0], np.sqrt(variance[0]))
    ratio -= norm.logpdf(scores, mean[1], np.sqrt(variance[1]))
    right = ((ratio > 0) == members).sum(axis=0)
    n_models, n_samples = scores.shape
    return lower_rate(right, np.full(n_samples, n_models), level=0.05 / n_samples).max()


@pytest.mark.slow
def test_fitting_and_judging_the_same_models_is_no_bound(monkeypatch):
    monkeypatch.setattr("epsilens.risk.likelihood_ratio._SIMULATIONS", (1, 1))  # not needed here
    # At chance every attack is right half of the time. The split's bound says so; the bound
    # without a split claims more in about one study of five, far beyond its 5 %.
    rng = np.random.default_rng(14)
    n_studies, naive, split = 300, 0, 0
    for _ in range(n_studies):
        members = coins(rng, 64, 20)
        scores = rng.normal(size=members.shape)
        naive += resubstituted_bound(scores, members) > 0.5
        bound = lira(scores, members, online=True).asr_max_lower_bound
        split += bound > 0.5
    assert naive / n_studies > 0.11
    assert split / n_studies <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / n_studies)


def test_the_printed_rule_stops_near_three_quarters_and_others_reach_one():
    rng = np.random.default_rng(15)
    members = coins(rng, 400, 50)
    scores = rng.normal(size=members.shape) + 50.0 * members
    offline, online = lira(scores, members), lira(scores, members, online=True)
    assert offline.asr_mean == pytest.approx(0.75, abs=0.01)
    # 5 % of the outsiders lie above 0.95 by its definition.
    assert offline.balanced_accuracy().mean == pytest.approx(0.975, abs=0.01)
    assert offline.balanced_accuracy(0.999).mean > 0.995
    assert online.asr_mean > 0.999
    assert online.balanced_accuracy().mean > 0.999
    assert online.balanced_accuracy().max_lower_bound > 0.9


def slow_balanced(scores, members, cut):
    """Balanced accuracy of both halves, weighed by their models, one sample at a time."""
    found = []
    for j in range(scores.shape[1]):
        total = 0.0
        for half in (0, 1):
            fit = scores[1 - half :: 2, j][~members[1 - half :: 2, j]]
            z = (scores[half::2, j] - fit.mean()) / fit.std(ddof=1)
            inside = members[half::2, j]
            rate = 0.5 * ((z > cut)[inside].mean() + (z <= cut)[~inside].mean())
            total += rate * inside.size / members.shape[0]
        found.append(total)
    return np.array(found)


def test_balanced_accuracy_is_its_definition():
    rng = np.random.default_rng(16)
    members = coins(rng, 65, 9)
    scores = rng.normal(size=members.shape) + 2.0 * members
    found = lira(scores, members).balanced_accuracy(0.9)
    expected = slow_balanced(scores, members, norm.ppf(0.9))
    np.testing.assert_allclose(found.per_sample, expected)
    assert found.max == pytest.approx(expected.max())
    assert found.max_lower_bound < found.max
    assert found.threshold == 0.9


@pytest.mark.slow
def test_the_bound_of_the_balanced_accuracy_holds():
    rng = np.random.default_rng(17)
    n_studies, above, leak, cut = 500, 0, 2.0, norm.ppf(0.95)
    for _ in range(n_studies):
        members = coins(rng, 64, 3)
        scores = rng.normal(size=members.shape) + leak * members
        bound = lira(scores, members).balanced_accuracy().max_lower_bound
        truth = np.zeros(3)
        for half in (0, 1):
            seen = members[1 - half :: 2]
            fit = np.where(seen, np.nan, scores[1 - half :: 2])
            at = np.nanmean(fit, axis=0) + cut * np.nanstd(fit, axis=0, ddof=1)
            truth += 0.25 * (norm.cdf(at) + 1.0 - norm.cdf(at - leak))
        above += bound > truth.max()
    assert above / n_studies <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / n_studies)

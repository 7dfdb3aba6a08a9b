"""The ε that an attack proves: never above the truth too often, and its parts beside slow twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm

from epsilens.audit import gaussian_epsilon
from epsilens.errors import ApproximationWarning
from epsilens.risk import lira
from epsilens.risk.likelihood_ratio import doubts_about_the_coins
from epsilens.risk.logits import around_mean, quarter_moments
from epsilens.risk.proven_epsilon import (
    _CAUTION,
    _expected_bounds,
    _right_among_surest,
    guess_rule,
    refuted_epsilon,
)


def coins(rng, n_models, n_samples):
    """Fair coins, tossed again in the few studies of ten thousand where they are doubted."""
    while True:
        members = rng.random((n_models, n_samples)) < 0.5
        if not doubts_about_the_coins(members):
            return members


def gaussian_scores(rng, members, mu):
    """Every sample of every model through noise of its own: μ-GDP, other scales per sample."""
    scale = np.exp(rng.normal(size=members.shape[1]))
    return (rng.normal(size=members.shape) + mu * members) * scale


def responses(rng, members, epsilon):
    """Randomised response of every bit: ε, δ = 0, with equality."""
    return np.where(rng.random(members.shape) < expit(epsilon), members, ~members).astype(float)


def leaky_responses(rng, members, epsilon, delta):
    """The same, and with probability δ the truth, marked as such: (ε, δ) with equality."""
    told = np.where(responses(rng, members, epsilon) > 0.5, 1.0, -1.0)
    shown = rng.random(members.shape) < delta
    return np.where(shown, np.where(members, 2.0, -2.0), told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size", "n_samples"),
    [
        pytest.param("response", 0.0, 50, marks=pytest.mark.nightly),
        ("response", 1.0, 50),
        pytest.param("response", 3.0, 8, marks=pytest.mark.nightly),
        ("leaky", 1.0, 50),
        pytest.param("gaussian", 0.1, 20, marks=pytest.mark.nightly),
        ("gaussian", 1.0, 50),
    ],
)
def test_audits_of_64_models_are_right_as_often_as_they_say(kind, size, n_samples):
    rng = np.random.default_rng(21)
    n_audits, delta = 300, 0.0 if kind == "response" else 1e-3
    truth = gaussian_epsilon(size, delta) if kind == "gaussian" else size
    bounds = np.empty(n_audits)
    for audit in range(n_audits):
        members = coins(rng, 64, n_samples)
        if kind == "gaussian":
            scores = gaussian_scores(rng, members, size)
        elif kind == "leaky":
            scores = leaky_responses(rng, members, size, delta)
        else:
            scores = responses(rng, members, size)
        bounds[audit] = lira(scores, members, delta=delta).epsilon_lower_bound
    above = (bounds > truth * (1.0 + 1e-9) + 1e-12).mean()
    assert above <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / n_audits)
    if kind == "response" and size == 1.0:
        assert bounds.mean() > 0.85  # and it proves most of what there is


def test_no_leak_is_proved_where_there_is_none():
    rng = np.random.default_rng(22)
    members = coins(rng, 64, 100)
    assert lira(rng.normal(size=members.shape), members).epsilon_lower_bound < 0.2


def test_one_leaking_sample_among_many_is_chosen():
    rng = np.random.default_rng(23)
    members = coins(rng, 200, 300)
    scores = rng.normal(size=members.shape)
    scores[:, 5] += 6.0 * members[:, 5]
    proof = lira(scores, members, delta=1e-5).proof
    assert proof.epsilon_lower_bound > 2.0
    assert proof.n_samples < 10
    assert proof.n_models == 100
    assert proof.n_correct <= proof.n_guesses <= proof.n_samples * proof.n_models


def test_a_large_delta_makes_the_choice_small():
    rng = np.random.default_rng(24)
    members = coins(rng, 200, 300)
    scores = gaussian_scores(rng, members, 3.0)
    small, large = (lira(scores, members, delta=delta).proof for delta in (1e-7, 1e-4))
    assert large.n_samples < small.n_samples
    assert large.epsilon_lower_bound > 1.0


def test_the_order_of_models_does_not_help_among_equal_scores():
    # One sample, all members in the first rows, and scores that say nothing: an order among equals
    # by row would prove a leak that is not there.
    members = (np.arange(64) < 32)[:, None]
    assert lira(np.zeros((64, 1)), members).epsilon_lower_bound == 0.0
    ratios = np.zeros(64, dtype=np.float32)
    right = _right_among_surest(ratios, np.arange(64) >= 16, 16)
    assert 0 < right < 12  # 16 of 64 are right; not the first 16


def test_the_surest_guesses_are_counted():
    rng = np.random.default_rng(25)
    ratios = rng.normal(size=500).astype(np.float32)
    members = rng.random(500) < expit(2.0 * ratios)
    order = np.argsort(-np.abs(ratios))
    for n_guesses in (1, 77, 500):
        chosen = order[:n_guesses]
        expected = int(((ratios > 0) == members)[chosen].sum())
        assert _right_among_surest(ratios.copy(), members, n_guesses) == expected


@pytest.mark.parametrize("kind", ["equal spreads", "own spreads"])
def test_log_ratios_are_those_of_two_normal_distributions(kind):
    rng = np.random.default_rng(26)
    members = coins(rng, 40, 6)
    scores = gaussian_scores(rng, members, 2.0)
    lowest = scores.min(axis=0)
    rule = guess_rule(quarter_moments(scores, members, lowest).sum(axis=0), kind)
    columns = rule.order[:4]
    assert np.all(np.diff(rule.exposure[columns]) <= 0)
    found = rule.log_ratio(scores, lowest, columns)
    x = scores[:, columns] - lowest[columns]
    expected = norm.logpdf(x, rule.mean_in[columns], np.sqrt(rule.variance_in[columns]))
    expected -= norm.logpdf(x, rule.mean_out[columns], np.sqrt(rule.variance_out[columns]))
    np.testing.assert_allclose(found, expected.T, rtol=1e-4, atol=1e-5)


def test_sums_of_quarters_are_those_of_all_models():
    rng = np.random.default_rng(27)
    members = coins(rng, 43, 5)
    scores = rng.normal(size=members.shape)
    total = quarter_moments(scores, members, scores.min(axis=0)).sum(axis=0)
    (n_in, sum_in, _), (n_out, _, _) = total
    for j in range(5):
        inside = scores[members[:, j], j]
        assert n_in[j] == inside.size
        assert n_out[j] == 43 - inside.size
        assert sum_in[j] == pytest.approx((inside - scores[:, j].min()).sum())
        around = np.square(inside - inside.mean()).sum()
        assert around_mean(total[0])[2][j] == pytest.approx(around)


def test_with_many_models_the_rule_is_the_plain_fit():
    rng = np.random.default_rng(28)
    members = coins(rng, 20_000, 4)
    scores = rng.normal(size=members.shape) + np.array([0.0, 1.0, 2.0, 3.0]) * members
    lowest = scores.min(axis=0)
    rule = guess_rule(quarter_moments(scores, members, lowest).sum(axis=0), "equal spreads")
    # Means of 10,000 scores have an error of 0.01, their difference 0.014.
    np.testing.assert_allclose(rule.mean_in - rule.mean_out, [0, 1, 2, 3], atol=0.05)
    np.testing.assert_allclose(rule.mean_out + lowest, 0.0, atol=0.05)
    np.testing.assert_allclose(rule.variance_in, 1.0, atol=0.05)


def test_a_few_leaks_are_drawn_towards_none():
    rng = np.random.default_rng(29)
    members = coins(rng, 16, 200)
    scores = rng.normal(size=members.shape)
    lowest = scores.min(axis=0)
    moments = quarter_moments(scores, members, lowest).sum(axis=0)
    rule = guess_rule(moments, "equal spreads")
    plain = moments[0, 1] / moments[0, 0] - moments[1, 1] / moments[1, 0]
    assert np.abs(rule.mean_in - rule.mean_out).mean() < 0.5 * np.abs(plain).mean()


def slow_refuted(right, guesses, n_bits, delta, level):
    """Raise ε until neither theorem refutes it."""
    found = 0.0
    for epsilon in np.arange(0.0, 8.0, 0.002):
        chance = 1 / (1 + math.exp(-epsilon))
        tail = binom.sf(right - 1, guesses, chance)
        i = np.arange(1, right + 1)
        printed = ((binom.sf(right - i - 1, guesses, chance) - tail) / i).max()
        least = min(tail + 2 * n_bits * delta * printed, tail + n_bits * delta * (1 - chance))
        if least > level:
            break
        found = epsilon
    return found


@pytest.mark.parametrize(
    ("right", "guesses", "n_bits", "delta"),
    [(95, 100, 1000, 0.0), (95, 100, 1000, 1e-5), (40, 40, 3000, 1e-5), (30, 60, 100, 1e-3)],
)
def test_the_better_of_two_theorems_is_taken(right, guesses, n_bits, delta):
    found = refuted_epsilon(right, guesses, n_bits=n_bits, delta=delta, level=0.025)
    # Levels are tried in steps of a quarter per cent.
    slow = slow_refuted(right, guesses, n_bits, delta, 0.025)
    assert found == pytest.approx(slow, abs=0.004, rel=0.003)


def test_no_right_guess_proves_nothing():
    assert refuted_epsilon(0, 10, n_bits=10, delta=1e-6, level=0.05) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
def test_what_a_choice_expects_is_below_what_it_would_get(delta):
    guesses = np.array([20, 100, 500])
    right = np.array([20, 95, 450])
    expected = _expected_bounds(right, guesses, n_bits=5000, delta=delta, level=0.025)
    real = [
        refuted_epsilon(w, r, n_bits=5000, delta=delta, level=0.025)
        for w, r in zip(right.tolist(), guesses.tolist(), strict=True)
    ]
    assert _CAUTION < 1.0
    assert (expected <= np.array(real) + 0.01).all()


def test_few_models_make_a_fixed_choice():
    rng = np.random.default_rng(30)
    members = coins(rng, 12, 40)
    scores = rng.normal(size=members.shape) + 8.0 * members
    with pytest.warns(ApproximationWarning, match="too few models"):
        found = lira(scores, members)
    assert found.proof.n_samples == 40
    assert found.proof.n_guesses == 60
    assert found.epsilon_lower_bound > 2.0

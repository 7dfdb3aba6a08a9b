"""What models can detect: against simulated studies, and against counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import beta, binom, nct, norm, t
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from epsilens.errors import InputError
from epsilens.risk import detectable_effect, lira, models_needed
from epsilens.risk.membership_attack import HeldOutScores, weighted_lower_rate
from epsilens.risk.power import planned_models, power_note, power_text, spread_ratio

N_STUDIES = 600
"""Three standard errors of a share of 80 % are 5 points."""


def study(rng, n_models, n_records, effect):
    """Return the judgements of offline LiRA on scores with the given mean success rate.

    One model's scores of different records belong together: they move up and down together, by half of their spread,
    in blocks of ten relatives as well, and the leak is larger in some models than in others.
    """
    members = rng.random((n_models, n_records)) < 0.5
    n_out = n_models / 4.0  # outsiders in the half that the fit sees
    leak = norm.ppf(0.5 + 2.0 * effect) * math.sqrt(1.0 + 1.0 / n_out)
    strength = leak * (1.0 + 0.25 * rng.normal(size=(n_models, 1)))
    blocks = np.repeat(rng.normal(size=(n_models, n_records // 10)), 10, axis=1)
    noise = math.sqrt(0.25) * rng.normal(size=(n_models, 1)) + math.sqrt(0.25) * blocks
    scores = strength * members + noise + math.sqrt(0.5) * rng.normal(size=members.shape)
    return judged(scores, members)


@pytest.mark.parametrize(
    ("n_records", "effect"), [(100, 0.02), (300, 0.02), (300, 0.01), (1000, 0.01)]
)
def test_an_effect_is_found_as_often_as_was_said(n_records, effect):
    rng = np.random.default_rng(n_records)
    n_models = models_needed(effect, n_records)
    studies = [study(rng, n_models, n_records, effect) for _ in range(N_STUDIES)]
    found = np.mean([one.mean_lower_bound(0.95) > 0.5 for one in studies])
    assert 0.75 <= found <= 0.95
    # The effect was there as stated.
    rate = np.mean([one.model_rates()[0].mean() for one in studies])
    assert rate - 0.5 == pytest.approx(effect, rel=0.1)


def judged(scores, members):
    """Return the judgements of offline LiRA: above the mean of the other half's outsiders."""
    statistic = np.empty(scores.shape, dtype=np.float32)
    for half in (0, 1):
        out = ~members[1 - half :: 2]
        total = (scores[1 - half :: 2] * out).sum(axis=0)
        statistic[half::2] = scores[half::2] - total / np.maximum(out.sum(axis=0), 1)
    return HeldOutScores(statistic, members, np.ones((2, scores.shape[1]), dtype=bool))


def trained(rng, n_models, X, y, n_attacked):
    """Train least-squares classifiers on random halves; return the margins of some records."""
    members = rng.random((n_models, len(y))) < 0.5
    grams = np.einsum("mi,ij,ik->mjk", members, X, X) + 0.5 * np.eye(X.shape[1])
    theta = np.linalg.solve(grams, (members * y @ X)[:, :, None])[:, :, 0]
    return (y * (theta @ X.T))[:, :n_attacked], members[:, :n_attacked]


def test_an_effect_is_found_as_often_as_was_said_in_models_that_were_trained():
    rng, n_attacked, n_models = np.random.default_rng(0), 30, 60
    X = rng.normal(size=(200, 4))
    y = np.where(X[:, 0] + rng.logistic(size=200) > 0, 1.0, -1.0)
    for _ in range(3):
        pilot = [judged(*trained(rng, n_models, X, y, n_attacked)) for _ in range(100)]
        effect = np.mean([one.model_rates()[0].mean() for one in pilot]) - 0.5
        n_models = models_needed(effect, n_attacked)
    assert 24 <= n_models <= 200  # more than the fewest, so that the effect decides
    studies = [judged(*trained(rng, n_models, X, y, n_attacked)) for _ in range(N_STUDIES)]
    found = np.mean([one.mean_lower_bound(0.95) > 0.5 for one in studies])
    assert 0.75 <= found <= 0.95


@pytest.mark.parametrize(
    "model",
    [
        GaussianNB(),
        LogisticRegression(),
        DecisionTreeClassifier(max_depth=3, random_state=0),
        RandomForestClassifier(10, random_state=0),
    ],
)
def test_trained_models_spread_about_as_was_assumed(model):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 5))
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(int)
    members = rng.random((64, 300)) < 0.5
    scores = np.empty(members.shape)
    for number, mine in enumerate(members):
        chances = model.fit(X[mine], y[mine]).predict_proba(X)[np.arange(300), y]
        scores[number] = logit(np.clip(chances, 0.01, 0.99))
    # A standard deviation of 64 models is known to about 9 %.
    assert 0.7 < spread_ratio(lira(scores, members)) < 1.3


@pytest.mark.parametrize("n_models", [20, 100])
def test_without_a_leak_nothing_is_found(n_models):
    rng = np.random.default_rng(n_models)
    found = [study(rng, n_models, 100, 0.0).mean_lower_bound(0.95) > 0.5 for _ in range(N_STUDIES)]
    # Three standard errors.
    assert np.mean(found) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / N_STUDIES)


def test_the_mean_by_the_noncentral_t():
    for n_models, n_records, power in ((20, 75, 0.8), (256, 1000, 0.8), (64, 5000, 0.9)):
        effect = detectable_effect(n_models, n_records, power=power)
        spread = math.sqrt((0.25 - effect**2) / n_records)
        shift = effect * math.sqrt(n_models) / spread
        found = nct.sf(t.ppf(0.95, n_models - 1), n_models - 1, shift)
        assert found == pytest.approx(power, abs=1e-6)


def test_one_record_by_simulation():
    rng = np.random.default_rng(0)
    effect = detectable_effect(200, 50, about="record")
    shown = []
    for _ in range(1500):
        # One record is recognised at that rate, the others by guessing.
        rates = np.where(np.arange(50) == 0, 0.5 + effect, 0.5)
        right = rng.binomial(100, rates, (2, 50))
        shown.append(weighted_lower_rate(right, np.full((2, 50), 100), level=0.05)[0] > 0.5)
    assert np.mean(shown) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 1500))


def test_one_record_by_all_outcomes():
    """Every pair of hits in the two halves, added up."""
    n, n_records = 30, 20
    level = 0.05 / (2 * n_records)
    low = [0.0, *(beta.ppf(level, hits, n - hits + 1) for hits in range(1, n + 1))]
    rate = 0.5 + detectable_effect(2 * n, n_records, about="record")
    chance = sum(
        binom.pmf(one, n, rate) * binom.pmf(other, n, rate)
        for one in range(n + 1)
        for other in range(n + 1)
        if (low[one] + low[other]) / 2 > 0.5
    )
    assert chance == pytest.approx(0.8, abs=1e-3)
    assert detectable_effect(20, 10_000, about="record") is None


@pytest.mark.parametrize("about", ["mean", "record"])
def test_the_two_directions_agree(about):
    for effect, n_records in ((0.2, 100), (0.1, 30), (0.012, 300)):
        if about == "record" and effect < 0.05:
            continue
        enough = models_needed(effect, n_records, about=about)
        assert detectable_effect(enough, n_records, about=about) <= effect
        less = enough - 1 if about == "mean" else enough - 2
        before = detectable_effect(max(less, 20), n_records, about=about)
        assert enough == 20 or before is None or before > effect


def test_what_cannot_be_found_is_refused():
    with pytest.raises(InputError, match="an effect that 100,000 models can find, got 1e-06"):
        models_needed(1e-6, 300)
    with pytest.raises(InputError, match=r"less than 0.5"):
        models_needed(0.5, 300)
    planned = {"usual": 256, "online": False, "confidence": 0.95}
    assert planned_models(None, None, 300, **planned) == 256
    assert planned_models(64, None, 300, **planned) == 64
    assert planned_models(None, 0.01, 300, **planned) == models_needed(0.01, 300)
    with pytest.raises(InputError, match="Leave one of them out"):
        planned_models(64, 0.02, 300, **planned)
    with pytest.raises(InputError, match="`detect` must be an effect that 100,000 models"):
        planned_models(None, 1e-6, 300, **planned)
    with pytest.raises(InputError, match="three times in four"):
        planned_models(None, 0.3, 300, **planned)
    assert planned_models(None, 0.3, 300, **(planned | {"online": True})) == 20
    with pytest.raises(InputError, match="at least 20"):
        planned_models(10, None, 300, **planned)


def test_a_wider_spread_than_assumed_is_reported():
    rng = np.random.default_rng(3)
    members = rng.random((100, 400)) < 0.5
    even = 0.8 * members + rng.normal(size=members.shape)
    # In half of the models nothing leaks, in the others much.
    uneven = even + 2.0 * members * (rng.random((100, 1)) < 0.5)
    plain, wide = lira(even, members), lira(uneven, members)
    assert spread_ratio(plain) == pytest.approx(1.0, abs=0.25)
    assert spread_ratio(wide) > 2.0
    text = power_text(100, 400, confidence=0.95)
    assert power_note(100, 400, confidence=0.95, attacks=[plain]).text == text
    assert "times as much as that" in power_note(100, 400, confidence=0.95, attacks=[wide]).text
    assert "cannot put the lower bound of a single record" in power_text(20, 400, confidence=0.95)

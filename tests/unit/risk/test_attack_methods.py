"""The methods: each against a slow obvious twin, and what they need and refuse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, ndtri
from scipy.stats import t as student

from epsilens.errors import InputError, InputTypeError
from epsilens.risk import Rmia, attack_membership, lira
from epsilens.risk.attack_methods import (
    Bavaria,
    Combined,
    KnownModels,
    Lira,
    Quantile,
    shrunk_fit,
    without_rounding,
)
from epsilens.risk.compared import METHODS, chosen_beforehand
from epsilens.risk.likelihood_ratio import quarter_moments
from epsilens.risk.logits import side_moments

pytestmark = pytest.mark.filterwarnings("ignore:.*too few models")


def study(
    n_models: int = 24, n_samples: int = 40, *, leak: float = 1.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of records whose spreads differ, and who was a member."""
    rng = np.random.default_rng(seed)
    membership = rng.random((n_models, n_samples)) < 0.5
    spread = rng.gamma(2.0, size=n_samples)
    scores = rng.normal(size=n_samples) + leak * membership * spread
    return scores + spread * rng.normal(size=(n_models, n_samples)), membership


def halves(scores: np.ndarray, membership: np.ndarray) -> tuple[KnownModels, np.ndarray]:
    return KnownModels(scores[::2], membership[::2]), scores[1::2]


@pytest.mark.parametrize("online", [False, True])
def test_plain_ratios_are_those_of_lira(online):
    scores, membership = study()
    known, other = halves(scores, membership)
    whole = lira(scores, membership, online=online)
    np.testing.assert_allclose(
        Lira(online=online).judge(known, other), whole.held_out.statistic[1::2], rtol=1e-5
    )


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_rmia_counts_the_records_that_are_outranked(online, gamma):
    scores, membership = study(16, 12)
    scores[:, 3] = scores[:, 4]  # a tie
    membership[:, 3] = membership[:, 4]
    known, other = halves(scores, membership)
    found = Rmia(online=online, gamma=gamma, temperature=2.0).judge(known, other)
    p, outside = expit(known.scores / 2.0), ~known.membership
    for model in range(len(other)):
        ratio = []
        for record in range(12):
            mean = p[:, record].mean()
            if not online:
                mean = 0.5 * (1.33 * p[outside[:, record], record].mean() + 0.67)
            ratio.append(expit(other[model, record] / 2.0) / mean)
        for record in range(12):
            quotients = np.array([ratio[record] / z for z in ratio])
            beaten = (quotients > gamma * (1 + 1e-6)).sum() + 0.5 * np.isclose(
                quotients, gamma, rtol=1e-6
            ).sum()
            share = np.clip(beaten / 12, 0.5 / 12, 1 - 0.5 / 12)
            assert found[model, record] == pytest.approx(ndtri(share), abs=1e-5)


def test_base_orders_the_records_of_a_model_as_rmia_does():
    scores, membership = study()
    known, other = halves(scores, membership)
    base = np.log(expit(other)) - np.log(expit(known.scores).mean(axis=0))
    np.testing.assert_array_equal(Rmia().judge(known, other).argsort(axis=1), base.argsort(axis=1))


def test_the_shrunk_ratio_is_that_of_two_t_distributions():
    scores, membership = study()
    known, other = halves(scores, membership)
    fit = known.shrunk
    found = Bavaria().judge(known, other)
    for record in range(scores.shape[1]):
        scale = np.sqrt(fit.variance[record])
        above = other[:, record] - known.lowest[record]
        expected = student.logpdf(above, fit.freedom[record], fit.mean_in[record], scale)
        expected -= student.logpdf(above, fit.freedom[record], fit.mean_out[record], scale)
        np.testing.assert_allclose(found[:, record], expected, rtol=1e-4, atol=1e-5)


def test_shrinking_lies_between_one_spread_and_a_spread_for_each_record():
    rng = np.random.default_rng(3)
    membership = rng.random((30, 400)) < 0.5
    alike = rng.normal(size=(30, 400))
    different = alike * np.exp(2.0 * rng.normal(size=400))

    def spread_of(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lowest = scores.min(axis=0)
        fit = shrunk_fit(side_moments(scores, membership, lowest))
        own = np.array(
            [
                sum(np.var(s[m], ddof=1) * (m.sum() - 1) for m in (seen, ~seen)) / 28
                for s, seen in zip(scores.T, membership.T, strict=True)
            ]
        )
        return fit.variance, own

    shrunk, own = spread_of(alike)
    assert np.std(np.log(shrunk)) < 0.2 * np.std(np.log(own))
    shrunk, own = spread_of(different)
    assert np.corrcoef(np.log(shrunk), np.log(own))[0, 1] > 0.99
    assert np.std(np.log(shrunk)) > 0.9 * np.std(np.log(own))


def test_moments_of_quarters_are_those_of_every_fourth_model():
    scores, membership = study(10, 6)
    lowest = scores.min(axis=0)
    quarters = quarter_moments(scores, membership, lowest)
    for place in range(4):
        for side, chosen in enumerate((membership, ~membership)):
            for record in range(6):
                own = (scores - lowest)[place::4, record][chosen[place::4, record]]
                np.testing.assert_allclose(
                    quarters[place, side, :, record], [own.size, own.sum(), (own**2).sum()]
                )


def test_rounded_probabilities_are_brought_into_range_and_others_left():
    votes = np.random.default_rng(0).integers(0, 101, (20, 50)) / 100
    kept = np.clip(votes, 1e-16, 1 - 1e-16)
    phi = np.log(kept) - np.log1p(-kept)
    cleaned = without_rounding(phi)
    half = np.clip(votes, 0.005, 0.995)
    np.testing.assert_allclose(cleaned, np.log(half / (1 - half)), rtol=1e-6)
    scores, _ = study()
    assert without_rounding(scores) is scores
    assert without_rounding(np.ones((4, 4))).max() == 1.0


def test_every_method_finds_the_leak_and_nothing_where_there_is_none():
    rng = np.random.default_rng(5)
    features = rng.normal(size=(60, 2))
    for leak, right in ((2.0, lambda auc: auc > 0.75), (0.0, lambda auc: 0.44 < auc < 0.56)):
        scores, membership = study(24, 60, leak=leak, seed=6)
        for name in METHODS:
            attack = attack_membership(scores, membership, method=name, features=features)
            assert attack.method == name
            assert right(attack.auc), (name, leak, attack.auc)


def test_a_judgement_sees_no_membership_of_its_own_half():
    scores, membership = study(16, 30)
    changed = membership.copy()
    changed[1::2] = ~changed[1::2]
    features = np.random.default_rng(0).normal(size=(30, 2))
    for method in (Lira(True), Bavaria(), Rmia(), Quantile(), Combined()):
        known = KnownModels(scores[::2], membership[::2], features)
        found = method.judge(known, scores[1::2])
        attack = attack_membership(scores, changed, method=method, features=features)
        np.testing.assert_allclose(attack.held_out.statistic[1::2], found, rtol=2e-4, atol=1e-5)


def test_few_models_are_enough_for_features_and_for_the_combination():
    rng = np.random.default_rng(1)
    n_samples = 600
    features = rng.normal(size=(n_samples, 3))
    membership = rng.random((6, n_samples)) < 0.5
    usual = 3.0 * features[:, 0] + np.abs(features[:, 1])
    scores = usual + 1.5 * membership + rng.normal(size=(6, n_samples))
    plain, by_features, combined = (
        attack_membership(scores, membership, method=name, features=features)
        for name in ("lira", "quantile", "combined")
    )
    assert plain.n_judged < by_features.n_judged == combined.n_judged == n_samples
    assert by_features.auc > plain.auc
    assert combined.auc > plain.auc


def test_the_choice_looks_at_numbers_of_models_and_records_alone():
    assert chosen_beforehand(8, 250) == "combined"
    assert chosen_beforehand(7, 10_000) == chosen_beforehand(64, 10) == "rmia"
    scores, membership = study(64, 40)
    assert attack_membership(scores, membership).method == "combined"
    assert attack_membership(scores, ~membership).method == "combined"


def test_coins_that_are_not_fair_prove_nothing():
    scores, membership = study(16, 40)
    membership[1::2] = ~membership[::2]
    with pytest.warns(match="fair coins"):
        attack = attack_membership(scores, membership, method="rmia")
    assert attack.proof is None
    assert attack.asr_max_null.kind == "permutation"


def test_what_a_method_lacks_is_said():
    scores, membership = study()
    with pytest.raises(InputError, match="features"):
        attack_membership(scores, membership, method="quantile")
    with pytest.raises(InputError, match="one row for each of the 40 samples"):
        attack_membership(scores, membership, features=np.ones((3, 2)))
    with pytest.raises(InputTypeError, match="Encode categories"):
        attack_membership(scores, membership, features=[["a"]] * 40)
    with pytest.raises(InputError, match="method"):
        attack_membership(scores, membership, method="none")
    with pytest.raises(InputTypeError, match="Rmia"):
        attack_membership(scores, membership, method=3)
    with pytest.raises(InputError, match="gamma"):
        Rmia(gamma=0.0)

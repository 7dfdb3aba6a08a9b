"""The best of several attacks: how often its p-value and its bounds are wrong, and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from epsilens.document import Provenance, RiskCell, RiskDocument
from epsilens.document.sentences import strongest_sentences
from epsilens.errors import InputError
from epsilens.risk import AttackEnvelope, attack_membership, compared, strongest_attack
from epsilens.risk.attack_methods import Rmia
from epsilens.risk.compared import comparison_numbers, simultaneous_interval, surest_p_value
from epsilens.risk.membership_attack import HeldOutScores
from epsilens.risk.result import risk_frame

pytestmark = pytest.mark.filterwarnings("ignore:.*too few models")
QUICK = ("lira", "lira-online", "bavaria", "rmia")


def envelope(
    seed: int, *, leak: float = 0.0, n_models: int = 20, n_samples: int = 25
) -> AttackEnvelope:
    rng = np.random.default_rng(seed)
    membership = rng.random((n_models, n_samples)) < 0.5
    scores = rng.gamma(1.0, size=n_samples) * rng.normal(size=(n_models, n_samples))
    return strongest_attack(
        scores + leak * membership, membership, methods=QUICK, n_resamples=100, seed=seed
    )


@pytest.fixture(scope="module")
def nulls() -> list[AttackEnvelope]:
    """Studies in which nothing leaks."""
    return [envelope(seed) for seed in range(300)]


def test_useless_attacks_are_seldom_called_significant(nulls):
    wrong = sum(found.p_value <= 0.05 for found in nulls)
    assert wrong <= 300 * 0.05 + 2 * np.sqrt(300 * 0.05 * 0.95)


def test_lower_bounds_of_useless_attacks_are_seldom_above_chance(nulls):
    # Nothing leaks: every success rate is one half, every share of members found the false alarms.
    for wrong in (
        sum(found.asr_max_lower_bound > 0.5 for found in nulls),
        sum(found.tpr_low > 0.01 for found in nulls),
    ):
        assert wrong <= 300 * 0.05 + 2 * np.sqrt(300 * 0.05 * 0.95)


def test_the_best_rate_is_too_large_and_the_interval_allows_for_that(nulls):
    assert np.mean([found.tpr for found in nulls]) > 0.013
    assert np.mean([found.tpr_low <= 0.01 <= found.tpr_high for found in nulls]) > 0.9


def test_a_leak_is_found_with_the_best_method_and_less_sure_than_alone():
    found = envelope(1, leak=1.0, n_samples=80, n_models=40)
    assert found.p_value < 1e-6
    assert found.tpr == max(found.tpr_by_method.values()) == found.tpr_by_method[found.method]
    assert found.tpr_low < found.tpr < found.tpr_high
    alone = found.attacks[found.method]
    low, high = alone.tpr_interval(0.01, n_resamples=100, seed=1)
    assert found.tpr_high - found.tpr_low > 0.9 * (high - low)
    assert found.asr_max_lower_bound <= max(
        attack.asr_max_lower_bound for attack in found.attacks.values()
    )


def test_one_method_needs_no_correction_but_that_of_the_two_directions():
    rng = np.random.default_rng(2)
    membership = rng.random((20, 30)) < 0.5
    scores = rng.normal(size=(20, 30)) + 0.5 * membership
    found = strongest_attack(scores, membership, methods=["bavaria"])
    attack = found.attacks["bavaria"]
    assert found.p_value == surest_p_value(attack.held_out)
    assert found.asr_max_lower_bound == pytest.approx(attack.asr_max_lower_bound)


def test_the_p_value_is_the_binomial_one_of_the_surest_pairs():
    rng = np.random.default_rng(4)
    members = rng.random((6, 30)) < 0.5
    statistic = np.round(rng.normal(size=(6, 30)) + members, 1).astype(np.float32)
    judged = np.ones((2, 30), dtype=bool)
    judged[1, 5] = False
    smallest = []
    for half in (0, 1):
        pairs = [
            (statistic[model, record], members[model, record])
            for model in range(half, 6, 2)
            for record in range(30)
            if judged[half, record]
        ]
        pairs.sort(key=lambda pair: -pair[0])
        n_surest = round(0.1 * len(pairs))
        surest = [seen for value, seen in pairs if value >= pairs[n_surest - 1][0]]
        smallest.append(binom.sf(sum(surest) - 1, len(surest), 0.5))
    expected = min(2 * min(smallest), 1.0)
    assert surest_p_value(HeldOutScores(statistic, members, judged)) == pytest.approx(expected)


def test_the_interval_holds_for_the_best_of_methods_that_are_alike():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        found = 0.1 + 0.01 * rng.normal(size=6)
        draws = found[:, None] + 0.01 * rng.normal(size=(6, 200))
        low, high = simultaneous_interval(found, draws, confidence=0.95)
        inside += low <= 0.1 <= high
    assert inside >= 400 * (0.95 - 2 * np.sqrt(0.05 * 0.95 / 400))
    assert simultaneous_interval(np.array([0.2]), np.full((1, 5), 0.2), confidence=0.95) == (
        0.2,
        0.2,
    )


def test_without_fair_coins_there_is_no_p_value():
    rng = np.random.default_rng(0)
    membership = np.repeat(rng.random((16, 1)) < 0.5, 40, axis=1)
    with pytest.warns(match="fair coins"):
        found = strongest_attack(rng.normal(size=(16, 40)), membership, methods=["rmia"])
    assert found.p_value is None
    assert found.asr_max_lower_bound == 0.0
    assert "no p-value" in repr(found)
    assert found.to_dict()["method"] == "rmia"


def test_no_method_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="at least one method"):
        strongest_attack(rng.normal(size=(8, 9)), rng.random((8, 9)) < 0.5, methods=[])


def test_a_study_reports_the_choice_made_beforehand_and_the_strongest_of_all(monkeypatch):
    monkeypatch.setattr(compared, "MOST_COMPARED", 20 * 400)
    rng = np.random.default_rng(3)
    membership = rng.random((20, 500)) < 0.5
    scores = 0.5 * membership + rng.normal(size=(20, 500))
    found = comparison_numbers(scores, membership, confidence=0.95, seed=0)
    assert found["attack_method"] == "combined"
    assert found["envelope_tpr_at_fpr_0_01"] >= found["attack_tpr_at_fpr_0_01"] > 0.01
    assert found["envelope_tpr_low"] <= found["envelope_tpr_at_fpr_0_01"]
    assert found["envelope_tpr_high"] >= found["envelope_tpr_at_fpr_0_01"]
    assert found["envelope_p_value"] < 0.001
    cell = RiskCell(epsilon=1.0, mechanism="rr", **found)
    document = RiskDocument(
        provenance=Provenance(method="shadow models", settings={"confidence": 0.95}),
        n_models=20,
        n_targets=500,
        cells=[cell],
    )
    (sentence,) = strongest_sentences(document, cell)
    assert cell.envelope_method in sentence
    beaten = cell.model_copy(update={"tpr_at_fpr_0_01": 0.9})
    assert strongest_sentences(document, beaten) == []
    assert strongest_sentences(document, cell.model_copy(update={"envelope_p_value": 0.3})) == []
    frame = risk_frame(document)
    assert frame["envelope_method"].tolist() == [cell.envelope_method]
    assert frame["envelope_tpr_low"].dtype == np.float64


@pytest.mark.parametrize("method", ["lira", "lira-online", "bavaria"])
def test_the_bound_of_the_mean_is_rarely_above_one_half_if_nothing_leaks(method):
    """Online, both halves succeed together where chance moves the scores of the members alike."""
    n_studies, above = 200, 0
    for seed in range(n_studies):
        generator = np.random.default_rng(seed)
        membership = generator.random((64, 60)) < 0.5
        attack = attack_membership(generator.normal(size=(64, 60)), membership, method=method)
        above += attack.held_out.mean_lower_bound(0.95) > 0.5
    assert above <= 0.05 * n_studies + 2.0 * (0.05 * 0.95 * n_studies) ** 0.5


def test_methods_of_one_name_are_not_told_apart():
    generator = np.random.default_rng(0)
    scores, membership = generator.normal(size=(32, 40)), generator.random((32, 40)) < 0.5
    with pytest.raises(InputError, match="different names"):
        strongest_attack(scores, membership, methods=[Rmia(), Rmia(gamma=2.0)])
    assert strongest_attack(scores, membership, methods="lira").method == "lira"


def test_many_models_are_left_out_rather_than_records():
    generator = np.random.default_rng(0)
    membership = generator.random((3000, 60)) < 0.5
    scores = generator.normal(size=membership.shape) + 4.0 * membership * (np.arange(60) < 3)
    found = comparison_numbers(scores, membership, confidence=0.95, seed=0)
    assert found["envelope_records"] == 60
    assert found["envelope_tpr_low"] > 0.03

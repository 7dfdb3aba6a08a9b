"""The attack beside a slow and obvious twin; what it refuses and what it says."""

from __future__ import annotations

import dataclasses
import json
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from epsilens.errors import ApproximationWarning, InputError, InputTypeError
from epsilens.risk import MembershipAttack, lira


def study(n_models=40, n_samples=7, *, seed=0, leak=1.0):
    rng = np.random.default_rng(seed)
    members = rng.random((n_models, n_samples)) < 0.5
    scores = rng.normal(size=members.shape) * np.linspace(0.5, 2.0, n_samples)
    return scores + leak * members, members


def spreads(scores, members, per_sample):
    """Standard deviations of the columns, or the one pooled within them."""
    parts = [scores[members[:, j], j] for j in range(scores.shape[1])]
    if per_sample:
        return [part.std(ddof=1) for part in parts]
    around = sum(((part - part.mean()) ** 2).sum() for part in parts)
    return [np.sqrt(around / sum(part.size - 1 for part in parts))] * len(parts)


def slow_lira(scores, members, *, online, per_sample):
    """One model and one sample at a time: statistic and success rate."""
    n_models, n_samples = scores.shape
    statistic = np.empty(scores.shape)
    for i in range(n_models):
        others = [k for k in range(n_models) if k % 2 != i % 2]
        seen, known = scores[others], members[others]
        out_spread = spreads(seen, ~known, per_sample)
        in_spread = spreads(seen, known, per_sample)
        for j in range(n_samples):
            out_mean, in_mean = seen[~known[:, j], j].mean(), seen[known[:, j], j].mean()
            if online:
                statistic[i, j] = norm.logpdf(scores[i, j], in_mean, in_spread[j]) - norm.logpdf(
                    scores[i, j], out_mean, out_spread[j]
                )
            else:
                statistic[i, j] = (scores[i, j] - out_mean) / out_spread[j]
    return statistic, ((statistic > 0) == members).mean(axis=0)


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("variance", ["fixed", "per-sample"])
@pytest.mark.parametrize("n_models", [40, 43])
def test_the_attack_is_its_definition(online, variance, n_models):
    scores, members = study(n_models)
    found = lira(scores, members, online=online, variance=variance)
    statistic, asr = slow_lira(scores, members, online=online, per_sample=variance == "per-sample")
    np.testing.assert_allclose(found.asr, asr, rtol=1e-12)
    # Kept in single precision.
    np.testing.assert_allclose(found.held_out.statistic, statistic, rtol=1e-5, atol=1e-5)
    assert found.asr_max == asr.max()
    assert found.asr_mean == pytest.approx(asr.mean())
    assert found.asr_quantile(0.5) == pytest.approx(np.median(asr))


def test_samples_have_their_own_spread_from_64_models_on():
    assert lira(*study(63)).variance == "fixed"
    assert lira(*study(64)).variance == "per-sample"


def test_blocks_of_samples_change_nothing(monkeypatch):
    scores, members = study(64, 30)
    whole = lira(scores, members, delta=1e-6)
    monkeypatch.setattr("epsilens.risk.logits._ENTRIES", 100)
    monkeypatch.setattr("epsilens.risk.membership_attack._ROWS", 70)
    parts = lira(scores, members, delta=1e-6)
    np.testing.assert_array_equal(whole.asr, parts.asr)
    assert whole.proof == parts.proof
    assert whole.tpr_interval(0.05) == parts.tpr_interval(0.05)


def test_single_precision_and_whole_numbers_are_accepted_and_nothing_is_changed():
    scores, members = study(64, 30)
    kept = scores.copy()
    single = lira(scores.astype(np.float32), members.astype(np.int8))
    np.testing.assert_allclose(single.asr, lira(scores, members).asr)
    np.testing.assert_array_equal(kept, scores)


def test_a_leaking_record_is_found():
    rng = np.random.default_rng(3)
    members = rng.random((64, 200)) < 0.5
    scores = rng.normal(size=members.shape)
    scores[:, 17] += 5.0 * members[:, 17]
    found = lira(scores, members, online=True)
    assert int(found.asr.argmax()) == 17
    assert found.asr_max_p_value < 1e-6
    assert found.asr_max_lower_bound > 0.6


def test_samples_without_enough_models_are_left_out_and_said():
    scores, members = study(20, 30)
    members[:, 0] = True  # nobody to compare with
    members[:, 1] = np.arange(20) % 2 == 0  # one half can judge, the other cannot
    members[1, 1] = False
    with pytest.warns(ApproximationWarning, match=r"2 of 30 samples .* \(1 not at all\)"):
        found = lira(scores, members)
    assert np.isnan(found.asr[0])
    assert np.isfinite(found.asr[1:]).all()
    assert np.isfinite([found.asr_max, found.asr_mean, found.auc, found.tpr_at_fpr(0.1)]).all()
    assert np.isfinite(found.tpr_interval(0.1)).all()
    assert found.n_judged == 29
    assert any("too few models" in words for words in found.assumptions)
    balanced = found.balanced_accuracy()
    assert np.isnan(balanced.per_sample[0])
    assert np.isfinite([balanced.max, balanced.mean]).all()


def test_unfair_coins_give_a_null_by_exchange_and_no_bounds():
    rng = np.random.default_rng(4)
    half = np.arange(64) < 32
    members = np.stack([rng.permutation(half) for _ in range(40)], axis=1)
    with pytest.warns(ApproximationWarning, match="too even"):
        found = lira(rng.normal(size=members.shape), members)
    assert found.asr_max_null.kind == "permutation"
    assert found.asr_max_lower_bound == 0.0
    assert found.asr_max_upper_bound == 1.0
    assert found.epsilon_lower_bound == 0.0
    assert found.proof is None
    assert found.balanced_accuracy().max_lower_bound is None
    assert found.to_dict()["epsilon_lower_bound"] == 0.0
    assert "no bound on epsilon" in repr(found)
    assert any("not valid then: asr_max_lower_bound" in words for words in found.assumptions)
    assert found.asr_max_p_value > 0.01


def test_unfair_coins_do_not_hide_a_leak():
    rng = np.random.default_rng(4)
    half = np.arange(64) < 32
    members = np.stack([rng.permutation(half) for _ in range(40)], axis=1)
    scores = rng.normal(size=members.shape) + 4.0 * members
    with pytest.warns(ApproximationWarning, match="too even"):
        assert lira(scores, members).asr_max_p_value == pytest.approx(1 / 201)


def test_scores_that_never_move_prove_nothing():
    _, members = study(64, 10)
    found = lira(np.full(members.shape, 0.1), members)
    assert found.asr_max == pytest.approx((~members).mean(axis=0).max())
    assert found.auc == 0.5
    assert found.tpr_at_fpr(0.01) == 0.0
    assert found.epsilon_lower_bound == 0.0


def test_one_sample_and_four_models_are_enough():
    found = lira([[0.0], [1.0], [0.5], [2.0]], [[0], [0], [0], [0]])
    assert found.n_samples == 1
    assert np.isfinite(found.asr_max)
    assert found.epsilon_lower_bound == 0.0


def test_the_result_is_frozen_and_its_dictionary_has_no_record():
    found = lira(*study(64, 30))
    assert isinstance(found, MembershipAttack)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.asr_max = 1.0
    with pytest.raises(ValueError, match="read-only"):
        found.asr[0] = 1.0
    content = found.to_dict()
    assert json.loads(json.dumps(content)) == content
    assert not any(isinstance(value, list) and len(value) == 30 for value in content.values())
    assert {"asr_max", "asr_max_null_q95", "tpr_at_fpr_0_001", "tpr_at_fpr_0_01"} <= set(content)
    assert "array" not in repr(found)
    assert "array" not in repr(found.balanced_accuracy())


@pytest.mark.parametrize(
    ("scores", "members", "match"),
    [
        (np.zeros((8, 3)), np.zeros((8, 2), dtype=bool), "same shape"),
        (np.zeros(8), np.zeros(8, dtype=bool), "same shape"),
        (np.zeros((8, 0)), np.zeros((8, 0), dtype=bool), "same shape"),
        (np.zeros((3, 5)), np.zeros((3, 5), dtype=bool), "at least 4 models"),
        (np.zeros((8, 3)), np.full((8, 3), 2), "True and False"),
        (np.zeros((8, 3)), np.full((8, 3), 0.5), "True and False"),
        (np.zeros((8, 3)), np.full((8, 3), "in"), "True and False"),
        (np.zeros((8, 3), dtype=complex), np.zeros((8, 3), dtype=bool), "real numbers"),
        (np.full((8, 3), "a"), np.zeros((8, 3), dtype=bool), "real numbers"),
        (np.zeros((8, 3)), np.ones((8, 3), dtype=bool), "none of the 3 samples"),
    ],
)
def test_bad_input_is_one_line(scores, members, match):
    with pytest.raises(InputError, match=match) as caught:
        lira(scores, members)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_scores_that_are_not_finite_are_counted_and_refused(bad):
    scores, members = study(8, 3)
    scores[2, 1] = bad
    with pytest.raises(InputError, match="1 of 24 are NaN"):
        lira(scores, members)


def test_bad_settings_are_refused():
    scores, members = study()
    with pytest.raises(InputError, match="`variance` must be one of"):
        lira(scores, members, variance="own")
    with pytest.raises(InputError, match="`confidence`"):
        lira(scores, members, confidence=1.0)
    with pytest.raises(InputError, match="`delta`"):
        lira(scores, members, delta=1.0)
    with pytest.raises(InputTypeError, match="`online`"):
        lira(scores, members, online="yes")
    found = lira(scores, members)
    with pytest.raises(InputError, match="`threshold`"):
        found.balanced_accuracy(1.5)
    with pytest.raises(InputError, match="`fpr`"):
        found.tpr_at_fpr(0.0)
    with pytest.raises(InputError, match="`n_points`"):
        found.roc(1)


def test_huge_but_allowed_scores_raise_no_warning():
    scores, members = study(64, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = lira(scores * 1e80, members, online=True)
    assert np.isfinite(found.asr_max)


def test_the_door_gives_the_function_every_time():
    import epsilens.risk as door

    assert callable(door.lira)
    assert callable(door.lira)
    assert set(door.__all__) == set(dir(door))
    for name in door.__all__:
        assert getattr(door, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        door.nonsense  # noqa: B018


def test_zeros_and_ones_of_any_type_are_members():
    rng = np.random.default_rng(4)
    members = rng.random((40, 12)) < 0.5
    scores = rng.normal(size=(40, 12))
    known = lira(scores, members).asr_max
    for kind in (int, float, np.uint8, object):
        assert lira(scores, members.astype(kind)).asr_max == known

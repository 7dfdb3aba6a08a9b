"""Laws of the membership attack that hold for all inputs."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilens.errors import ApproximationWarning
from epsilens.risk import lira, null_of_maximum


@st.composite
def studies(draw):
    n_models, n_samples = draw(st.integers(10, 70)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    members = rng.random((n_models, n_samples)) < 0.5
    # Multiples of 1/1024: sums of them, and constants added to them, are exact.
    scores = np.round(1024 * (rng.normal(size=members.shape) + draw(st.floats(0, 3)) * members))
    return scores / 1024, members, rng


def attack(scores, members, **settings):
    with warnings.catch_warnings():
        # Small studies leave samples out and chance upon odd coins; that is not the matter here.
        warnings.simplefilter("ignore", ApproximationWarning)
        return lira(scores, members, **settings)


@settings(deadline=None, max_examples=40)
@given(studies(), st.booleans())
def test_relabelling_samples_permutes(study, online):
    scores, members, rng = study
    order = rng.permutation(scores.shape[1])
    first = attack(scores, members, online=online, variance="per-sample")
    second = attack(scores[:, order], members[:, order], online=online, variance="per-sample")
    np.testing.assert_array_equal(first.asr[order], second.asr)
    assert first.asr_max_p_value == second.asr_max_p_value
    assert first.auc == second.auc


@settings(deadline=None, max_examples=40)
@given(studies(), st.booleans())
def test_models_may_change_places_within_their_half(study, online):
    scores, members, rng = study
    order = np.arange(scores.shape[0])
    for half in (0, 1):
        order[half::2] = rng.permutation(order[half::2])
    first = attack(scores, members, online=online)
    second = attack(scores[order], members[order], online=online)
    np.testing.assert_allclose(first.asr, second.asr)
    np.testing.assert_allclose(
        first.held_out.statistic[order], second.held_out.statistic, rtol=1e-4, atol=1e-4
    )


@settings(deadline=None, max_examples=40)
@given(studies(), st.booleans())
def test_a_constant_on_a_sample_changes_nothing(study, online):
    scores, members, rng = study
    shift = rng.integers(-64, 64, size=scores.shape[1])
    first = attack(scores, members, online=online)
    second = attack(scores + shift, members, online=online)
    np.testing.assert_array_equal(first.asr, second.asr)
    np.testing.assert_array_equal(first.held_out.statistic, second.held_out.statistic)
    assert first.epsilon_lower_bound == second.epsilon_lower_bound


@settings(deadline=None, max_examples=40)
@given(studies())
def test_the_other_sign_turns_every_judgement(study):
    scores, members, rng = study
    scores = scores + rng.normal(size=scores.shape) * 1e-3  # no score equals a mean
    first, second = attack(scores, members), attack(-scores, members)
    np.testing.assert_allclose(first.asr + second.asr, 1.0)
    np.testing.assert_allclose(first.auc + second.auc, 1.0, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(studies(), st.booleans(), st.sampled_from([0.0, 1e-5, 1e-2]))
def test_numbers_lie_where_they_must(study, online, delta):
    scores, members, _ = study
    found = attack(scores, members, online=online, delta=delta)
    assert 0.0 < found.asr_max_p_value <= 1.0
    assert 0.0 <= found.asr_mean <= found.asr_max <= 1.0
    assert 0.0 <= found.auc <= 1.0
    if found.proof is not None:
        assert 0.0 <= found.asr_max_lower_bound <= found.asr_max
        assert found.epsilon_lower_bound >= 0.0
        balanced = found.balanced_accuracy()
        if balanced.max_lower_bound is not None:
            assert balanced.max_lower_bound <= balanced.max
    few, more = found.tpr_at_fpr(0.01), found.tpr_at_fpr(0.2)
    assert 0.0 <= few <= more <= 1.0
    null = list(found.asr_max_null.values())
    assert null == sorted(null)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 400), st.integers(1, 500), st.integers(2, 10))
def test_the_floor_rises_with_samples_and_sinks_with_models(n_models, n_samples, more):
    here = null_of_maximum(n_models, n_samples)
    assert null_of_maximum(n_models, n_samples * more).mean >= here.mean
    assert null_of_maximum(n_models * more, n_samples).mean <= here.mean + 1e-12
    assert 0.5 - 1e-12 <= here.mean <= 1.0

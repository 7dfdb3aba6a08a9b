# SPDX-License-Identifier: Apache-2.0
"""Laws of what no attack can exceed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilens.channels import RandomizedResponse
from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.models.privacy_accounting import attack_ceiling
from epsilens.risk import inference_ceiling

RATES = st.floats(0.0, 1.0)
EPSILONS = st.floats(1e-6, 50.0)


@given(RATES, EPSILONS, EPSILONS)
def test_the_ceiling_of_an_answer_rises_with_epsilon(rate, first, second):
    strict, lax = sorted([first, second])
    assert inference_ceiling(rate, strict) <= inference_ceiling(rate, lax)
    assert rate * (1 - 1e-15) <= inference_ceiling(rate, strict) <= 1.0
    if 0.01 < rate < 0.99 and 0.01 < strict < 0.9 * lax < 10:
        assert inference_ceiling(rate, strict) < inference_ceiling(rate, lax)


@given(RATES, EPSILONS, EPSILONS)
def test_two_answers_are_exposed_as_one_at_the_sum_of_their_budgets(rate, first, second):
    one_by_one = inference_ceiling(inference_ceiling(rate, first), second)
    assert inference_ceiling(rate, first + second) == pytest.approx(one_by_one, rel=1e-12)


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8), EPSILONS)
def test_no_guess_from_a_report_beats_the_ceiling(weights, epsilon):
    prior = np.array(weights) / sum(weights)
    joint = prior[:, None] * RandomizedResponse(len(prior), epsilon).matrix
    # Whoever sees the report guesses the likeliest answer.
    best = joint.max(axis=0).sum()
    assert best <= inference_ceiling(float(prior.max()), epsilon) * (1 + 1e-12)


@pytest.mark.slow
@settings(max_examples=4)
@given(st.floats(0.3, 5.0), st.floats(1.2, 4.0), st.integers(1, 3))
def test_the_ceiling_of_membership_rises_with_epsilon(epsilon, factor, epochs):
    # Every record in every step: what the noise keeps is then quickly accounted for.
    strict, lax, none = (
        attack_ceiling(DPSGDSettings(epsilon=at, epochs=epochs, batch=64).calibration(64))
        for at in (epsilon, factor * epsilon, math.inf)
    )
    assert 0.5 <= strict < lax <= none == 1.0

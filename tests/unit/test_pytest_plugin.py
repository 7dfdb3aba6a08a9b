# SPDX-License-Identifier: Apache-2.0
"""The fixture `epsilens_audit` of pytest: passes where a claim is kept, fails with the verdict where it is broken."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.audit import GaussianSum, OneRunAudit
from epsilens.errors import InputError

DELTA = 1e-6
pytest_plugins = ["pytester"]


def noisy_sum(rows):
    scale = 1.0 / 0.25  # μ = 0.25: ε = 1.1 at δ = 1e-6
    return rows.sum(axis=0) + np.random.default_rng().normal(0.0, scale, rows.shape[1])


def forgets_the_noise(rows):
    return rows.sum(axis=0)


def test_a_claim_that_is_kept_passes(epsilens_audit):
    result = epsilens_audit(noisy_sum, epsilon=4.0, delta=DELTA, canaries=400)
    assert not result.is_broken
    assert result.bound.confidence == 0.9999
    wide = epsilens_audit(
        noisy_sum, epsilon=4.0, delta=DELTA, canaries=50, dimension=4000, method="residual"
    )
    assert wide.epsilon_lower_bound == pytest.approx(1.1, abs=0.1)
    ready = epsilens_audit(
        GaussianSum(2.0, DELTA, dimension=300), epsilon=2.0, delta=DELTA, canaries=200
    )
    assert ready.mechanism == "gaussian-sum"


def test_a_claim_that_is_broken_fails_with_the_verdict(epsilens_audit):
    with pytest.raises(pytest.fail.Exception, match="with 99"):
        epsilens_audit(forgets_the_noise, epsilon=1.0, canaries=200)


def test_noise_that_is_five_per_cent_too_small_is_found_by_its_residual():
    """Ten thousand numbers show σ to 1 %: the claim is that of the right noise."""
    right = GaussianSum(4.0, DELTA)

    def mechanism(rows):
        noise = np.random.default_rng(7).normal(0.0, 0.95 * right.noise_scale, rows.shape[1])
        return rows.sum(axis=0) + noise

    rng = np.random.default_rng(0)
    canaries = right.canaries(100, rng)
    asked = {"canaries": canaries, "claimed_epsilon": 4.0, "claimed_delta": DELTA}
    assert OneRunAudit(mechanism, method="residual", **asked).run(random_state=0).is_broken
    assert not OneRunAudit(mechanism, **asked).run(random_state=0).is_broken


@pytest.mark.slow
def test_the_residual_is_above_the_truth_in_five_of_a_hundred_audits_at_most():
    n, found = 300, []
    mechanism = GaussianSum(3.0, DELTA, dimension=500, directions="one-hot")
    audit = OneRunAudit(mechanism, canaries=20, method="residual")
    for seed in range(n):
        try:
            found.append(audit.run(random_state=seed).epsilon_lower_bound)
        except InputError:  # normal noise, too, fails a test of its shape now and then
            continue
    assert len(found) > 0.96 * n
    above = sum(one > 3.0 for one in found)
    assert 0 < above <= 0.05 * n + 2.0 * (0.05 * 0.95 * n) ** 0.5


def test_a_sum_without_noise_is_found_and_another_output_refused(epsilens_audit):
    asked = {"epsilon": 8.0, "delta": DELTA, "canaries": 50, "dimension": 500, "method": "residual"}
    with pytest.raises(pytest.fail.Exception, match=r"the claim is broken"):
        epsilens_audit(forgets_the_noise, **asked)
    for other in (lambda rows: 0.5 * noisy_sum(rows), lambda rows: rows.max(axis=0)):
        with pytest.raises(InputError, match="the sum of the rows with normal noise"):
            epsilens_audit(other, **asked | {"canaries": 2000})

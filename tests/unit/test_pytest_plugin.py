# SPDX-License-Identifier: Apache-2.0
"""The fixture `epsilens_audit` of pytest: passes where a claim is kept, fails with the verdict where it is broken."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.audit import GaussianSum, OneRunAudit
from epsilens.audit.normal_scores import looks_normal
from epsilens.errors import InputError

DELTA = 1e-6
pytest_plugins = ["pytester"]


def noisy_sum(rows):
    scale = 1.0 / 0.25  # μ = 0.25: ε = 1.1 at δ = 1e-6
    return rows.sum(axis=0) + np.random.default_rng().normal(0.0, scale, rows.shape[1])


def seeded(mechanism_scale=1.0 / 0.25, seed=0):
    """Return a noisy sum whose noise is fresh in every call and the same in every run of the tests."""
    generator = np.random.default_rng(seed)

    def mechanism(rows):
        return rows.sum(axis=0) + generator.normal(0.0, mechanism_scale, rows.shape[1])

    return mechanism


def forgets_the_noise(rows):
    return rows.sum(axis=0)


def test_a_claim_that_is_kept_passes(epsilens_audit):
    result = epsilens_audit(seeded(), epsilon=4.0, delta=DELTA, canaries=400)
    assert not result.is_broken
    assert result.bound.confidence == 0.9999
    assert "fresh noise" in result.bound.conditions[-1]
    wide = epsilens_audit(
        seeded(), epsilon=4.0, delta=DELTA, canaries=50, dimension=4000, method="residual"
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


def test_a_sum_without_noise_is_found_and_another_output_is_one_line(epsilens_audit):
    asked = {"epsilon": 8.0, "delta": DELTA, "canaries": 50, "dimension": 500, "method": "residual"}
    with pytest.raises(pytest.fail.Exception, match=r"the claim is broken"):
        epsilens_audit(forgets_the_noise, **asked)
    for other in (lambda rows: 0.5 * noisy_sum(rows), lambda rows: rows.max(axis=0)):
        with pytest.raises(pytest.fail.Exception, match="the sum of the rows with normal noise"):
            epsilens_audit(other, **asked | {"canaries": 2000})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-5, 3e-5, 1e-4, 1e-3])
def test_a_sum_without_noise_fails_at_every_ordinary_claim(epsilon, delta, epsilens_audit):
    with pytest.raises(pytest.fail.Exception, match=r"the claim is broken: with 99\.99 %"):
        epsilens_audit(forgets_the_noise, epsilon=epsilon, delta=delta)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_a_sum_without_noise_fails_at_epsilon_8(delta, epsilens_audit):
    with pytest.raises(pytest.fail.Exception, match="the claim is broken"):
        epsilens_audit(forgets_the_noise, epsilon=8.0, delta=delta)


@pytest.mark.parametrize("canaries", [10, 100, 1000, 10_000])
def test_an_audit_that_cannot_fail_is_not_passed(canaries, epsilens_audit):
    with pytest.raises(pytest.fail.Exception) as caught:
        epsilens_audit(noisy_sum, epsilon=1.0, delta=1e-5, canaries=canaries, runs=1)
    line = str(caught.value)
    assert "even a mechanism without noise proves at most ε = 0" in line
    assert "leave out `canaries`, leave out `runs`" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"delta": 1e-5, "method": "pure"}, "at δ = 0"),
        ({"epsilon": float("inf")}, "must be finite"),
        ({"epsilon": 0.0}, "`epsilon` must be"),
        ({"runs": 0}, "`runs` must be"),
        ({"canaries": 1}, "`canaries` must be"),
        ({"method": "f-dp"}, "Gaussian noise keeps no finite epsilon"),
        ({"delta": 1e-5, "method": "gaussian-scores"}, "scores that are not normal"),
        ({"confidence": 1.0}, "`confidence` must lie"),
    ],
)
def test_what_cannot_be_audited_is_one_line_and_no_pass(asked, words, epsilens_audit):
    with pytest.raises(pytest.fail.Exception, match=words) as caught:
        epsilens_audit(forgets_the_noise, **{"epsilon": 1.0} | asked)
    assert str(caught.value).startswith("the claim was not audited: ")
    assert "\n" not in str(caught.value)


def test_an_error_in_the_mechanism_keeps_its_traceback(epsilens_audit):
    def fails(rows):
        raise ValueError("shape")

    with pytest.raises(InputError) as caught:
        epsilens_audit(fails, epsilon=1.0)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_refusal_by_chance_is_tried_again(epsilens_audit, monkeypatch):
    asked = {"epsilon": 4.0, "delta": DELTA, "method": "residual"}
    # A seed whose first noise the test of its shape refuses, as in one of a hundred.
    unlucky = 399
    assert not looks_normal(np.random.default_rng(unlucky).normal(0.0, 4.0, 1000))
    assert not epsilens_audit(seeded(4.0, unlucky), **asked).is_broken

    # Three refusals in a row are less likely than one in 10,000, and final.
    calls = []

    def refuses(rows):
        calls.append(rows)
        return 0.5 * rows.sum(axis=0)

    with pytest.raises(pytest.fail.Exception, match="not audited"):
        epsilens_audit(refuses, **asked)
    assert len(calls) == 3


def test_the_smaller_of_two_bounds_errs_as_often_as_the_confidence_allows():
    """Two bounds that err in a half each, and the smaller of both in a quarter."""
    audit = OneRunAudit(
        GaussianSum(1.0, DELTA, dimension=500, directions="one-hot"),
        canaries=200,
        method="residual",
        confidence=0.75,
    )
    found = []
    for seed in range(200):
        try:
            found.append(audit.run_parts(2, random_state=2 * seed))
        except InputError:  # normal noise, too, fails a test of its shape now and then
            continue
    assert {one.bound.confidence for one in found} == {0.75}
    assert np.mean([one.is_broken for one in found]) == pytest.approx(0.25, abs=0.08)
    with pytest.raises(InputError, match="1 for method 'residual'"):
        audit.run_parts(1, 2)


def test_the_plugin_in_a_project_of_its_own(pytester):
    pytester.makepyfile(
        """
        import numpy as np

        generator = np.random.default_rng(0)

        def honest(rows):  # ε = 1 at δ = 1e-5
            return rows.sum(axis=0) + generator.normal(0.0, 3.73, rows.shape[1])

        def test_honest(epsilens_audit):
            epsilens_audit(honest, epsilon=1.0, delta=1e-5)

        def test_noiseless(epsilens_audit):
            epsilens_audit(lambda rows: rows.sum(axis=0), epsilon=1.0, delta=1e-5)

        def test_unfit(epsilens_audit):
            epsilens_audit(lambda rows: 0.5 * rows.sum(axis=0), epsilon=1, delta=1e-5, method="residual")
        """
    )
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:randomly")
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(["the claim is broken: with 99.99 % confidence*"])
    done.stdout.fnmatch_lines(
        ["the claim was not audited: *the sum of the rows with normal noise*"]
    )
    assert "Traceback" not in done.stdout.str()

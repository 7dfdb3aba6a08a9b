# SPDX-License-Identifier: Apache-2.0
"""DP-SGD for release: who is in a batch, how large the noise is, and that neither is seeded."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.models.noisy_descent import gradient_sum
from epsilens.models.opacus_release import poisson_batches, released_coefficients, sum_release

pytest.importorskip("opacus")
SETTINGS = DPSGDSettings.linear(1.0, 1e-5, x_bound=2.0, n_records=200)


def records(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (n, 2))
    return np.column_stack([X, np.ones(n)]), (X[:, 0] > 0).astype(np.intp)


@pytest.mark.parametrize("generator", [None, np.random.default_rng(1)])
def test_each_record_is_in_a_batch_by_a_coin_of_its_own(generator):
    plan = SETTINGS.plan(200)
    batches = np.array(list(poisson_batches(200, plan, generator)))
    assert batches.shape == (plan.n_steps, 200)
    q, n = plan.sampling_probability, batches.size
    # Five standard errors.
    assert abs(batches.mean() - q) < 5 * math.sqrt(q * (1 - q) / n)
    # Batches have different sizes, as coins give, not one size.
    sizes = batches.sum(axis=1)
    expected = 200 * q * (1 - q)
    assert abs(sizes.var() / expected - 1) < 5 * math.sqrt(2 / plan.n_steps) + 0.1


def test_the_noise_on_a_sum_of_gradients_is_the_stated_one(monkeypatch):
    noise = sum_release(SETTINGS, 200)
    multiplier = SETTINGS.calibration(200).noise_multiplier
    assert noise.sigma == pytest.approx(multiplier * SETTINGS.clip, rel=1e-5)
    assert noise.sigma > multiplier * SETTINGS.clip
    short = dataclasses.replace(SETTINGS.plan(200), n_steps=100)
    drawn, before = [], type(noise).draw

    def watched(release, values, generator):
        assert generator is None
        assert np.linalg.norm(values) <= 200 * SETTINGS.clip
        found = before(release, values, generator)
        drawn.append(found - values)
        return found

    monkeypatch.setattr(type(noise), "draw", watched)
    monkeypatch.setattr("epsilens.models.opacus_release.sum_release", lambda *_: noise)
    monkeypatch.setattr(DPSGDSettings, "plan", lambda self, n: short)
    design, codes = records()
    released_coefficients(design, codes, 1, SETTINGS, generator=None)
    assert len(drawn) == 100
    residuals = np.array(drawn).ravel() / noise.sigma
    # 300 numbers; five standard errors of their variance.
    assert abs(residuals.var() - 1) < 5 * math.sqrt(2 / residuals.size)
    assert abs(residuals.mean()) < 5 / math.sqrt(residuals.size)


def test_a_step_without_noise_is_the_sum_of_clipped_gradients(monkeypatch):
    monkeypatch.setattr(
        "epsilens.models.gaussian_release.GaussianRelease.draw", lambda self, values, _: values
    )
    plan = SETTINGS.plan(200)
    one_step = dataclasses.replace(plan, sampling_probability=1.0, n_steps=1, expected_batch=200)
    monkeypatch.setattr(DPSGDSettings, "plan", lambda self, n: one_step)
    design, codes = records()
    found = released_coefficients(design, codes, 1, SETTINGS, generator=None)
    # No gradient at 0 is longer than the clipping length: |x|/2 ≤ √3/2 < 1.5.
    by_hand = -SETTINGS.learning_rate * gradient_sum(design, codes, np.zeros((3, 1))) / 200
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)


def test_a_release_cannot_be_repeated_and_a_simulation_can(monkeypatch):
    short = dataclasses.replace(SETTINGS.plan(200), n_steps=4)
    monkeypatch.setattr(DPSGDSettings, "plan", lambda self, n: short)
    design, codes = records()

    def run(seed):
        generator = None if seed is None else np.random.default_rng(seed)
        return released_coefficients(design, codes, 1, SETTINGS, generator=generator)

    np.random.seed(0)  # noqa: NPY002
    first = run(None)
    np.random.seed(0)  # noqa: NPY002
    assert not np.array_equal(first, run(None))
    np.testing.assert_array_equal(run(3), run(3))

# SPDX-License-Identifier: Apache-2.0
"""DP-SGD audited: our trainer passes, the same with one mistake is caught."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from epsilens.audit import DPSGDFit, Loss, OneRunAudit
from epsilens.audit.mechanisms import Mechanism, Simulated
from epsilens.errors import InputError
from epsilens.models import dp_sgd
from epsilens.models.dp_sgd import NormalNoise
from epsilens.models.networks import ClippedGradients
from epsilens.models.privacy_accounting import account

N_CANARIES = 2000
# Every step looks at all records: then the noise is Gaussian and the sharpest bound is exact.
WHOLE = {"n_canaries": N_CANARIES, "batch": N_CANARIES, "epochs": 5}


def audit(mechanism: DPSGDFit, method: str | None = None, *, seed: int = 0):
    found = OneRunAudit(mechanism, canaries=mechanism.n_canaries, method=method)
    return found.run(random_state=seed)


def test_it_knows_what_it_keeps() -> None:
    mechanism = DPSGDFit(2.0, 1e-5)
    assert isinstance(mechanism, Mechanism)
    assert isinstance(mechanism, Simulated)
    assert mechanism.expected_records == 501
    found = mechanism.calibration
    assert found.sampling_probability == 64 / 501
    assert 1.99 < mechanism.true_epsilon(1e-5) <= 2.0
    kept = account(
        found.noise_multiplier,
        delta=1e-3,
        sampling_probability=found.sampling_probability,
        n_steps=found.n_steps,
    )
    assert mechanism.true_epsilon(1e-3) == kept.epsilon_pld < 2.0
    assert mechanism.true_epsilon(0.0) == math.inf


def test_it_leaks_as_gaussian_noise_only_without_sampling() -> None:
    assert DPSGDFit(2.0, 1e-5).leakage == "unknown"
    whole = DPSGDFit(2.0, 1e-5, n_canaries=100, batch=51)
    assert whole.leakage == "gaussian"
    # A batch cannot be larger than what is expected.
    assert DPSGDFit(2.0, 1e-5, n_canaries=100, batch=999).settings.batch == 51


def test_a_canary_pulls_the_same_way_all_along() -> None:
    """The published coefficient is lr/B times the number of looks, and noise: almost a noisy sum."""
    mechanism = DPSGDFit(50.0, 1e-5, n_canaries=200, generator=np.random.default_rng(0))
    canaries = mechanism.canaries(200, np.random.default_rng(0))
    included = np.arange(200) < 100
    theta = mechanism(canaries.dataset(included))
    settings, found = mechanism.settings, mechanism.calibration
    unit = settings.learning_rate * settings.clip / settings.batch
    looks = theta / unit
    # On average as many looks as epochs, within five standard errors of the mean of 100.
    spread = math.sqrt(found.n_steps) * found.noise_multiplier + math.sqrt(settings.epochs)
    assert abs(looks[included].mean() - found.n_steps * found.sampling_probability) < spread / 2
    assert abs(looks[~included].mean()) < spread / 2
    assert np.abs(20.0 * theta).max() < 0.15  # the linear predictor of a canary


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
@pytest.mark.parametrize("method", ["approximate", "f-dp"])
def test_ours_passes(epsilon: float, method: str) -> None:
    result = audit(DPSGDFit(epsilon, 1e-5), method)
    assert not result.is_broken
    assert 0.0 < result.epsilon_lower_bound < epsilon


@pytest.mark.slow
def test_ours_passes_again_and_again() -> None:
    """The sharpest bound, where it is exact, in 60 audits: at most 5 % fail, plus two standard errors."""
    mechanism = DPSGDFit(4.0, 1e-5, n_canaries=400, batch=400, epochs=5)
    assert mechanism.leakage == "gaussian"
    broken = [audit(mechanism, "independent-gdp", seed=seed).is_broken for seed in range(60)]
    assert np.mean(broken) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 60)


def less_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    class TooQuiet(NormalNoise):
        def __init__(self, generators, n_numbers, scale, dtype) -> None:
            super().__init__(generators, n_numbers, scale / math.sqrt(2.0), dtype)

    monkeypatch.setattr(dp_sgd, "NormalNoise", TooQuiet)


def no_clipping(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unclipped(ClippedGradients):
        def __init__(self, table, network, n_models, capacity, clip) -> None:
            super().__init__(table, network, n_models, capacity, 1e9)

    monkeypatch.setattr(dp_sgd, "ClippedGradients", Unclipped)


def noise_for_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of one clipping length divided twice by the size of a batch."""

    class Divided(NormalNoise):
        def __init__(self, generators, n_numbers, scale, dtype) -> None:
            super().__init__(generators, n_numbers, scale / 64, dtype)

    monkeypatch.setattr(dp_sgd, "NormalNoise", Divided)


@pytest.mark.parametrize("epsilon", [4.0, 8.0])
def test_noise_off_by_the_root_of_two_is_caught(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = DPSGDFit(epsilon, 1e-5, **WHOLE)
    assert not audit(mechanism, "independent-gdp").is_broken
    less_noise(monkeypatch)
    result = audit(mechanism, "independent-gdp")
    assert result.is_broken
    assert result.verdict.startswith("the claim is broken: ")


@pytest.mark.parametrize("mistake", [no_clipping, noise_for_the_mean])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_gross_mistakes_are_caught_by_the_default(
    mistake, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sampling, and by the bound that assumes nothing."""
    mechanism = DPSGDFit(epsilon, 1e-5)
    assert not audit(mechanism).is_broken
    mistake(monkeypatch)
    assert audit(mechanism).is_broken


def test_a_batch_of_everybody_that_is_accounted_as_a_sample_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The noise of a sampled step, and every record in every step: a usual mistake."""
    mechanism = DPSGDFit(4.0, 1e-5)
    true_fill = dp_sgd.fill_batches
    monkeypatch.setattr(
        dp_sgd,
        "fill_batches",
        lambda batches, own, _, rng: true_fill(batches, own, 1.0, rng),
    )
    assert audit(mechanism).is_broken


def test_records_of_a_table_with_wrong_labels() -> None:
    X, y = load_digits(return_X_y=True)
    table = {"features": X / 16.0, "labels": y.astype(str), "n_canaries": 300}
    mechanism = DPSGDFit(8.0, 1e-5, **table)
    assert mechanism.expected_records == len(X) - 150
    assert isinstance(mechanism.score(), Loss)
    canaries = mechanism.canaries(300, np.random.default_rng(0))
    model = mechanism(canaries.dataset(np.zeros(300, dtype=bool)))
    chance = model.predict_proba(canaries.base[0])
    assert np.allclose(chance.sum(axis=1), 1.0)
    guess = model.classes_[chance.argmax(axis=1)]
    assert (guess == canaries.base[1]).mean() > 0.85
    assert not audit(mechanism).is_broken


@pytest.mark.slow
def test_a_model_that_learns_by_heart_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network without noise or clipping, that is said to keep ε = 0.5, knows its wrong labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40)) / 4.0
    table = {"features": X, "labels": (X[:, 0] > 0).astype(int), "n_canaries": 200}
    mechanism = DPSGDFit(0.5, 1e-5, **table, hidden=(64,), epochs=60, batch=16)
    assert not audit(mechanism).is_broken
    no_clipping(monkeypatch)
    monkeypatch.setattr(NormalNoise, "draw", lambda self: np.float32(0.0))
    assert audit(mechanism).is_broken


def test_two_classes_of_a_table() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    mechanism = DPSGDFit(
        8.0, 1e-5, features=X, labels=X[:, 0] > 0, n_canaries=20, batch=20, generator=rng
    )
    model = mechanism(mechanism.canaries(20, rng).dataset(np.ones(20, dtype=bool)))
    chance = model.predict_proba(X)
    assert chance.shape == (120, 2)
    assert np.allclose(chance.sum(axis=1), 1.0)


def test_seeds() -> None:
    one, two, other = (audit(DPSGDFit(8.0, 1e-5), seed=seed).bound for seed in (3, 3, 4))
    assert one == two
    assert one != other


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DPSGDFit(math.inf, 1e-5), "must be finite"),
        (lambda: DPSGDFit(1001.0, 1e-5), "must be at most 1000, got 1001"),
        (lambda: DPSGDFit(1.0, 0.0), "Use for instance 1e-6"),
        (lambda: DPSGDFit(1.0, 1e-5, n_canaries=1), "`n_canaries` must be at least 2"),
        (lambda: DPSGDFit(1.0, 1e-5, batch=0), "`batch` must be at least 1"),
        (lambda: DPSGDFit(1.0, 1e-5, clip=-1.0), "`clip` must be finite and greater than 0"),
        (lambda: DPSGDFit(1.0, 1e-5, features=np.eye(3)), "must be given together"),
        (lambda: DPSGDFit(1.0, 1e-5, hidden=(3,)), "`hidden` must be empty without a table"),
        (
            lambda: DPSGDFit(1.0, 1e-5, features=np.eye(3), labels=[0, 1, 0], n_canaries=9),
            "`n_canaries` must be below the number of records",
        ),
        (
            lambda: DPSGDFit(1.0, 1e-5).canaries(5, np.random.default_rng(0)),
            "as many as the mechanism counts on",
        ),
    ],
)
def test_mechanisms_that_cannot_be(make, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()

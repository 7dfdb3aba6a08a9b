# SPDX-License-Identifier: Apache-2.0
"""Models side by side: the twin that trains one at a time, streams, membership, noise, checkpoints."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits

from epsilens.errors import InputError, InputTypeError
from epsilens.models import dp_sgd
from epsilens.models.dp_sgd import (
    DPSGDSettings,
    EnsembleFit,
    draw_heads,
    score_ensemble,
    train_ensemble,
)
from epsilens.models.networks import Network

N = 120
SETTINGS = DPSGDSettings(epsilon=5.0, batch=12, epochs=3)
KINDS = {
    "logistic": (2, ()),
    "softmax": (4, ()),
    "network": (3, (6, 5)),
}


def table(n_classes: int, *, n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.argmax(X[:, :n_classes] + 0.3 * rng.normal(size=(n, n_classes)), axis=1)


def halves(n_models: int, *, n: int = N, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((n_models, n)) < 0.5


def train_one_by_one(
    X: np.ndarray,
    codes: np.ndarray,
    members: np.ndarray,
    settings: DPSGDSettings,
    *,
    network: Network,
    seed: int,
    model: int,
    n_expected: float,
) -> np.ndarray:
    """The slow obvious twin: one model, one record at a time, every gradient written out.

    Only the three streams are the package's: coins, noise and start.
    """
    from epsilens.models.dp_sgd import NormalNoise

    coins, noise, start = (
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(model, k))) for k in range(3)
    )
    theta = network.initial([start], np.float64)[0]
    calibration = settings.calibration(n_expected)
    sigma = calibration.noise_multiplier * settings.clip
    source = NormalNoise([noise], len(theta), sigma, np.float64)
    own = np.flatnonzero(members)
    heads = draw_heads(calibration.n_steps * len(own), settings.batch / n_expected, coins)
    for step in range(calibration.n_steps):
        total = np.zeros_like(theta)
        for head in heads[heads // len(own) == step]:
            record = own[head % len(own)]
            gradient = gradient_of(network, theta, X[record], codes[record])
            length = math.sqrt(sum(value**2 for value in gradient))
            total += gradient * min(1.0, settings.clip / (length + 1e-6))
        total += source.draw()[0]
        theta = theta - settings.learning_rate * total / settings.batch
    return theta


def gradient_of(network: Network, theta: np.ndarray, x: np.ndarray, code: int) -> np.ndarray:
    weights = [layer[0] for layer in network.layers(theta[None])]
    below = [np.append(x, 1.0)]
    for matrix in weights[:-1]:
        below.append(np.append(np.maximum(matrix @ below[-1], 0.0), 1.0))
    z = weights[-1] @ below[-1]
    if network.n_outputs == 1:
        delta = 1.0 / (1.0 + np.exp(-z)) - code
    else:
        delta = np.exp(z) / np.exp(z).sum() - np.eye(len(z))[code]
    parts: list[np.ndarray] = []
    for number in range(len(weights) - 1, -1, -1):
        parts.insert(0, np.outer(delta, below[number]).ravel())
        delta = ((weights[number].T @ delta) * (below[number] > 0))[:-1]
    return np.concatenate(parts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "share",
    [0.5, 1.0],  # with all records in, batches are twice as large as expected and many do not fit
)
def test_the_twin_that_trains_one_by_one(kind: str, share: float) -> None:
    n_classes, hidden = KINDS[kind]
    X, codes = table(n_classes)
    members = np.random.default_rng(1).random((5, N)) < share
    settings = replace(SETTINGS, hidden=hidden, precision="double")
    fit = train_ensemble(X, codes, members, settings, random_state=7, block_size=3)
    for model in range(5):
        slow = train_one_by_one(
            X,
            codes,
            members[model],
            settings,
            network=Network(4, n_classes, hidden),
            seed=7,
            model=model,
            n_expected=N / 2,
        )
        assert np.abs(fit.parameters[model] - slow).max() < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_enough(kind: str) -> None:
    """The same batches in both precisions, without noise: they part by rounding only."""
    n_classes, hidden = KINDS[kind]
    X, codes = table(n_classes)
    single = replace(SETTINGS, epsilon=math.inf, hidden=hidden)
    one, two = (
        train_ensemble(X, codes, halves(4), settings, random_state=0).parameters
        for settings in (single, replace(single, precision="double"))
    )
    assert one.dtype == np.float32
    if hidden:  # the start is rounded, too
        assert np.abs(one - two).max() < 1e-4
    else:
        assert np.abs(one - two).max() < 1e-5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_block_size_changes_not_a_bit(kind: str, precision: str) -> None:
    n_classes, hidden = KINDS[kind]
    X, codes = table(n_classes)
    settings = replace(SETTINGS, hidden=hidden, precision=precision)
    members = halves(9)
    fits = [
        train_ensemble(X, codes, members, settings, random_state=3, block_size=size)
        for size in (None, 1, 2, 4, 9)
    ]
    for fit in fits[1:]:
        assert (fit.parameters == fits[0].parameters).all()
        assert (fit.logits(X) == fits[0].logits(X)).all()
    fewer = train_ensemble(X, codes, members[:3], settings, random_state=3)
    assert (fewer.parameters == fits[0].parameters[:3]).all()


def test_seeds() -> None:
    X, codes = table(2)
    members = np.tile(halves(1), (2, 1))

    def parameters(seed: int | None) -> np.ndarray:
        return train_ensemble(X, codes, members, SETTINGS, random_state=seed).parameters

    assert (parameters(5) == parameters(5)).all()
    for one, other in [
        (parameters(5), parameters(6)),
        (parameters(None), parameters(None)),
        parameters(5),
    ]:
        assert (one != other).any()


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_not_in_has_no_influence(kind: str) -> None:
    """Exactly: other features and another label of a record outside change not a bit."""
    n_classes, hidden = KINDS[kind]
    X, codes = table(n_classes)
    members = halves(6)
    outsiders = [0, 5, N - 1]
    members[:, outsiders] = False
    settings = replace(SETTINGS, hidden=hidden)
    before = train_ensemble(
        X, codes, members, settings, n_classes=n_classes, random_state=0
    ).parameters
    other_X, other_codes = X.copy(), codes.copy()
    other_X[outsiders] = [[1e9] * 4, [-1e9] * 4, [0.0] * 4]
    other_codes[outsiders] = (codes[outsiders] + 1) % n_classes
    after = train_ensemble(
        other_X, other_codes, members, settings, n_classes=n_classes, random_state=0
    ).parameters
    assert (before == after).all()
    other_X[np.flatnonzero(members[0])[0]] += 1.0
    inside = train_ensemble(
        other_X, other_codes, members, settings, n_classes=n_classes, random_state=0
    ).parameters
    assert (inside[0] != before[0]).any()


def test_the_noise_has_the_calibrated_size() -> None:
    """Without records only noise moves a model: its parameters are N(0, T (η σ C / B)²)."""
    X, codes = table(4, n=2000)
    settings = replace(SETTINGS, clip=0.4, learning_rate=0.7, batch=100, epochs=2)
    nobody = np.zeros((400, 2000), dtype=bool)
    fit = train_ensemble(X, codes, nobody, settings, random_state=0)
    calibration = settings.calibration(1000)
    spread = 0.7 * 0.4 * calibration.noise_multiplier / 100 * math.sqrt(calibration.n_steps)
    assert calibration.n_steps == 20
    values = fit.parameters.astype(float).ravel() / spread
    assert len(values) == 8000
    # A variance from 8,000 draws has a relative error of 1.6 %: five of them.
    assert abs(values.var() - 1.0) < 0.08
    assert stats.kstest(values, "norm").pvalue > 1e-3
    correlations = np.corrcoef(fit.parameters.astype(float).T) - np.eye(20)
    assert np.abs(correlations).max() < 5 / math.sqrt(400)


def test_the_sum_is_divided_by_the_expected_size() -> None:
    """One step from 0, without noise or clipping: twice the records go twice as far."""
    X, codes = table(2)
    settings = DPSGDSettings(epsilon=math.inf, batch=60, epochs=1, clip=1e6, precision="double")
    half = np.zeros((2, N), dtype=bool)
    half[0, :30] = half[1] = True
    fit = train_ensemble(X, codes, half, settings, random_state=0)
    assert settings.plan(N / 2).sampling_probability == 1.0
    for model, n in enumerate((30, N)):
        gradient = (0.5 - codes[:n]) @ np.column_stack([X[:n], np.ones(n)])
        assert np.allclose(fit.parameters[model], -0.5 * gradient / 60, rtol=0, atol=1e-12)


def test_the_plan_knows_nothing_of_who_is_in() -> None:
    X, codes = table(2)
    few, many = np.zeros((1, N), dtype=bool), np.ones((1, N), dtype=bool)
    fits = [train_ensemble(X, codes, who, SETTINGS, random_state=0) for who in (few, many)]
    assert fits[0].calibration == fits[1].calibration
    assert fits[0].calibration.sampling_probability == 12 / 60
    known = train_ensemble(X, codes, many, SETTINGS, expected_records=N, random_state=0)
    assert known.calibration.sampling_probability == 12 / N


def test_every_model_has_batches_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of batches over models and steps are binomial, drawn from the members."""
    sizes: list[int] = []
    true_fill = dp_sgd.fill_batches

    def spy(batches, members, probability, generator):
        late = true_fill(batches, members, probability, generator)
        filled = (batches < N).sum(axis=1)
        for step, records in late.items():
            filled[step] += len(records)
        sizes.extend(filled.tolist())
        return late

    monkeypatch.setattr(dp_sgd, "fill_batches", spy)
    X, codes = table(2)
    members = np.zeros((100, N), dtype=bool)
    members[:, :50] = True
    train_ensemble(X, codes, members, replace(SETTINGS, epochs=8), random_state=0)
    assert len(sizes) == 100 * 40
    drawn = np.array(sizes)
    # 4,000 batches: the mean has an error of 0.045, the variance one of 2.2 %; five of each.
    assert abs(drawn.mean() - 50 * 0.2) < 0.23
    assert abs(drawn.var() / (50 * 0.2 * 0.8) - 1.0) < 0.11


@pytest.mark.slow
def test_digits_are_learnt() -> None:
    """The default step does well on both usual scales, at a level that protects."""
    X, codes = load_digits(return_X_y=True)
    members = halves(8, n=len(X))
    for rows in (X / 16.0, (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)):
        fit = train_ensemble(rows, codes, members, DPSGDSettings(epsilon=8.0), random_state=0)
        right = fit.logits(rows).argmax(axis=2) == codes
        assert right[~members].mean() > 0.9
        assert fit.calibration.epsilon_pld <= 8.0


def test_logits_in_parts_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_sgd, "_LOGITS_AT_ONCE", 1000)
    X, codes = table(4)
    fit = train_ensemble(X, codes, halves(7), SETTINGS, random_state=0)
    whole = fit.logits(X)
    assert whole.shape == (7, N, 4)
    scores = score_ensemble(
        X,
        codes,
        halves(7),
        SETTINGS,
        score=lambda z: z.max(axis=2),
        score_name="max",
        random_state=0,
    )
    assert (scores == whole.max(axis=2)).all()
    some = score_ensemble(
        X,
        codes,
        halves(7),
        SETTINGS,
        score=lambda z: z[:, :, 1],
        score_name="second",
        X_score=X[:9],
        random_state=0,
    )
    assert np.allclose(some, whole[:, :9, 1], rtol=1e-5, atol=1e-5)


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.mark.parametrize("scored", [False, True])
def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path, scored: bool) -> None:
    X, codes = table(4)
    members = halves(11)
    seen: list[int] = []

    def run(folder: Path | None, kill_after: int | None = None) -> np.ndarray:
        def progress(done: int, total: int, what: str) -> None:
            assert (total, what) == (11, "train")
            seen.append(done)
            if done == kill_after:
                raise Killed

        options = {
            "random_state": 4,
            "checkpoint": folder,
            "progress": progress,
            "block_size": 3,
        }
        if scored:
            return score_ensemble(
                X,
                codes,
                members,
                SETTINGS,
                score=lambda z: z[:, :, 0],
                score_name="first",
                **options,
            )
        return train_ensemble(X, codes, members, SETTINGS, **options).parameters

    whole = run(None)
    assert seen == [3, 6, 9, 11]
    with pytest.raises(Killed):
        run(tmp_path / "run", kill_after=6)
    kept = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "run").iterdir()}
    assert sorted(kept) == ["block-000000.npz", "block-000001.npz", "run.json"]
    (tmp_path / "run" / "block-000001.npz").write_bytes(b"half")
    assert (run(tmp_path / "run") == whole).all()
    after = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "run").iterdir()}
    assert len(after) == 5
    assert after["block-000000.npz"] == kept["block-000000.npz"]  # not done again
    assert (run(tmp_path / "run") == whole).all()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    X, codes = table(4)

    def run(**changes) -> EnsembleFit:
        given = {"X": X, "settings": SETTINGS, "membership": halves(3), "random_state": 0}
        given |= changes
        return train_ensemble(
            given["X"],
            codes,
            given["membership"],
            given["settings"],
            random_state=given["random_state"],
            checkpoint=tmp_path,
        )

    run()
    for changes in (
        {"X": X + 1.0},
        {"settings": replace(SETTINGS, epsilon=4.0)},
        {"settings": replace(SETTINGS, learning_rate=0.4)},
        {"membership": halves(3, seed=9)},
        {"membership": halves(4)},
        {"random_state": 1},
    ):
        with pytest.raises(InputError, match="belongs to another run"):
            run(**changes)
    with pytest.raises(InputError, match="belongs to another run"):
        score_ensemble(
            X,
            codes,
            halves(3),
            SETTINGS,
            score=lambda z: z,
            score_name="all",
            random_state=0,
            checkpoint=tmp_path,
        )
    with pytest.raises(InputError, match="`random_state` must be given with a checkpoint"):
        run(random_state=None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 0.0}, "`epsilon` must be greater than 0"),
        ({"delta": 1.0}, "`delta` must lie between 0 and 1"),
        ({"clip": 0.0}, "`clip` must be finite and greater than 0"),
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"batch": 0}, "`batch` must be at least 1"),
        ({"learning_rate": math.inf}, "`learning_rate` must be finite"),
        ({"hidden": (5, 0)}, "`hidden` must be at least 1"),
        ({"activation": "sine"}, "`activation` must be one of 'relu', 'tanh'"),
        ({"precision": "half"}, "`precision` must be one of 'single', 'double'"),
    ],
)
def test_settings_check_themselves(changes: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        DPSGDSettings(**{"epsilon": 1.0, **changes})


def test_arrays_that_do_not_fit() -> None:
    X, codes = table(2)
    members = halves(2)

    def refused(X, codes, members, words: str, error: type = InputError, **more) -> None:
        with pytest.raises(error, match=words) as caught:
            train_ensemble(X, codes, members, SETTINGS, random_state=0, **more)
        assert "\n" not in str(caught.value)

    refused([["a"]], codes, members, "`X` must be a table of numbers", InputTypeError)
    refused(X[0], codes, members, r"a row a record and a column a feature, got shape \(4,\)")
    refused(X[:, :, None], codes, members, "a row a record and a column a feature")
    for bad in (np.nan, np.inf, 1e12):
        wrong = X.copy()
        wrong[3, 1] = bad
        refused(wrong, codes, members, "`X` must be finite and at most 1e\\+09 in size")
    refused(X, codes[:-1], members, "`codes` must have one entry a row of `X`")
    refused(X, codes.astype(float), members, "`codes` must be whole numbers", InputTypeError)
    refused(X, codes - 1, members, "lie outside")
    refused(X, codes * 5, members, "lie outside", n_classes=3)
    refused(X, codes, members.astype(int), "`membership` must be a table of True", InputTypeError)
    refused(X, codes, members[:, 1:], "`membership` must have a row a model")
    refused(X, codes, members[0], "`membership` must have a row a model")
    refused(X, codes, members, "`batch` must be at most", expected_records=5)
    refused(X, codes, members, "`expected_records` must be finite", expected_records=math.inf)
    fit = train_ensemble(X, codes, members, SETTINGS, random_state=0)
    with pytest.raises(InputError, match=r"as many columns as in training \(4\), got 3"):
        fit.logits(X[:, :3])

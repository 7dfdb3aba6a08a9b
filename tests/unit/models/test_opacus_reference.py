# SPDX-License-Identifier: Apache-2.0
"""The ensemble is what Opacus computes: gradients, noise, steps, accounting, accuracy."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from epsilens.errors import InputError, MissingExtraError
from epsilens.models import dp_sgd
from epsilens.models.dp_sgd import DPSGDSettings, train_ensemble
from epsilens.models.networks import BatchTable, ClippedGradients, Network
from epsilens.models.opacus_reference import Learner, quietly, torch_network, train_with_opacus
from epsilens.models.privacy_accounting import account, calibrate_noise

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

NETWORKS = {
    "logistic": Network(64, 2),
    "softmax": Network(64, 10),
    "network": Network(64, 10, (128,)),
    "deep": Network(64, 10, (20, 12), "tanh"),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def digits(network: Network) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, (y > 4).astype(int) if network.n_classes == 2 else y


def started(network: Network, seed: int = 0) -> torch.nn.Module:
    """A module whose parameters are all away from 0, so that nothing vanishes."""
    torch.manual_seed(seed)
    module = torch_network(network)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module


def flat(module: torch.nn.Module, values: str | None = None) -> np.ndarray:
    """Parameters, or an attribute of them, in the order of `Network.layers`."""
    tensors = [
        parameter if values is None else getattr(parameter, values)
        for parameter in module.parameters()
    ]
    arrays = [tensor.detach().numpy().astype(np.float64) for tensor in tensors]
    parts = [
        np.column_stack([weight, bias]).ravel()
        for weight, bias in zip(arrays[::2], arrays[1::2], strict=True)
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=list(NETWORKS))
@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [("single", 1e-6), ("double", 1e-12)],  # relative to the largest number of the sum
)
@pytest.mark.parametrize("clip", [0.2, 1.0, 50.0])
def test_the_same_clipped_sum_for_the_same_batch(
    network: Network, precision: str, tolerance: float, clip: float
) -> None:
    X, codes = digits(network)
    batch = np.random.default_rng(0).choice(len(X), size=60, replace=False)
    settings = DPSGDSettings(epsilon=1.0, clip=clip, precision=precision)
    kind = torch.float32 if precision == "single" else torch.float64
    module = started(network).to(kind)
    parameters = flat(module)[None].astype(settings.dtype)
    with quietly():
        learner = Learner(module, settings, expected_batch=64, noise_multiplier=0.0, generator=None)
        learner.step(torch.as_tensor(X[batch], dtype=kind), torch.as_tensor(codes[batch]))
    theirs = flat(module, "summed_grad")

    table = BatchTable(X, codes, network, settings.dtype)
    padded = np.append(batch, [table.padding] * 4)[None]
    ours = np.empty_like(parameters)
    ClippedGradients(table, network, *padded.shape, clip).add_up(
        network.layers(parameters), padded, network.layers(ours)
    )
    assert np.abs(ours[0] - theirs).max() <= tolerance * np.abs(theirs).max()
    assert np.abs(theirs).max() > 0.05


@pytest.mark.parametrize("network", NETWORKS.values(), ids=list(NETWORKS))
def test_the_same_steps_for_the_same_batches_and_noise(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole training, with Opacus' batches and noise handed to the ensemble's own loop."""
    X, codes = digits(network)
    settings = DPSGDSettings(
        epsilon=8.0,
        batch=64,
        epochs=2,
        hidden=network.hidden,
        activation=network.activation,
        precision="double",
    )
    plan, calibration = settings.plan(len(X) / 2), settings.calibration(len(X) / 2)
    rng = np.random.default_rng(1)
    drawn = [np.flatnonzero(rng.random(len(X)) < 0.04) for _ in range(plan.n_steps)]
    drawn[3] = drawn[3][:0]  # an empty batch is a step of noise

    module = started(network).to(torch.float64)
    start = flat(module)
    noise: list[np.ndarray] = []
    with quietly():
        learner = Learner(
            module,
            settings,
            expected_batch=plan.expected_batch,
            noise_multiplier=calibration.noise_multiplier,
            generator=torch.Generator().manual_seed(5),
        )
        for batch in drawn:
            learner.step(torch.as_tensor(X[batch]), torch.as_tensor(codes[batch]))
            # What Opacus added: the gradient it stepped with, less the clipped sum.
            noise.append(flat(module, "grad") * plan.expected_batch - flat(module, "summed_grad"))
    theirs = flat(module)

    class TheirNoise:
        def __init__(self, *_: object) -> None:
            self.left = iter(noise)

        def draw(self) -> np.ndarray:
            return next(self.left)[None]

    def their_batches(batches: np.ndarray, *_: object) -> dict[int, np.ndarray]:
        for place, batch in zip(batches, drawn, strict=True):
            place[: len(batch)] = batch[: len(place)]
        return {
            step: batch[batches.shape[1] :]
            for step, batch in enumerate(drawn)
            if len(batch) > batches.shape[1]
        }

    monkeypatch.setattr(dp_sgd, "NormalNoise", TheirNoise)
    monkeypatch.setattr(dp_sgd, "fill_batches", their_batches)
    monkeypatch.setattr(Network, "initial", lambda *_: start[None].copy())
    everybody = np.ones((1, len(X)), dtype=bool)
    ours = train_ensemble(X, codes, everybody, settings, random_state=0).parameters[0]
    assert np.abs(ours - theirs).max() < 1e-10
    assert np.abs(theirs - start).max() > 0.1
    spread = calibration.noise_multiplier * settings.clip
    scale = np.concatenate(noise).std() / spread
    # n numbers: the relative error of a standard deviation is 1/√(2n); five of them.
    assert abs(scale - 1.0) < 5 / math.sqrt(2 * len(noise) * network.n_parameters)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Optimal order is the:UserWarning")  # of Opacus, on its way
@pytest.mark.parametrize("epsilon", [0.5, 2.0, pytest.param(8.0, marks=pytest.mark.nightly)])
def test_the_same_noise_multiplier(epsilon: float) -> None:
    from opacus.accountants.utils import get_noise_multiplier

    plan = DPSGDSettings(epsilon=epsilon).plan(898.5)
    ours = calibrate_noise(
        epsilon,
        delta=1e-5,
        sampling_probability=plan.sampling_probability,
        n_steps=plan.n_steps,
    )
    theirs = get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=1e-5,
        sample_rate=plan.sampling_probability,
        steps=plan.n_steps,
        accountant="prv",
        epsilon_tolerance=0.001,
    )
    # Both are upper bounds on ε, theirs with an error of 0.01 that it adds.
    assert ours.noise_multiplier == pytest.approx(theirs, rel=0.02)
    assert ours.noise_multiplier <= theirs * 1.001


@pytest.mark.parametrize("noise_multiplier", [0.7, 1.0, 3.0])
def test_the_same_accounting(noise_multiplier: float) -> None:
    from opacus.accountants import PRVAccountant, RDPAccountant

    plan = DPSGDSettings(epsilon=1.0).plan(898.5)
    theirs = {}
    for accountant in (PRVAccountant(), RDPAccountant()):
        accountant.history = [(noise_multiplier, plan.sampling_probability, plan.n_steps)]
        theirs[accountant.mechanism()] = accountant.get_epsilon(delta=1e-5)
    ours = account(
        noise_multiplier,
        delta=1e-5,
        sampling_probability=plan.sampling_probability,
        n_steps=plan.n_steps,
    )
    # PRV adds its own error bound of 0.01 to ε. Of RDP both have the same formula and other orders.
    assert ours.epsilon_pld == pytest.approx(theirs["prv"] - 0.01, rel=2e-3, abs=2e-3)
    assert ours.epsilon_rdp == pytest.approx(theirs["rdp"], rel=5e-3)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["logistic", "softmax", "network"])
def test_accuracies_agree(kind: str) -> None:
    """Twenty models of each, on the same halves: their mean accuracies differ by chance only."""
    network = NETWORKS[kind]
    X, codes = digits(network)
    members = np.random.default_rng(2).random((20, len(X))) < 0.5
    settings = DPSGDSettings(epsilon=4.0, epochs=5, hidden=network.hidden)
    accuracies, sizes = [], []
    for train in (train_ensemble, train_with_opacus):
        fit = train(X, codes, members, settings, random_state=3)
        logits = fit.logits(X)
        guess = logits[:, :, 0] > 0 if network.n_outputs == 1 else logits.argmax(axis=2)
        accuracies.append([(guess == codes)[j][~members[j]].mean() for j in range(20)])
        sizes.append(np.abs(logits).mean(axis=(1, 2)))
    for ours, theirs in (accuracies, sizes):
        gap = np.asarray(ours) - np.asarray(theirs)
        # Four standard errors of a paired mean.
        assert abs(gap.mean()) < 4 * gap.std(ddof=1) / math.sqrt(20)


def small() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] > 0).astype(int), rng.random((3, 60)) < 0.5


SETTINGS = DPSGDSettings(epsilon=20.0, batch=10, epochs=4)


def test_any_module_and_images() -> None:
    X, codes, members = small()
    images = np.repeat(X, 3, axis=1).reshape(60, 1, 3, 3)

    def make() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 1)
        )

    fit = train_with_opacus(images, codes, members, SETTINGS, make_module=make, random_state=0)
    logits = fit.logits(images)
    assert logits.shape == (3, 60, 1)
    assert len(fit.modules) == 3
    assert ((logits[:, :, 0] > 0) == codes).mean() > 0.7
    for models, part in fit.logit_blocks(images):
        assert (part == logits[models]).all()
    assert fit.calibration == SETTINGS.calibration(30)


def test_seeds_leave_the_global_generator_alone() -> None:
    X, codes, members = small()
    settings = replace(SETTINGS, hidden=(4,))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, two, other = (
        train_with_opacus(X, codes, members, settings, random_state=seed).logits(X)
        for seed in (1, 1, 2)
    )
    assert (one == two).all()
    assert (one != other).any()
    assert (one[0] != one[1]).any()
    assert (torch.get_rng_state() == before).all()


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    X, codes, members = small()
    settings = replace(SETTINGS, hidden=(4,))

    def run(folder: Path | None, kill_after: int = 0) -> np.ndarray:
        def progress(done: int, total: int, what: str) -> None:
            assert (total, what) == (3, "train")
            if done == kill_after:
                raise Killed

        return train_with_opacus(
            X, codes, members, settings, random_state=1, checkpoint=folder, progress=progress
        ).logits(X)

    whole = run(None)
    with pytest.raises(Killed):
        run(tmp_path, kill_after=2)
    assert len(list(tmp_path.glob("block-*"))) == 2
    assert (run(tmp_path) == whole).all()
    settings = replace(SETTINGS, hidden=(5,))
    with pytest.raises(InputError, match="belongs to another run"):
        run(tmp_path)


def test_modules_that_mix_records_are_refused() -> None:
    X, codes, members = small()

    def make() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)
        )

    with pytest.raises(InputError, match="layers that mix records"):
        train_with_opacus(X, codes, members, SETTINGS, make_module=make)


def test_a_model_without_a_record_is_refused() -> None:
    X, codes, members = small()
    with pytest.raises(InputError, match="must give every model a record"):
        train_with_opacus(X, codes, np.zeros_like(members), SETTINGS)


def test_a_checkpoint_of_other_modules_is_refused(tmp_path: Path) -> None:
    X, codes, members = small()
    for n, words in ((4, None), (5, "the checkpoint must hold modules such as")):

        def make(n: int = n) -> torch.nn.Module:
            return torch.nn.Sequential(torch.nn.Linear(3, n), torch.nn.Linear(n, 1))

        def run(make=make) -> None:
            train_with_opacus(
                X, codes, members, SETTINGS, make_module=make, random_state=0, checkpoint=tmp_path
            )

        if words is None:
            run()
        else:
            with pytest.raises(InputError, match=words):
                run()


def test_without_torch_the_command_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    X, codes, members = small()
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[torch\]"'):
        train_with_opacus(X, codes, members, SETTINGS)

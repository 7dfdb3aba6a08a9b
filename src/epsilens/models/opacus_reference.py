# SPDX-License-Identifier: Apache-2.0
"""DP-SGD for any torch module, one model after the other, by Opacus.

Slow, general, and written by others: for networks that `dp_sgd` does not know, and to check it. Sampling,
clipping, noise and the step are Opacus' own; the plan and the noise multiplier are those of `dp_sgd`. Noise is
seeded: these models are for simulation; `opacus_release` is for release.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import Progress
from epsilens._validate import require_extra
from epsilens.errors import InputError, setting
from epsilens.models.dp_sgd import Ensemble
from epsilens.models.dp_sgd_settings import DPSGDSettings
from epsilens.models.networks import Floats, Network
from epsilens.models.passes import BlockStore
from epsilens.models.privacy_accounting import NoiseCalibration

if TYPE_CHECKING:
    import torch


_LOGIT_ROWS = 4096


@dataclass(frozen=True, eq=False)
class TorchEnsembleFit:
    """Modules that were trained one after the other.

    Attributes
    ----------
    modules : tuple of torch.nn.Module
    calibration : NoiseCalibration
        Noise and accounted ε, the same for all.
    """

    modules: tuple[torch.nn.Module, ...]
    calibration: NoiseCalibration

    def logits(self, X: ArrayLike) -> Floats:
        """Return all logits, (n_models, n_rows, n_outputs)."""
        return np.concatenate([logits for _, logits in self.logit_blocks(X)])

    def logit_blocks(self, X: ArrayLike) -> Iterator[tuple[slice, Floats]]:
        """Yield the logits of one model at a time, (1, n_rows, n_outputs), and its slice."""
        import torch

        for number, module in enumerate(self.modules):
            kind = next(module.parameters()).dtype
            rows = torch.as_tensor(np.asarray(X), dtype=kind)
            with torch.no_grad():
                parts = [
                    module(rows[first : first + _LOGIT_ROWS]).numpy()
                    for first in range(0, len(rows), _LOGIT_ROWS)
                ]
            yield slice(number, number + 1), np.concatenate(parts)[None]


def torch_network(network: Network) -> torch.nn.Module:
    """Return a torch module of the same shape as a network, with torch's own start.

    Parameters
    ----------
    network : Network

    Examples
    --------
    >>> torch_network(Network(64, 10, (128,)))  # doctest: +SKIP
    Sequential(
      (0): Linear(in_features=64, out_features=128, bias=True)
      (1): ReLU()
      (2): Linear(in_features=128, out_features=10, bias=True)
    )
    """
    _require_torch()
    import torch

    parts: list[torch.nn.Module] = []
    for n_out, n_in in network.sizes:
        if parts:
            parts.append(torch.nn.ReLU() if network.activation == "relu" else torch.nn.Tanh())
        parts.append(torch.nn.Linear(n_in, n_out))
    if not network.hidden:
        for parameter in parts[0].parameters():
            torch.nn.init.zeros_(parameter)
    return torch.nn.Sequential(*parts)


def train_with_opacus(
    X: ArrayLike,
    codes: ArrayLike,
    membership: ArrayLike,
    settings: DPSGDSettings,
    *,
    make_module: Callable[[], torch.nn.Module] | None = None,
    n_classes: int | None = None,
    expected_records: float | None = None,
    random_state: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> TorchEnsembleFit:
    """Train torch modules with DP-SGD by Opacus, each on its own part of one table.

    What `train_ensemble` does for hundreds of small networks at once this does for any network, one at a
    time: some thirty times slower for small ones.

    Parameters
    ----------
    X : array, (n, …)
        What the module takes, a record a row.
    codes, membership, settings, n_classes, expected_records, random_state, progress
        As in `train_ensemble`. `hidden` and `activation` count only without `make_module`.
    make_module : callable, optional
        Makes a fresh module with one output (two classes) or one a class. By default the network that
        the settings describe.
    checkpoint : str or Path, optional
        A folder for finished models; needs `random_state`. The module's own shape is not checked beyond
        the names and sizes of its parameters.

    Returns
    -------
    TorchEnsembleFit
        With `logits` and `logit_blocks` as `EnsembleFit`.

    Raises
    ------
    MissingExtraError
        If torch or Opacus is not installed.
    InputError
        If Opacus cannot train the module, as with batch normalisation, which mixes records.

    Examples
    --------
    >>> settings = DPSGDSettings(epsilon=8.0, hidden=(32,))
    >>> fit = train_with_opacus(X, codes, membership, settings)  # doctest: +SKIP
    """
    _require_torch()
    ensemble = Ensemble.check(
        X, codes, membership, settings, n_classes, expected_records, random_state, any_shape=True
    )
    network = ensemble.network
    make = (lambda: torch_network(network)) if make_module is None else make_module
    store = ensemble.store(checkpoint, what="torch modules" if make_module else "torch networks")
    modules = []
    for model in range(len(ensemble.membership)):
        module = (
            _read(make, store.read(model))
            if model in store.done
            else _train(ensemble, model, make, store)
        )
        modules.append(module)
        if progress is not None:
            progress(model + 1, len(ensemble.membership), "train")
    return TorchEnsembleFit(tuple(modules), ensemble.calibration)


def _train(
    ensemble: Ensemble, model: int, make: Callable[[], torch.nn.Module], store: BlockStore
) -> torch.nn.Module:
    import torch
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    settings, plan = ensemble.settings, ensemble.plan
    sampling, noise, start = (
        int(np.random.SeedSequence(ensemble.seed, spawn_key=(model, k)).generate_state(1)[0])
        for k in range(3)
    )
    kind = torch.float32 if settings.precision == "single" else torch.float64
    members = np.flatnonzero(ensemble.membership[model])
    if len(members) == 0:
        raise InputError(
            f"{setting('membership')} must give every model a record for Opacus, got one that has "
            "none."
        )
    rows = torch.as_tensor(ensemble.X[members], dtype=kind)
    codes = torch.as_tensor(ensemble.codes[members])
    # The module's start and its dropout draw from torch's global generator.
    with torch.random.fork_rng(devices=[]), quietly():
        torch.manual_seed(start)
        module = make().to(kind)
        learner = Learner(
            module,
            settings,
            expected_batch=plan.expected_batch,
            noise_multiplier=ensemble.calibration.noise_multiplier,
            generator=torch.Generator().manual_seed(noise),
        )
        for batch in UniformWithReplacementSampler(
            num_samples=len(members),
            sample_rate=plan.sampling_probability,
            generator=torch.Generator().manual_seed(sampling),
            steps=plan.n_steps,
        ):
            learner.step(rows[batch], codes[batch])
        learner.close()
    module.eval()
    store.write(model, {name: value.numpy() for name, value in module.state_dict().items()})
    return module


class Learner:
    """Opacus' wrapped module and optimiser, and one step of them.

    Parameters
    ----------
    module : torch.nn.Module
    settings : DPSGDSettings
    expected_batch : float
    noise_multiplier : float
    generator : torch.Generator, optional
        Of Opacus' own noise.
    draw : callable, optional
        Returns a sum of gradients with noise, instead of Opacus' own.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        settings: DPSGDSettings,
        *,
        expected_batch: float,
        noise_multiplier: float,
        generator: torch.Generator | None = None,
        draw: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    ) -> None:
        import torch
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer
        from opacus.validators import ModuleValidator

        if ModuleValidator.validate(module, strict=False):
            raise InputError(
                f"{setting('make_module')} must make a module that Opacus can train, got one with "
                "layers that mix records, such as batch normalisation. Replace them, by group "
                "normalisation for instance."
            )
        module.train()
        self.module = GradSampleModule(module)
        self.optimiser = DPOptimizer(
            torch.optim.SGD(module.parameters(), lr=settings.learning_rate),
            noise_multiplier=noise_multiplier,
            max_grad_norm=settings.clip,
            expected_batch_size=expected_batch,
            generator=generator,
        )
        if draw is not None:

            def add_noise() -> None:
                for parameter in self.optimiser.params:
                    total = parameter.summed_grad
                    noisy = torch.as_tensor(draw(total.numpy()), dtype=total.dtype)
                    parameter.grad = noisy.view_as(parameter)

            self.optimiser.add_noise = add_noise

    def step(self, rows: torch.Tensor, codes: torch.Tensor) -> None:
        """Make one step with the records of a batch."""
        from torch.nn import functional

        self.optimiser.zero_grad(set_to_none=True)
        logits = self.module(rows)
        if logits.shape[1] == 1:
            loss = functional.binary_cross_entropy_with_logits(logits[:, 0], codes.to(logits.dtype))
        else:
            loss = functional.cross_entropy(logits, codes)
        loss.backward()
        self.optimiser.step()

    def close(self) -> None:
        """Give the module back as it was."""
        self.module.remove_hooks()


def _read(
    make: Callable[[], torch.nn.Module], stored: dict[str, NDArray[np.generic]]
) -> torch.nn.Module:
    import torch

    module = make()
    state = {name: torch.as_tensor(np.asarray(value)) for name, value in stored.items()}
    module.to(next(value for value in state.values() if value.is_floating_point()).dtype)
    try:
        module.load_state_dict(state)
    except RuntimeError:
        raise InputError(
            f"the checkpoint must hold modules such as {setting('make_module')} makes, got "
            "others. Choose another folder, or delete it."
        ) from None
    return module.eval()


@contextmanager
def quietly() -> Iterator[None]:
    """Leave out what torch says of Opacus' hooks, which is about neither the data nor the result."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        yield


def _require_torch() -> None:
    require_extra("torch", "training a torch module", "torch", "opacus")

# SPDX-License-Identifier: Apache-2.0
"""The steps of DP-SGD for a block of models: all that they need, and nothing else.

A block may be trained on another machine, so this holds the records as the steps see them, once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray
from epsilens.models.box_muller import NormalNoise
from epsilens.models.dp_sgd_settings import DPSGDSettings, TrainingPlan
from epsilens.models.ghost_norms import BatchTable, ClippedGradients
from epsilens.models.networks import Floats, Network
from epsilens.models.poisson_sampling import batch_capacity, fill_batches

__all__ = ["NoisyTraining"]

_STREAMS = ("sampling", "noise", "start")
_STEPS_DRAWN_AT_ONCE = 512


@dataclass(frozen=True, eq=False, repr=False)  # a printed record would be a leak
class NoisyTraining:
    """Trains models side by side; see `train_ensemble` for what is done.

    Parameters
    ----------
    table : BatchTable
    membership : array of bool, (n_models, n)
    settings : DPSGDSettings
    plan : TrainingPlan
    network : Network
    noise_multiplier : float
        The standard deviation of the noise over `clip`.
    seed : int
    """

    table: BatchTable
    membership: BoolArray
    settings: DPSGDSettings
    plan: TrainingPlan
    network: Network
    noise_multiplier: float
    seed: int

    @np.errstate(over="ignore", invalid="ignore")  # steps too long are noticed when models are read
    def train(self, models: range) -> Floats:
        """Return the parameters of some models, trained side by side, (models, n_parameters)."""
        settings, plan, network, table = self.settings, self.plan, self.network, self.table
        dtype = table.rows.dtype.type
        members = [np.flatnonzero(self.membership[model]) for model in models]
        sampling, noise_streams, start = (
            [np.random.default_rng(_seed(self.seed, model, stream)) for model in models]
            for stream in _STREAMS
        )
        parameters = network.initial(start, dtype)
        layers = network.layers(parameters)
        sums: Floats = np.empty_like(parameters)
        sums_by_layer = network.layers(sums)
        capacity = batch_capacity(plan.expected_batch)
        gradients = ClippedGradients(table, network, len(models), capacity, settings.clip)
        leftover = _Leftover(table, network, capacity, settings.clip)
        sigma = self.noise_multiplier * settings.clip
        noise = NormalNoise(noise_streams, network.n_parameters, sigma, dtype) if sigma else None
        step_length = dtype(settings.learning_rate / plan.expected_batch)
        for first in range(0, plan.n_steps, _STEPS_DRAWN_AT_ONCE):
            n_steps = min(_STEPS_DRAWN_AT_ONCE, plan.n_steps - first)
            batches = np.full((n_steps, len(models), capacity), table.padding, dtype=np.intp)
            over = [
                fill_batches(batches[:, j], own, plan.sampling_probability, sampling[j])
                for j, own in enumerate(members)
            ]
            for step in range(n_steps):
                gradients.add_up(layers, batches[step], sums_by_layer)
                for j, late in enumerate(over):
                    if step in late:
                        sums[j] += leftover.add_up(parameters[j], late[step])
                if noise is not None:
                    sums += noise.draw()
                sums *= step_length
                parameters -= sums
        return parameters


class _Leftover:
    """Gradients of the records that did not fit into their batch, one model at a time."""

    def __init__(self, table: BatchTable, network: Network, capacity: int, clip: float) -> None:
        self._network, self._padding, self._capacity = network, table.padding, capacity
        self._gradients = ClippedGradients(table, network, 1, capacity, clip)

    def add_up(self, parameters: Floats, records: NDArray[np.intp]) -> Floats:
        total, part = np.zeros_like(parameters), np.empty_like(parameters)
        layers, sums = self._network.layers(parameters[None]), self._network.layers(part[None])
        for first in range(0, len(records), self._capacity):
            batch = np.full((1, self._capacity), self._padding, dtype=np.intp)
            some = records[first : first + self._capacity]
            batch[0, : len(some)] = some
            self._gradients.add_up(layers, batch, sums)
            total += part
        return total


def _seed(seed: int, model: int, stream: str) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(model, _STREAMS.index(stream)))

# SPDX-License-Identifier: Apache-2.0
"""The steps of DP-SGD for a block of models: all that they need, and nothing else.

A block may be trained on another machine, so this holds the records as the steps see them, once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray
from epsilens.models.dp_sgd_settings import DPSGDSettings, TrainingPlan
from epsilens.models.networks import BatchTable, ClippedGradients, Floats, Network

# --- Poisson sampling: in every step each record is in the batch by a coin of its own ---

IntArray = NDArray[np.intp]


def draw_heads(n_coins: int, probability: float, generator: np.random.Generator) -> IntArray:
    """Toss coins that show heads with a given probability; say which did.

    Parameters
    ----------
    n_coins : int, at least 0
    probability : float in (0, 1]
    generator : numpy.random.Generator

    Returns
    -------
    array of int
        Positions of the heads, increasing.

    Notes
    -----
    The gap G to the next head has P(G > k) = (1 − q)^k = P(E > k λ) for E standard exponential and
    λ = −log(1 − q), so G = ⌊E/λ⌋ + 1.

    Examples
    --------
    >>> import numpy as np
    >>> draw_heads(4, 1.0, np.random.default_rng(0))
    array([0, 1, 2, 3])
    >>> heads = draw_heads(100_000, 0.1, np.random.default_rng(0))
    >>> 9_700 < len(heads) < 10_300
    True
    """
    rate = math.inf if probability >= 1.0 else -math.log1p(-probability)
    mean = n_coins * probability
    n_draws = int(mean + 6.0 * math.sqrt(mean) + 8.0)
    parts: list[IntArray] = []
    last = -1
    while last < n_coins - 1:
        # A gap beyond the last coin is as good as any other such gap.
        gaps = np.minimum(generator.standard_exponential(n_draws) / rate, float(n_coins))
        heads = last + np.cumsum(gaps.astype(np.intp) + 1)
        parts.append(heads)
        last = int(heads[-1])
    heads = np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)
    return heads[: np.searchsorted(heads, n_coins)]


def batch_capacity(expected: float) -> int:
    """Return how many places a batch gets: three standard deviations above its mean, in eights.

    Larger batches are not cut: what does not fit is worked off in a second helping.
    """
    return 8 * math.ceil((expected + 3.0 * math.sqrt(expected)) / 8.0)


def fill_batches(
    batches: IntArray,
    members: IntArray,
    probability: float,
    generator: np.random.Generator,
) -> dict[int, IntArray]:
    """Write the batches of one model into places that hold the padding.

    Parameters
    ----------
    batches : array, (n_steps, capacity)
        Filled from the left; the rest is left as it is.
    members : array of int
        The records that the model may see.
    probability : float in (0, 1]
    generator : numpy.random.Generator

    Returns
    -------
    dict of step to array
        The records of batches that did not fit, beyond the first `capacity`.
    """
    n_steps, capacity = batches.shape
    if len(members) == 0:
        return {}
    heads = draw_heads(n_steps * len(members), probability, generator)
    step, position = np.divmod(heads, len(members))
    records = members[position]
    place = np.arange(len(heads)) - np.searchsorted(step, np.arange(n_steps))[step]
    fits = place < capacity
    if fits.all():
        batches[step, place] = records
        return {}
    batches[step[fits], place[fits]] = records[fits]
    step, records = step[~fits], records[~fits]
    return {int(number): records[step == number] for number in np.unique(step)}


# --- Normal noise for simulations, many numbers at once ---


class NormalNoise:
    """Normal numbers for many models, a stream of its own for each.

    What a model gets depends only on its generator and on how often it was asked.

    Parameters
    ----------
    generators : sequence of numpy.random.Generator
        One a model.
    n_numbers : int
        How many each model gets at a time.
    scale : float
        Standard deviation.
    dtype : float32 or float64

    Examples
    --------
    >>> import numpy as np
    >>> noise = NormalNoise([np.random.default_rng(j) for j in range(2)], 5000, 3.0, np.float64)
    >>> drawn = noise.draw()
    >>> drawn.shape, bool(abs(drawn.std() - 3.0) < 0.1)
    ((2, 5000), True)
    """

    def __init__(
        self,
        generators: Sequence[np.random.Generator],
        n_numbers: int,
        scale: float,
        dtype: type[np.floating],
    ) -> None:
        self._generators = generators
        self._n_numbers = n_numbers
        self._dtype: Any = dtype
        # A call costs as much as a thousand numbers: small models get several helpings at a time.
        self._ahead = max(1, 2048 // n_numbers)
        half = (n_numbers + 1) // 2
        shape = (len(generators), self._ahead, 2, half)
        self._uniform: NDArray[np.floating] = np.empty(shape, dtype=dtype)
        self._angle: NDArray[np.floating] = np.empty((len(generators), half), dtype=dtype)
        self._normal: NDArray[np.floating] = np.empty((len(generators), 2, half), dtype=dtype)
        self._factor = self._dtype(-2.0 * scale * scale)
        self._next = self._ahead

    def draw(self) -> NDArray[np.floating]:
        """Return the next numbers, (n_models, n_numbers), in an array that is used again."""
        if self._next == self._ahead:
            self._next = 0
            for generator, place in zip(self._generators, self._uniform, strict=True):
                generator.random(dtype=self._dtype, out=place)
        radius, turn = self._uniform[:, self._next, 0], self._uniform[:, self._next, 1]
        self._next += 1
        # 1 − u lies in (0, 1].
        np.subtract(self._dtype(1.0), radius, out=radius)
        np.log(radius, out=radius)
        np.multiply(radius, self._factor, out=radius)
        np.sqrt(radius, out=radius)
        np.multiply(turn, self._dtype(2.0 * math.pi), out=self._angle)
        np.cos(self._angle, out=self._normal[:, 0])
        np.sin(self._angle, out=self._normal[:, 1])
        self._normal *= radius[:, None]
        return self._normal.reshape(len(self._normal), -1)[:, : self._n_numbers]


# --- The steps of DP-SGD for a block of models: all that they need, and nothing else ---

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

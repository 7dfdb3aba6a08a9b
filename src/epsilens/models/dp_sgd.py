# SPDX-License-Identifier: Apache-2.0
"""DP-SGD for hundreds of models side by side, each on records of its own choice.

To see what an attacker learns from a model trained with DP-SGD, many such models are trained on random
halves of the same table. One by one that takes hours. Here they are trained together, by a few batched
matrix products a step; what is computed is what Opacus computes for each of them.

Noise and sampling are seeded, or drawn from a generator that is not secure: these models are for
simulation and must not be released as private ones.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import as_codes, as_count, as_positive
from epsilens.errors import EstimateNotTrustworthyError, InputError, InputTypeError, setting
from epsilens.models.dp_sgd_settings import DPSGDSettings, TrainingPlan
from epsilens.models.networks import BatchTable, ClippedGradients, Floats, Network
from epsilens.models.passes import BlockStore, made_or_kept
from epsilens.models.privacy_accounting import NoiseCalibration

__all__ = [
    "DPSGDSettings",
    "Ensemble",
    "EnsembleFit",
    "Reduction",
    "TrainingPlan",
    "score_ensemble",
    "train_ensemble",
]

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


# --- DP-SGD for hundreds of models side by side, each on records of its own choice ---

Reduction: TypeAlias = Callable[[Floats], NDArray[np.generic]]
"""From logits of some models, (n_models, n_rows, n_outputs), to what is kept, (n_models, …)."""

_STEPS_DRAWN_AT_ONCE = 512
_BLOCK_BYTES = 6 << 20
_MOST_MODELS = 64
_LOGITS_AT_ONCE = 1 << 22
_LARGEST_FEATURE = 1e9
_LARGEST_LOGIT = 1e12


@dataclass(frozen=True, eq=False)
class EnsembleFit:
    """Models that were trained side by side.

    Attributes
    ----------
    network : Network
    parameters : array, (n_models, n_parameters)
        See `Network.layers`.
    calibration : NoiseCalibration
        Noise and accounted ε, the same for all.
    """

    network: Network
    parameters: Floats
    calibration: NoiseCalibration

    def logits(self, X: ArrayLike) -> Floats:
        """Return all logits, (n_models, n_rows, n_outputs); large for many models and rows."""
        rows = _as_features(X, n_features=self.network.n_features)
        return self.network.outputs(self.parameters, rows).transpose(0, 2, 1)


def train_ensemble(
    X: ArrayLike,
    codes: ArrayLike,
    membership: ArrayLike,
    settings: DPSGDSettings,
    *,
    n_classes: int | None = None,
    expected_records: float | None = None,
    random_state: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    block_size: int | None = None,
) -> EnsembleFit:
    """Train many models with DP-SGD, each on its own part of one table.

    In every step each model looks at a few of its records, chosen by coins; shortens each record's
    gradient to at most `clip`; adds normal noise to their sum; and goes a step down that way. The
    noise is as strong as the ε asked for needs. This is a simulation: the models are for attacking,
    not for publishing.

    Parameters
    ----------
    X : array, (n, n_features)
        Features of a size near 1 or below.
    codes : array of int, (n,)
        Classes from 0.
    membership : array of bool, (n_models, n)
        Which records each model may see.
    settings : DPSGDSettings
    n_classes : int, optional
        The largest code plus one by default.
    expected_records : float, optional
        How many records a model sees on average over who is in; n/2 by default, for membership by fair
        coins. Sampling rate, steps and noise follow from it and so from nothing secret.
    random_state : int, optional
        Makes the models repeatable. Without it the seed comes from the operating system.
    checkpoint : str or Path, optional
        A folder for finished models, with which a killed run goes on; needs `random_state`. It tells
        about membership and is readable by its owner only, see `BlockStore`.
    progress : callable, optional
        Called with models done, models in all, and "train".
    block_size : int, optional
        How many models go side by side; by default as many as fit the cache. It changes no result.

    Returns
    -------
    EnsembleFit

    Raises
    ------
    InputError
        If the arrays do not fit together, or the checkpoint is of another run.

    Notes
    -----
    Abadi et al. (2016), Algorithm 1, in the form of Opacus: Poisson sampling with q = batch /
    expected_records; each gradient times min(1, clip/(‖g‖ + 10⁻⁶)), over weights and intercepts of all
    layers; noise N(0, (σ·clip)²) on each coordinate of the sum; divided by the expected, not the actual,
    size of the batch; a plain step. Model j draws from three streams of its own (sampling, noise, start),
    made of the seed and j, so that it depends neither on the other models nor on the block size.

    Assumptions
    -----------
    Neighbouring tables differ by one record added or removed. The number of records that are expected
    is public.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> codes = (X[:, 0] > 0).astype(int)
    >>> membership = rng.random((10, 400)) < 0.5
    >>> settings = DPSGDSettings(epsilon=8.0, batch=20, epochs=5)
    >>> fit = train_ensemble(X, codes, membership, settings, random_state=0)
    >>> fit.logits(X).shape
    (10, 400, 1)
    >>> bool(((fit.logits(X)[:, :, 0] > 0) == codes).mean() > 0.9)
    True
    """
    run = Ensemble.check(X, codes, membership, settings, n_classes, expected_records, random_state)
    parts = run.blocks(
        lambda parameters: parameters, "parameters", checkpoint, progress, block_size
    )
    return EnsembleFit(run.network, np.concatenate(list(parts)), run.calibration)


def score_ensemble(
    X: ArrayLike,
    codes: ArrayLike,
    membership: ArrayLike,
    settings: DPSGDSettings,
    *,
    score: Reduction,
    score_name: str,
    X_score: ArrayLike | None = None,
    n_classes: int | None = None,
    expected_records: float | None = None,
    random_state: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    block_size: int | None = None,
) -> NDArray[np.generic]:
    """Train models as `train_ensemble` does, but keep only what `score` makes of their logits.

    For ensembles too large to keep: models are trained, scored and forgotten block by block.

    Parameters
    ----------
    X, codes, membership, settings, n_classes, expected_records, random_state, progress, block_size
        As in `train_ensemble`.
    score : callable
        Given the logits of some models, (n_models, n_rows, n_outputs), returns an array whose first
        axis is these models.
    score_name : str
        What the score is, so that a checkpoint with another is refused.
    X_score : array, (n_rows, n_features), optional
        The rows to be scored; by default the table.
    checkpoint : str or Path, optional
        A folder for the scores of finished models.

    Returns
    -------
    array, (n_models, …)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, membership = rng.normal(size=(200, 3)), rng.random((6, 200)) < 0.5
    >>> codes = (X[:, 0] > 0).astype(int)
    >>> settings = DPSGDSettings(epsilon=2.0, batch=20, epochs=2)
    >>> score_ensemble(
    ...     X, codes, membership, settings, score=lambda logits: logits[:, :, 0] > 0, score_name="sign",
    ...     random_state=0,
    ... ).shape
    (6, 200)
    """
    run = Ensemble.check(X, codes, membership, settings, n_classes, expected_records, random_state)
    rows = run.X if X_score is None else _as_features(X_score, n_features=run.X.shape[1])

    network = run.network  # of the run no more: what is scored may be scored on another machine

    def reduce(parameters: Floats) -> NDArray[np.generic]:
        return np.concatenate(
            [np.asarray(score(part)) for part in _logit_blocks(network, parameters, rows)]
        )

    name = f"{score_name} of {len(rows)} rows"
    return np.concatenate(list(run.blocks(reduce, name, checkpoint, progress, block_size, rows)))


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A checked question: the arrays, the settings, the noise; made by `check`.

    `train` may run on another machine: nothing else is needed for it.
    """

    X: FloatArray
    codes: NDArray[np.int64]
    membership: BoolArray
    settings: DPSGDSettings
    network: Network
    plan: TrainingPlan
    calibration: NoiseCalibration
    seed: int
    is_seeded: bool

    @classmethod
    def check(
        cls,
        X: ArrayLike,
        codes: ArrayLike,
        membership: ArrayLike,
        settings: DPSGDSettings,
        n_classes: int | None,
        expected_records: float | None,
        random_state: int | None,
        *,
        any_shape: bool = False,
    ) -> Ensemble:
        """Check the arguments of `train_ensemble`; with `any_shape` a record may be an image."""
        rows = _as_features(X, any_shape=any_shape)
        labels = np.asarray(codes)
        n_known = int(labels.max(initial=0)) + 1 if labels.dtype.kind in "iu" else 2
        n_classes = (
            max(2, n_known) if n_classes is None else as_count(n_classes, name="n_classes", least=2)
        )
        labels = as_codes(labels, n_categories=n_classes)
        if labels.shape != (len(rows),):
            raise InputError(
                f"{setting('codes')} must have one entry a row of {setting('X')} ({len(rows)}), "
                f"got shape {labels.shape}."
            )
        members = np.asarray(membership)
        if members.dtype != np.bool_:
            raise InputTypeError(
                argument="membership",
                expected="a table of True and False",
                got=f"values of type {members.dtype}",
            )
        if members.ndim != 2 or members.shape[1] != len(rows) or len(members) == 0:
            raise InputError(
                f"{setting('membership')} must have a row a model and a column a record "
                f"({len(rows)}), got shape {members.shape}."
            )
        expected = (
            len(rows) / 2.0
            if expected_records is None
            else as_positive(expected_records, name="expected_records")
        )
        if random_state is not None:
            as_count(random_state, name="random_state", least=0)
        return cls(
            X=rows,
            codes=labels,
            membership=members,
            settings=settings,
            network=Network(
                int(np.prod(rows.shape[1:])), n_classes, settings.hidden, settings.activation
            ),
            plan=settings.plan(expected),
            calibration=settings.calibration(expected),
            seed=secrets.randbits(128) if random_state is None else int(random_state),
            is_seeded=random_state is not None,
        )

    def store(
        self,
        checkpoint: str | Path | None,
        *more: FloatArray,
        what: str,
        **settings: object,
    ) -> BlockStore:
        """Return where finished models are kept; a checkpoint without a seed is refused."""
        if checkpoint is not None and not self.is_seeded:
            raise InputError(
                argument="random_state",
                expected="given with a checkpoint",
                got="None: a run that goes on must draw what it would have drawn",
            )
        identity = {
            "what": what,
            "settings": asdict(self.settings),
            "plan": asdict(self.plan),
            "n_models": len(self.membership),
            "seed": self.seed,
            "n_classes": self.network.n_classes,
            **settings,
        }
        return BlockStore(checkpoint, identity, data=[self.X, self.codes, self.membership, *more])

    @cached_property
    def table(self) -> BatchTable:
        """The records in the form in which batches are gathered."""
        return BatchTable(self.X, self.codes, self.network, self.settings.dtype)

    @np.errstate(over="ignore", invalid="ignore")  # steps too long are noticed when models are read
    def train(self, models: range) -> Floats:
        """Return the parameters of some models, trained side by side, (models, n_parameters)."""
        settings, plan, network, table = self.settings, self.plan, self.network, self.table
        dtype = table.rows.dtype.type
        members = [np.flatnonzero(self.membership[model]) for model in models]
        sampling, noise_streams, start = (
            [
                np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(j, k)))
                for j in models
            ]
            for k in range(3)
        )
        parameters = network.initial(start, dtype)
        layers = network.layers(parameters)
        sums: Floats = np.empty_like(parameters)
        sums_by_layer = network.layers(sums)
        capacity = batch_capacity(plan.expected_batch)
        gradients = ClippedGradients(table, network, len(models), capacity, settings.clip)
        of_one = ClippedGradients(table, network, 1, capacity, settings.clip)

        def leftover(own: Floats, records: IntArray) -> Floats:
            """Return the gradients of the records of one model that did not fit into their batch."""
            total, part = np.zeros_like(own), np.empty_like(own)
            for begin in range(0, len(records), capacity):
                some = records[begin : begin + capacity]
                batch = np.full((1, capacity), table.padding, dtype=np.intp)
                batch[0, : len(some)] = some
                of_one.add_up(network.layers(own[None]), batch, network.layers(part[None]))
                total += part
            return total

        sigma = self.calibration.noise_multiplier * settings.clip
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
                        sums[j] += leftover(parameters[j], late[step])
                if noise is not None:
                    sums += noise.draw()
                sums *= step_length
                parameters -= sums
        return parameters

    def blocks(
        self,
        reduce: Reduction,
        what: str,
        checkpoint: str | Path | None,
        progress: Progress | None,
        block_size: int | None,
        scored: FloatArray | None = None,
    ) -> Iterator[NDArray[np.generic]]:
        """Yield what is kept of every block, in order, from the checkpoint where it is there."""
        capacity = batch_capacity(self.plan.expected_batch)
        size = (
            _models_in_cache(self.network, capacity, self.settings.dtype)
            if block_size is None
            else as_count(block_size, name="block_size")
        )
        n_models = len(self.membership)
        scored_rows = () if scored is None else (scored,)
        store = self.store(checkpoint, *scored_rows, what=what, block_size=size)
        tasks = {
            block: range(first, min(first + size, n_models))
            for block, first in enumerate(range(0, n_models, size))
        }
        done = 0
        for kept in made_or_kept(store, partial(_train, self, reduce), tasks, name="kept"):
            done += len(kept)
            if progress is not None:
                progress(done, n_models, "train")
            yield kept


def _train(training: Ensemble, reduce: Reduction, models: range) -> NDArray[np.generic]:
    return reduce(training.train(models))


def _models_in_cache(network: Network, capacity: int, dtype: type[np.floating]) -> int:
    widths = network.n_features + 1 + 3 * sum(network.hidden) + 4 * network.n_outputs
    numbers = capacity * widths + 4 * network.n_parameters
    return max(1, min(_MOST_MODELS, _BLOCK_BYTES // (numbers * np.dtype(dtype).itemsize)))


def _logit_blocks(network: Network, parameters: Floats, rows: FloatArray) -> Iterator[Floats]:
    size = max(1, _LOGITS_AT_ONCE // max(1, len(rows) * network.n_outputs))
    for first in range(0, len(parameters), size):
        part = slice(first, min(first + size, len(parameters)))
        with np.errstate(over="ignore", invalid="ignore"):
            logits = network.outputs(parameters[part], rows)
        # Written so that NaN is refused too.
        if not (np.abs(logits) <= _LARGEST_LOGIT).all():
            raise EstimateNotTrustworthyError(
                "the training diverged: its predictions grew beyond all bounds. Choose a smaller "
                f"{setting('learning_rate')}."
            )
        yield logits.transpose(0, 2, 1)


def _as_features(
    X: ArrayLike, *, n_features: int | None = None, any_shape: bool = False
) -> FloatArray:
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            argument="X", expected="a table of numbers", got="something else"
        ) from None
    if rows.ndim < 2 or (rows.ndim > 2 and not any_shape) or 0 in rows.shape:
        raise InputError(
            f"{setting('X')} must have a row a record and a column a feature, got shape "
            f"{rows.shape}."
        )
    if n_features is not None and rows.shape[1] != n_features:
        raise InputError(
            f"{setting('X')} must have as many columns as in training ({n_features}), got "
            f"{rows.shape[1]}."
        )
    # Written so that NaN is refused too.
    if not (np.abs(rows) <= _LARGEST_FEATURE).all():
        raise InputError(
            argument="X",
            expected=f"finite and at most {_LARGEST_FEATURE:g} in size",
            got="other numbers",
            hint="Scale the features to a size near 1.",
        )
    return rows

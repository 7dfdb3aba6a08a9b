# SPDX-License-Identifier: Apache-2.0
"""How a model is trained with DP-SGD: what the caller chooses, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from epsilens._validate import as_choice, as_count, as_epsilon, as_positive, as_share
from epsilens.errors import InputError
from epsilens.models.networks import Activation
from epsilens.models.privacy_accounting import NoiseCalibration, calibrate_noise

_EPOCHS = 20
_STEPS_PER_EPOCH = 20
_CLIP = 0.75
"""Longest gradient of a linear model, in lengths of the longest row."""
_RATE = 8.0
"""Length of a step of a linear model, times the square of the longest row."""
_DTYPES: dict[str, type[np.floating]] = {"single": np.float32, "double": np.float64}


@dataclass(frozen=True)
class TrainingPlan:
    """What a run looks like from outside: nothing here depends on who is in the data.

    Attributes
    ----------
    sampling_probability : float in (0, 1]
        With which each record is in a step's batch.
    n_steps, steps_per_epoch : int
    expected_batch : float
        By which the sum of gradients is divided.
    """

    sampling_probability: float
    n_steps: int
    steps_per_epoch: int
    expected_batch: float


@dataclass(frozen=True, kw_only=True)
class DPSGDSettings:
    """How models are trained with DP-SGD.

    Attributes
    ----------
    epsilon : float in (0, inf]
        The level to be kept for adding or removing one record. Infinity means no noise; gradients are
        clipped all the same.
    delta : float in (0, 1)
        Its δ; well below one over the number of records.
    clip : float, greater than 0
        The largest length of one record's gradient, over all parameters.
    epochs : int, at least 1
        How often each record is looked at, on average.
    batch : int, at least 1
        How many records a step looks at, on average.
    learning_rate : float, greater than 0
        Length of a step; the default suits features of a size near 1 or below.
    hidden : tuple of int
        Widths of hidden layers; empty for logistic or softmax regression.
    activation : {"relu", "tanh"}
        The bend after a hidden layer.
    precision : {"single", "double"}
        Precision of the numbers. Single is twice as fast and what torch uses.

    Examples
    --------
    >>> settings = DPSGDSettings(epsilon=2.0, delta=1e-5)
    >>> settings.plan(640)
    TrainingPlan(sampling_probability=0.1, n_steps=200, steps_per_epoch=10, expected_batch=64)
    >>> round(settings.calibration(640).noise_multiplier, 1)
    3.0
    """

    epsilon: float
    delta: float = 1e-5
    clip: float = 1.0
    epochs: int = 20
    batch: int = 64
    learning_rate: float = 0.5
    hidden: tuple[int, ...] = ()
    activation: Activation = "relu"
    precision: Literal["single", "double"] = "single"

    def __post_init__(self) -> None:
        as_epsilon(self.epsilon)
        as_share(self.delta, name="delta")
        as_positive(self.clip, name="clip")
        as_count(self.epochs, name="epochs")
        as_count(self.batch, name="batch")
        as_positive(self.learning_rate, name="learning_rate")
        object.__setattr__(
            self, "hidden", tuple(as_count(width, name="hidden") for width in self.hidden)
        )
        as_choice(self.activation, ("relu", "tanh"), name="activation")
        as_choice(self.precision, tuple(_DTYPES), name="precision")

    @classmethod
    def linear(cls, epsilon: float, delta: float, *, x_bound: float, n_records: float) -> Self:
        """Return how logistic regression learns: the same sampling rate for any number of records.

        Parameters
        ----------
        epsilon, delta : float
        x_bound : float
            Length of the longest row.
        n_records : float
            How many records there are, which is public.
        """
        return cls(
            epsilon=epsilon,
            delta=delta,
            clip=_CLIP * x_bound,
            epochs=_EPOCHS,
            batch=max(1, int(n_records / _STEPS_PER_EPOCH)),
            learning_rate=_RATE / x_bound**2,
        )

    def plan(self, expected_records: float) -> TrainingPlan:
        """Return sampling rate and steps for a number of records that is no secret.

        Parameters
        ----------
        expected_records : float
            How many records a model sees on average over who is in. The count itself is not used: it
            would tell who is in.
        """
        if not expected_records >= self.batch:
            raise InputError(
                argument="batch",
                expected=f"at most the number of records that a model sees ({expected_records:g})",
                got=str(self.batch),
                hint="Ask for a smaller one.",
            )
        steps = math.ceil(expected_records / self.batch)
        return TrainingPlan(self.batch / expected_records, self.epochs * steps, steps, self.batch)

    def calibration(self, expected_records: float) -> NoiseCalibration:
        """Return the noise that keeps `epsilon`, and the ε that is accounted for."""
        plan = self.plan(expected_records)
        return calibrate_noise(
            float(self.epsilon),
            delta=float(self.delta),
            sampling_probability=plan.sampling_probability,
            n_steps=plan.n_steps,
        )

    @property
    def dtype(self) -> type[np.floating]:
        """The type of the numbers."""
        return _DTYPES[self.precision]

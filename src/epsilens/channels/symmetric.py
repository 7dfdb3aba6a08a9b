# SPDX-License-Identifier: Apache-2.0
"""Channels that treat all answers alike: the truth with one probability, each lie with another."""

from __future__ import annotations

import numpy as np

from epsilens._types import FloatArray
from epsilens.channels.channel import Channel
from epsilens.errors import InputError

__all__ = ["SymmetricChannel"]


class SymmetricChannel(Channel):
    """A channel P = a I + b 11ᵀ with a + kb = 1, drawn in whole thresholds that keep ε exactly.

    Those who inherit set `_k` and `_epsilon` and say what `a` is.

    Attributes
    ----------
    keep_probability : float
        Probability that the truth is reported, a + b.
    lie_probability : float
        Probability of each one of the other answers, b.
    a : float in [0, 1]
        How much of the truth comes through.
    """

    __slots__ = ("_epsilon", "_k")
    _epsilon: float
    _k: int

    @property
    def k(self) -> int:
        """Number of possible answers."""
        return self._k

    @property
    def epsilon(self) -> float:
        """The privacy budget spent per answer."""
        return self._epsilon

    @property
    def a(self) -> float:
        """How much of the truth comes through: 0 is pure noise, 1 the truth."""
        raise NotImplementedError

    @property
    def lie_probability(self) -> float:
        """Probability of each one of the other answers."""
        return (1.0 - self.a) / self._k

    @property
    def keep_probability(self) -> float:
        """Probability that the truth is reported."""
        return self.a + self.lie_probability

    @property
    def matrix(self) -> FloatArray:
        """The probabilities, one row per true answer (read-only)."""
        matrix = np.full((self._k, self._k), self.lie_probability)
        np.fill_diagonal(matrix, self.keep_probability)
        matrix.setflags(write=False)
        return matrix

    def _require_faithful_draw(self) -> None:
        # Thresholds are rounded so that epsilon is kept exactly: nothing to check.
        return

    def _inverse(self) -> FloatArray:
        if self.a == 0.0:
            raise InputError(
                "`epsilon` must be greater than 0 to estimate frequencies, got 0: pure noise says "
                "nothing about the truth."
            )
        # (a I + b 11ᵀ)⁻¹ = (I − b 11ᵀ)/a, since a + kb = 1.
        return (np.eye(self._k) - self.lie_probability) / self.a

    @property
    def _settings(self) -> tuple[object, ...]:
        """What tells two channels of one kind apart."""
        return (self._k, self._epsilon)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._settings == other._settings

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._settings))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), self._settings)

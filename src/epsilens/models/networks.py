# SPDX-License-Identifier: Apache-2.0
"""Many networks of one shape side by side: their parameters, their outputs.

A network is a chain of layers, each a matrix applied to the layer before and a 1 (for the intercept),
followed by a bend. Without a hidden layer it is logistic regression, of one output for two classes and of
one a class for more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Activation", "Network", "bend", "with_ones"]

Activation: TypeAlias = Literal["relu", "tanh"]
"""The bend after a hidden layer: max(0, z), or the hyperbolic tangent."""

Floats: TypeAlias = NDArray[np.floating]

_ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class Network:
    """The shape of a network.

    Attributes
    ----------
    n_features : int
    n_classes : int, at least 2
    hidden : tuple of int
        Widths of the hidden layers; empty for a linear model.
    activation : {"relu", "tanh"}

    Examples
    --------
    >>> Network(64, 10, (128,)).n_parameters
    9610
    >>> Network(64, 2).n_parameters
    65
    """

    n_features: int
    n_classes: int
    hidden: tuple[int, ...] = ()
    activation: Activation = "relu"

    @property
    def n_outputs(self) -> int:
        """One for two classes, the logit of the second; else one a class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Outputs and inputs of every layer, the 1 not counted."""
        widths = (self.n_features, *self.hidden, self.n_outputs)
        return tuple(zip(widths[1:], widths[:-1], strict=True))

    @property
    def n_parameters(self) -> int:
        """Weights and intercepts of all layers."""
        return sum(n_out * (n_in + 1) for n_out, n_in in self.sizes)

    def layers(self, parameters: Floats) -> list[Floats]:
        """Return views of the parameters of every layer.

        Parameters
        ----------
        parameters : array, (n_models, n_parameters)

        Returns
        -------
        list of arrays, (n_models, n_out, n_in + 1)
            The intercepts stand in the last column.
        """
        found, first = [], 0
        for n_out, n_in in self.sizes:
            last = first + n_out * (n_in + 1)
            found.append(parameters[:, first:last].reshape(len(parameters), n_out, n_in + 1))
            first = last
        return found

    def initial(
        self, generators: Sequence[np.random.Generator], dtype: type[np.floating]
    ) -> Floats:
        """Return the parameters to start from, (n_models, n_parameters).

        A linear model starts from 0. The layers of others are uniform within ±1/√n_in, as torch's.
        """
        parameters: Floats = np.zeros((len(generators), self.n_parameters), dtype=dtype)
        if not self.hidden:
            return parameters
        for own, generator in zip(parameters, generators, strict=True):
            for layer in self.layers(own[None]):
                bound = 1.0 / math.sqrt(layer.shape[2] - 1)
                layer[:] = generator.uniform(-bound, bound, size=layer.shape)
        return parameters

    def outputs(self, parameters: Floats, X: Floats) -> Floats:
        """Return what every model says of every row, (n_models, n_outputs, n_rows).

        Each model is reckoned by itself, so that its numbers do not depend on its neighbours.
        """
        layers = self.layers(parameters)
        result: Floats = np.empty((len(parameters), self.n_outputs, len(X)), dtype=parameters.dtype)
        rows = with_ones(X, parameters.dtype.type)
        for first in range(0, len(X), _ROWS_AT_ONCE):
            signal: Floats = rows[first : first + _ROWS_AT_ONCE].T[None]
            for number, layer in enumerate(layers):
                if number:
                    bend(signal, self.activation)
                    above = np.matmul(layer[:, :, :-1], signal)
                    above += layer[:, :, -1:]
                else:
                    above = np.matmul(layer, signal)
                signal = above
            result[:, :, first : first + _ROWS_AT_ONCE] = signal
        return result


def bend(signal: Floats, activation: Activation) -> None:
    """Apply the activation in place."""
    if activation == "relu":
        np.maximum(signal, 0, out=signal)
    else:
        np.tanh(signal, out=signal)


def with_ones(X: Floats, dtype: type[np.floating]) -> Floats:
    """Return the rows with a 1 after the last feature."""
    rows = np.ones((len(X), X.shape[1] + 1), dtype=dtype)
    rows[:, :-1] = X
    return rows

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

from epsilens._types import FloatArray

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


# --- Sums of clipped per-example gradients, without any per-example gradient ---

_STABILISER = 1e-6
"""Added to every norm before dividing by it, as Opacus does: the result is never longer than `clip`."""


class BatchTable:
    """The records in the form in which batches are gathered: one row holds all a step needs.

    Features, a 1, the target (one number for two classes, else one a class), and the squared length of
    features and 1. A last row of zeros is the padding: it has no 1, and so no gradient.

    Parameters
    ----------
    X : array, (n, n_features)
    codes : array of int, (n,)
    network : Network
    dtype : float32 or float64
    """

    def __init__(
        self,
        X: FloatArray,
        codes: NDArray[np.int64],
        network: Network,
        dtype: type[np.floating],
    ) -> None:
        n, n_outputs = len(X), network.n_outputs
        self.padding = n
        self.n_inputs = network.n_features + 1
        rows: Floats = np.zeros((n + 1, self.n_inputs + n_outputs + 1), dtype=dtype)
        rows[:n, : self.n_inputs] = with_ones(X, dtype)
        if n_outputs == 1:
            rows[:n, self.n_inputs] = codes
        else:
            rows[np.arange(n), self.n_inputs + codes] = 1.0
        rows[:n, -1] = np.einsum("ij,ij->i", X, X) + 1.0
        self.rows = rows


class ClippedGradients:
    """A place to work for the gradients of some models on a batch each.

    Parameters
    ----------
    table : BatchTable
    network : Network
    n_models, capacity : int
        How many models, and how many records in a batch.
    clip : float, greater than 0
        The largest length of the gradient of one example, over all parameters of all layers.
    """

    def __init__(
        self, table: BatchTable, network: Network, n_models: int, capacity: int, clip: float
    ) -> None:
        dtype = table.rows.dtype
        self._table, self._network, self._clip = table, network, dtype.type(clip)
        self._batch = np.empty((n_models, capacity, table.rows.shape[1]), dtype=dtype)
        # One more row than a hidden layer is wide, for the 1.
        self._signals = [
            np.ones((n_models, width + 1, capacity), dtype=dtype) for width in network.hidden
        ]
        self._back = [
            np.empty((n_models, n_out, capacity), dtype=dtype) for n_out, _ in network.sizes
        ]
        self._squares = [np.empty_like(back) for back in self._back]

    def add_up(self, layers: list[Floats], batches: NDArray[np.intp], out: list[Floats]) -> None:
        """Write the sums of clipped gradients of every model.

        Parameters
        ----------
        layers : list of arrays, (n_models, n_out, n_in + 1)
            The parameters.
        batches : array, (n_models, capacity)
            Rows of the table; the padding where a batch is shorter.
        out : list of arrays like `layers`
            Overwritten.
        """
        table, n_inputs = self._table, self._table.n_inputs
        np.take(table.rows, batches, axis=0, out=self._batch, mode="clip")
        inputs = self._batch[:, :, :n_inputs]
        ones, squared = self._batch[:, :, n_inputs - 1], self._batch[:, :, -1]
        # Forwards, to the logits.
        below = inputs.transpose(0, 2, 1)
        for layer, signal in zip(layers, self._signals, strict=False):
            np.matmul(layer, below, out=signal[:, :-1])
            bend(signal[:, :-1], self._network.activation)
            below = signal
        slope = np.matmul(layers[-1], below, out=self._back[-1])
        # The slope of the loss at the logits.
        if self._network.n_outputs == 1:
            # The logistic function without overflow.
            slope *= 0.5
            np.tanh(slope, out=slope)
            slope += 1.0
            slope *= 0.5
        else:
            slope -= slope.max(axis=1, keepdims=True)
            np.exp(slope, out=slope)
            slope /= slope.sum(axis=1, keepdims=True)
        slope -= self._batch[:, :, n_inputs:-1].transpose(0, 2, 1)
        # Backwards, to the first layer.
        for number in range(len(layers) - 1, 0, -1):
            back, signal = self._back[number - 1], self._signals[number - 1][:, :-1]
            weights = layers[number][:, :, :-1].transpose(0, 2, 1)
            np.matmul(weights, self._back[number], out=back)
            if self._network.activation == "relu":
                back *= signal > 0
            else:
                squares = self._squares[number - 1]
                np.multiply(signal, signal, out=squares)
                np.subtract(1.0, squares, out=squares)
                back *= squares
        # ‖gradient‖² of every example: ‖a‖²·‖δ‖², summed over the layers.
        total = squared * self._squared_length(0)
        for number, signal in enumerate(self._signals, start=1):
            squares = self._squares[number - 1]
            np.multiply(signal[:, :-1], signal[:, :-1], out=squares)
            total += (squares.sum(axis=1) + 1.0) * self._squared_length(number)
        factor = self._clip / (np.sqrt(total) + total.dtype.type(_STABILISER))
        np.minimum(factor, 1.0, out=factor)
        factor *= ones
        for number, (back, gradient) in enumerate(zip(self._back, out, strict=True)):
            np.multiply(back, factor[:, None], out=back)
            below = self._signals[number - 1].transpose(0, 2, 1) if number else inputs
            np.matmul(back, below, out=gradient)

    def _squared_length(self, number: int) -> Floats:
        back, squares = self._back[number], self._squares[number]
        np.multiply(back, back, out=squares)
        total: Floats = squares.sum(axis=1)
        return total

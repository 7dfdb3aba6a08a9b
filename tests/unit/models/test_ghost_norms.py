# SPDX-License-Identifier: Apache-2.0
"""Sums of clipped gradients against a twin that writes every gradient out."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.models.networks import BatchTable, ClippedGradients, Network

NETWORKS = [
    Network(5, 2),
    Network(5, 4),
    Network(5, 2, (6,)),
    Network(5, 4, (6,)),
    Network(5, 3, (6, 4), "tanh"),
    Network(5, 3, (3, 7, 2), "relu"),
]
N_ROWS = 40


def table_of(network: Network) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(N_ROWS, 5)), rng.integers(0, network.n_classes, size=N_ROWS)


def one_gradient(network: Network, parameters: np.ndarray, x: np.ndarray, code: int) -> np.ndarray:
    """The gradient of one example, by the chain rule, written out."""
    weights = [layer[0] for layer in network.layers(parameters[None])]
    inputs = [x]
    for matrix in weights[:-1]:
        z = matrix @ np.append(inputs[-1], 1.0)
        inputs.append(np.maximum(z, 0.0) if network.activation == "relu" else np.tanh(z))
    z = weights[-1] @ np.append(inputs[-1], 1.0)
    if network.n_outputs == 1:
        delta = 1.0 / (1.0 + np.exp(-z)) - code
    else:
        delta = np.exp(z) / np.exp(z).sum()
        delta[code] -= 1.0
    parts = []
    for number in range(len(weights) - 1, -1, -1):
        parts.append(np.outer(delta, np.append(inputs[number], 1.0)).ravel())
        if number:
            a = inputs[number]
            slope = (a > 0).astype(float) if network.activation == "relu" else 1.0 - a**2
            delta = (weights[number][:, :-1].T @ delta) * slope
    return np.concatenate(parts[::-1])


def clipped_sum(
    network: Network, parameters: np.ndarray, X: np.ndarray, codes: np.ndarray, clip: float
) -> np.ndarray:
    total = np.zeros(network.n_parameters)
    for x, code in zip(X, codes, strict=True):
        gradient = one_gradient(network, parameters, x, int(code))
        total += gradient * min(1.0, clip / (np.linalg.norm(gradient) + 1e-6))
    return total


def batched(
    network: Network,
    parameters: np.ndarray,
    batches: np.ndarray,
    clip: float,
    *,
    table: BatchTable,
) -> np.ndarray:
    workplace = ClippedGradients(table, network, *batches.shape, clip)
    sums = np.full_like(parameters, np.nan)
    workplace.add_up(network.layers(parameters), batches, network.layers(sums))
    return sums


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(np.float64, 1e-10), (np.float32, 1e-5)],  # single precision, a sum of 11 numbers
)
@pytest.mark.parametrize("clip", [0.3, 1.0, 100.0])
def test_the_sum_is_that_of_written_out_gradients(
    network: Network, dtype: type, tolerance: float, clip: float
) -> None:
    X, codes = table_of(network)
    rng = np.random.default_rng(1)
    parameters = rng.normal(size=(7, network.n_parameters))
    batches = np.full((7, 11), N_ROWS, dtype=np.intp)
    for model, n in enumerate([11, 10, 5, 1, 0, 11, 3]):  # the rest is padding
        batches[model, :n] = rng.choice(N_ROWS, size=n, replace=False)
    table = BatchTable(X, codes, network, dtype)
    found = batched(network, parameters.astype(dtype), batches, clip, table=table)
    for model, batch in enumerate(batches):
        rows = batch[batch < N_ROWS]
        slow = clipped_sum(network, parameters[model], X[rows], codes[rows], clip)
        assert np.abs(found[model] - slow).max() <= tolerance * max(1.0, np.abs(slow).max())


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_the_written_out_gradient_is_the_slope_of_the_loss(network: Network) -> None:
    X, codes = table_of(network)
    parameters = np.random.default_rng(2).normal(size=network.n_parameters)

    def loss(values: np.ndarray) -> float:
        z = network.outputs(values[None], X[:1])[0, :, 0]
        if network.n_outputs == 1:
            return float(np.logaddexp(0.0, z[0]) - codes[0] * z[0])
        return float(np.log(np.exp(z).sum()) - z[codes[0]])

    gradient = one_gradient(network, parameters, X[0], int(codes[0]))
    for k in range(0, network.n_parameters, 3):
        step = np.zeros_like(parameters)
        step[k] = 1e-6
        slope = (loss(parameters + step) - loss(parameters - step)) / 2e-6
        assert abs(slope - gradient[k]) < 1e-7


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_no_example_weighs_more_than_the_clip(network: Network) -> None:
    """Features of any size: one record moves the sum by at most `clip`, in every layer together."""
    X, codes = table_of(network)
    X = X * 10.0 ** np.random.default_rng(3).uniform(-3, 6, size=(N_ROWS, 1))
    parameters = np.random.default_rng(4).normal(size=(N_ROWS, network.n_parameters))
    table = BatchTable(X, codes, network, np.float64)
    sums = batched(network, parameters, np.arange(N_ROWS)[:, None], 0.7, table=table)
    lengths = np.linalg.norm(sums, axis=1)
    assert lengths.max() <= 0.7
    assert np.isfinite(sums).all()
    assert lengths.max() > 0.699  # it is reached


def test_large_outputs_do_not_overflow() -> None:
    for network in (Network(1, 2), Network(1, 3)):
        X, codes = np.array([[1e4], [-1e4]]), np.array([0, 1])
        table = BatchTable(X, codes, network, np.float32)
        parameters = np.full((1, network.n_parameters), 1e4, dtype=np.float32)
        assert np.isfinite(batched(network, parameters, np.array([[0, 1]]), 1.0, table=table)).all()

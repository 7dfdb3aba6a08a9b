# SPDX-License-Identifier: Apache-2.0
"""Networks side by side say what each would say alone."""

from __future__ import annotations

import numpy as np
import pytest

from epsilens.models.networks import Network

NETWORKS = [Network(4, 2), Network(4, 5), Network(4, 3, (6, 2)), Network(4, 2, (5,), "tanh")]


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_layers_are_views_of_all_parameters(network: Network) -> None:
    parameters = np.zeros((3, network.n_parameters))
    for layer in network.layers(parameters):
        layer[:] = 1.0
    assert (parameters == 1.0).all()


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_outputs_row_by_row(network: Network) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 4))  # more than go at once
    parameters = rng.normal(size=(3, network.n_parameters))
    found = network.outputs(parameters, X)
    assert found.shape == (3, network.n_outputs, 2100)
    for model in range(3):
        for row in (0, 2047, 2048, 2099):
            signal = X[row]
            for number, layer in enumerate(network.layers(parameters[model : model + 1])):
                if number:
                    relu = network.activation == "relu"
                    signal = np.maximum(signal, 0.0) if relu else np.tanh(signal)
                signal = layer[0] @ np.append(signal, 1.0)
            assert np.allclose(found[model, :, row], signal, rtol=0, atol=1e-12)


def test_the_start() -> None:
    """Linear models from 0, others uniform as torch's, of standard deviation 1/√(3 n_in)."""
    generators = [np.random.default_rng(seed) for seed in range(2)]
    assert (Network(4, 5).initial(generators, np.float32) == 0).all()
    network = Network(50, 5, (400,))
    start = network.initial(generators, np.float64)
    first, second = network.layers(start)
    assert np.abs(first).max() <= 50**-0.5
    assert np.abs(second).max() <= 400**-0.5
    # 20,400 and 2,005 numbers a model.
    assert abs(first[0].std() * np.sqrt(3 * 50) - 1.0) < 0.02
    assert abs(second[0].std() * np.sqrt(3 * 400) - 1.0) < 0.06
    assert (start[0] != start[1]).all()

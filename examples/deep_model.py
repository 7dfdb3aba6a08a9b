# SPDX-License-Identifier: Apache-2.0
"""The last layer of a small network: what randomised labels would cost it, and what they cost the whole.

Run it with `python examples/deep_model.py`; it needs `pip install "epsilens[torch]"` and takes a few seconds on the
digits that scikit-learn brings.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import nn

from epsilens import WhatIf
from epsilens.channels import RandomizedResponse, simulate
from epsilens.errors import PrivacyLeakWarning

EPSILONS = [1.0, 2.0, 3.0, 4.0, 6.0]
WEIGHT_DECAY = 3e-3


class Network(nn.Module):
    """Two convolutions, a narrow layer, and the one that is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(64, 16), nn.Tanh()),
        )
        self.fc = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x))


def train(X: torch.Tensor, y: torch.Tensor, epochs: int = 15) -> Network:
    """Train from the same initial weights in the same order, whatever the labels."""
    torch.manual_seed(0)
    module = Network()
    optimiser = torch.optim.SGD(
        module.parameters(), lr=0.1, momentum=0.9, weight_decay=WEIGHT_DECAY
    )
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(100):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(X[batch]), y[batch]).backward()
            optimiser.step()
    return module.eval()


def loss(module: Network, X: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return float(nn.functional.cross_entropy(module(X).double(), y))


def main() -> None:
    torch.set_num_threads(1)
    images, digits = load_digits(return_X_y=True)
    X = torch.from_numpy(images.reshape(-1, 1, 8, 8) / 16).float()
    y = torch.from_numpy(digits)
    X, y, X_test, y_test = X[:1200], y[:1200], X[1200:], y[1200:]
    module = train(X, y)

    study = WhatIf(module, head="fc", regularisation=1 / (len(y) * WEIGHT_DECAY))
    study.fit(X, y, X_test, y_test)
    # The body has learnt from the true labels: of the head alone this is a cost and no protection. The whole
    # network, trained again on randomised labels below, is protected.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    result = study.estimate(epsilon=EPSILONS, method="exact").to_frame()
    # Classes that a network has pulled apart leave little curvature, and the checks say so: look.
    head = study.retrain(epsilon=EPSILONS, repeats=20).to_frame()
    print("\nWhat randomised labels would do to the head, estimated and really trained again:")
    columns = ["epsilon", "loss_change", "loss_change_low", "loss_change_high", "trusted"]
    print(result[columns].assign(retrained=head["loss_change"]))

    print("\nThe whole network, really trained again on randomised labels:")
    before, runs = loss(module, X_test, y_test), []
    for epsilon in EPSILONS:
        drawn = simulate(RandomizedResponse(10, epsilon), y.numpy(), np.random.default_rng(0))
        again = train(X, torch.from_numpy(drawn))
        runs.append({"epsilon": epsilon, "loss_change": loss(again, X_test, y_test) - before})
    print(pd.DataFrame(runs))

    line = study.calibrate(epsilon=EPSILONS, method="exact", truth=pd.DataFrame(runs))
    print(
        f"\nwhole network ≈ {line.intercept:+.3f} {line.slope:+.2f} × head; other ε by that line:"
    )
    print(line.apply(study.estimate(epsilon=[1.5, 2.5, 5.0], method="exact")))


if __name__ == "__main__":
    main()

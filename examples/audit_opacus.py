# SPDX-License-Identifier: Apache-2.0
"""Canaries in a DP-SGD run of Opacus: writes scores.csv, which `epsilens audit scores` judges.

    python examples/audit_opacus.py && epsilens audit scores scores.csv --epsilon 8 --delta 1e-5

Each canary has a feature of its own, so that its gradient is a direction of its own: its weight is its score.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

EPSILON, DELTA, EPOCHS, N_CANARIES = 8.0, 1e-5, 20, 500


def main(noise_share: float = 1.0) -> None:
    warnings.simplefilter("ignore")  # Opacus' remarks on simulated randomness
    rng = np.random.default_rng()
    X = rng.normal(size=(1000, 10))  # the data that are always there
    y = (X[:, 0] > 0).astype(np.float32)
    included = rng.random(N_CANARIES) < 0.5  # a fair coin for every canary, before the run
    own = np.eye(N_CANARIES)[included]
    rows = np.vstack([np.pad(X, ((0, 0), (0, N_CANARIES))), np.pad(own, ((0, 0), (10, 0)))])
    labels = np.append(y, np.ones(len(own), dtype=np.float32))

    data = TensorDataset(torch.tensor(rows, dtype=torch.float32), torch.tensor(labels))
    model = torch.nn.Linear(rows.shape[1], 1)
    torch.nn.init.zeros_(model.weight)
    model, optimiser, loader = PrivacyEngine().make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(data, batch_size=300),
        target_epsilon=EPSILON,
        target_delta=DELTA,
        epochs=EPOCHS,
        max_grad_norm=0.5,
    )
    optimiser.noise_multiplier *= noise_share  # 1: as it was calibrated
    for _ in range(EPOCHS):
        for features, answers in loader:
            optimiser.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits
            loss(model(features)[:, 0], answers).backward()
            optimiser.step()
    scores = next(model.parameters()).detach().numpy()[0, 10:]
    pd.DataFrame({"included": included.astype(int), "score": scores}).to_csv(
        "scores.csv", index=False
    )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))

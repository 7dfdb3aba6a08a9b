# SPDX-License-Identifier: Apache-2.0
"""The logistic model as the peers on PyTorch take it: one linear layer in double precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from exchange import Problem
from torch.nn.functional import binary_cross_entropy_with_logits

torch.set_default_dtype(torch.float64)


@dataclass(frozen=True)
class Prepared:
    problem: Problem
    model: torch.nn.Linear
    X: torch.Tensor
    y: torch.Tensor
    X_test: torch.Tensor
    y_test: torch.Tensor
    groups: torch.Tensor


def prepare(problem: Problem) -> Prepared:
    """Give the data as tensors and the trained layer; labels are a column, as the layer's output."""
    model = torch.nn.Linear(len(problem.theta), 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(problem.theta)[None, :])
    return Prepared(
        problem,
        model,
        torch.from_numpy(problem.X),
        torch.from_numpy(problem.y)[:, None],
        torch.from_numpy(problem.X_test),
        torch.from_numpy(problem.y_test)[:, None],
        torch.from_numpy(problem.groups),
    )


def mean_loss(predictor: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return binary_cross_entropy_with_logits(predictor, y)


def test_gradient(prepared: Prepared) -> torch.Tensor:
    """Return η by one backward pass."""
    loss = mean_loss(prepared.model(prepared.X_test), prepared.y_test)
    return torch.autograd.grad(loss, prepared.model.weight)[0].ravel()


def whole(X: torch.Tensor, y: torch.Tensor) -> torch.utils.data.DataLoader:
    """Give all records as one batch, without touching them one by one."""
    data = torch.utils.data.TensorDataset(X, y)
    every = torch.utils.data.BatchSampler(
        torch.utils.data.SequentialSampler(data), batch_size=len(data), drop_last=False
    )
    return torch.utils.data.DataLoader(data, sampler=every, batch_size=None)


def loss_slopes(prepared: Prepared, v: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """Return ∇ℓᵢ·v for every record by one forward-mode pass."""

    def losses(weight: torch.Tensor) -> torch.Tensor:
        return binary_cross_entropy_with_logits(prepared.X @ weight, y[:, 0], reduction="none")

    weight = prepared.model.weight.detach().ravel()
    return torch.func.jvp(losses, (weight,), (v.detach().ravel(),))[1].numpy()


def by_hand(prepared: Prepared, v: torch.Tensor) -> np.ndarray:
    """Return the cells for v = H⁻¹η, from the slopes of the loss and of the flipped loss along v."""
    flipped = loss_slopes(prepared, v, 1.0 - prepared.y)
    own = loss_slopes(prepared, v, prepared.y)
    return prepared.problem.cells((own - flipped) / len(own))

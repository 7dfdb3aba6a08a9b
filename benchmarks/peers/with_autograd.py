# SPDX-License-Identifier: Apache-2.0
"""The 300 cells with plain PyTorch autograd, the way P1 describes (Table IV).

The Hessian by reverse mode over reverse mode, one inverse-Hessian product, and then for every group and
every ε the gradient of the group's expected change of loss (P1 Eq. 14 with its minus sign).
"""

from __future__ import annotations

import numpy as np
import torch
from exchange import Method, main
from logistic_torch import Prepared, mean_loss, prepare, test_gradient
from torch.nn.functional import binary_cross_entropy_with_logits


def per_cell(prepared: Prepared) -> np.ndarray:
    problem, n = prepared.problem, len(prepared.y)
    weight = prepared.model.weight.detach().clone().requires_grad_()

    def objective(w: torch.Tensor) -> torch.Tensor:
        return mean_loss(prepared.X @ w.T, prepared.y) + 0.5 * problem.penalty * (w * w).sum()

    p = weight.numel()
    hessian = torch.autograd.functional.hessian(objective, weight).reshape(p, p)
    v = torch.linalg.solve(hessian, test_gradient(prepared))
    values = np.empty((len(problem.groups), len(problem.epsilon)))
    for row, mask in enumerate(prepared.groups):
        X, y = prepared.X[mask], prepared.y[mask]
        for column, probability in enumerate(problem.flip_probability):
            predictor = X @ weight.T
            change = binary_cross_entropy_with_logits(predictor, 1.0 - y, reduction="sum")
            change = change - binary_cross_entropy_with_logits(predictor, y, reduction="sum")
            gradient = torch.autograd.grad(probability * change, weight)[0].ravel()
            values[row, column] = -float(v @ gradient) / n
    return values


if __name__ == "__main__":
    main(
        "torch",
        {
            "autograd-as-p1": Method(
                "torch.autograd.functional.hessian, linalg.solve, autograd.grad for every cell",
                prepare,
                per_cell,
            )
        },
    )

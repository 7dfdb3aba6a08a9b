# SPDX-License-Identifier: Apache-2.0
"""The 300 cells with dattri: its attributors, and the functions beneath them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from dattri.algorithm.influence_function import IFAttributorCG, IFAttributorExplicit
from dattri.func.hessian import ihvp_at_x_cg, ihvp_at_x_explicit
from dattri.task import AttributionTask
from exchange import Method, Problem, main
from logistic_torch import Prepared, by_hand, mean_loss, prepare, test_gradient, whole

TOLERANCE = 1e-8


class _Together(torch.utils.data.Dataset):
    """Records that are fetched a batch at a time."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, ...]:
        every = len(indices) == len(self)
        return tuple(tensor if every else tensor[indices] for tensor in self.tensors)


def _loader(*tensors: torch.Tensor) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(
        _Together(*tensors), batch_size=len(tensors[0]), collate_fn=lambda batch: batch
    )


def _attribute(prepared: Prepared, attributor_of: type, **options: object) -> np.ndarray:
    """Attribute every record and every flipped record in one call.

    The mean test loss is one target, so that one inverse-Hessian product is enough.
    """
    model = prepared.model

    def loss(params: dict, data: tuple) -> torch.Tensor:
        X, y = data
        return mean_loss(torch.func.functional_call(model, params, (X,)), y)

    task = AttributionTask(loss_func=loss, model=model, checkpoints=model.state_dict())
    attributor = attributor_of(task, regularization=prepared.problem.penalty, **options)
    attributor.cache(whole(prepared.X, prepared.y))
    both = _loader(torch.cat([prepared.X, prepared.X]), torch.cat([prepared.y, 1.0 - prepared.y]))
    one_target = _loader(prepared.X_test[None, :, :], prepared.y_test[None, :, :])
    scores = attributor.attribute(both, one_target)[:, 0].detach().numpy()
    own, flipped = np.split(scores, 2)
    return prepared.problem.cells((own - flipped) / len(own))


def explicit(prepared: Prepared) -> np.ndarray:
    return _attribute(prepared, IFAttributorExplicit)


def steps_needed(prepared: Prepared) -> int:
    """Return after how many steps conjugate gradient is at the tolerance.

    dattri takes a number of steps and no tolerance, and goes on to NaN when it is done: its user has
    to find the number, here beforehand and not timed.
    """
    problem, eta = prepared.problem, test_gradient(prepared).numpy()
    mean = 1.0 / (1.0 + np.exp(-problem.X @ problem.theta))
    hessian = (problem.X.T * (mean * (1.0 - mean))) @ problem.X / len(mean)
    hessian += problem.penalty * np.eye(len(eta))
    residual = eta - hessian @ eta  # dattri starts from the right-hand side
    direction, square, steps = residual, residual @ residual, 0
    while square > TOLERANCE**2 * (eta @ eta) and steps < 10 * len(eta):
        image = hessian @ direction
        residual = residual - square / (direction @ image) * image
        before, square, steps = square, residual @ residual, steps + 1
        direction = residual + square / before * direction
    return max(steps, 1)


def prepare_cg(problem: Problem) -> tuple[Prepared, int]:
    prepared = prepare(problem)
    return prepared, steps_needed(prepared)


def conjugate_gradient(prepared: tuple[Prepared, int]) -> np.ndarray:
    return _attribute(prepared[0], IFAttributorCG, max_iter=prepared[1])


def _objective(prepared: Prepared) -> tuple[Callable, torch.Tensor]:
    def objective(weight: torch.Tensor) -> torch.Tensor:
        return mean_loss((prepared.X @ weight)[:, None], prepared.y)

    return objective, prepared.model.weight.detach().ravel()


def explicit_function(prepared: Prepared) -> np.ndarray:
    objective, weight = _objective(prepared)
    solve = ihvp_at_x_explicit(objective, weight, regularization=prepared.problem.penalty)
    return by_hand(prepared, solve(test_gradient(prepared)))


def cg_function(given: tuple[Prepared, int]) -> np.ndarray:
    prepared, steps = given
    objective, weight = _objective(prepared)
    solve = ihvp_at_x_cg(objective, weight, max_iter=steps, regularization=prepared.problem.penalty)
    return by_hand(prepared, solve(test_gradient(prepared)))


if __name__ == "__main__":

    def steps(prepared: tuple[Prepared, int]) -> dict[str, object]:
        return {"steps": prepared[1], "relative_tolerance": TOLERANCE}

    main(
        "dattri",
        {
            "explicit": Method("IFAttributorExplicit.cache and .attribute", prepare, explicit),
            "cg": Method(
                "IFAttributorCG.cache and .attribute", prepare_cg, conjugate_gradient, notes=steps
            ),
            "explicit-function": Method(
                "ihvp_at_x_explicit, torch.func.jvp", prepare, explicit_function
            ),
            "cg-function": Method(
                "ihvp_at_x_cg, torch.func.jvp", prepare_cg, cg_function, notes=steps
            ),
        },
    )

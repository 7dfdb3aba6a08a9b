# SPDX-License-Identifier: Apache-2.0
"""What is trained: losses at the linear predictor, the solver, adapters for scikit-learn and torch."""

from typing import TYPE_CHECKING

from epsilens._lazy import lazy_exports
from epsilens.models.design import Design
from epsilens.models.problem import LogisticLoss, Loss, Problem, SoftmaxLoss, SquaredLoss
from epsilens.models.solver import Curvature, Solution, factorise, minimise

if TYPE_CHECKING:
    from epsilens.models.torch_network import TorchNetwork

__all__ = [
    "Curvature",
    "Design",
    "LogisticLoss",
    "Loss",
    "Problem",
    "SoftmaxLoss",
    "Solution",
    "SquaredLoss",
    "TorchNetwork",
    "factorise",
    "minimise",
]

# It imports scikit-learn, which takes longer than all of these.
__getattr__, _ = lazy_exports(__name__, {"epsilens.models.torch_network": ["TorchNetwork"]})

# SPDX-License-Identifier: Apache-2.0
"""What is trained: losses at the linear predictor, the solver, adapters for scikit-learn."""

from epsilens.models.design import Design
from epsilens.models.problem import LogisticLoss, Loss, Problem, SoftmaxLoss, SquaredLoss
from epsilens.models.solver import Curvature, Solution, factorise, minimise

__all__ = [
    "Curvature",
    "Design",
    "LogisticLoss",
    "Loss",
    "Problem",
    "SoftmaxLoss",
    "Solution",
    "SquaredLoss",
    "factorise",
    "minimise",
]

# SPDX-License-Identifier: Apache-2.0
"""What is trained: losses at the linear predictor, the solver, adapters for scikit-learn."""

from epsilens.models.curvature import Curvature, factorise
from epsilens.models.design import Design
from epsilens.models.losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from epsilens.models.problem import Problem
from epsilens.models.solver import Solution, minimise

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

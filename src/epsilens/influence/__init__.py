# SPDX-License-Identifier: Apache-2.0
"""How training records weigh: first order, Newton, exact, and the noise of one run."""

from epsilens.influence.cholesky import Cholesky
from epsilens.influence.conjugate_gradient import ConjugateGradient
from epsilens.influence.evaluation import Evaluation, Outcomes
from epsilens.influence.exact import walk
from epsilens.influence.first_order import FirstOrder
from epsilens.influence.inverse_choice import as_inverse_hessian
from epsilens.influence.inverse_hessian import (
    HessianOperator,
    InverseHessian,
    InverseSolution,
)
from epsilens.influence.label_noise import LabelNoise, summarise_group
from epsilens.influence.newton import newton_steps
from epsilens.influence.point_table import (
    PointTable,
    general_point_table,
    label_point_table,
)
from epsilens.influence.realisation import NoiseTerms, draw_linear_noise, noise_terms_at
from epsilens.influence.record_noise import contrast_variance, predictor_noise, wild_loss
from epsilens.influence.stochastic_estimation import StochasticEstimation
from epsilens.influence.trust import is_trustworthy

__all__ = [
    "Cholesky",
    "ConjugateGradient",
    "Evaluation",
    "FirstOrder",
    "HessianOperator",
    "InverseHessian",
    "InverseSolution",
    "LabelNoise",
    "NoiseTerms",
    "Outcomes",
    "PointTable",
    "StochasticEstimation",
    "as_inverse_hessian",
    "contrast_variance",
    "draw_linear_noise",
    "general_point_table",
    "is_trustworthy",
    "label_point_table",
    "newton_steps",
    "noise_terms_at",
    "predictor_noise",
    "summarise_group",
    "walk",
    "wild_loss",
]

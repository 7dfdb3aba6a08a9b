# SPDX-License-Identifier: Apache-2.0
"""How training records weigh: first order, Newton, exact, and the noise of one run."""

from epsilens.influence.conjugate_gradient import ConjugateGradient
from epsilens.influence.evaluation import (
    Evaluation,
    Outcomes,
    contrast_variance,
    is_trustworthy,
    predictor_noise,
    undetermined_loss,
)
from epsilens.influence.exact import newton_steps, walk
from epsilens.influence.first_order import (
    FirstOrder,
    PointTable,
    general_point_table,
    label_point_table,
)
from epsilens.influence.inverse_hessian import (
    Cholesky,
    HessianOperator,
    InverseHessian,
    InverseSolution,
)
from epsilens.influence.label_noise import (
    LabelNoise,
    NoiseTerms,
    draw_linear_noise,
    noise_terms_at,
    summarise_group,
)
from epsilens.influence.stochastic_estimation import StochasticEstimation
from epsilens.influence.wide import as_inverse_hessian

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
    "undetermined_loss",
    "walk",
    "wild_loss",
]

wild_loss = undetermined_loss
"""Earlier name of `undetermined_loss`."""

# SPDX-License-Identifier: Apache-2.0
"""How training records weigh: first order, Newton, exact, and the noise of one run."""

from epsilens.influence.evaluation import Evaluation, Outcomes
from epsilens.influence.exact import walk
from epsilens.influence.label_noise import LabelNoise, summarise_group
from epsilens.influence.newton import newton_steps
from epsilens.influence.point_table import (
    PointTable,
    general_point_table,
    label_point_table,
)
from epsilens.influence.realisation import (
    NoiseTerms,
    contrast_variance,
    draw_linear_noise,
    noise_terms,
    wild_loss,
)
from epsilens.influence.trust import is_trustworthy

__all__ = [
    "Evaluation",
    "LabelNoise",
    "NoiseTerms",
    "Outcomes",
    "PointTable",
    "contrast_variance",
    "draw_linear_noise",
    "general_point_table",
    "is_trustworthy",
    "label_point_table",
    "newton_steps",
    "noise_terms",
    "summarise_group",
    "walk",
    "wild_loss",
]

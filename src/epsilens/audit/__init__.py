# SPDX-License-Identifier: Apache-2.0
"""Proof by attack: what one run of a mechanism proves about how much it leaks.

Canaries go among the data by fair coins, the mechanism runs once, and the canaries are guessed
back from its output. Guesses that are better than ε allows refute ε.
"""

from __future__ import annotations

from epsilens.audit.bound import (
    METHODS,
    AsPrinted,
    Bonferroni,
    Fixed,
    Method,
    OneRunBound,
    Path,
    Split,
    Weighted,
    one_run_bound,
)
from epsilens.audit.canaries import (
    Canaries,
    answer_pairs,
    mislabelled_records,
    one_hot_directions,
    own_canaries,
    random_unit_vectors,
)
from epsilens.audit.coins import draw_inclusion
from epsilens.audit.coverage import CoverageReport, measure_coverage
from epsilens.audit.dp_sgd import DPSGDFit, PrivateRidgeFit
from epsilens.audit.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu, printed_noise
from epsilens.audit.labels import audit_labels
from epsilens.audit.many_runs import ManyRunsBound, many_runs_bound
from epsilens.audit.mechanisms import EstimatorFit, GaussianSum, Mechanism, RandomisedAnswers
from epsilens.audit.one_run import OneRunAudit
from epsilens.audit.residuals import ResidualTest, residual_test
from epsilens.audit.result import AuditResult, audit_scores
from epsilens.audit.scores import AnswerMatch, Centred, Gradient, InnerProduct, LinearMMSE, Loss

__all__ = [
    "METHODS",
    "AnswerMatch",
    "AsPrinted",
    "AuditResult",
    "Bonferroni",
    "Canaries",
    "Centred",
    "CoverageReport",
    "DPSGDFit",
    "EstimatorFit",
    "Fixed",
    "GaussianSum",
    "Gradient",
    "InnerProduct",
    "LinearMMSE",
    "Loss",
    "ManyRunsBound",
    "Mechanism",
    "Method",
    "OneRunAudit",
    "OneRunBound",
    "Path",
    "PrivateRidgeFit",
    "RandomisedAnswers",
    "ResidualTest",
    "Split",
    "Weighted",
    "answer_pairs",
    "audit_labels",
    "audit_scores",
    "draw_inclusion",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "many_runs_bound",
    "measure_coverage",
    "mislabelled_records",
    "one_hot_directions",
    "one_run_bound",
    "own_canaries",
    "printed_noise",
    "random_unit_vectors",
    "residual_test",
]

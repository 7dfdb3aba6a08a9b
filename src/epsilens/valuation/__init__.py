# SPDX-License-Identifier: Apache-2.0
"""What a record is worth: leave one out, add one, and what a batch is worth together."""

from epsilens.valuation.appraisal import Appraisal
from epsilens.valuation.batches import BatchScores, batch_correction, correct_batch
from epsilens.valuation.curves import CurvePoint, addition_curve, removal_curve
from epsilens.valuation.payments import share_payment
from epsilens.valuation.single_records import add_one, leave_one_out

__all__ = [
    "Appraisal",
    "BatchScores",
    "CurvePoint",
    "add_one",
    "addition_curve",
    "batch_correction",
    "correct_batch",
    "leave_one_out",
    "removal_curve",
    "share_payment",
]

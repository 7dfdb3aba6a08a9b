# SPDX-License-Identifier: Apache-2.0
"""What a record is worth: leave one out, add one, a batch together; alone, or between parties that show nothing."""

from epsilens.valuation.answer_log import AnswerBook, RoundedScores, default_limit, round_scores
from epsilens.valuation.appraisal import Appraisal, add_one, leave_one_out
from epsilens.valuation.batch_exchange import (
    BatchMove,
    answer_batch,
    offer_batch,
    smallest_batch,
)
from epsilens.valuation.batches import BatchScores, batch_correction, correct_batch, share_payment
from epsilens.valuation.curves import CurvePoint, addition_curve, removal_curve
from epsilens.valuation.item_exchange import ItemTester, score_items
from epsilens.valuation.item_messages import EncryptedScores, EncryptedYardstick
from epsilens.valuation.model_moves import (
    ModelForProvider,
    ModelForTester,
    Yardstick,
    batch_move,
    item_moves,
    n_coefficients,
)
from epsilens.valuation.streamed_worth import leave_one_out_parquet

__all__ = [
    "AnswerBook",
    "Appraisal",
    "BatchMove",
    "BatchScores",
    "CurvePoint",
    "EncryptedScores",
    "EncryptedYardstick",
    "ItemTester",
    "ModelForProvider",
    "ModelForTester",
    "RoundedScores",
    "Yardstick",
    "add_one",
    "addition_curve",
    "answer_batch",
    "batch_correction",
    "batch_move",
    "correct_batch",
    "default_limit",
    "item_moves",
    "leave_one_out",
    "leave_one_out_parquet",
    "n_coefficients",
    "offer_batch",
    "removal_curve",
    "round_scores",
    "score_items",
    "share_payment",
    "smallest_batch",
]

# SPDX-License-Identifier: Apache-2.0
"""One score for a whole batch: the provider sends one move of the model, the tester one number.

P4's Algorithms 1–2. The move travels in clear, and what a curious coordinator reads off it is exactly
this: it knows H and N, so NHδ gives it p sums over the batch, at first order the numbers Σ_j slope_j·x_j;
if the batch is accepted, the p(p + 1)/2 numbers Σ_j curvature_j·x_j x_jᵀ and the gradient too. The batch
must have more unknown numbers than these equations: n > p(p + 2)/(d + 1), which P4 prints for one output
as n > d(d + 2)/(d + 1). Every further move of the same batch, at another model, is p equations more. **That bound is weak.** It counts equations as if every value were an
arbitrary real number. Features that are 0 or 1 have far fewer possibilities, and sums over a batch can
determine every row; what is known of the rows from elsewhere does the same; and two batches that differ
by one record give that record away by subtraction. Use `items` under encryption, or secure aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_choice
from epsilens.errors import InputError
from epsilens.models import Loss
from epsilens.valuation.answer_log import DIGITS, AnswerBook, RoundedScores, round_scores
from epsilens.valuation.model_moves import (
    Change,
    ModelForProvider,
    ModelForTester,
    MoveMethod,
    Yardstick,
    as_vector,
    batch_move,
)

LARGEST_MOVE = 1e6
"""In units of √(H⁻¹)_ii: standard errors of a coefficient times √N. No batch that is meant moves so far."""


@dataclass(frozen=True)
class BatchMove:
    """What a provider sends of a batch: provider to coordinator to tester.

    Attributes
    ----------
    model : str
        Which version of the model it belongs to.
    change : {"add", "remove"}
    move : array of shape (p,)
        How the model would move with the batch.
    """

    model: str
    change: Change
    move: FloatArray = field(repr=False)

    def __post_init__(self) -> None:
        as_choice(self.change, get_args(Change), name="change")
        object.__setattr__(self, "move", as_vector(self.move, name="move"))

    @property
    def n_bytes(self) -> int:
        """Bytes of the move."""
        return self.move.nbytes


def smallest_batch(
    n_parameters: int, *, n_outputs: int = 1, moves: int = 1, submissions: int = 1
) -> int:
    """Return the fewest records of a batch that a provider lets out.

    P4 counts p equations of one move, p of the model's update and p² of the Hessian, against d + 1
    unknowns a record. Asked at other models, the same batch gives as many again.

    Parameters
    ----------
    n_parameters : int
        p, numbers in the model.
    n_outputs : int
        Number of outputs of the model: 1, or the number of classes.
    moves : int
        How often its move is told, each time at another model.
    submissions : int
        How often its gradient and Hessian are, likewise.

    Returns
    -------
    int

    Examples
    --------
    >>> smallest_batch(30), smallest_batch(30, moves=4)
    (31, 34)
    """
    d = n_parameters // n_outputs
    return n_parameters * (moves + submissions * (n_parameters + 1)) // (d + 1) + 1


def require_batch(
    n: int, n_parameters: int, n_outputs: int, *, moves: int = 1, submissions: int = 1
) -> None:
    """Refuse a batch whose sums would have fewer unknowns than equations (P4, Security properties)."""
    least = smallest_batch(n_parameters, n_outputs=n_outputs, moves=moves, submissions=submissions)
    if n < least:
        again = " asked about so often," if moves > 1 or submissions > 1 else ""
        raise InputError(
            f"a batch must have at least {least} records for a model of {n_parameters} numbers,{again} got "
            f"{n}: the coordinator could solve for them. Offer more records, or use `items`."
        )


def offer_batch(
    model: ModelForProvider,
    X: FloatArray,
    y: FloatArray,
    loss: Loss,
    *,
    change: Change = "add",
    method: MoveMethod = "newton",
) -> BatchMove:
    """Return the message of a provider about a batch, or refuse a batch that is too small.

    Weak: see the notes. The protection is not in this message but in the number of records behind it.

    Parameters
    ----------
    model : ModelForProvider
    X : array of shape (n, d)
        Features as the model sees them, the constant column of an intercept included.
    y : array of shape (n,)
        Labels as the loss takes them.
    loss : Loss
    change : {"add", "remove"}
        Records that would come, or records of the model that would go.
    method : {"newton", "second-order", "first-order"}
        "second-order" is as P4 prints it.

    Returns
    -------
    BatchMove

    Raises
    ------
    InputError
        If the batch has no more than p(p + 2)/(d + 1) records.

    Notes
    -----
    The coordinator knows H and N and reads off the move, at first order, the p numbers Σ_j slope_j·x_j; if
    the batch is accepted, Σ_j curvature_j·x_j x_jᵀ as well. For features of few possible values these sums
    can determine every row (for two features of 0 and 1 they always do). Two batches that differ by one
    record give it away.

    References
    ----------
    P4: A. Richardson, A. Filos-Ratsikas, L. Rokvic, B. Faltings, "Privately computing influence in
    regression models", AAAI 2020, Algorithms 1–2 and "Security properties".

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import LogisticLoss
    >>> model = ModelForProvider(np.zeros(1), np.array([[4.0]]), n_records=10)
    >>> offer_batch(model, np.ones((2, 1)), np.ones(2), LogisticLoss()).move.round(3)
    array([0.333])
    """
    require_batch(len(np.atleast_1d(y)), model.n_parameters, loss.n_outputs)
    move = batch_move(model, X, y, loss, change=change, method=method)
    return BatchMove(model.name, change, move)


def answer_batch(
    model: ModelForTester,
    yardstick: Yardstick,
    message: BatchMove,
    *,
    provider: str,
    answers: AnswerBook,
    digits: int = DIGITS,
    resolution: float | None = None,
) -> RoundedScores:
    """Return the tester's one number about a batch: the fall of its mean loss, positive if it helps.

    Parameters
    ----------
    model : ModelForTester
    yardstick : Yardstick
    message : BatchMove
    provider : str
        Who sent it.
    answers : AnswerBook
        Counts it as one score: the coordinator knows the move.
    digits, resolution
        As in `round_scores`. A single score keeps `digits` of its own.

    Returns
    -------
    RoundedScores
        One score.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsilens.models import LogisticLoss
    >>> model = ModelForProvider(np.zeros(1), np.array([[4.0]]), n_records=10)
    >>> batch = offer_batch(model, np.ones((2, 1)), np.ones(2), LogisticLoss())
    >>> stick = Yardstick.of(model.for_tester(), np.ones((4, 1)), np.ones(4), LogisticLoss())
    >>> log = AnswerBook(Path(tempfile.mkdtemp()) / "answers.sqlite", n_parameters=1)
    >>> answer_batch(model.for_tester(), stick, batch, provider="A", answers=log).scores
    array([0.152778])
    """
    require_same_model(message.model, model.name)
    move = as_vector(message.move, name="move", length=yardstick.n_parameters)
    if np.abs(move / model.scale).max() > LARGEST_MOVE:
        raise InputError(
            "`move` must be a change that a batch can make, got one far beyond. Refused."
        )
    return answers.rounded(
        provider,
        1,
        message.model.encode() + message.change.encode() + move.tobytes(),
        lambda: yardstick.worth(move[None], change=message.change),
        lambda scores: round_scores(scores, digits=digits, resolution=resolution),
    )


def require_same_model(came: str, expected: str) -> None:
    """Refuse what was computed for another version of the model."""
    if came != expected:
        raise InputError(
            "the message must belong to the present version of the model, but belongs to another. "
            "Fetch the model again."
        )

# SPDX-License-Identifier: Apache-2.0
"""What a tester measures with: the gradient and the Hessian of the mean loss on its own records.

The test loss after a move δ of the model is R(θ̂) + g·δ + ½δᵀHδ to second order (P4 Eq. 2). The worth of
records is the fall of the test loss when they come, and its rise when they go: −ς(g·δ + ½δᵀHδ), positive
if they help, as `leave_one_out` and `add_one` have it. It is linear in (g, vech H), p(p + 3)/2 numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, get_args

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_choice
from epsilens.errors import InputError
from epsilens.models import Loss
from epsilens.valuation.model_moves import SIGN, Change, ModelForTester, as_records, as_vector


def n_coefficients(n_parameters: int) -> int:
    """Return p(p + 3)/2: so many pairs of a move and its score determine a yardstick.

    Parameters
    ----------
    n_parameters : int
        p, numbers in the model.

    Returns
    -------
    int

    Examples
    --------
    >>> n_coefficients(30)
    495
    """
    return n_parameters * (n_parameters + 3) // 2


@dataclass(frozen=True, repr=False)  # printed, it would leave the tester
class Yardstick:
    """Gradient and Hessian of the mean test loss at the present model; they stay with the tester.

    Attributes
    ----------
    gradient : array of shape (p,)
    hessian : array of shape (p, p)
    n_records : int
        Test records.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import LogisticLoss
    >>> model = ModelForTester(np.zeros(1), np.ones(1), n_records=100)
    >>> stick = Yardstick.of(model, np.ones((4, 1)), np.array([1.0, 1.0, 1.0, 0.0]), LogisticLoss())
    >>> stick.worth(np.array([[0.1]]))
    array([0.02375])
    """

    gradient: FloatArray
    hessian: FloatArray
    n_records: int

    def __post_init__(self) -> None:
        gradient = as_vector(self.gradient, name="gradient")
        hessian, p = np.asarray(self.hessian, dtype=np.float64), len(gradient)
        if hessian.shape != (p, p) or not np.isfinite(hessian).all():
            raise InputError(
                argument="hessian",
                expected=f"{p} × {p} finite numbers",
                got=f"an array of shape {hessian.shape}",
            )
        object.__setattr__(self, "gradient", gradient)
        object.__setattr__(self, "hessian", 0.5 * (hessian + hessian.T))

    @classmethod
    def of(cls, model: ModelForTester, X: FloatArray, y: FloatArray, loss: Loss) -> Self:
        """Measure a model on the tester's records.

        Parameters
        ----------
        model : ModelForTester
        X : array of shape (t, d)
            Features as the model sees them, the constant column of an intercept included.
        y : array of shape (t,)
            Labels as the loss takes them.
        loss : Loss
        """
        design, labels = as_records(X, y, loss, n_parameters=len(model.theta))
        predictor, n = design.predict(model.theta), len(labels)
        hessian = design.gram(loss.curvature(predictor)) / n
        gradient = design.pull(loss.slope(predictor, labels)) / n
        return cls(gradient, hessian, n)

    @property
    def n_parameters(self) -> int:
        """Numbers in the model."""
        return len(self.gradient)

    def worth(self, moves: FloatArray, *, change: Change = "add") -> FloatArray:
        """Return what moves of the model (m, p) are worth: (m,); positive helps."""
        as_choice(change, get_args(Change), name="change")
        bend = np.einsum("mp,pq,mq->m", moves, self.hessian, moves, optimize=True)
        worth: FloatArray = -SIGN[change] * (moves @ self.gradient + 0.5 * bend)
        return worth

# SPDX-License-Identifier: Apache-2.0
"""One record goes or comes: the step of the parameters in closed form, and what the test loss says.

With n·F the objective of all records and ς = −1 for a record that goes, 1 for one that comes, training
minimises n·F + ς·w·ℓ_j. Every closed form is a step (1/n) H⁻¹ U_j a_j with U_j = I ⊗ x_j, and they
differ in the K numbers a_j only (g the slope of the loss at the record, C its curvature,
Q = U_jᵀH⁻¹U_j/n):

    first order    a = −ς w g                      (Koh and Liang 2017; P4, before Eq. 1)
    second order   a = −ς (I − ς w C Q) w g        (P4 Eq. 1)
    Newton         a = −ς (I + ς w C Q)⁻¹ w g      (Sherman, Morrison and Woodbury; exact for a square)

For one output C·Q·w is the leverage h_j, and a removal is w·g, w·g·(1 + h) and w·g/(1 − h). The change of
the test loss to second order, ηᵀδ + ½δᵀH_te δ (P4 Eq. 2), needs Q and U_jᵀH⁻¹H_te H⁻¹U_j. In coordinates
in which H is the identity and H_te diagonal both are sums over the same numbers, so that one product a
chunk of records serves for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.errors import EstimateNotTrustworthyError
from epsilens.models import Curvature, Design, Loss

# 1 − h below this: the record alone decides a direction. Rounding is far below, and so is what a
# rank-revealing solver would call independent.
ALONE = 1e-9


@dataclass(frozen=True, repr=False)
class FittedModel:
    """What the closed forms ask of a model.

    Attributes
    ----------
    loss : Loss
        At the linear predictor.
    n_rows : int
        Number of training records, the n of the objective.
    theta : array of shape (K·p,)
        The minimiser.
    curvature : Curvature
        H there.
    """

    loss: Loss
    n_rows: int
    theta: FloatArray
    curvature: Curvature


@dataclass(frozen=True, repr=False)
class LossDerivatives:
    """What they ask of a test set: its gradient η = ∇L_te(θ) and its Hessian H_te, both at the model."""

    gradient: FloatArray
    hessian: FloatArray


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class ValuedRecords:
    """The records whose worth is asked for.

    Attributes
    ----------
    design : Design
        In the coordinates of the model.
    y : array of shape (B,)
    weights : array of shape (B,)
        What each counts (or would count) in training.
    change : {-1, 1}
        −1: they go; 1: they come.
    places : array of int, shape (B,), or None
        Which training records they are; None for those that come.
    """

    design: Design
    y: FloatArray
    weights: FloatArray
    change: int
    places: NDArray[np.intp] | None = None

    def take(self, rows: NDArray[np.intp]) -> ValuedRecords:
        """Return some of the records."""
        places = None if self.places is None else self.places[rows]
        return ValuedRecords(
            self.design.take(rows), self.y[rows], self.weights[rows], self.change, places
        )

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, repr=False)
class Forms:
    """What the closed forms need to know of some records.

    Attributes
    ----------
    rows : slice
        Which records these are.
    slope : array of shape (B, K)
        w·g, the weighted slope of the loss.
    leverage : array of shape (B, K, K)
        w·C·Q.
    along : array of shape (B, K)
        U_jᵀH⁻¹η/n: how the test loss changes with a_j.
    bend : array of shape (B, K, K)
        U_jᵀH⁻¹H_te H⁻¹U_j/n²: its second derivative in a_j.
    """

    rows: slice
    slope: FloatArray
    leverage: FloatArray
    along: FloatArray
    bend: FloatArray

    def loss_change(self, a: FloatArray) -> FloatArray:
        """Return ηᵀδ + ½δᵀH_te δ (P4 Eq. 2)."""
        change: FloatArray = np.einsum("bk,bk->b", self.along, a)
        change += 0.5 * np.einsum("bk,bkl,bl->b", a, self.bend, a)
        return change


def first_order(model: FittedModel, eta: FloatArray, records: ValuedRecords) -> FloatArray:
    """Return the change of the test loss to first order, −ς w ηᵀH⁻¹∇ℓ_j/n, for every record.

    One pass of n·p after the factorised Hessian.
    """
    v = model.curvature.solve(eta)
    pair = np.stack([model.theta, v], axis=1)
    change = np.empty(len(records))
    for rows in records.design.chunks(width=4 * model.loss.n_outputs):
        both = records.design.predict(pair, rows)
        slope = model.loss.slope(np.ascontiguousarray(both[:, :, 0]), records.y[rows])
        change[rows] = np.einsum("bk,bk->b", slope, both[:, :, 1])
    change *= -records.change * records.weights / model.n_rows
    return change


def quadratic_forms(
    model: FittedModel, test: LossDerivatives, records: ValuedRecords
) -> Iterator[Forms]:
    """Yield what the closed forms need, chunk by chunk: one product of a chunk with p columns."""
    loss, n = model.loss, model.n_rows
    factor = model.curvature.factor
    half = scipy.linalg.solve_triangular(factor, test.hessian, lower=True)
    inner = scipy.linalg.solve_triangular(factor, half.T, lower=True)
    bend, turn = np.linalg.eigh(0.5 * (inner + inner.T))
    basis = scipy.linalg.solve_triangular(factor, turn, lower=True, trans="T")
    v = model.curvature.solve(test.gradient)
    # θ and v ride along: their products with the records are two more columns.
    columns = np.column_stack([model.theta, v, basis])
    n_outputs, width = loss.n_outputs, len(model.theta)
    for rows in records.design.chunks(width=2 * n_outputs * (width + 2)):
        products = records.design.predict(columns, rows)
        weights = records.weights[rows]
        s = np.ascontiguousarray(products[:, :, 0])
        slope = loss.slope(s, records.y[rows]) * weights[:, None]
        curvature = loss.curvature(s) * weights[:, None, None]
        z = products[:, :, 2:]
        if n_outputs == 1:
            squares = np.square(z[:, 0])
            sums = squares @ np.column_stack([np.ones(width), bend])
            inverse = sums[:, :1, None] / n
            judged = sums[:, 1:, None] / n**2
        else:
            turned = np.swapaxes(z, 1, 2)
            inverse = z @ turned / n
            judged = (z * bend) @ turned / n**2
        yield Forms(
            rows=rows,
            slope=slope,
            leverage=curvature @ inverse,
            along=products[:, :, 1] / n,
            bend=judged,
        )


def coefficients_of_step(forms: Forms, *, method: str, change: int) -> FloatArray:
    """Return a_j for every record, (B, K); NaN where a record that goes decides a direction alone.

    Parameters
    ----------
    forms : Forms
    method : {"second-order", "newton"}
    change : {-1, 1}
        −1: the records go; 1: they come.
    """
    slope, leverage = forms.slope, forms.leverage
    if method == "second-order":
        more: FloatArray = slope - change * np.einsum("bkl,bl->bk", leverage, slope)
        return -change * more
    if slope.shape[1] == 1:
        left = 1.0 + change * leverage[:, 0]
        alone = left <= ALONE
        whole: FloatArray = -change * slope / np.where(alone, 1.0, left)
        whole[alone] = np.nan
        return whole
    identity = np.eye(slope.shape[1])
    solved = np.linalg.solve(identity + change * leverage, slope[:, :, None])
    return np.asarray(-change * solved[:, :, 0], dtype=np.float64)


def refuse_alone(scores: FloatArray) -> None:
    """Refuse scores of which some are none, since their records decide a direction alone."""
    n_alone = int(np.isnan(scores).sum())
    if n_alone:
        raise EstimateNotTrustworthyError(
            f"{n_alone} records have leverage 1: without one of them a coefficient has no finite "
            "optimum. Add regularisation (a finite C)."
        )


def steps(model: FittedModel, design: Design, a: FloatArray) -> FloatArray:
    """Return δ_j = (1/n) H⁻¹ U_j a_j for some records, as columns: (K·p, B)."""
    block = design.block(slice(None))
    n_outputs = a.shape[1]
    if n_outputs == 1:
        right = (block * a).T
    else:
        right = np.einsum("bk,bp->kpb", a, block).reshape(n_outputs * block.shape[1], len(block))
    return model.curvature.solve(right / model.n_rows)

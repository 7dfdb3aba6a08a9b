# SPDX-License-Identifier: Apache-2.0
"""First order: one number a record, from which every group at every ε follows (P1 Eq. 14).

The influence estimate is a sum over records, Δ(S, ε) = Σ_T w_T(ε) Σ_{i∈S} c_{i,T} with
c_{i,T} = −(1/n) vᵀ Σ_{alternatives that change T} (∇ℓ(alternative) − ∇ℓ(z_i)), v = H⁻¹η. The table c
costs one solve and one pass; a slider that moves ε or the group then costs microseconds. For labels
there is one changed-set T, the label itself. P1 Eq. 14 prints a product of the two losses where the
difference is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens.models import Curvature, Problem

__all__ = ["PointTable", "label_point_table"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class PointTable:
    """What changing each record's label would do to the test loss, to first order.

    Attributes
    ----------
    contributions : array of shape (n,)
        Summed over the alternatives, each with weight 1.
    """

    contributions: FloatArray

    def change(self, mask: NDArray[np.bool_], weight: float) -> float:
        """Return Δ for a group when each alternative has probability `weight`.

        Examples
        --------
        >>> import numpy as np
        >>> table = PointTable(np.array([0.1, 0.2, 0.4]))
        >>> round(table.change(np.array([True, False, True]), 0.5), 6)
        0.25
        """
        return weight * float(self.contributions[mask].sum())


def label_point_table(
    problem: Problem,
    curvature: Curvature,
    test_gradient: FloatArray,
    predictor: FloatArray,
    codes: NDArray[np.int64],
    values: FloatArray,
) -> PointTable:
    """Compute the table for randomised labels.

    Parameters
    ----------
    problem : Problem
    curvature : Curvature
        H at the optimum.
    test_gradient : array of shape (p,)
        η.
    predictor : array of shape (n, K)
        s at the optimum for the training records.
    codes : array of int, shape (n,)
        Labels as positions in `values`.
    values : array of shape (k,)
        The label's domain as the loss sees it.
    """
    v = curvature.solve(test_gradient)
    along = problem.design.predict(v) * problem.weights[:, None]
    here = problem.loss.slope(predictor, values[codes])
    difference = np.zeros_like(predictor)
    for value in values:
        there = problem.loss.slope(predictor, np.full(len(predictor), value))
        difference += there - here
    return PointTable(contributions=-(along * difference).sum(axis=1) / problem.n_rows)

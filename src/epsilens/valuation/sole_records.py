# SPDX-License-Identifier: Apache-2.0
"""Records that decide a coefficient alone: leverage 1 in a model without penalty.

The only person of a category has a column to themself. Without them the column is constant, and least
squares no longer determines its coefficient: what `fit` then gives is the shortest solution, in which
that direction has no part. So the prediction for everybody else stays, and only test records with that
column notice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.influence.baseline import Baseline
from epsilens.valuation.shared_objective import SharedObjective

__all__ = ["shortest_without"]


def shortest_without(
    baseline: Baseline, shared: SharedObjective, rows: NDArray[np.intp]
) -> FloatArray:
    """Return the change of the parameters without each of these records, as columns (p, B).

    With h_j = 1 no other record sees the direction u = H⁻¹x_j: x_iᵀu = 0 for all i ≠ j. All θ̂ + t·u
    fit the others equally well, and the shortest coefficients, in the features' own units, are those
    orthogonal to u.
    """
    design = shared.problem.design
    along = shared.curvature.solve(design.block(rows).T)
    n_features = baseline.coefficients.shape[1]
    own = design.kept < n_features

    def in_own_units(theta: FloatArray) -> FloatArray:
        values = np.zeros((n_features, theta.shape[1]))
        values[design.kept[own]] = theta[own] / design.scale[own, None]
        shortest: FloatArray = values - baseline.empty @ (baseline.empty.T @ values)
        return shortest

    u, coefficients = in_own_units(along), in_own_units(shared.theta[:, None])
    length = np.einsum("pb,pb->b", u, u)
    part: FloatArray = (coefficients.T @ u)[0] / np.where(length > 0, length, 1.0)
    return -part * along

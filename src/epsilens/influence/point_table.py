# SPDX-License-Identifier: Apache-2.0
"""First order: one number a record, from which every group at every ε follows (P1 Eq. 14).

The influence estimate is a sum over records, Δ(S, ε) = Σ_T w_T(ε) Σ_{i∈S} c_{i,T} with
c_{i,T} = −(1/n) vᵀ Σ_{alternatives that change T} (∇ℓ(alternative) − ∇ℓ(z_i)), v = H⁻¹η. The table c
costs one solve and one pass; a slider that moves ε or the group then costs microseconds. For labels
alone there is one changed-set T, the label itself. P1 Eq. 14 prints a product of the two losses where the
difference is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.influence.inverse_hessian import InverseSolution
from epsilens.influence.perturbed import PerturbedObjective
from epsilens.models import Problem

__all__ = ["PointTable", "general_point_table", "label_point_table"]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class PointTable:
    """What changing each record would do to the test loss, to first order.

    Attributes
    ----------
    contributions : array of shape (n,), or (n, n_sets)
        Summed over the alternatives, each with weight 1. With several protected columns one number
        for each set of columns that change; bit f of (position + 1) says whether column f does.
    solution : InverseSolution or None
        How v = H⁻¹η was found, and how well.
    """

    contributions: FloatArray
    solution: InverseSolution | None = None

    def change(self, mask: BoolArray, weight: float | FloatArray) -> float:
        """Return Δ for a group when each alternative (of each set) has probability `weight`.

        Examples
        --------
        >>> import numpy as np
        >>> table = PointTable(np.array([0.1, 0.2, 0.4]))
        >>> round(table.change(np.array([True, False, True]), 0.5), 6)
        0.25
        """
        return float(np.sum(mask.astype(np.float64) @ self.contributions * weight))

    def changes(self, masks: BoolArray, weights: FloatArray) -> FloatArray:
        """Return Δ for many groups at many ε, (n_groups, n_epsilon), in one product.

        Parameters
        ----------
        masks : array of bool, shape (n_groups, n)
        weights : array of shape (n_epsilon,), or (n_epsilon, n_sets)

        Examples
        --------
        >>> import numpy as np
        >>> table = PointTable(np.array([0.1, 0.2, 0.4]))
        >>> masks = np.array([[True, False, True], [False, True, False]])
        >>> table.changes(masks, np.array([0.5, 0.25])).round(6)
        array([[0.25 , 0.125],
               [0.1  , 0.05 ]])
        """
        n_sets = 1 if self.contributions.ndim == 1 else self.contributions.shape[1]
        sums = np.asarray(masks).astype(np.float64) @ self.contributions
        changes: FloatArray = sums.reshape(-1, n_sets) @ np.reshape(weights, (-1, n_sets)).T
        return changes


def label_point_table(
    problem: Problem,
    direction: FloatArray,
    codes: NDArray[np.int64],
    values: FloatArray,
) -> PointTable:
    """Compute the table for randomised labels.

    With a canonical loss the slopes of two labels differ by their statistics alone,
    ∇ℓ(x, c) − ∇ℓ(x, y) = (t(y) − t(c)) ⊗ x, so one product of the records with v is all it takes.

    Parameters
    ----------
    problem : Problem
    direction : array of shape (K·p,)
        v = H⁻¹η at the optimum.
    codes : array of int, shape (n,)
        Labels as positions in `values`.
    values : array of shape (k,)
        The label's domain as the loss sees it.

    Returns
    -------
    PointTable

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, LogisticLoss, Problem
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), LogisticLoss(), np.zeros(2))
    >>> codes, values = np.array([0, 1]), np.array([0.0, 1.0])
    >>> label_point_table(problem, np.array([1.0, 1.0]), codes, values).contributions
    array([ 0.5, -0.5])
    """
    along = problem.design.predict(direction)
    statistics = problem.loss.statistic(values)
    difference = len(values) * statistics - statistics.sum(axis=0)
    effect = np.einsum("ik,ik->i", along, difference[codes])
    return PointTable(contributions=-effect * problem.weights / problem.n_rows)


def general_point_table(
    objective: PerturbedObjective,
    direction: FloatArray,
    theta: FloatArray,
) -> PointTable:
    """Compute the table for randomised features, and the label if it is protected.

    Parameters
    ----------
    objective : PerturbedObjective
        Of everybody, at any ε: only its alternatives are used.
    direction : array of shape (K·p,)
        v = H⁻¹η at the optimum.
    theta : array of shape (K·p,)
        The optimum.

    Returns
    -------
    PointTable
        With a column for every set of protected columns that may change.
    """
    alternatives = objective.alternatives
    v = direction
    K, k = objective.problem.loss.n_outputs, len(objective.channel)
    added = (v.reshape(K, -1) @ alternatives.blocks.T).T  # (V, K)
    changed = alternatives.changed()
    n_features = len(alternatives.sizes)
    n_sets = 2 ** (n_features + (k > 1)) - 1
    contributions = np.zeros((objective.problem.n_rows, n_sets))
    for chunk in objective.chunks(theta):
        c, V = chunk.weights.shape
        slopes = objective.trained.slopes(chunk.flat, chunk.flat_y).reshape(c, V, k, K)
        along = alternatives.base.take(chunk.rows).predict(v)[:, None, :] + added
        effect = np.einsum("ivck,ivk->ivc", slopes, along)
        truth, label = alternatives.codes[chunk.rows], objective.labels[chunk.rows]
        own = effect[np.arange(c), truth, label]
        bits = changed[truth][:, :, None] + (2**n_features) * (
            np.arange(k)[None, None, :] != label[:, None, None]
        )
        bits = np.broadcast_to(bits, effect.shape)
        for position in range(n_sets):
            here = bits == position + 1
            total = np.where(here, effect - own[:, None, None], 0.0).sum(axis=(1, 2))
            contributions[chunk.rows, position] = total
    weights = objective.weights / objective.problem.n_rows
    return PointTable(contributions=-contributions * weights[:, None])

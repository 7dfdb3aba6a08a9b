# SPDX-License-Identifier: Apache-2.0
"""What a channel does to the labels of a group, as a few matrices of size p.

Labels enter a canonical objective through its linear term only. For a group S and labels coded
0..k−1, the sums of its records by label are all that any channel at any ε needs: the expected
perturbed objective of P1 (the sum inside its Eq. 14) and the covariance of its gradient follow in
O(k p²), with no further pass over the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.influence.label_changes import Changes, sum_changes
from epsilens.models import Problem
from epsilens.models.objective import LinearObjective

__all__ = ["GroupSums", "LabelNoise", "sum_group", "summarise_group"]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class LabelNoise:
    """A group's records, summed by label.

    Attributes
    ----------
    mask : array of bool, shape (n,)
        The group S.
    codes : array of int, shape (n,)
        Labels of all training records as positions in the domain.
    statistics : array of shape (k, K)
        t(c) of every label c of the domain, for K outputs.
    pulls : array of shape (p, k)
        (1/n) Σ w_i x_i over the records of S with each label.
    grams : array of shape (k, p, p)
        (1/n²) Σ w_i² x_i x_iᵀ over the same; empty if not asked for.
    evenness : float in (0, 1]
        (Σ a²)²/(n_S Σ a⁴) with a = w‖x‖: 1 if all records of the group pull alike, and the smaller the
        fewer records carry the noise.
    """

    mask: BoolArray
    codes: NDArray[np.int64]
    statistics: FloatArray
    pulls: FloatArray
    grams: FloatArray
    evenness: float = 1.0

    def _moments(self, channel: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (k, K) and second moment (k, K, K) of t(report) − t(truth)."""
        # Around the truth, so that a channel next to the identity keeps its digits.
        steps = self.statistics[None, :, :] - self.statistics[:, None, :]
        mean = np.einsum("uc,ucm->um", channel, steps)
        return mean, np.einsum("uc,ucl,ucm->ulm", channel, steps, steps)

    def shift(self, channel: FloatArray) -> FloatArray:
        """Return by how much the linear term moves on average under a k×k channel, (K·p,)."""
        mean, _ = self._moments(channel)
        moved: FloatArray = np.einsum("pu,um->mp", self.pulls, mean).ravel()
        return moved

    def covariance(self, channel: FloatArray) -> FloatArray:
        """Return C = (1/n²) Σ_S Cov[∇ℓ(alternative)], shape (K·p, K·p).

        For binary labels this is q(1 − q) Σ w² xxᵀ / n², for K classes (diag P_y − P_yP_yᵀ) ⊗ xxᵀ
        summed; the gradient's noise under a canonical loss does not depend on the parameters.
        """
        spread = np.einsum("ulm,uij->limj", self.variances(channel), self.grams)
        size = spread.shape[0] * spread.shape[1]
        covariance: FloatArray = spread.reshape(size, size)
        return covariance

    def means(self, channel: FloatArray) -> FloatArray:
        """Return the mean of t(report) − t(truth) for every true label, (k, K)."""
        return self._moments(channel)[0]

    def variances(self, channel: FloatArray) -> FloatArray:
        """Return the covariance of the reported statistic for every true label, (k, K, K)."""
        mean, second = self._moments(channel)
        variance: FloatArray = second - mean[:, :, None] * mean[:, None, :]
        return variance

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many records of the group have each label, (k,)."""
        return np.bincount(self.codes[self.mask], minlength=len(self.statistics))

    def expected_changes(self, channel: FloatArray) -> float:
        """Return how many labels of the group a real draw changes on average."""
        return float(self.counts @ (1.0 - np.diag(channel)))

    def pull_changes(
        self, problem: LinearObjective, changes: Changes, *, direction: FloatArray | None = None
    ) -> FloatArray:
        """Return how far changed labels move the linear term, (n_slots, K·p), or along v."""
        assert isinstance(problem, Problem)  # noqa: S101  (records elsewhere have a noise of their own)
        rows = np.flatnonzero(self.mask)
        moved = sum_changes(
            problem, self.codes, self.statistics, rows, changes, direction=direction
        )
        return moved / problem.n_rows

    def squares_along(self, problem: LinearObjective, direction: FloatArray) -> FloatArray:
        """Return Σ qqᵀ over the group's records with each label, q_i = (w_i/n) x_iᵀv: (k, K, K)."""
        n_outputs = self.statistics.shape[1]
        if len(self.grams):
            v = direction.reshape(n_outputs, -1)
            squares: FloatArray = np.einsum("kp,upq,lq->ukl", v, self.grams, v)
            return squares
        assert isinstance(problem, Problem)  # noqa: S101
        rows = np.flatnonzero(self.mask)
        pulls = problem.design.take(rows).predict(direction)
        pulls *= (problem.weights[rows] / problem.n_rows)[:, None]
        codes = self.codes[rows]
        return np.array(
            [pulls[codes == u].T @ pulls[codes == u] for u in range(len(self.statistics))]
        )

    def effective_changes(self, channel: FloatArray) -> float:
        """Return the expected changes, counted by how much they pull.

        Ten records with most of the weight are ten, however many others change with them.
        """
        return self.evenness * self.expected_changes(channel)


def summarise_group(
    problem: Problem,
    codes: NDArray[np.int64],
    statistics: FloatArray,
    mask: BoolArray,
    *,
    with_grams: bool = True,
) -> LabelNoise:
    """Sum a group's records by label.

    Parameters
    ----------
    problem : Problem
    codes : array of int, shape (n,)
    statistics : array of shape (k, K)
    mask : array of bool, shape (n,)
    with_grams : bool
        Second moments cost a pass of n_S p²; first order does without.

    Returns
    -------
    LabelNoise

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, LogisticLoss, Problem
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), LogisticLoss(), np.zeros(2))
    >>> noise = summarise_group(problem, np.array([0, 1]), np.array([[0.0], [1.0]]), np.ones(2, bool))
    >>> noise.shift(np.array([[0.75, 0.25], [0.25, 0.75]]))
    array([ 0.125, -0.125])
    """
    n = problem.n_rows
    sums = sum_group(problem, codes, len(statistics), mask, with_grams=with_grams)
    return LabelNoise(
        mask=mask,
        codes=codes,
        statistics=statistics,
        pulls=sums.pulls / n,
        grams=sums.grams / n**2,
        evenness=sums.evenness,
    )


@dataclass(frozen=True, repr=False)
class GroupSums:
    """A group's records summed by label; those of pieces of a table add up to those of the whole.

    Attributes
    ----------
    pulls : array of shape (p, k)
        Σ w_i x_i over the records with each label.
    grams : array of shape (k, p, p)
        Σ w_i² x_i x_iᵀ over the same; empty if not asked for.
    counts : array of int, shape (k,)
    sizes : array of shape (2,)
        Σ a² and Σ a⁴ with a = w‖x‖.
    """

    pulls: FloatArray
    grams: FloatArray
    counts: NDArray[np.int64]
    sizes: FloatArray

    @property
    def evenness(self) -> float:
        """(Σ a²)²/(n_S Σ a⁴); 1 for a group that pulls nowhere."""
        total = float(self.sizes[1]) * int(self.counts.sum())
        return float(self.sizes[0]) ** 2 / total if total > 0 else 1.0


def sum_group(
    problem: Problem,
    codes: NDArray[np.int64],
    k: int,
    mask: BoolArray,
    *,
    with_grams: bool,
) -> GroupSums:
    """Sum a group's records by label; see `summarise_group`."""
    p = problem.design.n_columns
    pulls = np.zeros((p, k))
    grams = np.zeros((k if with_grams else 0, p, p))
    for u in range(k):
        rows = np.flatnonzero(mask & (codes == u))
        if len(rows) == 0:
            continue
        part = problem.design.take(rows)
        weights = problem.weights[rows]
        pulls[:, u] = part.pull(weights[:, None])
        if with_grams:
            grams[u] = part.gram(weights**2)
    rows = np.flatnonzero(mask)
    size = problem.weights[rows] ** 2 * problem.design.take(rows).squared_norms()
    return GroupSums(
        pulls=pulls,
        grams=grams,
        counts=np.bincount(codes[rows], minlength=k),
        sizes=np.array([size.sum(), size @ size]),
    )

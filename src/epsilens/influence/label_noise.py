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
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.models import Problem
from epsilens.models.solver import LinearObjective

# --- Labels that change in drawn runs, and what they pull the linear term by ---


@dataclass(frozen=True, repr=False)
class Changes:
    """Labels that change in drawn runs.

    Attributes
    ----------
    record : array of int, shape (n_changes,)
        Place in the group, ascending.
    slot : array of int, shape (n_changes,)
        level·n_draws + run: from which chance on (in ascending order) it changes, and in which run.
    report : array of int, shape (n_changes,)
        Which of the k − 1 other labels, counted without the true one.
    n_slots : int
        Levels times runs.
    """

    record: NDArray[np.int64]
    slot: NDArray[np.int64]
    report: NDArray[np.int64]
    n_slots: int

    def between(self, first: int, last: int) -> Changes:
        """Return the changes of records first..last − 1 of the group, counted from the first."""
        low, high = np.searchsorted(self.record, [first, last])
        part = slice(int(low), int(high))
        return Changes(self.record[part] - first, self.slot[part], self.report[part], self.n_slots)


def draw_changes(
    n_members: int,
    k: int,
    flips: FloatArray,
    *,
    highest: float,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> Changes:
    """Draw which labels change, at several flip probabilities.

    Only the changes are drawn: the gaps between them are geometric. Each change has a level, the
    chance at which it sets in, so that what changes at one ε changes at every smaller one.

    Parameters
    ----------
    n_members, k : int
        Records of the group and labels of the domain.
    flips : array of shape (n_chances,)
        Probability of each single other label.
    highest : float
        The largest probability that could be asked for. It decides what is drawn, so that the runs at
        one ε do not depend on which others are asked for.
    n_draws : int
    seed : SeedSequence
    """
    rng = np.random.default_rng(seed)
    places = np.zeros(0, dtype=np.int64)
    if highest > 0.0 and n_members:
        places = _bernoulli_places(rng, n_members * n_draws, min((k - 1) * highest, 1.0))
    record, draw = places // n_draws, places % n_draws
    level = np.searchsorted(np.sort(flips), rng.random(len(places)) * highest)
    report = rng.integers(0, k - 1, size=len(places)) if k > 2 else np.zeros_like(places)
    asked = level < len(flips)
    slot = level[asked] * n_draws + draw[asked]
    return Changes(record[asked], slot, report[asked], len(flips) * n_draws)


def sum_changes(
    problem: Problem,
    codes: NDArray[np.int64],
    statistics: FloatArray,
    rows: NDArray[np.intp],
    changes: Changes,
    *,
    direction: FloatArray | None = None,
) -> FloatArray:
    """Return Σ w_i (t(report) − t(truth)) ⊗ x_i in every slot: (n_slots, K·p), or along v: (n_slots, 1).

    Parameters
    ----------
    problem : Problem
    codes : array of int, shape (n,)
        The labels of all records.
    statistics : array of shape (k, K)
    rows : array of int, shape (n_members,)
        The group's records.
    changes : Changes
        `record` counts among `rows`.
    direction : array of shape (K·p,), optional
        v.
    """
    chosen = rows[changes.record]
    truth = codes[chosen]
    report = changes.report + (changes.report >= truth)
    moves = (statistics[report] - statistics[truth]) * problem.weights[chosen, None]
    if direction is not None:
        along = problem.design.take(rows).predict(direction)
        moved = (moves * along[changes.record]).sum(axis=1)
        counted = np.bincount(changes.slot, weights=moved, minlength=changes.n_slots)
        return np.asarray(counted, dtype=np.float64)[:, None]
    n_outputs, p = statistics.shape[1], problem.design.n_columns
    total = np.zeros((changes.n_slots, n_outputs * p))
    if len(chosen) == 0:
        return total
    matrix = problem.design.take(rows).matrix
    shape = (changes.n_slots, len(rows))
    for output in range(n_outputs):
        sparse = scipy.sparse.csr_array(
            (moves[:, output], (changes.slot, changes.record)), shape=shape
        )
        pulled = sparse @ matrix
        place = slice(output * p, (output + 1) * p)
        total[:, place] = pulled if isinstance(pulled, np.ndarray) else pulled.toarray()
    return total


def _bernoulli_places(
    rng: np.random.Generator, n_trials: int, probability: float
) -> NDArray[np.int64]:
    """Return the positions of the successes among independent trials."""
    places: list[NDArray[np.int64]] = []
    last = -1
    while last < n_trials:
        left = (n_trials - last) * probability
        gaps = rng.geometric(probability, size=int(left + 6.0 * np.sqrt(left) + 10.0))
        # At an ε above 40 single gaps are larger than any integer, and their sum would turn negative.
        places.append(last + np.cumsum(np.minimum(gaps, n_trials + 1)))
        last = int(places[-1][-1])
    found = np.concatenate(places)
    return found[found < n_trials]


# --- What a channel does to the labels of a group, as a few matrices of size p ---


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

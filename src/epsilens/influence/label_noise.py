# SPDX-License-Identifier: Apache-2.0
"""What a channel does to the labels of a group, as a few matrices of size p.

Labels enter a canonical objective through its linear term only. For a group S and labels coded
0..k−1, the sums of its records by label are all that any channel at any ε needs: the expected
perturbed objective of P1 (the sum inside its Eq. 14) and the covariance of its gradient follow in
O(k p²), with no further pass over the data.

What one real run will show is the noise of a single randomised data set around its expectation. To first
order around θ_ε, the model trained on one draw is θ̃ ≈ θ_ε + b − H_ε⁻¹ δg, where δg is the draw's own deviation
of the gradient and b a bias of second order. The mean change of the test loss gains ½ tr(H_te Σ) + η_εᵀ b; the
90 % prediction interval is read off real draws of the channel, which cost matrix products only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.influence.evaluation import Evaluation, NoiseForms
from epsilens.models import Curvature, Problem
from epsilens.models.passes import Part
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
    chance = rng.random(len(places))
    chance *= highest
    report = rng.integers(0, k - 1, size=len(places)) if k > 2 else None
    # Most of what is drawn sets in at no ε that is asked for.
    levels = np.sort(flips)
    asked = np.flatnonzero(chance <= levels[-1]) if len(levels) else np.zeros(0, dtype=np.intp)
    record, draw = np.divmod(places[asked], n_draws)
    slot = np.searchsorted(levels, chance[asked]) * n_draws + draw
    reported = np.zeros_like(record) if report is None else report[asked]
    return Changes(record, slot, reported, len(flips) * n_draws)


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
        np.minimum(gaps, n_trials + 1, out=gaps)
        np.cumsum(gaps, out=gaps)
        gaps += last
        places.append(gaps)
        last = int(gaps[-1])
    found = np.concatenate(places) if len(places) > 1 else places[0]
    return found[: np.searchsorted(found, n_trials)]


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
    counts : array of int, shape (k,)
        How many records of the group have each label.
    """

    mask: BoolArray
    codes: NDArray[np.int64]
    statistics: FloatArray
    pulls: FloatArray
    grams: FloatArray
    evenness: float = 1.0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def shift(self, channel: FloatArray) -> FloatArray:
        """Return by how much the linear term moves on average under a k×k channel, (K·p,)."""
        # Around the truth, so that a channel next to the identity keeps its digits.
        steps = self.statistics[None, :, :] - self.statistics[:, None, :]
        mean = np.einsum("uc,ucm->um", channel, steps)
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

    def variances(self, channel: FloatArray) -> FloatArray:
        """Return the covariance of the reported statistic for every true label, (k, K, K)."""
        steps = self.statistics[None, :, :] - self.statistics[:, None, :]
        mean = np.einsum("uc,ucm->um", channel, steps)
        second = np.einsum("uc,ucl,ucm->ulm", channel, steps, steps)
        variance: FloatArray = second - mean[:, :, None] * mean[:, None, :]
        return variance

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


@dataclass(frozen=True, repr=False)
class MixedNoise(LabelNoise):
    """Disjoint groups, each with a channel of its own: their noise is independent and adds up.

    A channel is here a stack of them, (n_parts, k, k), one for each part. `pulls`, `grams` and
    `counts` have the labels of the first part, then those of the second, and so on; `mask` and `codes`
    are empty.

    Attributes
    ----------
    parts : tuple of LabelNoise
    """

    parts: tuple[LabelNoise, ...] = ()

    def shift(self, channel: FloatArray) -> FloatArray:
        """Return by how much the linear term moves on average, (K·p,)."""
        moved: FloatArray = np.sum(
            [part.shift(own) for part, own in zip(self.parts, channel, strict=True)], axis=0
        )
        return moved

    def variances(self, channel: FloatArray) -> FloatArray:
        """Return the covariance of the reported statistic, part by part, (n_parts·k, K, K)."""
        return np.concatenate(
            [part.variances(own) for part, own in zip(self.parts, channel, strict=True)]
        )

    def expected_changes(self, channel: FloatArray) -> float:
        """Return how many labels of all parts a real draw changes on average."""
        return sum(
            part.expected_changes(own) for part, own in zip(self.parts, channel, strict=True)
        )

    def squares_along(self, problem: LinearObjective, direction: FloatArray) -> FloatArray:
        """Return the sums of squares of every part, (n_parts·k, K, K)."""
        return np.concatenate([part.squares_along(problem, direction) for part in self.parts])


def mix_noises(parts: Sequence[LabelNoise]) -> MixedNoise:
    """Return the noise of disjoint groups that are randomised at once.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.models import Design, LogisticLoss, Problem
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), LogisticLoss(), np.zeros(2))
    >>> codes, values = np.array([0, 1]), np.array([[0.0], [1.0]])
    >>> first, second = (summarise_group(problem, codes, values, codes == u) for u in (0, 1))
    >>> quiet, noisy = np.array([[0.75, 0.25], [0.25, 0.75]]), np.full((2, 2), 0.5)
    >>> mix_noises([first, second]).shift(np.stack([quiet, noisy]))
    array([ 0.125, -0.25 ])
    """
    return MixedNoise(
        mask=np.zeros(0, dtype=bool),
        codes=np.zeros(0, dtype=np.int64),
        statistics=parts[0].statistics,
        pulls=np.hstack([part.pulls for part in parts]),
        grams=np.concatenate([part.grams for part in parts]),
        evenness=min(part.evenness for part in parts),
        counts=np.concatenate([part.counts for part in parts]),
        parts=tuple(parts),
    )


def _by_part(
    noise: MixedNoise, channels: list[FloatArray], seed: np.random.SeedSequence
) -> Iterator[tuple[LabelNoise, list[FloatArray], np.random.SeedSequence]]:
    """Yield every part with its own channels and a seed of its own."""
    # A single part draws as it would by itself.
    seeds = [seed] if len(noise.parts) == 1 else seed.spawn(len(noise.parts))
    for place, (part, own) in enumerate(zip(noise.parts, seeds, strict=True)):
        yield part, [channel[place] for channel in channels], own


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
    sums = sum_group(problem, codes, len(statistics), mask, with_grams=with_grams)
    return LabelNoise(mask, codes, statistics, **means_of(sums, problem.n_rows))


def means_of(sums: Part, n_rows: int) -> dict[str, Any]:
    """Return what a noise is made of, from a group's sums over all records."""
    total = float(sums["sizes"][1]) * int(sums["counts"].sum())
    return {
        "pulls": sums["pulls"] / n_rows,
        "grams": sums["grams"] / n_rows**2,
        "counts": sums["counts"],
        # 1 for a group that pulls nowhere.
        "evenness": float(sums["sizes"][0]) ** 2 / total if total > 0 else 1.0,
    }


def sum_group(
    problem: Problem,
    codes: NDArray[np.int64],
    k: int,
    mask: BoolArray,
    *,
    with_grams: bool,
) -> Part:
    """Return a group's records summed by label; the sums of pieces of a table add up to those of the whole.

    Σ w_i x_i over the records with each label, (p, k); Σ w_i² x_i x_iᵀ over the same, (k, p, p), empty if not
    asked for; how many there are, (k,); and Σ a² and Σ a⁴ with a = w‖x‖, (2,).
    """
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
    return {
        "pulls": pulls,
        "grams": grams,
        "counts": np.bincount(codes[rows], minlength=k),
        "sizes": np.array([size.sum(), size @ size]),
    }


# --- What one real run will show: the noise of a single randomised data set around its expectation ---

_DRAW_CHUNK = 1 << 20
_FULL_RANGE = float(2**32)


@dataclass(frozen=True)
class NoiseTerms:
    """Second-order consequences of drawing once.

    Attributes
    ----------
    mean_change : float
        ½ tr(H_te Σ) + η_εᵀ b, added to L_te(θ_ε) − L_te(θ̂).
    bias : array of shape (p,)
        b = −½ H_ε⁻¹ ∇³F[Σ].
    logit_noise : float
        Root mean square over test records of √(xᵀΣx): the expansion is good up to about 0.5. A squared loss
        has 0 if labels are randomised, and √E tr((H⁻¹δH)²) if features are.
    undetermined_loss : float
        How much test loss hangs on records whose own √(xᵀΣx) is large; see `undetermined_loss`.
    largest_noise : float
        The largest xᵀΣx of a test record.
    spread : float
        tr(H_te Σ).
    """

    mean_change: float
    bias: FloatArray
    logit_noise: float
    undetermined_loss: float
    largest_noise: float = 0.0
    spread: float = 0.0


def noise_terms_at(
    problem: LinearObjective,
    evaluation: Evaluation,
    thetas: FloatArray,
    curvatures: Sequence[Curvature],
    covariances: Sequence[FloatArray],
) -> list[NoiseTerms]:
    """Return mean, bias and size of the noise of one draw around θ_ε, for several cells.

    Parameters
    ----------
    problem : Problem
    evaluation : Evaluation
    thetas : array of shape (K·p, n_cells)
        θ_ε.
    curvatures : sequence of Curvature
        H_ε.
    covariances : sequence of arrays of shape (K·p, K·p)
        C_ε, the covariance of the gradient.

    Returns
    -------
    list of NoiseTerms
        One for each cell.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.influence import Evaluation
    >>> from epsilens.models import Design, SquaredLoss, factorise
    >>> design, loss = Design.plain(np.eye(2)), SquaredLoss()
    >>> problem = Problem(design, np.ones(2), loss, np.zeros(2))
    >>> tested = Evaluation(design, np.zeros(2), np.full(2, 0.5), loss, is_classifier=False)
    >>> curvature = factorise(problem.hessian(np.zeros(2)))
    >>> (terms,) = noise_terms_at(
    ...     problem, tested, np.zeros((2, 1)), [curvature], [np.diag([0.04, 0.0])])
    >>> round(terms.mean_change, 6), terms.bias
    (0.02, array([0., 0.]))
    """
    sigmas = [
        curvature.sandwich(covariance)
        for curvature, covariance in zip(curvatures, covariances, strict=True)
    ]
    (noise,) = evaluation.noise_at(thetas, [NoiseForms(sigmas, np.eye(len(sigmas)))])
    biases = np.zeros_like(thetas)
    mean_changes = 0.5 * noise.bent
    if not problem.is_quadratic:
        pulled = problem.thirds(thetas, sigmas, are_roots=False)
        for cell, curvature in enumerate(curvatures):
            biases[:, cell] = -0.5 * curvature.solve(pulled[cell])
        mean_changes += np.einsum("pb,pb->b", evaluation.gradients_at(thetas), biases)
    return [
        NoiseTerms(
            mean_change=float(mean_changes[cell]),
            bias=biases[:, cell],
            logit_noise=float(noise.logit_noise[cell]),
            undetermined_loss=float(noise.undetermined_loss[cell]),
            largest_noise=0.0 if problem.is_quadratic else float(noise.largest[cell]),
            spread=float(noise.bent[cell]),
        )
        for cell in range(thetas.shape[1])
    ]


def draw_linear_noise(
    problem: LinearObjective,
    noise: LabelNoise,
    channels: list[FloatArray],
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
    direction: FloatArray | None = None,
) -> SingleArray:
    """Draw how the linear term of one run deviates from its expectation.

    The same uniform numbers serve every channel, so the interval's ends are smooth in ε.

    Parameters
    ----------
    problem : Problem
    noise : LabelNoise
        The group.
    channels : list of arrays of shape (k, k)
    n_draws : int
    seed : SeedSequence
        Chunk after chunk of records draws from its own child.
    direction : array of shape (K·p,), optional
        Only the deviation along this vector is wanted (first order).

    Returns
    -------
    array of shape (n_channels, K·p, n_draws), or (n_channels, 1, n_draws) with a direction

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.influence import summarise_group
    >>> from epsilens.models import Design, LogisticLoss
    >>> problem = Problem(Design.plain(np.eye(2)), np.ones(2), LogisticLoss(), np.zeros(2))
    >>> noise = summarise_group(problem, np.array([0, 1]), np.array([[0.0], [1.0]]), np.ones(2, bool))
    >>> channel = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> seed = np.random.SeedSequence(0)
    >>> drawn = draw_linear_noise(problem, noise, [channel], n_draws=2000, seed=seed)
    >>> drawn.shape, bool(np.abs(drawn.mean(axis=2)).max() < 0.02)
    ((1, 2, 2000), True)
    """
    if isinstance(noise, MixedNoise):
        drawn = [
            draw_linear_noise(
                problem, part, own, n_draws=n_draws, seed=its_seed, direction=direction
            )
            for part, own, its_seed in _by_part(noise, channels, seed)
        ]
        return np.asarray(np.sum(drawn, axis=0), dtype=np.float32)
    assert isinstance(problem, Problem)  # noqa: S101  (only for records in memory)
    rows = np.flatnonzero(noise.mask)
    n_outputs = noise.statistics.shape[1]
    p = problem.design.n_columns
    step = max(1024, _DRAW_CHUNK // n_draws)
    starts = range(0, len(rows), step)
    along = None if direction is None else direction.reshape(n_outputs, p)
    width = n_outputs * p if direction is None else 1
    total = np.zeros((len(channels), width, n_draws), dtype=np.float64)
    thresholds = [_thresholds(channel) for channel in channels]
    steps = _alternative_steps(noise.statistics)
    for start, child in zip(starts, seed.spawn(len(starts)), strict=True):
        chosen = rows[start : start + step]
        codes = noise.codes[chosen]
        block = problem.design.part(chosen)
        weights = (problem.weights[chosen] / problem.n_rows)[:, None]
        uniform = np.random.default_rng(child).integers(
            0, 2**32, size=(len(chosen), n_draws), dtype=np.uint32
        )
        for output in range(n_outputs):
            records = block if along is None else np.asarray(block @ along[output])[:, None]
            transposed = _weighted(records, weights).T
            place = slice(output * p, (output + 1) * p) if along is None else slice(0, 1)
            for number, threshold in enumerate(thresholds):
                moved = _moves(uniform, threshold[codes], steps[codes, :, output])
                total[number, place] += transposed @ moved
    for number, channel in enumerate(channels):
        expected = noise.shift(channel)
        centre = expected if direction is None else np.atleast_1d(expected @ direction)
        total[number] -= centre[:, None]
    return total.astype(np.float32)


def _weighted(
    records: FloatArray | scipy.sparse.csr_array, weights: FloatArray
) -> SingleArray | scipy.sparse.csr_array:
    """Return records times their weights in single precision, dense ones column after column."""
    if isinstance(records, np.ndarray):
        return np.asfortranarray(records * weights, dtype=np.float32)
    return records.multiply(weights).tocsr().astype(np.float32)


def _moves(
    uniform: NDArray[np.uint32], reached: NDArray[np.uint32], steps: SingleArray
) -> SingleArray:
    """Return t(report) − t(truth) of every record and draw, for one output."""
    n_alternatives = reached.shape[1]
    if n_alternatives == 1:
        return np.multiply(uniform < reached, steps, dtype=np.float32)
    moved = np.zeros(uniform.shape, dtype=np.float32)
    # Alternatives stand one behind the other; the first threshold not passed wins.
    for j in reversed(range(n_alternatives)):
        np.copyto(moved, steps[:, j, None], where=uniform < reached[:, j, None])
    return moved


def _thresholds(channel: FloatArray) -> NDArray[np.uint32]:
    """Return for every true label the cumulative chances of its alternatives, in 2⁻³² units."""
    k = len(channel)
    others = ~np.eye(k, dtype=bool)
    chances = channel[others].reshape(k, k - 1)
    cumulative = np.cumsum(chances, axis=1) * _FULL_RANGE
    return np.minimum(np.rint(cumulative), _FULL_RANGE - 1).astype(np.uint32)


def _alternative_steps(statistics: FloatArray) -> SingleArray:
    """Return t(alternative) − t(truth), (k, k−1, K), alternatives in order."""
    k, n_outputs = statistics.shape
    steps = statistics[None, :, :] - statistics[:, None, :]
    return steps[~np.eye(k, dtype=bool)].reshape(k, k - 1, n_outputs).astype(np.float32)


# --- Draws of how one run's randomised labels move the linear term of the objective ---

# With this many expected changes the skewness of a sum moves its 5 % point by a few hundredths of its
# standard deviation, less than a thousand draws can tell.
MANY_CHANGES = 200.0
# Up to this many expected changes a run is drawn label by label all the same: the normal vector may pull on a
# rare column as no labels can.
FEW_CHANGES = 1500.0
_LARGEST_ROOT = 1000


def flip_probability(channel: FloatArray) -> float | None:
    """Return the chance of each single other label if it is the same for all, else None.

    Examples
    --------
    >>> import numpy as np
    >>> flip_probability(np.array([[0.75, 0.25], [0.25, 0.75]]))
    0.25
    >>> flip_probability(np.array([[0.75, 0.25], [0.5, 0.5]])) is None
    True
    """
    k = len(channel)
    others = channel[~np.eye(k, dtype=bool)]
    if len(others) == 0 or np.ptp(others) > 1e-12 * others.max():
        return None
    return float(others[0])


def root_of(covariance: FloatArray) -> FloatArray:
    """Return R with RRᵀ = C for a positive semi-definite C, as many columns as its rank.

    Examples
    --------
    >>> import numpy as np
    >>> root_of(np.array([[4.0, 0.0], [0.0, 0.0]]))
    array([[2.],
           [0.]])
    """
    size = float(np.trace(covariance))
    if not size > 0:
        return np.zeros((len(covariance), 0))
    # Given the third of three classes, the other two have the same variance: without weights rounding
    # alone would choose between them, and records on disk would draw other runs than those in memory.
    weights = 1.0 + 0.1 * np.arange(len(covariance)) / len(covariance)
    # The pivoted factorisation stops at the rank; its tolerance is in the units of C.
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(
        covariance * np.outer(weights, weights) / size, tol=1e-14 * len(covariance), lower=1
    )
    root = np.zeros((len(covariance), int(rank)))
    root[pivots - 1] = np.tril(factor)[:, : int(rank)]
    root *= (np.sqrt(size) / weights)[:, None]
    return root


@dataclass(frozen=True, repr=False)
class LinearNoise:
    """Drawn deviations of the linear term, for every ε.

    Attributes
    ----------
    noise : LabelNoise
    channels : list of arrays of shape (k, k)
    standard : array of shape (K·p, n_draws)
        Independent normal numbers, the same at every ε, so that the interval is smooth in ε.
    drawn : mapping of a position among the channels to an array of shape (K·p, n_draws)
        Where few labels change: draws of the channel itself.
    untouched : mapping of a position among the channels to an array of bool, shape (n_draws,)
        There, the runs in which no label changes.
    """

    noise: LabelNoise
    channels: list[FloatArray]
    standard: SingleArray
    drawn: dict[int, SingleArray]
    untouched: dict[int, BoolArray] = field(default_factory=dict)

    @property
    def n_draws(self) -> int:
        """How many runs were drawn."""
        return int(self.standard.shape[1])

    def factors(self, index: int) -> tuple[FloatArray, SingleArray]:
        """Return R (K·p, r) and Z (r, n_draws) such that the deviations are RZ."""
        if index in self.drawn:
            runs = self.drawn[index]
            return np.eye(len(runs)), runs
        root = root_of(self.noise.covariance(self.channels[index]))
        return root, self.standard[: root.shape[1]]

    def deviations(self, index: int) -> FloatArray:
        """Return the deviations themselves, (K·p, n_draws)."""
        if index in self.drawn:
            return self.drawn[index].astype(np.float64)
        root, standard = self.factors(index)
        return root @ standard


def draw_runs(
    problem: LinearObjective,
    noise: LabelNoise,
    channels: list[FloatArray],
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> LinearNoise:
    """Draw runs at every ε.

    Parameters
    ----------
    problem : Problem
    noise : LabelNoise
        The group, with its second moments.
    channels : list of arrays of shape (k, k)
    n_draws : int
    seed : SeedSequence
    """
    if isinstance(noise, MixedNoise):
        return _draw_mixed_runs(problem, noise, channels, n_draws=n_draws, seed=seed)
    size = problem.n_parameters
    flips = [flip_probability(channel) for channel in channels]
    if size > _LARGEST_ROOT or any(flip is None for flip in flips):
        runs = draw_linear_noise(problem, noise, channels, n_draws=n_draws, seed=seed)
        empty = np.zeros((0, n_draws), dtype=np.float32)
        return LinearNoise(noise, channels, empty, dict(enumerate(runs)))
    by_event, by_normal = seed.spawn(2)
    few, pulled, n_changed = _draw_few(
        problem, noise, channels, flips, n_draws=n_draws, seed=by_event
    )
    drawn = np.ascontiguousarray(pulled.transpose(0, 2, 1), dtype=np.float32)
    for position, e in enumerate(few):
        drawn[position] -= noise.shift(channels[e])[:, None].astype(np.float32)
    standard = np.random.default_rng(by_normal).standard_normal(
        (size if len(few) < len(channels) else 0, n_draws), dtype=np.float32
    )
    untouched = {e: n_changed[position] == 0 for position, e in enumerate(few)}
    return LinearNoise(noise, channels, standard, dict(zip(few, drawn, strict=True)), untouched)


def _draw_mixed_runs(
    problem: LinearObjective,
    noise: MixedNoise,
    channels: list[FloatArray],
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> LinearNoise:
    """Draw the runs of every part by itself and add them up."""
    parts = [
        draw_runs(problem, part, own, n_draws=n_draws, seed=its_seed)
        for part, own, its_seed in _by_part(noise, channels, seed)
    ]
    drawn, untouched = {}, {}
    for e in range(len(channels)):
        # Where every part changes many labels, their sum is as normal as they are.
        if any(e in part.drawn for part in parts):
            drawn[e] = np.sum([part.deviations(e) for part in parts], axis=0).astype(np.float32)
            if all(e in part.untouched for part in parts):
                untouched[e] = np.all([part.untouched[e] for part in parts], axis=0)
    return LinearNoise(noise, channels, parts[0].standard, drawn, untouched)


def draw_along(
    problem: LinearObjective,
    noise: LabelNoise,
    channels: list[FloatArray],
    direction: FloatArray,
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> FloatArray:
    """Draw the deviations along one direction only, for first order: (n_channels, n_draws).

    The same law as `draw_runs`, at the cost of one number a record.

    Parameters
    ----------
    problem : Problem
    noise : LabelNoise
        The group; its second moments are not needed.
    channels : list of arrays of shape (k, k)
    direction : array of shape (K·p,)
    n_draws : int
    seed : SeedSequence
    """
    if isinstance(noise, MixedNoise):
        parts = [
            draw_along(problem, part, own, direction, n_draws=n_draws, seed=its_seed)
            for part, own, its_seed in _by_part(noise, channels, seed)
        ]
        return np.asarray(np.sum(parts, axis=0))
    flips = [flip_probability(channel) for channel in channels]
    if any(flip is None for flip in flips):
        runs = draw_linear_noise(
            problem, noise, channels, n_draws=n_draws, seed=seed, direction=direction
        )
        return np.array(runs[:, 0], dtype=np.float64)
    by_event, by_normal = seed.spawn(2)
    standard = np.random.default_rng(by_normal).standard_normal(n_draws)
    result = np.empty((len(channels), n_draws))
    few, pulled, _ = _draw_few(
        problem, noise, channels, flips, n_draws=n_draws, seed=by_event, direction=direction
    )
    result[few] = pulled[:, :, 0]
    squares = noise.squares_along(problem, direction) if len(few) < len(channels) else None
    for e, channel in enumerate(channels):
        if squares is None or e in few:
            result[e] -= float(noise.shift(channel) @ direction)
        else:
            total = float(np.einsum("ukl,ukl->", noise.variances(channel), squares))
            result[e] = np.sqrt(max(total, 0.0)) * standard
    return result


def _draw_few(
    problem: LinearObjective,
    noise: LabelNoise,
    channels: list[FloatArray],
    flips: Sequence[float | None],
    *,
    n_draws: int,
    seed: np.random.SeedSequence,
    direction: FloatArray | None = None,
) -> tuple[list[int], FloatArray, FloatArray]:
    """Draw the runs that change few labels, label by label, whichever ε are asked for.

    Returns
    -------
    Which channels change few; what their runs pull, (n_few, n_draws, K·p or 1); and how many labels change,
    (n_few, n_draws)
    """
    expected = [noise.expected_changes(channel) for channel in channels]
    few = [
        e
        for e, changes in enumerate(expected)
        if changes < FEW_CHANGES or noise.evenness * changes < MANY_CHANGES
    ]
    width = problem.n_parameters if direction is None else 1
    if not few:
        return few, np.zeros((0, n_draws, width)), np.zeros((0, n_draws))
    chances = np.array([flips[e] for e in few], dtype=np.float64)
    k, n_members = len(noise.statistics), int(noise.counts.sum())
    # The probability from which on a run changes many; none is larger than a uniform report's.
    most = max(MANY_CHANGES / max(noise.evenness, 1e-300), FEW_CHANGES)
    many = most / max(n_members * (k - 1), 1)
    highest = max(min(many, 1.0 / k), float(chances.max()))
    drawn = draw_changes(n_members, k, chances, highest=highest, n_draws=n_draws, seed=seed)
    pulled = noise.pull_changes(problem, drawn, direction=direction)
    counted = np.bincount(drawn.slot, minlength=drawn.n_slots).astype(np.float64)
    runs, n_changed = np.empty((len(few), n_draws, width)), np.empty((len(few), n_draws))
    # Sums up to each chance's own level, in the order of the chances.
    order = np.argsort(chances, kind="stable")
    runs[order] = np.cumsum(pulled.reshape(runs.shape), axis=0)
    n_changed[order] = np.cumsum(counted.reshape(n_changed.shape), axis=0)
    return few, runs, n_changed

# SPDX-License-Identifier: Apache-2.0
"""What one real run will show: the noise of a single randomised data set around its expectation.

To first order around θ_ε, the model trained on one draw is θ̃ ≈ θ_ε + b − H_ε⁻¹ δg, where δg is the
draw's own deviation of the gradient and b a bias of second order. The mean change of the test loss
gains ½ tr(H_te Σ) + η_εᵀ b; the 90 % prediction interval is read off real draws of the channel, which
cost matrix products only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.influence.evaluation import Evaluation, NoiseForms
from epsilens.influence.label_noise import Changes, LabelNoise, draw_changes
from epsilens.models import Curvature, Problem
from epsilens.models.solver import LinearObjective

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
    size = problem.n_parameters
    flips = [flip_probability(channel) for channel in channels]
    if size > _LARGEST_ROOT or any(flip is None for flip in flips):
        runs = draw_linear_noise(problem, noise, channels, n_draws=n_draws, seed=seed)
        empty = np.zeros((0, n_draws), dtype=np.float32)
        return LinearNoise(noise, channels, empty, dict(enumerate(runs)))
    by_event, by_normal = seed.spawn(2)
    few = [e for e, channel in enumerate(channels) if _changes_few(noise, channel)]
    chances = np.array([flips[e] for e in few], dtype=np.float64)
    changes = _draw_few(noise, chances, n_draws=n_draws, seed=by_event)
    drawn = np.zeros((len(few), size, n_draws), dtype=np.float32)
    n_changed = np.zeros((len(few), n_draws))
    if few:
        pulled = noise.pull_changes(problem, changes).reshape(len(few), n_draws, size)
        drawn[:] = _from_levels(chances, pulled).transpose(0, 2, 1)
        counted = np.bincount(changes.slot, minlength=changes.n_slots)
        n_changed = _from_levels(chances, counted.reshape(len(few), n_draws).astype(np.float64))
    for position, e in enumerate(few):
        drawn[position] -= noise.shift(channels[e])[:, None].astype(np.float32)
    standard = np.random.default_rng(by_normal).standard_normal(
        (size if len(few) < len(channels) else 0, n_draws), dtype=np.float32
    )
    untouched = {e: n_changed[position] == 0 for position, e in enumerate(few)}
    return LinearNoise(noise, channels, standard, dict(zip(few, drawn, strict=True)), untouched)


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
    flips = [flip_probability(channel) for channel in channels]
    if any(flip is None for flip in flips):
        runs = draw_linear_noise(
            problem, noise, channels, n_draws=n_draws, seed=seed, direction=direction
        )
        return np.array(runs[:, 0], dtype=np.float64)
    by_event, by_normal = seed.spawn(2)
    standard = np.random.default_rng(by_normal).standard_normal(n_draws)
    result = np.empty((len(channels), n_draws))
    few = [e for e, P in enumerate(channels) if _changes_few(noise, P)]
    if few:
        chances = np.array([flips[e] for e in few], dtype=np.float64)
        changes = _draw_few(noise, chances, n_draws=n_draws, seed=by_event)
        counted = noise.pull_changes(problem, changes, direction=direction)
        result[few] = _from_levels(chances, counted.reshape(len(few), n_draws))
    squares = noise.squares_along(problem, direction) if len(few) < len(channels) else None
    for e, channel in enumerate(channels):
        if squares is None or e in few:
            result[e] -= float(noise.shift(channel) @ direction)
        else:
            total = float(np.einsum("ukl,ukl->", noise.variances(channel), squares))
            result[e] = np.sqrt(max(total, 0.0)) * standard
    return result


def _from_levels(flips: FloatArray, by_level: FloatArray) -> FloatArray:
    """Return the sums up to each chance's own level, in the order of the chances."""
    result = np.empty_like(by_level)
    result[np.argsort(flips, kind="stable")] = np.cumsum(by_level, axis=0)
    return result


def _changes_few(noise: LabelNoise, channel: FloatArray) -> bool:
    """Return whether runs are drawn label by label."""
    expected = noise.expected_changes(channel)
    return expected < FEW_CHANGES or noise.evenness * expected < MANY_CHANGES


def _draw_few(
    noise: LabelNoise, flips: FloatArray, *, n_draws: int, seed: np.random.SeedSequence
) -> Changes:
    """Draw the changes of runs that change few labels, whichever ε are asked for."""
    k, n_members = len(noise.statistics), int(noise.counts.sum())
    # The probability from which on a run changes many; none is larger than a uniform report's.
    most = max(MANY_CHANGES / max(noise.evenness, 1e-300), FEW_CHANGES)
    many = most / max(n_members * (k - 1), 1)
    highest = max(min(many, 1.0 / k), float(flips.max(initial=0.0)))
    return draw_changes(n_members, k, flips, highest=highest, n_draws=n_draws, seed=seed)

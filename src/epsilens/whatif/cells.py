# SPDX-License-Identifier: Apache-2.0
"""What a method is asked, and what it answers: from the expansion of one cell to its numbers.

Around θ_ε a run lies at θ_ε + b − H⁻¹δg, to second order on average. Where its noise is not small, some of the
drawn runs are solved: their own objective is minimised, from there on, all side by side. If that moves their
mean test loss by more than 2 % of the interval's width, the expansion is not used: the numbers then
come from solved runs alone. So `exact` does not rest on a rule of thumb about the size of the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.influence import FirstOrder
from epsilens.influence.alternatives import Alternatives
from epsilens.influence.evaluation import (
    LARGEST_CONDITION,
    LARGEST_OMISSION,
    Evaluation,
    Outcomes,
    is_trustworthy,
)
from epsilens.influence.first_order import SolveError
from epsilens.influence.groups import Group
from epsilens.influence.label_noise import NoiseTerms
from epsilens.models import Curvature

Ends = tuple[float, float]
Method = Literal["influence", "newton", "exact", "paper"]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class CellQuestion:
    """What is asked: these groups, these channels.

    Attributes
    ----------
    groups : list of Group
    label_channels : list of arrays of shape (k, k), or (n_parts, k, k)
        One per ε, ε ascending; 1×1 if the label is not protected. A stack where a group has parts.
    joints : list of arrays of shape (V, V), or (n_parts, V, V)
        The channel over joint values of the protected features, one per ε.
    flip_probabilities : array of shape (n_epsilon,)
        The chance of each single other label, w_T for the label alone.
    label_is_protected : bool
    alternatives : Alternatives
    is_corrected : bool
        Whether the loss of the group's labels is corrected for the noise.
    n_draws : int
        Simulated runs behind each interval.
    seed : int
    first_order : FirstOrder or None
        v = H⁻¹η, for the methods of first order.
    """

    groups: list[Group]
    label_channels: list[FloatArray]
    joints: list[FloatArray]
    flip_probabilities: FloatArray
    label_is_protected: bool
    alternatives: Alternatives
    is_corrected: bool
    n_draws: int
    seed: int
    first_order: FirstOrder | None = None

    @property
    def solved(self) -> FirstOrder:
        """The first-order direction with its solver; only for the methods that need it."""
        assert self.first_order is not None  # noqa: S101  (the study has solved for it)
        return self.first_order

    def is_identity(self, epsilon_index: int) -> bool:
        """Whether nothing is randomised at this budget."""
        return all(
            is_identity(channel)
            for channel in (self.label_channels[epsilon_index], self.joints[epsilon_index])
        )

    def parts(
        self, group_index: int, epsilon_index: int
    ) -> list[tuple[Group, FloatArray, FloatArray]]:
        """Return the groups that are randomised in a cell, each with its joint and its label channel."""
        group = self.groups[group_index]
        joint, channel = self.joints[epsilon_index], self.label_channels[epsilon_index]
        if not group.parts:
            return [(group, joint, channel)]
        return list(zip(group.parts, joint, channel, strict=True))


def is_identity(channel: FloatArray) -> bool:
    """Return whether a channel, or every channel of a stack, reports nothing but the truth.

    Examples
    --------
    >>> import numpy as np
    >>> is_identity(np.eye(2)), is_identity(np.stack([np.eye(2), np.full((2, 2), 0.5)]))
    (True, False)
    """
    size = channel.shape[-1]
    return channel.shape[-2] == size and bool((channel == np.eye(size)).all())


@dataclass(frozen=True)
class CellAnswer:
    """One cell: changes against the baseline, and the runs behind the interval.

    Attributes
    ----------
    group_index, epsilon_index : int
        Which of the question's groups and budgets.
    loss_low, loss_high : float
        Ends of the interval of one run; NaN where none is known.
    changes : mapping of outcome to change
        Changes of accuracy, auc, loss_gap and accuracy_gap; None where it has no meaning.
    intervals : mapping of outcome to (low, high)
        The same outcomes, where draws were made.
    solve_error : SolveError or None
        What the solver of the inverse Hessian leaves, by the methods of first order.
    standard_error : float or None
        Standard error of the change of loss, where its part of second order is a mean over drawn runs.
    number_type : {"measured", "estimated"} or None
        Whether models were trained at this very cell, where that differs from cell to cell.
    """

    group_index: int
    epsilon_index: int
    loss_change: float
    loss_low: float
    loss_high: float
    changes: dict[str, float | None]
    intervals: dict[str, Ends]
    trusted: bool
    loss_runs: FloatArray
    solve_error: SolveError | None = None
    standard_error: float | None = None
    number_type: Literal["measured", "estimated"] | None = None


OUTCOMES = ("accuracy", "auc", "loss_gap", "accuracy_gap")


def changes_from(before: Outcomes, after: Outcomes) -> dict[str, float | None]:
    """Return the change of every outcome beside the loss."""
    result: dict[str, float | None] = {}
    for name in OUTCOMES:
        old, new = getattr(before, name), getattr(after, name)
        result[name] = None if old is None or new is None else new - old
    return result


def ends(runs: FloatArray) -> Ends:
    """Return the 5 % and the 95 % end of drawn runs."""
    # "weibull": a new run falls between these two with probability 0.9 exactly.
    low, high = np.quantile(runs, [0.05, 0.95], method="weibull")
    return float(low), float(high)


def first_order_ends(runs: FloatArray, change: float) -> tuple[float, float, bool]:
    """Return the ends of first-order runs, the mean within, and whether nearly all runs are exactly 0.

    With hardly any expected changes most runs change nothing, and the mean lies beside the ends.

    Examples
    --------
    >>> import numpy as np
    >>> first_order_ends(np.r_[np.zeros(97), 2.0, 3.0, 1.0], 0.06)
    (0.0, 0.06, True)
    """
    low, high = ends(runs)
    nothing = np.abs(runs) <= 1e-9 * np.abs(runs).max(initial=0.0)
    return min(low, change), max(high, change), bool(nothing.mean() >= 0.9)


def first_order_answer(
    group_index: int,
    epsilon_index: int,
    change: float,
    runs: FloatArray,
    error: SolveError,
    *,
    changes: dict[str, float | None],
    logit_noise: float,
    undetermined_loss: float,
    condition: float,
    second_order: float,
) -> CellAnswer:
    """Return a cell by a method of first order, believed if what is left out is small beside its interval."""
    low, high, is_nothing = first_order_ends(runs, change)
    return CellAnswer(
        group_index=group_index,
        epsilon_index=epsilon_index,
        loss_change=change,
        loss_low=low,
        loss_high=high,
        changes=changes,
        intervals={},
        trusted=is_trustworthy(
            converged=error.converged,
            logit_noise=logit_noise,
            condition=condition,
            undetermined_loss=undetermined_loss,
            omitted=error.size + (0.0 if is_nothing else second_order),
            half_width=0.5 * (high - low),
        ),
        loss_runs=runs,
        solve_error=error,
    )


def group_seed(question: CellQuestion) -> np.random.SeedSequence:
    """Return the seed of a group, the same for all ε and groups.

    What one group is told does not depend on which others are asked about; an object each, since a
    seed counts its children.
    """
    return np.random.SeedSequence(question.seed).spawn(1)[0]


def unchanged(
    before: Outcomes, *, group_index: int, epsilon_index: int, n_draws: int
) -> CellAnswer:
    """Return the cell in which nothing is randomised: exactly no change."""
    changes = changes_from(before, before)
    return CellAnswer(
        group_index=group_index,
        epsilon_index=epsilon_index,
        loss_change=0.0,
        loss_low=0.0,
        loss_high=0.0,
        changes=changes,
        intervals={name: (0.0, 0.0) for name, value in changes.items() if value is not None},
        trusted=True,
        loss_runs=np.zeros(n_draws),
    )


# --- From the expansion of one cell to its numbers: drawn runs, checked against runs that are really solved ---

# --- The test loss of many drawn runs, of which only some are evaluated record by record ---


@dataclass(frozen=True, repr=False)
class QuadraticRuns:
    """Change of the test loss from θ_ε, by draw.

    Attributes
    ----------
    first, second : arrays of shape (n_draws,)
        ηᵀd and ½ dᵀH_te d.
    expected_first, expected_second : float
        Their expectations, which are known exactly: ηᵀb and ½ tr(H_te Σ) + ½ bᵀH_te b.
    second_order : float
        ηᵀb + ½ tr(H_te Σ), the mean to second order.
    """

    first: FloatArray
    second: FloatArray
    expected_first: float = 0.0
    expected_second: float = 0.0
    second_order: float = 0.0

    def total(self, correction: Correction) -> FloatArray:
        """Return the change with the correction added."""
        left = np.resize(correction.residuals, len(self.first))
        a, b, c = correction.coefficients
        total: FloatArray = self.first * (1.0 + b) + self.second * (1.0 + c) + a + left
        return total


@dataclass(frozen=True, repr=False)
class Correction:
    """What the quadratic leaves out: a + b·first + c·second, and residuals of single draws."""

    coefficients: FloatArray
    residuals: FloatArray

    def scaled(self, size: float) -> Correction:
        """Return the correction for noise of another size: what is not in proportion to the runs.

        Examples
        --------
        >>> import numpy as np
        >>> Correction(np.ones(3), np.ones(1)).scaled(0.5).coefficients
        array([0.5, 1. , 1. ])
        """
        return Correction(self.coefficients * np.array([size, 1.0, 1.0]), self.residuals * size)

    def mix(self, other: Correction, share: float) -> Correction:
        """Return the correction of a cell that lies a share of the way to another.

        Examples
        --------
        >>> import numpy as np
        >>> zero = Correction(np.zeros(3), np.zeros(2))
        >>> zero.mix(Correction(np.ones(3), np.ones(2)), 0.25).coefficients
        array([0.25, 0.25, 0.25])
        """
        n_common = min(len(self.residuals), len(other.residuals))
        return Correction(
            (1.0 - share) * self.coefficients + share * other.coefficients,
            (1.0 - share) * self.residuals[:n_common] + share * other.residuals[:n_common],
        )


def quadratic_runs(
    gradient: FloatArray,
    hessian: FloatArray,
    bias: FloatArray,
    root: FloatArray,
    standard: SingleArray | FloatArray,
    spread: float = 0.0,
) -> QuadraticRuns:
    """Return ηᵀd and ½ dᵀH_te d for the draws d = b + S z.

    Parameters
    ----------
    gradient : array of shape (K·p,)
        η at θ_ε.
    hessian : array of shape (K·p, K·p)
        H_te there.
    bias : array of shape (K·p,)
        b.
    root : array of shape (K·p, r)
        S.
    standard : array of shape (r, n_draws)
        z.
    spread : float
        tr(H_te Σ) of the law that z is drawn from.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[1.0, 2.0]], dtype=np.float32)
    >>> runs = quadratic_runs(np.array([3.0]), np.array([[2.0]]), np.zeros(1), np.ones((1, 1)), z)
    >>> runs.first, runs.second
    (array([3., 6.]), array([1., 4.]))
    """
    bent = hessian @ bias
    # In double precision: in single one, rounding would show in the ninth digit of an interval's end.
    z = standard.astype(np.float64)
    along = np.vstack([gradient @ root, bent @ root]) @ z
    curved = 0.5 * np.einsum("rb,rb->b", (root.T @ hessian @ root) @ z, z)
    return QuadraticRuns(
        first=along[0] + float(gradient @ bias),
        second=along[1] + 0.5 * float(bias @ bent) + curved,
        expected_first=float(gradient @ bias),
        expected_second=0.5 * (float(bias @ bent) + spread),
        second_order=float(gradient @ bias) + 0.5 * spread,
    )


def fit_correction(full: FloatArray, runs: QuadraticRuns) -> Correction:
    """Fit what the quadratic leaves out on the draws that were evaluated in full.

    Parameters
    ----------
    full : array of shape (n_full,)
        Change of the test loss from θ_ε for the first draws.
    runs : QuadraticRuns
        For all draws.
    """
    n_full = len(full)
    first, second = runs.first[:n_full], runs.second[:n_full]
    left = full - first - second
    columns = np.column_stack([np.ones(n_full), first, second])
    size = np.maximum(np.abs(columns).max(axis=0), np.finfo(float).tiny)
    coefficients = np.linalg.lstsq(columns / size, left, rcond=1e-8)[0] / size
    return Correction(coefficients, left - columns @ coefficients)


# --- From the expansion of one cell to its numbers: drawn runs, checked against runs that are really solved ---

Solver = Callable[[int, FloatArray], tuple[FloatArray, BoolArray]]
"""From the number of a run, and linearised deviations of it and those after it, to solved ones and which of
them converged."""

N_AUC_DRAWS = 100
# Multiplications that a cell may spend on evaluating its draws, and on one gradient of all solved runs.
_FULL_WORK = 1e7
_FEWEST_FULL_DRAWS = 100
_SOLVE_WORK = 1e8
# Below this noise (root mean square in a test record's predictor, and variance of the worst record) runs
# are not solved: on 240 public tables solving them moved the mean by 0.04 % of the interval's width at the median of
# such cells, by 3.6 % at most.
_QUIET_NOISE = 0.1
_QUIET_RECORD = 1.0
# A run is solved until its distance to the minimum, in the local norm, is a thousandth of its noise.
_RUN_SHARE = 1e-6
_LEAST_DECREMENT = 1e-14
N_CHECKED = 24
_LARGEST_SHIFT = 0.02
_LARGEST_SCATTER = 0.08
_LARGEST_SHARE_ELSEWHERE = 0.1
_LARGEST_MONTE_CARLO_ERROR = 0.1


@dataclass(frozen=True, repr=False)
class ExpandedCell:
    """One cell around its minimiser.

    Attributes
    ----------
    group_index, epsilon_index : int
    theta : array of shape (K·p,)
        θ_ε.
    before : Outcomes
        At θ̂.
    loss : float
        Test loss at θ_ε.
    quadratic : QuadraticRuns
    linearised : callable
        From n to the deviations of the first n runs, bias included, (K·p, n).
    solve : Solver or None
        None where no run can be solved, or none needs to be.
    may_replace : bool
        Whether solved runs may take the place of the expansion; else they only decide whether to trust it.
    untouched : array of bool, shape (n_draws,)
        Runs in which nothing changes.
    converged : bool
    condition, omitted : float
        As in `is_trustworthy`.
    terms : NoiseTerms
        What the noise of a run does.
    n_solvable : int
        How many runs may be solved.
    start : array of shape (K·p,), optional
        Where training begins if the objective may have several minima, as a deviation from θ_ε.
    """

    group_index: int
    epsilon_index: int
    theta: FloatArray
    before: Outcomes
    loss: float
    quadratic: QuadraticRuns
    linearised: Callable[[int], FloatArray]
    solve: Solver | None
    untouched: BoolArray
    converged: bool
    condition: float
    terms: NoiseTerms
    n_solvable: int
    omitted: float = 0.0
    start: FloatArray | None = None
    may_replace: bool = True


@dataclass(frozen=True, repr=False)
class RunShape:
    """What the runs of one cell look like around θ_ε.

    Attributes
    ----------
    correction : Correction
        From the quadratic to the test loss.
    outcomes : mapping of outcome to array (low, mean, high)
        Change from the value at θ̂, over the runs.
    is_solved : bool
        Whether the runs were solved because the expansion failed its check.
    is_checked : bool
        Whether the expansion passed its check, or needed none.
    converged : bool
        Whether every run that was solved has a minimum.
    """

    correction: Correction
    outcomes: dict[str, FloatArray]
    is_solved: bool
    is_checked: bool
    converged: bool

    def scaled(self, lie: float) -> RunShape:
        """Return the shape with noise divided by √lie, with which it grows."""
        outcomes = {name: value / np.sqrt(lie) for name, value in self.outcomes.items()}
        return RunShape(
            self.correction.scaled(1.0 / lie),
            outcomes,
            self.is_solved,
            self.is_checked,
            self.converged,
        )

    def mix(self, other: RunShape, share: float) -> RunShape:
        """Return the shape of a cell that lies a share of the way to another."""
        return RunShape(
            self.correction.mix(other.correction, share),
            {
                name: (1.0 - share) * value + share * other.outcomes[name]
                for name, value in self.outcomes.items()
                if name in other.outcomes
            },
            self.is_solved or other.is_solved,
            self.is_checked and other.is_checked,
            self.converged and other.converged,
        )


def n_affordable(n_rows: int, n_parameters: int, n_draws: int, *, solved: bool) -> int:
    """Return how many runs of a cell may be solved, or evaluated record by record.

    Examples
    --------
    >>> n_affordable(1_000, 20, 400, solved=True), n_affordable(35_000, 88, 400, solved=True)
    (400, 100)
    """
    work = _SOLVE_WORK if solved else _FULL_WORK
    affordable = int(work // (n_rows * n_parameters))
    return min(n_draws, max(_FEWEST_FULL_DRAWS, affordable))


def run_decrement(curvature: Curvature, deviations: FloatArray) -> float:
    """Return how far above its minimum the objective of a solved run may stay.

    Parameters
    ----------
    curvature : Curvature
        H_ε.
    deviations : array of shape (K·p, n)
        Linearised runs, whose mean ½ dᵀHd is the unit.
    """
    bent = np.einsum("pd,pd->d", deviations, curvature.hessian @ deviations)
    return max(_LEAST_DECREMENT, 0.5 * _RUN_SHARE * float(bent.mean())) if bent.size else 1.0


def shape_of_runs(evaluation: Evaluation, cell: ExpandedCell, contrast: object) -> RunShape:
    """Evaluate the runs of a cell, solved where the expansion does not hold."""
    n_draws = len(cell.quadratic.first)
    n_full = n_affordable(evaluation.n_rows, len(cell.theta), n_draws, solved=False)
    deviations = cell.linearised(n_full)
    # Noise so small that nothing needs to be solved.
    is_quiet = cell.terms.logit_noise <= _QUIET_NOISE and cell.terms.largest_noise <= _QUIET_RECORD
    is_solved, converged = False, True
    is_checked = cell.solve is not None and (cell.may_replace or not is_quiet)
    if cell.solve is not None and not is_quiet:
        near = deviations[:, :N_CHECKED]
        solved, found = cell.solve(0, near)
        moves = _moves(evaluation, cell, near, solved)
        converged = bool(found.all()) and _has_one_minimum(evaluation, cell, solved)
        if not cell.may_replace:
            converged &= not moves
        is_solved = cell.may_replace and moves and converged
        if is_solved:
            deviations = solved
            wanted = cell.linearised(cell.n_solvable)[:, len(found) :]
            if wanted.shape[1]:
                more, also = cell.solve(len(found), wanted)
                deviations, converged = np.hstack([solved, more]), bool(also.all())
    drawn = evaluation.drawn(
        cell.theta,
        deviations.astype(np.float32),
        n_auc_draws=N_AUC_DRAWS,
        contrast=contrast,
    )
    outcomes = {}
    for name in OUTCOMES:
        before, runs = getattr(cell.before, name), getattr(drawn, name)
        if before is None or runs is None:
            continue
        runs = np.where(cell.untouched[: len(runs)], 0.0, runs - before)
        low, high = ends(runs)
        mean = float(runs.mean())
        # Where hardly any run changes anything, the mean lies beside the ends.
        outcomes[name] = np.array([min(low, mean), mean, max(high, mean)])
    return RunShape(
        correction=fit_correction(drawn.loss - cell.loss, cell.quadratic),
        outcomes=outcomes,
        is_solved=is_solved,
        is_checked=is_checked and not is_solved,
        converged=converged,
    )


def _has_one_minimum(evaluation: Evaluation, cell: ExpandedCell, solved: FloatArray) -> bool:
    """Return whether runs that begin where training does end at the same minimum, nine times in ten."""
    if cell.solve is None or cell.start is None:
        return True
    again, found = cell.solve(0, np.repeat(cell.start[:, None], solved.shape[1], axis=1))
    apart, width = _apart(evaluation, cell, again, solved)
    differ = ~found | (np.abs(apart) > _LARGEST_SCATTER * width)
    return bool(differ.mean() <= _LARGEST_SHARE_ELSEWHERE)


def _moves(
    evaluation: Evaluation, cell: ExpandedCell, near: FloatArray, solved: FloatArray
) -> bool:
    """Return whether solving runs moves their test loss noticeably, beside the interval."""
    moved, width = _apart(evaluation, cell, near, solved)
    # A method that cannot do better may be off by as much as any that is believed.
    shift = _LARGEST_SHIFT if cell.may_replace else 0.5 * LARGEST_OMISSION
    scatter = _LARGEST_SCATTER if cell.may_replace else 0.5 * LARGEST_OMISSION
    return bool(
        # What single records may lose in a rare run is not seen in so few.
        cell.terms.undetermined_loss > shift * width
        or abs(moved.mean()) > shift * width
        or np.sqrt(np.mean(moved**2)) > scatter * width
    )


def _apart(
    evaluation: Evaluation, cell: ExpandedCell, one: FloatArray, other: FloatArray
) -> tuple[FloatArray, float]:
    """Return how far the test losses of two versions of some runs lie apart, and the interval's width."""
    n = one.shape[1]
    losses = evaluation.losses(cell.theta[:, None] + np.hstack([one, other]))
    low, high = ends(cell.quadratic.first + cell.quadratic.second)
    return losses[n:] - losses[:n], high - low


def finish_cell(cell: ExpandedCell, shape: RunShape) -> CellAnswer:
    """Return the numbers of a cell whose runs have this shape."""
    moved = cell.loss - cell.before.loss
    runs = np.where(cell.untouched, 0.0, moved + cell.quadratic.total(shape.correction))
    low, high = ends(runs)
    change = moved + cell.quadratic.second_order
    # The mean over all runs is known for the quadratic, fitted for the rest. The draws serve as a regression
    # estimate, so that their Monte-Carlo error is that of the residuals only.
    a, b, c = shape.correction.coefficients
    quadratic = cell.quadratic
    drawn = moved + float(
        quadratic.expected_first * (1.0 + b) + quadratic.expected_second * (1.0 + c) + a
    )
    error = float(runs.std()) / np.sqrt(len(runs))
    if cell.untouched.any():
        # A fit to runs of which most are alike says nothing about their mean; the runs themselves do.
        mean = float(runs.mean())
        change = change if abs(change - mean) <= 3.0 * error else mean
    elif abs(drawn - change) > _LARGEST_SHIFT * (high - low):
        # What second order leaves out of the mean is no longer small: the runs know it.
        change = drawn
    if cell.untouched.any():
        # Most runs may be exactly 0, and the mean beyond the 95 % point of so few others.
        low, high = min(low, change), max(high, change)
    width = high - low
    changes: dict[str, float | None] = {name: None for name in OUTCOMES}
    intervals = {}
    for name, values in shape.outcomes.items():
        # Rounded: the same counts must not differ by the order in which they were added.
        low_end, middle, high_end = (round(float(value), 12) for value in values)
        changes[name] = middle
        intervals[name] = (low_end, high_end)
    residuals = shape.correction.residuals
    # Where most runs change nothing, the interval holds them whatever the mean is.
    is_known = cell.untouched.any() or bool(
        residuals.std() / np.sqrt(len(residuals)) <= _LARGEST_MONTE_CARLO_ERROR * width
    )
    if shape.is_solved or shape.is_checked:
        trusted = (
            cell.converged and shape.converged and cell.condition <= LARGEST_CONDITION and is_known
        )
    else:
        trusted = is_trustworthy(
            converged=cell.converged,
            logit_noise=cell.terms.logit_noise,
            condition=cell.condition,
            undetermined_loss=cell.terms.undetermined_loss,
            omitted=cell.omitted,
            half_width=0.5 * width,
        )
    return CellAnswer(
        group_index=cell.group_index,
        epsilon_index=cell.epsilon_index,
        loss_change=change,
        loss_low=low,
        loss_high=high,
        changes=changes,
        intervals=intervals,
        trusted=trusted and low <= change <= high,
        loss_runs=runs,
    )

# SPDX-License-Identifier: Apache-2.0
"""What a method is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from epsilens._types import FloatArray
from epsilens.influence import FirstOrder, Outcomes
from epsilens.influence.alternatives import Alternatives
from epsilens.influence.first_order import SolveError
from epsilens.influence.groups import Group

Ends = tuple[float, float]
Method = Literal["influence", "newton", "exact", "paper"]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class CellQuestion:
    """What is asked: these groups, these channels.

    Attributes
    ----------
    groups : list of Group
    label_channels : list of arrays of shape (k, k)
        One per ε, ε ascending; 1×1 if the label is not protected.
    joints : list of arrays of shape (V, V)
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

    @property
    def n_epsilon(self) -> int:
        """How many budgets are asked about."""
        return len(self.joints)

    def is_identity(self, epsilon_index: int) -> bool:
        """Whether nothing is randomised at this budget."""
        return all(
            channel.shape[0] == channel.shape[1] and np.array_equal(channel, np.eye(len(channel)))
            for channel in (self.label_channels[epsilon_index], self.joints[epsilon_index])
        )


@dataclass(frozen=True)
class CellAnswer:
    """One cell: changes against the baseline, and the runs behind the interval.

    Attributes
    ----------
    group_index, epsilon_index : int
        Which of the question's groups and budgets.
    changes : mapping of outcome to change
        Changes of accuracy, auc, loss_gap and accuracy_gap; None where it has no meaning.
    intervals : mapping of outcome to (low, high)
        The same outcomes, where draws were made.
    solve_error : SolveError or None
        What the solver of the inverse Hessian leaves, by the methods of first order.
    standard_error : float or None
        Standard error of the change of loss, where its part of second order is a mean over drawn runs.
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


def group_seeds(question: CellQuestion) -> list[np.random.SeedSequence]:
    """Return a seed for every group, the same for all ε and groups.

    What one group is told does not depend on which others are asked about; an object each, since a
    seed counts its children.
    """
    return [np.random.SeedSequence(question.seed).spawn(1)[0] for _ in question.groups]


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

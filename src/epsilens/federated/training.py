# SPDX-License-Identifier: Apache-2.0
"""Training together: Newton's method on summed gradients and Hessians, or federated averaging."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_between
from epsilens.federated.parties import Parties
from epsilens.federated.sums import Objective, Penalty, SiteSums, add_up

Algorithm: TypeAlias = Literal["newton", "fedavg"]
Ask: TypeAlias = Callable[[FloatArray], Mapping[int, SiteSums]]
"""Given a model, every site's sums there, Hessians included."""
AskToTrain: TypeAlias = Callable[[FloatArray], Mapping[int, tuple[FloatArray, int]]]
"""Given a model, every site's own model after some steps, and its number of records."""

GRADIENT_TOLERANCE = 1e-10
LARGEST_CONVERGED_GRADIENT = 1e-8
"""After federated averaging, whose own tolerance is on the move of a round."""
_SUFFICIENT = 1e-4
_FEWEST_HALVES = 30


@dataclass(frozen=True)
class Trained:
    """A model, every site's sums there, and how it was reached.

    Parameters
    ----------
    theta : array of shape (p,)
    sums : mapping of site to SiteSums
        At `theta`, Hessians included.
    objective : Objective
        Objective of all sites together, at `theta`.
    rounds : int
        How often all sites were asked.
    converged : bool
        Whether the gradient is below the tolerance.
    """

    theta: FloatArray
    sums: Mapping[int, SiteSums]
    objective: Objective
    rounds: int
    converged: bool

    @property
    def gradient_norm(self) -> float:
        """Euclidean norm of the gradient of the common objective."""
        return float(np.linalg.norm(self.objective.gradient))

    @property
    def advice(self) -> Literal["accept", "converge"]:
        """Whether to use the model, or to run more rounds first."""
        return "accept" if self.converged else "converge"

    @property
    def reason(self) -> str:
        """Why not to use it; nothing if it is at its optimum."""
        if self.converged:
            return ""
        return (
            f"the gradient has norm {self.gradient_norm:.2g}: the model is not at its optimum. Run more "
            "rounds, or `newton`"
        )


def newton_rounds(
    ask: Ask,
    start: FloatArray,
    penalty: Penalty,
    *,
    rounds: int = 25,
    tolerance: float = GRADIENT_TOLERANCE,
) -> Trained:
    """Train by Newton's method: every round each site sends its gradient and Hessian, once.

    Parameters
    ----------
    ask : callable
    start : array of shape (p,)
        Zeros, or numbers drawn independently of all data, make the result a function of the sites' present
        draws alone.
    penalty : Penalty
    rounds : int
        At most so many.
    tolerance : float
        On the norm of the gradient.

    Returns
    -------
    Trained
        Usually after fewer than ten rounds, against hundreds of federated averaging.

    Notes
    -----
    A step that does not lower the objective enough is halved, at the price of a round each.

    Examples
    --------
    One site whose loss is ½(θ − 3)².

    >>> def ask(theta):
    ...     return {0: SiteSums(1, 0.5 * float((theta - 3) @ (theta - 3)), theta - 3, np.eye(1))}
    >>> trained = newton_rounds(ask, np.zeros(1), Penalty(0.0, 1, 1, intercept=False))
    >>> trained.theta, trained.rounds, trained.converged
    (array([3.]), 2, True)
    """
    theta = np.asarray(start, dtype=np.float64)
    sums = ask(theta)
    objective, used = Objective(theta, add_up(sums.values()), penalty), 1
    while used < rounds and np.linalg.norm(objective.gradient) > tolerance:
        gradient = objective.gradient
        step = -objective.curvature().solve(gradient)
        share = 1.0
        for _ in range(_FEWEST_HALVES):
            tried = ask(theta + share * step)
            used += 1
            new = Objective(theta + share * step, add_up(tried.values()), penalty)
            # Near the optimum the objective cannot show the progress that its gradient shows.
            enough = objective.value + _SUFFICIENT * share * float(gradient @ step)
            is_better = np.linalg.norm(new.gradient) < np.linalg.norm(gradient)
            if new.value <= enough or is_better or used >= rounds:
                break
            share /= 2
        theta, sums, objective = new.theta, tried, new
    converged = float(np.linalg.norm(objective.gradient)) <= tolerance
    return Trained(theta, sums, objective, used, converged)


def federated_averaging(
    ask: AskToTrain, start: FloatArray, *, rounds: int, tolerance: float = 0.0
) -> tuple[FloatArray, int]:
    """Train by federated averaging (P2 Eqs. 1–2): local steps, then the mean weighted by records.

    Parameters
    ----------
    ask : callable
    start : array of shape (p,)
    rounds : int
        At most so many.
    tolerance : float
        Stop once a round moves the model by less.

    Returns
    -------
    theta : array of shape (p,)
    rounds : int
        How many were needed.

    Notes
    -----
    With more than one local step and sites that differ, the fixed point is not the optimum of the
    common objective; influence around it is wrong unless a few Newton rounds follow.

    Examples
    --------
    Two sites with models of their own, and three times as many records at the second.

    >>> federated_averaging(lambda theta: {0: (np.ones(1), 10), 1: (5 * np.ones(1), 30)},
    ...                     np.zeros(1), rounds=9)
    (array([4.]), 2)
    """
    theta = np.asarray(start, dtype=np.float64)
    used = 0
    while used < rounds:
        used += 1
        answers = ask(theta)
        total = sum(n for _, n in answers.values())
        new = np.sum([n / total * local for local, n in answers.values()], axis=0)
        moved = float(np.linalg.norm(new - theta))
        theta = new
        if moved <= tolerance:
            break
    return theta, used


def averaging_rounds(
    parties: Parties,
    start: FloatArray,
    penalty: Penalty,
    *,
    rounds: int,
    local_steps: int,
    learning_rate: float | None,
    tolerance: float,
) -> Trained:
    """Train by federated averaging, and ask every site for its sums where that has ended.

    Parameters
    ----------
    parties : Parties
    start : array of shape (p,)
    penalty : Penalty
    rounds : int
        At most so many.
    local_steps : int
        At each site and round.
    learning_rate : float, optional
        None: one over the largest curvature that a site reports.
    tolerance : float
        Stop once a round moves the model by less.
    """
    if learning_rate is None:
        curvatures = [
            float(np.linalg.eigvalsh(s.hessian)[-1]) / s.n
            for s in parties.sums(start).values()
            if s.hessian is not None
        ]
        # The curvature of these losses is largest where all predictors are zero.
        learning_rate = 1.0 / (max(curvatures) + penalty.strength)
    rate = as_between(learning_rate, 1e-12, 1e12, name="learning_rate")

    def ask(theta: FloatArray) -> Mapping[int, tuple[FloatArray, int]]:
        return parties.local_steps(theta, steps=local_steps, learning_rate=rate, penalty=penalty)

    theta, used = federated_averaging(ask, start, rounds=rounds, tolerance=tolerance)
    sums = parties.sums(theta)
    objective = Objective(theta, add_up(sums.values()), penalty)
    norm = float(np.linalg.norm(objective.gradient))
    return Trained(theta, sums, objective, used, norm <= max(tolerance, LARGEST_CONVERGED_GRADIENT))

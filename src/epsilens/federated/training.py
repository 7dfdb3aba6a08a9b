# SPDX-License-Identifier: Apache-2.0
"""Training together: Newton's method on summed gradients and Hessians, or federated averaging."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from epsilens.federated.aggregate import Objective, Penalty
from epsilens.federated.sums import SiteSums, add_up

__all__ = ["Ask", "AskToTrain", "Trained", "federated_averaging", "newton_rounds"]

FloatArray = NDArray[np.float64]
Ask: TypeAlias = Callable[[FloatArray], Mapping[int, SiteSums]]
"""Given a model, every site's sums there, Hessians included."""
AskToTrain: TypeAlias = Callable[[FloatArray], Mapping[int, tuple[FloatArray, int]]]
"""Given a model, every site's own model after some steps, and its number of records."""

GRADIENT_TOLERANCE = 1e-10
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
        Of all sites together, at `theta`.
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

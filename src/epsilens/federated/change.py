# SPDX-License-Identifier: Apache-2.0
"""The model follows a change: one message, a Newton step, and how far to trust them (P2 Eqs. 19–20, 27)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from epsilens._types import FloatArray
from epsilens.federated.sums import Objective, Penalty, SiteSums, add_up
from epsilens.federated.training import Trained
from epsilens.models.solver import Curvature

Rung: TypeAlias = Literal["one-message", "newton", "exact"]

LARGEST_LOGIT_MOVE = 1.0
"""Root mean square change of a record's logit past which a single step is not believed."""
LARGEST_RELATIVE_ERROR = 0.25
"""Predicted error, as a share of the step, past which `exact` rounds are advised."""
LARGEST_UNCONVERGED = 0.1
"""Distance of the present model from its own optimum, as a share of the step."""
LARGEST_CONDITION = 1e10
LEAST_INFORMATION = 3.0
"""N times the smallest eigenvalue of the Hessian: below it some combination of coefficients
has a standard error above 0.58, as in P2's glioma without enough regularisation."""


@dataclass(frozen=True)
class Step:
    """A new model and what it rests on.

    Parameters
    ----------
    theta : array of shape (p,)
    before : array of shape (p,)
    curvature : Curvature
        The Hessian that the step was divided by.
    """

    theta: FloatArray
    before: FloatArray
    curvature: Curvature

    @property
    def move(self) -> FloatArray:
        """By how much the model moved."""
        return self.theta - self.before

    @property
    def distance(self) -> float:
        """Its Euclidean length."""
        return float(np.linalg.norm(self.move))

    @property
    def local_norm(self) -> float:
        """Its length in the norm of the Hessian, √(ΔᵀHΔ)."""
        return math.sqrt(max(float(self.move @ self.curvature.hessian @ self.move), 0.0))


def newton_step(objective: Objective) -> Step:
    """Return the step to where the quadratic approximation of an objective is smallest."""
    curvature = objective.curvature()
    theta = objective.theta - curvature.solve(objective.gradient)
    return Step(theta, objective.theta, curvature)


def change_step(
    present: Objective, differences: Iterable[SiteSums], *, rung: Rung = "one-message"
) -> Step:
    """Move the model by what the changing sites sent; several sites add up (P2 Eq. 20).

    Parameters
    ----------
    present : Objective
        At the present model, Hessian included, over all sites.
    differences : iterable of SiteSums
        One from each changing site, see `Site.difference`.
    rung : {"one-message", "newton"}
        `newton` uses the Hessian after the change, for which the sites must have sent theirs.

    Returns
    -------
    Step

    Notes
    -----
    θ ← θ̂ − (1/N) H⁻¹ Σ (Σ_alt w(alt) ∇ℓ(alt) − ∇ℓ(z̃)), with the Hessian of all sites: P2's code uses
    that of the changing client, which holds one label only.

    Examples
    --------
    >>> from epsilens.federated import Penalty
    >>> sums = SiteSums(400, 200.0, np.zeros(2), 100.0 * np.eye(2))
    >>> present = Objective(np.zeros(2), sums, Penalty(0.1, 2, 1, intercept=True))
    >>> change_step(present, [SiteSums(80, 0.0, np.array([10.0, 0.0]))]).theta.round(3)
    array([-0.071,  0.   ])
    """
    total = add_up(differences)
    mean = total.gradient / present.sums.n
    if rung == "one-message":
        curvature = present.curvature()
        return Step(present.theta - curvature.solve(mean), present.theta, curvature)
    return newton_step(Objective(present.theta, present.sums + total, present.penalty))


def removal_step(present: Objective, leaving: Iterable[SiteSums]) -> Step:
    """Take sites out of the model by one Newton step on what is kept.

    Parameters
    ----------
    present : Objective
        At the present model, over all sites.
    leaving : iterable of SiteSums
        Sums of the sites that leave, Hessians included.

    Returns
    -------
    Step

    Notes
    -----
    θ ← θ̂ + (1/n_k) H_k⁻¹ [Σ_removed ∇ℓ + n_r λDθ̂] for a λ that stays fixed (math.md 6). P2's Eqs. 3–4
    and 27 have the opposite sign, which moves the model towards those who leave. Written with the
    gradient of the kept sites' objective it is θ̂ − H_k⁻¹∇F_k(θ̂), which is the same at the optimum.

    Examples
    --------
    >>> from epsilens.federated import Penalty
    >>> sums = SiteSums(400, 200.0, np.zeros(2), 100.0 * np.eye(2))
    >>> present = Objective(np.zeros(2), sums, Penalty(0.1, 2, 1, intercept=True))
    >>> leaving = SiteSums(100, 50.0, np.array([30.0, 0.0]), 25.0 * np.eye(2))
    >>> removal_step(present, [leaving]).theta.round(3)
    array([0.286, 0.   ])
    """
    kept = present.sums.without(add_up(leaving))
    return newton_step(Objective(present.theta, kept, present.penalty))


def acceptance_step(present: Objective, arriving: Iterable[SiteSums]) -> tuple[Step, Objective]:
    """Take accepted records into the model by one Newton step.

    Parameters
    ----------
    present : Objective
        At the present model, Hessian included, over all sites.
    arriving : iterable of SiteSums
        One from each provider, see `accepted_sums`.

    Returns
    -------
    Step
        The new model.
    Objective
        The sums that the coordinator goes on with at the old model, arrivals included: their Hessian
        is P4's running average, Σ H_i n_i / Σ n_i. It is that of the old model; sites that are asked
        again give the one of the new.

    Notes
    -----
    θ ← θ̂ − H′⁻¹∇F′(θ̂) with F′ over all records, new ones included, and λ fixed: the counterpart of
    `removal_step`, and the move that `epsilens.valuation.offer_batch` announces by "newton".

    Examples
    --------
    >>> from epsilens.federated import Penalty
    >>> sums = SiteSums(400, 200.0, np.zeros(2), 100.0 * np.eye(2))
    >>> present = Objective(np.zeros(2), sums, Penalty(0.1, 2, 1, intercept=True))
    >>> offer = SiteSums(100, 50.0, np.array([-25.0, 0.0]), 25.0 * np.eye(2))
    >>> step, after = acceptance_step(present, [offer])
    >>> step.theta.round(3), after.sums.n
    (array([0.143, 0.   ]), 500)
    """
    after = Objective(present.theta, add_up([present.sums, *arriving]), present.penalty)
    return newton_step(after), after


@dataclass(frozen=True)
class Trust:
    """How far a step is to be trusted, and what to do.

    Parameters
    ----------
    predicted_error : float
        Distance to be expected between the new model and the one that retraining would give.
    logit_move : float
        Root mean square change of a record's logit.
    share_changed : float
        Share of all records that belong to changing sites and are expected to change.
    condition : float
        Condition number of the Hessian.
    unconverged : float
        Distance of the old model from its own optimum.
    advice : {"accept", "exact", "converge", "regularise"}
    reason : str
    """

    predicted_error: float
    logit_move: float
    share_changed: float
    condition: float
    unconverged: float
    advice: Literal["accept", "exact", "converge", "regularise"]
    reason: str


def judge(step: Step, present: Objective, *, share_changed: float, rung: Rung) -> Trust:
    """Predict the error of a single step, and say when not to rely on it.

    Parameters
    ----------
    step : Step
    present : Objective
        Before the change, with Hessian.
    share_changed : float in [0, 1]
        Share of all records that are expected to change.
    rung : {"one-message", "newton"}

    Returns
    -------
    Trust

    Notes
    -----
    A step forgets that the curvature changes with the logits, by about half of their root mean square
    move r, and, for one message, with the records as well. So the error is predicted as ‖Δ‖·r for one
    message and ‖Δ‖·r/2 for a Newton step, and to it comes the distance of the old model from its own
    optimum; r is √(ΔᵀHΔ) over the root of the mean curvature of a record. The benchmark `federated`
    compares it with the real error. P2 finds the estimate failing for small data and for more than half
    of the records (its Q2 and Q3): both make r large.

    Examples
    --------
    >>> from epsilens.federated import Penalty
    >>> sums = SiteSums(400, 200.0, np.zeros(2), 100.0 * np.eye(2))
    >>> present = Objective(np.zeros(2), sums, Penalty(0.1, 2, 1, intercept=True))
    >>> step = change_step(present, [SiteSums(80, 0.0, np.array([10.0, 0.0]))])
    >>> trust = judge(step, present, share_changed=0.05, rung="one-message")
    >>> trust.advice, trust.reason
    ('accept', 'predicted error 9% of the step')
    """
    curvature = present.curvature()
    unconverged = float(np.linalg.norm(curvature.solve(present.gradient)))
    logit_move = step.local_norm / np.sqrt(_mean_curvature(present.sums))
    relative = logit_move if rung == "one-message" else logit_move / 2
    error = step.distance * relative + unconverged
    advice: Literal["accept", "exact", "converge", "regularise"] = "accept"
    reason = f"predicted error {relative:.0%} of the step"
    information = present.sums.n * float(np.linalg.eigvalsh(curvature.hessian)[0])
    if information < LEAST_INFORMATION:
        advice = "regularise"
        reason = (
            f"some combination of coefficients is known only to within {information**-0.5:.2g}: the data "
            "hardly hold the model. Train again with more regularisation"
        )
    elif step.curvature.condition > LARGEST_CONDITION or logit_move > LARGEST_LOGIT_MOVE:
        advice = "regularise"
        reason = (
            f"the step moves a record's logit by {logit_move:.2g} on average: the data hardly hold the "
            "model. Train again with more regularisation"
        )
    elif unconverged > LARGEST_UNCONVERGED * step.distance:
        advice = "converge"
        reason = (
            f"the model is {unconverged:.2g} from its own optimum, and the step is {step.distance:.2g}. "
            "Run Newton rounds first"
        )
    elif relative > LARGEST_RELATIVE_ERROR:
        advice = "exact"
        reason = f"predicted error {relative:.0%} of the step. Run `exact` rounds"
    return Trust(
        predicted_error=error,
        logit_move=float(logit_move),
        share_changed=share_changed,
        condition=step.curvature.condition,
        unconverged=unconverged,
        advice=advice,
        reason=reason,
    )


def first_removal(
    present: Objective, sums: Mapping[int, SiteSums], leaving: Sequence[int]
) -> tuple[Step, Trust]:
    """Return the Newton step away from sites that leave, and the statement about it."""
    gone = [part for site, part in sums.items() if site in leaving]
    step = removal_step(present, gone)
    share = sum(part.n for part in gone) / present.sums.n
    return step, judge(step, present, share_changed=share, rung="newton")


def second_removal(
    first: Step, sums: Mapping[int, SiteSums], penalty: Penalty, share: float
) -> tuple[Step, Trust]:
    """Return another step, from the sums of those who stay at the model of the first one."""
    there = Objective(first.theta, add_up(sums.values()), penalty)
    second = newton_step(there)
    trust = judge(second, there, share_changed=share, rung="newton")
    # Here the second step is what the first one left: no sign of a model that never converged.
    error = trust.predicted_error - trust.unconverged
    advice, reason = trust.advice, trust.reason
    if advice == "converge":
        advice, reason = "accept", ""
    whole = replace(second, before=first.before)
    return whole, replace(
        trust, predicted_error=error, unconverged=0.0, advice=advice, reason=reason
    )


def judge_rounds(trained: Trained, *, share_changed: float) -> Trust:
    """Say what is left of the error after rounds with all sites.

    Parameters
    ----------
    trained : Trained
    share_changed : float
        Share of all records that have changed, or NaN where it is not known.
    """
    curvature = trained.objective.curvature()
    error = float(np.linalg.norm(curvature.solve(trained.objective.gradient)))
    return Trust(
        predicted_error=error,
        logit_move=0.0,
        share_changed=share_changed,
        condition=curvature.condition,
        unconverged=error,
        advice=trained.advice,
        reason=trained.reason,
    )


def _mean_curvature(sums: SiteSums) -> float:
    """Return a typical curvature of the loss in a record's logit.

    p(1 − p) at the probability p that a record of mean loss gives its own label, −log p = mean loss.
    """
    own = math.exp(-max(sums.loss / sums.n, 0.0))
    return max(min(own * (1.0 - own), 0.25), 1e-12)

# SPDX-License-Identifier: Apache-2.0
"""Gradient descent on all records at once, with normal noise on every sum of gradients.

Rows are held within a length, so nobody's gradient is longer than that. The noise of all steps together
costs what one release costs, and the steps are planned from counts and settings alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from epsilens._types import BoolArray, FloatArray, SingleArray
from epsilens.document.decision import Protects
from epsilens.models.gaussian_release import GaussianRelease
from epsilens.models.problem import LogisticLoss, Loss, SoftmaxLoss

# Lengths of rows times coefficients are kept below this, so that rounding has a bound that holds for all
# data. No model of use comes near: its predictors would be certain to all digits.
MOST_PREDICTOR: Final = 1e4
_CHUNK = 4096
_UNIT = float(np.finfo(np.float64).eps)
# Chosen on Adult and ACS Income with 500 to 45,000 records at ε from 0.25 to 8; see `DescentPlan`.
_SCALE = 1.8
_SHARE_OF_STABLE = 0.9
_STEPS_OF_MEMORY = 10.0
_CACHED_NUMBERS = 2**18


def loss_of(n_outputs: int) -> Loss:
    """Return the loss of one coefficient vector for two classes, or of one a class."""
    return LogisticLoss() if n_outputs == 1 else SoftmaxLoss(n_outputs)


def gradient_sensitivity(x_bound: float, *, n_outputs: int, protects: Protects) -> float:
    """Return how far one person can move a sum of gradients of rows within `x_bound`, exactly.

    Parameters
    ----------
    x_bound : float
        C: no row is longer, its constant included.
    n_outputs : int
        1 for two classes, else the number of classes.
    protects : {"answer", "record"}
        Whether a person's label is changed, or the whole record is replaced.

    Notes
    -----
    Two classes: a record's gradient is (p − y)x with p and y from 0 to 1, so it is no longer than C, and a
    replaced record moves the sum by at most 2C. A changed label leaves p and x as they are, for both depend
    on the features alone, and moves it by |y − y'|·‖x‖ ≤ C.

    Several: the gradient is the matrix (p − e_y)xᵀ of length ‖p − e_y‖·‖x‖, and ‖p − e_y‖² =
    (1 − p_y)² + Σ_{k≠y} p_k² ≤ 2. So a replaced record moves the sum by at most 2√2·C, and a changed label by
    ‖e_y − e_y'‖·‖x‖ ≤ √2·C.

    Examples
    --------
    >>> gradient_sensitivity(4.0, n_outputs=1, protects="answer")
    4.0
    >>> round(gradient_sensitivity(4.0, n_outputs=3, protects="record"), 3)
    11.314
    """
    length = x_bound * (1.0 if n_outputs == 1 else math.sqrt(2.0))
    return length if protects == "answer" else 2.0 * length


def gradient_rounding(
    n_records: int,
    n_columns: int,
    n_outputs: int,
    x_bound: float,
    *,
    most_predictor: float = MOST_PREDICTOR,
) -> float:
    """Return how far a computed sum of gradients is at most from the exact one, whatever the data hold.

    Notes
    -----
    With u the unit of rounding and γ_m = 1.01·m·u: a predictor of d products is off by at most
    (γ_d + 4u)·C‖θ‖, where C‖θ‖ ≤ `most_predictor`, and what is subtracted from it before the exponential counts
    among the 4u. A probability moves by no more than half of that, and its own evaluation adds less
    than (k + 16)u. n products of residuals, each no longer than √2, with rows are summed in pieces: γ of the
    length of a piece plus the number of pieces, times √2·n·C. Rows are within C up to (d + 16)u.
    """
    length = _CHUNK + math.ceil(n_records / _CHUNK) + 1
    predictor = (1.01 * n_columns + 4.0) * _UNIT * most_predictor
    residual = 0.5 * predictor + (n_outputs + 17.0 + n_columns + 16.0) * _UNIT
    return 1.01 * n_records * x_bound * (residual + math.sqrt(2.0) * length * _UNIT)


@dataclass(frozen=True)
class DescentPlan:
    """Noise and steps of a descent, from counts and settings alone.

    Attributes
    ----------
    n_records, n_columns, n_outputs : int
        Shape of the data, the constant column included; one output for two classes.
    x_bound : float
        C, the longest row.
    protects : {"answer", "record"}
    rho : float
        The budget of all steps together.
    n_steps : int

    Notes
    -----
    Steps follow θ ← θ − ηg + β(θ − θ'), Polyak's heavy ball, with θ' the place before. Nothing about the data
    is known but that no curvature exceeds L = nC²/4, or nC²/2 for several classes. On a quadratic the
    steps are stable for η < 2(1 + β)/L; 0.9 of that is taken at most.

    How far to go is a balance. Averaged over the last half of the steps, noise moves a direction of curvature
    h by about s/h with s = Δ/μ, whatever the number of steps, once η/(1 − β)·n_steps ("time") exceeds 1/h;
    less curved directions are left near 0, and so is their noise. A direction is worth the noise if its
    coefficient exceeds s/h. With 1.8/C as the size of a coefficient that counts, the time is (1.8/C)/s. β is the
    least that reaches this time with stable steps, and at most 1 − 10/n_steps, so that swings die out before
    the average begins.
    """

    n_records: int
    n_columns: int
    n_outputs: int
    x_bound: float
    protects: Protects
    rho: float
    n_steps: int

    @property
    def mu(self) -> float:
        """μ of all steps together, as one Gaussian release."""
        return math.sqrt(2.0 * self.rho)

    @cached_property
    def release(self) -> GaussianRelease:
        """One noisy sum of gradients; the rounding of both neighbours is in its sensitivity."""
        exact = gradient_sensitivity(self.x_bound, n_outputs=self.n_outputs, protects=self.protects)
        rounding = gradient_rounding(self.n_records, self.n_columns, self.n_outputs, self.x_bound)
        return GaussianRelease("sum of gradients", exact + 2.0 * rounding, self.rho / self.n_steps)

    @property
    def curvature_bound(self) -> float:
        """L: no table of so many records has a larger curvature."""
        share = 0.25 if self.n_outputs == 1 else 0.5
        return share * self.n_records * self.x_bound**2

    @property
    def momentum(self) -> float:
        """Share β of the last step that is taken again."""
        stable = 2.0 * _SHARE_OF_STABLE
        most = max(0.0, 1.0 - _STEPS_OF_MEMORY / self.n_steps)
        return min(max(0.0, (self._pace - stable) / (self._pace + stable)), most)

    @property
    def step(self) -> float:
        """Length η of a step."""
        beta = self.momentum
        stable = 2.0 * _SHARE_OF_STABLE * (1.0 + beta)
        return min(self._pace * (1.0 - beta), stable) / self.curvature_bound

    @property
    def _pace(self) -> float:
        """The time of one step, η/(1 − β), that is aimed at, in units of 1/L."""
        noise = self.release.sensitivity / self.mu
        time = _SCALE / self.x_bound / noise
        return self.curvature_bound * time / self.n_steps

    @property
    def coef_bound(self) -> float:
        """Radius of the ball that no step leaves."""
        return MOST_PREDICTOR / self.x_bound * (1.0 - 1e-9)

    @property
    def first_averaged(self) -> int:
        """Number of steps before the average begins."""
        return self.n_steps // 2


def gradient_sum(design: FloatArray, codes: NDArray[np.intp], theta: FloatArray) -> FloatArray:
    """Return the sum of the records' gradients, (d, k), in pieces that keep rounding small.

    Parameters
    ----------
    design : array of shape (n, d)
    codes : array of int, shape (n,)
        Classes from 0.
    theta : array of shape (d, k)
        One column for two classes, else one a class.
    """
    loss = loss_of(theta.shape[1])
    total = np.zeros_like(theta)
    for first in range(0, len(design), _CHUNK):
        rows, classes = design[first : first + _CHUNK], codes[first : first + _CHUNK]
        total += rows.T @ loss.slope(rows @ theta, classes.astype(np.float64))
    return total


def descend(
    design: FloatArray,
    codes: NDArray[np.intp],
    plan: DescentPlan,
    noisy: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Return the mean of the last half of the steps, (d, k).

    Parameters
    ----------
    design : array of shape (n, d)
        Rows within the bound, the constant column included.
    codes : array of int, shape (n,)
    plan : DescentPlan
    noisy : callable
        Adds the noise of one step to a sum of gradients.
    """
    theta = np.zeros((plan.n_columns, plan.n_outputs))
    before, total = theta, np.zeros_like(theta)
    for step in range(plan.n_steps):
        slope = noisy(gradient_sum(design, codes, theta))
        moved = theta - plan.step * slope + plan.momentum * (theta - before)
        length = float(np.linalg.norm(moved))
        if length > plan.coef_bound:
            moved *= plan.coef_bound / length
        before, theta = theta, moved
        if step >= plan.first_averaged:
            total += theta
    mean: FloatArray = total / (plan.n_steps - plan.first_averaged)
    return mean


def simulate_descents(
    design: FloatArray,
    codes: NDArray[np.intp],
    plans: Sequence[DescentPlan],
    *,
    n_runs: int,
    generator: np.random.Generator,
    members: BoolArray | None = None,
    progress: Callable[[int], None] | None = None,
) -> FloatArray:
    """Return the coefficients of many runs at several budgets: two matrix products a step for all of them.

    In single precision, for the noise is many times larger than its rounding. It is not a release.

    Parameters
    ----------
    design : array of shape (n, d)
    codes : array of int, shape (n,)
    plans : sequence of DescentPlan
        One a budget; all of the same shape and number of steps.
    n_runs : int
    generator : numpy.random.Generator
        Drawn from once a step, for all coefficients, outputs, budgets and runs in this order.
    members : array of bool, shape (n, n_runs), optional
        The records that each run learns from; None: all.
    progress : callable, optional
        Called with the number of steps that are done.

    Returns
    -------
    array of shape (n_plans, n_runs, d, k)
    """
    first = plans[0]
    d, k, n_models = first.n_columns, first.n_outputs, len(plans) * n_runs
    # In lengths of x_bound, so that single precision holds all numbers.
    rows = np.ascontiguousarray(design / first.x_bound, dtype=np.float32)
    weights = None if members is None else np.tile(members, (1, len(plans))).astype(np.float32)

    def by_model(numbers: list[float]) -> SingleArray:
        return np.repeat(np.asarray(numbers, dtype=np.float32), n_runs)

    eta = by_model([plan.step * plan.x_bound**2 for plan in plans])
    beta = by_model([plan.momentum for plan in plans])
    sigma = by_model([plan.release.sigma / plan.x_bound for plan in plans])
    radius = np.float32(first.coef_bound * first.x_bound)
    pull = _pull(rows, codes, k, weights)
    theta = np.zeros((d, k, n_models), dtype=np.float32)
    before, total = theta, np.zeros((d, k, n_models))
    n_rows = max(64, _CACHED_NUMBERS // (k * n_models))
    # The pieces are small: more threads wait for each other longer than they compute.
    with threadpool_limits(limits=1, user_api="blas"):
        for step in range(first.n_steps):
            slope = generator.standard_normal(theta.shape, dtype=np.float32)
            slope *= sigma
            slope -= pull
            flat, flat_theta = slope.reshape(d, -1), theta.reshape(d, -1)
            for start in range(0, len(rows), n_rows):
                piece = rows[start : start + n_rows]
                chances = _chances((piece @ flat_theta).reshape(len(piece), k, n_models))
                if weights is not None:
                    chances *= weights[start : start + n_rows, None]
                flat += piece.T @ chances.reshape(len(piece), -1)
            moved = theta - eta * slope + beta * (theta - before)
            length = np.sqrt(np.einsum("dkm,dkm->m", moved, moved))
            if (length > radius).any():
                moved *= radius / np.maximum(length, radius)
            before, theta = theta, moved
            if step >= first.first_averaged:
                total += theta
            if progress is not None:
                progress(step + 1)
    total /= (first.n_steps - first.first_averaged) * first.x_bound
    models = total.reshape(d, k, len(plans), n_runs).transpose(2, 3, 0, 1)
    return models


def _pull(
    rows: SingleArray, codes: NDArray[np.intp], k: int, weights: SingleArray | None
) -> SingleArray:
    """Return the labels' part of the gradients, (d, k, n_models or 1)."""
    answers = np.eye(max(k, 2), dtype=np.float32)[codes][:, max(k, 2) - k :]
    if weights is None:
        pull: SingleArray = (rows.T @ answers)[:, :, None]
        return pull
    return np.stack([rows.T @ (answer[:, None] * weights) for answer in answers.T], axis=1)


def _chances(predictors: SingleArray) -> SingleArray:
    """Return probabilities in place of predictors (n, k, n_models)."""
    if predictors.shape[1] > 1:
        predictors -= predictors.max(axis=1, keepdims=True)
        np.exp(predictors, out=predictors)
        predictors /= predictors.sum(axis=1, keepdims=True)
        return predictors
    np.negative(predictors, out=predictors)
    with np.errstate(over="ignore"):  # the reciprocal of infinity is right
        np.exp(predictors, out=predictors)
    predictors += 1.0
    return np.reciprocal(predictors, out=predictors)

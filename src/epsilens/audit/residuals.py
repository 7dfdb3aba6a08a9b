# SPDX-License-Identifier: Apache-2.0
"""Whether noise has the standard deviation that is stated: noisy sums less the exact ones, and what they prove."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_positive
from epsilens.audit.bound import ASSUMPTIONS, OneRunBound, checked_level
from epsilens.audit.canaries import Canaries
from epsilens.audit.gaussian import gaussian_epsilon
from epsilens.audit.inputs import as_numbers
from epsilens.audit.normal_scores import looks_normal
from epsilens.errors import InputError, setting


@dataclass(frozen=True)
class ResidualTest:
    """What residuals say about the standard deviation of normal noise.

    Attributes
    ----------
    sigma : float
        Stated standard deviation.
    n_residuals : int
    p_value : float in [0, 1]
        How often noise of the stated σ is as far off as this, on either side.
    sigma_estimate, sigma_low, sigma_high : float
        Standard deviation of the residuals, and its confidence interval.
    confidence : float in (0, 1)
    detectable_below, detectable_above : float
        Ratios of the true to the stated σ. A ratio below the first or above the second is found with the
        stated confidence; nearer ones may be missed.
    """

    sigma: float
    n_residuals: int
    p_value: float
    sigma_estimate: float
    sigma_low: float
    sigma_high: float
    confidence: float
    detectable_below: float
    detectable_above: float

    @property
    def holds(self) -> bool:
        """Whether the stated σ lies in the confidence interval."""
        return self.sigma_low <= self.sigma <= self.sigma_high


def residual_test(residuals: ArrayLike, sigma: float, *, confidence: float = 0.95) -> ResidualTest:
    """Test whether noise has the standard deviation that is stated.

    An audit by attack sees only large errors of a mechanism. Whoever can run it on known data sees the noise
    itself: noisy numbers less the exact ones. The more of them, the smaller the error that is found.

    Parameters
    ----------
    residuals : array of any shape
        Noisy less exact numbers; independent, with mean 0.
    sigma : float
        Stated standard deviation.
    confidence : float in (0, 1)
        How often a right σ passes.

    Returns
    -------
    ResidualTest

    Raises
    ------
    InputError
        If there is no residual, or one is not finite.

    Notes
    -----
    Σr²/σ² of d residuals follows the chi-square distribution with d degrees of freedom. The test is
    two-sided with equal tails, and the interval of σ is the set of values that it does not reject.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(scale=2.0, size=1000)
    >>> residual_test(noise, 2.0).holds, residual_test(noise, 2.0 * math.sqrt(2.0)).holds
    (True, False)
    >>> round(residual_test(noise, 2.0).detectable_above, 2)
    1.08
    """
    from scipy.stats import chi2

    level, stated = checked_level(confidence), as_positive(sigma, name="sigma")
    values = np.asarray(residuals, dtype=np.float64).ravel()
    if not values.size or not np.isfinite(values).all():
        raise InputError(
            argument="residuals", expected="at least one finite number", got="none or another"
        )
    d = values.size
    # Divided first: squares of small residuals may not be numbers.
    total = float(np.square(values / stated).sum())
    least, most = (float(chi2.ppf(q, d)) for q in (level / 2.0, 1.0 - level / 2.0))
    return ResidualTest(
        sigma=stated,
        n_residuals=d,
        p_value=min(1.0, 2.0 * min(float(chi2.cdf(total, d)), float(chi2.sf(total, d)))),
        sigma_estimate=stated * math.sqrt(total / d),
        sigma_low=stated * math.sqrt(total / most),
        sigma_high=stated * math.sqrt(total / least),
        confidence=confidence,
        detectable_below=math.sqrt(least / float(chi2.ppf(1.0 - level, d))),
        detectable_above=math.sqrt(most / float(chi2.ppf(level, d))),
    )


# --- The same as an audit of any mechanism that adds up rows ---

_LEAST_DIMENSIONS = 500
_SURELY = 3.0
"""Standard errors beyond which an output is no sum of the rows."""
_ROUNDING = 1e-6
"""Smaller noise, as a share of the longest canary, counts as none."""


def residual_bound(
    output: object, canaries: Canaries, included: BoolArray, *, delta: float, level: float
) -> OneRunBound:
    """Return what the noise of one noisy sum proves about ε: the noise is seen, not guessed.

    Parameters
    ----------
    output : array, (d,)
        The sum of the rows, with normal noise of one standard deviation.
    canaries : Canaries
    included : array of bool, (m,)
        Which canaries were in.
    delta : float in (0, 1)
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    OneRunBound

    Raises
    ------
    InputError
        If the output has another shape than a row or fewer than 500 numbers, is no sum of the rows, or its noise
        is seen not to be normal.

    Notes
    -----
    Two data sets that differ in the longest canary lead to normal laws that are μ = ‖x‖/σ apart, so that δ is
    at least `gaussian_delta(μ, ε)`. Σr²/σ² of the residuals follows the chi-square distribution, whose quantile
    gives an upper bound of σ, and with it a lower bound of μ and of ε.

    Rows must enter the sum as they are. A mechanism that clips or scales them moves by less than the canaries are
    long, and the bound is then too high. That is refused where the output is seen to be another multiple of the sum,
    which needs a sum that is long beside the noise: rows that are clipped to nine tenths pass unnoticed where there
    are few canaries or the noise is large.

    Examples
    --------
    >>> from epsilens.audit import GaussianSum
    >>> rng = np.random.default_rng(0)
    >>> mechanism = GaussianSum(4.0, 1e-6, generator=rng)
    >>> canaries, included = mechanism.canaries(50, rng), np.arange(50) < 30
    >>> output = mechanism(canaries.dataset(included))
    >>> round(residual_bound(output, canaries, included, delta=1e-6, level=0.05).epsilon_lower_bound, 2)
    3.93
    """
    from scipy.stats import chi2

    values = as_numbers(output, what="the method 'residual'")
    if len(canaries.records) != 1 or values.shape != canaries.vectors.shape[1:]:
        raise _no_noisy_sum("an output of another shape than a row")
    if values.size < _LEAST_DIMENSIONS:
        raise _no_noisy_sum(
            f"{values.size} numbers, of which at least {_LEAST_DIMENSIONS} are needed"
        )
    exact = _sum_of(canaries, included)
    residuals = values - exact
    d, moved = values.size, _longest(canaries)
    spread = float(np.sqrt(np.mean(residuals**2)))
    if spread > _ROUNDING * moved:
        # What is left of the rows: clipping or scaling, or a mechanism of another kind.
        if abs(residuals @ exact) > _SURELY * spread * float(np.linalg.norm(exact)):
            raise _no_noisy_sum("an output that is another multiple of it")
        if not looks_normal(residuals):
            raise _no_noisy_sum("noise that is not normal")
    sigma = max(spread, _ROUNDING * moved) * math.sqrt(d / float(chi2.ppf(level, d)))
    return OneRunBound(
        epsilon_lower_bound=gaussian_epsilon(moved / sigma, delta),
        is_confidence_bound=True,
        assumptions=list(ASSUMPTIONS["residual"]),
        confidence=1.0 - level,
        delta=delta,
        method="residual",
        selection="none",
        n_canaries=canaries.n_canaries,
        n_guesses=0,
        n_correct=0,
    )


def _sum_of(canaries: Canaries, included: BoolArray) -> FloatArray:
    """Return the exact sum of the rows that were in, in double precision."""
    total = included.astype(np.float64) @ canaries.vectors
    if canaries.left_out is not None:
        total += (~included).astype(np.float64) @ canaries.left_out[0].astype(np.float64)
    if canaries.base is not None:
        total += canaries.base[0].sum(axis=0, dtype=np.float64)
    return np.asarray(total, dtype=np.float64)


def _longest(canaries: Canaries) -> float:
    """Return how far the most telling canary moves the sum."""
    moved = canaries.vectors
    if canaries.left_out is not None:
        moved = moved - canaries.left_out[0].astype(np.float64)
    return float(np.sqrt(np.einsum("ij,ij->i", moved, moved, dtype=np.float64).max()))


def _no_noisy_sum(came: str) -> InputError:
    return InputError(
        f"{setting('method')} 'residual' is for mechanisms that return the sum of the rows with normal noise, "
        f"got {came}. Use another method."
    )

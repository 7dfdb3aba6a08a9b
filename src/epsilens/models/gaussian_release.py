# SPDX-License-Identifier: Apache-2.0
"""Gaussian noise for a release, what it costs in ρ, and what ρ means as (ε, δ).

A number computed from private data is published with normal noise. How much noise is enough
follows from how far one person can move the number, its sensitivity, and from the budget ρ of
zero-concentrated differential privacy.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_positive, as_share
from epsilens.errors import InputError

__all__ = ["GaussianRelease", "epsilon_of_rho", "rho_of_epsilon"]

# Relative error of one operation or one special function in double precision, rounded up.
_ROUNDING = 8.0 * sys.float_info.epsilon


@dataclass(frozen=True)
class GaussianRelease:
    """One number, vector or matrix published with normal noise.

    Attributes
    ----------
    name : str
        What is published.
    sensitivity : float
        How far one record can move it, in Euclidean distance.
    rho : float
        The budget of zero-concentrated differential privacy spent on it.

    Raises
    ------
    InputError
        If the noise would be 0 or no number: such a release protects nobody.

    Assumptions
    -----------
    The sensitivity holds for every two data sets that differ in one record, not only for these. It and ρ
    were chosen without looking at the data.

    Examples
    --------
    >>> GaussianRelease(name="coefficients", sensitivity=2.0, rho=0.5).sigma
    2.0
    """

    name: str
    sensitivity: float
    rho: float

    def __post_init__(self) -> None:
        for name, value in (("sensitivity", self.sensitivity), ("rho", self.rho)):
            if not 0.0 < value < math.inf:
                raise InputError(f"`{name}` must be finite and greater than 0, got another number.")
        if not sys.float_info.min <= self.sigma < math.inf:
            raise InputError(
                "`sensitivity` and `rho` must give noise that double precision can hold, got noise "
                "of 0 or without end. Measure in units that keep the bounds near 1."
            )

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise: σ² = Δ²/(2ρ), P3 Q 1.7."""
        return self.sensitivity / math.sqrt(2.0 * self.rho)

    def draw(self, values: FloatArray, generator: np.random.Generator | None) -> FloatArray:
        """Return the values with noise.

        Parameters
        ----------
        values : array of any shape
        generator : numpy Generator or None
            None draws from the operating system by OpenDP's sampler, a discrete Gaussian on the
            finest grid of floating-point numbers, which a real release needs. A generator makes
            it a simulation.
        """
        if generator is not None:
            return values + self.sigma * generator.standard_normal(values.shape)
        return _draw_by_opendp(values.ravel(), self.sigma).reshape(values.shape)


def _draw_by_opendp(values: FloatArray, sigma: float) -> FloatArray:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(values)),
        dp.l2_distance(T=float),
    )
    return np.array(dp.m.make_gaussian(*space, scale=sigma)(values.tolist()), dtype=np.float64)


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Say what a budget ρ means as (ε, δ)-differential privacy.

    Noise of ρ is a Gaussian mechanism whose noise is 1/√(2ρ) sensitivities wide, and the smallest
    ε that it satisfies at a given δ is known exactly. It is smaller than the ρ + 2√(ρ ln 1/δ) that
    any mechanism of budget ρ satisfies.

    Parameters
    ----------
    rho : float in (0, inf)
    delta : float in (0, 1)

    Returns
    -------
    float
        Never smaller than the exact ε. 0 where even ε = 0 holds at this δ.

    Raises
    ------
    InputError
        If ρ is not greater than 0, or δ not between 0 and 1.

    Notes
    -----
    Balle and Wang (2018), Theorem 8, by `dp_accounting.gaussian_mechanism`. Several Gaussian
    releases with budgets that sum to ρ together have exactly the same privacy curve.

    Examples
    --------
    >>> round(epsilon_of_rho(0.5, 1e-6), 3)
    4.887
    """
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    width = 1.0 / math.sqrt(2.0 * as_positive(rho, name="rho"))
    with np.errstate(divide="ignore"):  # log 0 on the way to the root
        near = float(get_epsilon_gaussian(width, as_share(delta, name="delta")))
    epsilon, step = near, max(near * _ROUNDING, 1e-30)
    while _delta_upper_bound(epsilon, rho) > delta:
        epsilon, step = near + step, 2.0 * step
    return epsilon


def rho_of_epsilon(epsilon: float, delta: float) -> float:
    """Say which budget ρ gives (ε, δ)-differential privacy: the inverse of `epsilon_of_rho`.

    Parameters
    ----------
    epsilon : float in (0, inf)
    delta : float in (0, 1)

    Returns
    -------
    float
        Never larger than the exact ρ.

    Raises
    ------
    InputError
        If ε is not finite and greater than 0, or δ not between 0 and 1.

    Examples
    --------
    >>> round(rho_of_epsilon(1.0, 1e-6), 5)
    0.02801
    """
    from dp_accounting.gaussian_mechanism import get_sigma_gaussian

    level, share = as_positive(epsilon, name="epsilon"), as_share(delta, name="delta")
    with np.errstate(divide="ignore"):
        near = 1.0 / (2.0 * float(get_sigma_gaussian(level, share)) ** 2)
    rho, step = near, _ROUNDING
    while epsilon_of_rho(rho, share) > level:
        rho, step = near * (1.0 - step), 2.0 * step
    return rho


def _delta_upper_bound(epsilon: float, rho: float) -> float:
    """Return at least the δ at which Gaussian noise of budget ρ satisfies ε, whatever rounding does.

    With μ = √(2ρ), x = ε/μ − μ/2 and y = x + μ, δ = Φ(−x) − e^ε Φ(−y) = φ(x)·(R(x) − R(y)), where R is
    Mills' ratio. Each rounding error is bounded and added.
    """
    from scipy.special import erfcx, ndtr

    mu = math.sqrt(2.0 * rho)
    shift = _ROUNDING * (epsilon / mu + mu)
    x, y = epsilon / mu - mu / 2.0 - shift, epsilon / mu + mu / 2.0 + shift
    # φ(x)·R(z) is half of exp(−x²/2)·erfcx(z/√2).
    density, slack = 0.5 * math.exp(-x * x / 2.0), _ROUNDING * (1.0 + x * x)
    beyond_y = density * float(erfcx(y / math.sqrt(2.0))) * (1.0 - slack)
    if x < 0.0:
        return float(ndtr(-x)) * (1.0 + _ROUNDING) - beyond_y
    return density * float(erfcx(x / math.sqrt(2.0))) * (1.0 + slack) - beyond_y

# SPDX-License-Identifier: Apache-2.0
"""What Gaussian noise really promises: from noise to ε at a given δ, and back."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr

from epsilens._validate import as_between, as_finite, as_positive, as_share
from epsilens.errors import InputError

_EPSILON_RANGE = (1e-12, 1e8)


def as_gaussian_claim(epsilon: object, delta: object) -> tuple[float, float]:
    """Return a claim that Gaussian noise can keep: ε finite and above 0, δ strictly between 0 and 1.

    Examples
    --------
    >>> as_gaussian_claim(4, 1e-6)
    (4.0, 1e-06)
    """
    level = as_between(epsilon, *_EPSILON_RANGE, name="epsilon")
    share = as_finite(delta, name="delta")
    if not 0.0 < share < 1.0:
        raise InputError(
            argument="delta",
            expected="greater than 0 and below 1",
            got=f"{share!r}: Gaussian noise keeps no finite epsilon at delta 0",
            hint="Use for instance 1e-6.",
        )
    return level, share


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the δ at which Gaussian noise keeps a given ε.

    Two data sets that differ in one record move the released numbers by at most μ standard
    deviations of the noise. δ is the probability with which such a release may break ε.

    Parameters
    ----------
    mu : float in [0, inf)
        Largest shift in units of the noise's standard deviation.
    epsilon : float in [0, inf)
        The privacy level.

    Returns
    -------
    float in [0, 1]
        The exact value, not a bound.

    Notes
    -----
    δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) [1]_, Theorem 8.

    References
    ----------
    .. [1] Balle, B. and Wang, Y.-X. (2018). Improving the Gaussian mechanism for differential
       privacy: analytical calibration and optimal denoising. ICML.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 1.0), 4)
    0.1269
    """
    if mu == 0.0:
        return 0.0
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return max(0.0, -math.exp(first) * math.expm1(second - first))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the exact ε of Gaussian noise at a given δ.

    Parameters
    ----------
    mu : float in [0, inf)
        Largest shift in units of the noise's standard deviation.
    delta : float in (0, 1)
        The accepted probability of a breach.

    Returns
    -------
    float in [0, inf)
        The smallest ε that the noise keeps at this δ.

    Notes
    -----
    Solves `gaussian_delta` for ε. The common σ = √(2 ln(1.25/δ))/ε is proved for ε ≤ 1 only: at a
    nominal 16 (δ = 1e-6) it really keeps 18.3.

    Examples
    --------
    >>> noise = {nominal: printed_noise(nominal, 1e-6) for nominal in (1.0, 16.0)}
    >>> [round(gaussian_epsilon(1 / sigma, 1e-6), 3) for sigma in noise.values()]
    [0.784, 18.314]
    """
    as_share(delta, name="delta")
    if mu == 0.0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    log_delta = math.log(delta)

    def excess(epsilon: float) -> float:
        found = gaussian_delta(mu, epsilon)
        return (math.log(found) if found > 0.0 else -1e6) - log_delta

    high = 1.0 + mu * mu
    while excess(high) > 0.0:
        high *= 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-12))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the shift in noise units that exactly keeps (ε, δ): the least noise is 1/μ.

    Parameters
    ----------
    epsilon : float in [1e-12, 1e8]
        The privacy level.
    delta : float in (0, 1)
        The accepted probability of a breach.

    Returns
    -------
    float in (0, inf)
        Divide the sensitivity by it for the standard deviation of the noise.

    Examples
    --------
    >>> round(gaussian_epsilon(gaussian_mu(2.0, 1e-6), 1e-6), 6)
    2.0
    """
    as_gaussian_claim(epsilon, delta)
    high = 1.0
    while gaussian_delta(high, epsilon) < delta:
        high *= 2.0
    return float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 0.0, high, xtol=1e-13))


def printed_noise(epsilon: float, delta: float) -> float:
    """Return the textbook's noise for sensitivity 1, σ = √(2 ln(1.25/δ))/ε (P3, section 2).

    It is proved for ε ≤ 1 only and too small for large ε: see `gaussian_epsilon` for the truth.

    Parameters
    ----------
    epsilon : float in (0, inf)
        The nominal privacy level.
    delta : float in (0, 1)
        The accepted probability of a breach.

    Returns
    -------
    float
        Standard deviation of the noise.

    Examples
    --------
    >>> round(printed_noise(1.0, 1e-6), 4)
    5.2988
    """
    level = as_positive(epsilon, name="epsilon")
    return math.sqrt(2.0 * math.log(1.25 / as_share(delta, name="delta"))) / level

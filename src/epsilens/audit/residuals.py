# SPDX-License-Identifier: Apache-2.0
"""Whether noise has the standard deviation that is stated: a test on noisy sums less the exact ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from epsilens._validate import as_positive
from epsilens.audit.bound import checked_level
from epsilens.errors import InputError


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

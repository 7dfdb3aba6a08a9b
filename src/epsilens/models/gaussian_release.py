# SPDX-License-Identifier: Apache-2.0
"""Gaussian noise for a release, what it costs in ρ, and what ρ means as (ε, δ).

A number computed from private data is published with normal noise. How much noise is enough
follows from how far one person can move the number, its sensitivity, and from the budget ρ of
zero-concentrated differential privacy.
"""

from __future__ import annotations

import math
import secrets
import sys
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray, WordArray
from epsilens._validate import as_positive, as_share
from epsilens.errors import BudgetExceededError, InputError, setting

# Relative error of one operation or one special function in double precision, rounded up.
_ROUNDING = 8.0 * sys.float_info.epsilon

# How closely a root is found, before what rounds to the safe side.
_ROOT = 1e-12


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
                raise InputError(
                    argument=name, expected="finite and greater than 0", got="another number"
                )
        if not sys.float_info.min <= self.sigma < math.inf:
            raise InputError(
                f"{setting('sensitivity')} and {setting('rho')} must give noise that double "
                "precision can hold, got noise of 0 or without end. Measure in units that keep "
                "the bounds near 1."
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
    Balle and Wang (2018), Theorem 8, with the steps of `dp_accounting.gaussian_mechanism`. Several
    Gaussian releases with budgets that sum to ρ together have exactly the same privacy curve.

    Examples
    --------
    >>> round(epsilon_of_rho(0.5, 1e-6), 3)
    4.887
    """
    width = 1.0 / math.sqrt(2.0 * as_positive(rho, name="rho"))
    near = _epsilon_of_width(width, as_share(delta, name="delta"))
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
    level, share = as_positive(epsilon, name="epsilon"), as_share(delta, name="delta")
    near = 1.0 / (2.0 * _width_of_epsilon(level, share) ** 2)
    rho, step = near, _ROUNDING
    while epsilon_of_rho(rho, share) > level:
        rho, step = near * (1.0 - step), 2.0 * step
    return rho


def _log_delta(width: float, epsilon: float) -> float:
    """Return the log of the δ at which noise of so many sensitivities satisfies ε."""
    from scipy.special import log_ndtr

    middle = epsilon * width + 1.0 / (2.0 * width)
    first, second = log_ndtr(1.0 / width - middle), epsilon + log_ndtr(-middle)
    return float(first + np.log1p(-np.exp(second - first))) if second <= first else -math.inf


def _epsilon_of_width(width: float, delta: float) -> float:
    """Return the ε of noise of so many sensitivities, close to the exact one.

    `dp_accounting.gaussian_mechanism` in the same steps, without the checks of SciPy's distributions.
    """
    from scipy.optimize import brentq

    log_delta = np.log(delta)
    with np.errstate(divide="ignore"):  # log 0 on the way to the root
        if _log_delta(width, 0.0) < log_delta:
            return 0.0
        low, high = 0.0, 1.0
        while _log_delta(width, high) > log_delta:
            low, high = high, high * 10.0
        return float(
            brentq(lambda level: _log_delta(width, level) - log_delta, low, high, xtol=_ROOT)
        )


def _width_of_epsilon(epsilon: float, delta: float) -> float:
    """Return how many sensitivities wide noise of ε is: the inverse of `_epsilon_of_width`."""
    from scipy.optimize import brentq

    log_delta = np.log(delta)
    with np.errstate(divide="ignore"):
        low, high = 0.1, 1.0
        while _log_delta(low, epsilon) < log_delta:
            low, high = low / 10.0, low
        while _log_delta(high, epsilon) > log_delta:
            low, high = high, high * 10.0
        return float(
            brentq(lambda width: _log_delta(width, epsilon) - log_delta, low, high, xtol=_ROOT)
        )


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


# --- What this process has spent on each record in earlier fits ---

# Sums of a few budgets are rounded by less than this share.
_SUMMATION = 1e-12


@dataclass(frozen=True)
class FitTotal:
    """The largest ρ that was spent on one of a fit's records, and over how many fits.

    Attributes
    ----------
    rho : float
    n_fits : int
    """

    rho: float
    n_fits: int


class FitLedger:
    """Accumulated ρ by record, in memory: 24 bytes a record.

    Examples
    --------
    >>> ledger = FitLedger()
    >>> records = ledger.digests(np.eye(3), np.ones(3))
    >>> ledger.enter(records, 0.5)
    FitTotal(rho=0.5, n_fits=1)
    >>> ledger.enter(records[1:], 0.5)
    FitTotal(rho=1.0, n_fits=2)
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._key = secrets.randbits(128)
        self.clear()

    def clear(self) -> None:
        """Forget all fits."""
        self._records: WordArray = np.empty(0, dtype=np.uint64)
        self._rho: FloatArray = np.empty(0)
        self._n_fits: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def digests(self, rows: FloatArray, targets: FloatArray) -> WordArray:
        """Return the sorted digests of records, each once.

        Parameters
        ----------
        rows : array of shape (n_records, n_features)
        targets : array of shape (n_records,)
        """
        keys = np.random.default_rng(self._key).integers(
            0, 2**64, size=rows.shape[1] + 1, dtype=np.uint64
        )
        total = np.zeros(len(rows), dtype=np.uint64)
        for column, key in zip((*rows.T, targets), keys, strict=True):
            # Adding 0 makes −0 and 0 one number.
            total += _mixed((column.astype(np.float64) + 0.0).view(np.uint64) ^ key)
        return np.unique(_mixed(total))

    def total(self, records: WordArray, rho: float, *, limit: float | None) -> FitTotal:
        """Return what one more fit would make of it.

        Raises
        ------
        BudgetExceededError
            If that is more than the limit.
        """
        with self._lock:
            known = np.isin(self._records, records, assume_unique=True)
            before, n_fits = self._rho[known], self._n_fits[known]
        worst = int(before.argmax()) if before.size else None
        spent = rho if worst is None else float(before[worst]) + rho
        if limit is not None and spent > limit * (1.0 + _SUMMATION):
            raise BudgetExceededError(
                f"the fits of these records must stay within {setting('max_total_rho')} = "
                f"{limit:g}, but with ρ = {rho:g} of this one they come to {spent:g}. Lower "
                f"{setting('rho')}, or raise {setting('max_total_rho')}."
            )
        return FitTotal(spent, 1 if worst is None else int(n_fits[worst]) + 1)

    def enter(self, records: WordArray, rho: float, *, limit: float | None = None) -> FitTotal:
        """Record a fit and return the new total; one thread at a time.

        Raises
        ------
        BudgetExceededError
            As `total`; nothing is recorded then.
        """
        with self._lock:
            found = self.total(records, rho, limit=limit)
            merged = np.union1d(self._records, records)
            spent, n_fits = np.zeros(len(merged)), np.zeros(len(merged), dtype=np.int64)
            old, new = np.searchsorted(merged, self._records), np.searchsorted(merged, records)
            spent[old], n_fits[old] = self._rho, self._n_fits
            spent[new] += rho
            n_fits[new] += 1
            self._records, self._rho, self._n_fits = merged, spent, n_fits
        return found


def _mixed(words: WordArray) -> WordArray:
    """Spread every bit over the whole word (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


FITS = FitLedger()
"""The ledger of this process."""

# SPDX-License-Identifier: Apache-2.0
"""The largest share of true alarms that any attacker reaches at a given share of false alarms, proven.

An attacker says of each release whether it was made with the one or the other of two answers, or records, of one
person. False alarms are releases of the second that are taken for the first; true alarms are releases of the first
that are taken for the first. The largest share of true alarms is the trade-off of the pair (Neyman and Pearson).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from epsilens._types import FloatArray
from epsilens._validate import (
    as_at_least_zero,
    as_count,
    as_epsilon,
    as_positive,
    as_share,
    as_unit,
)
from epsilens.errors import InputError
from epsilens.models.privacy_accounting import NoiseCalibration, sampled_deltas

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

CEILING_RATES = {"tpr_ceiling_at_fpr_0_01": 0.01, "tpr_ceiling_at_fpr_0_001": 0.001}
"""Field of a document, and the share of false alarms that its ceiling is for."""

_LARGEST_LOSS = 50.0
_GRID = 256
_MOST_ATOMS = 60_000
_ORDERS = np.concatenate([1.0 + np.geomspace(1e-3, 1.0, 120), np.geomspace(2.01, 2000.0, 200)])
"""Rényi orders at which zero-concentrated privacy is used. Any choice gives a valid ceiling."""


def gaussian_tpr(mu: float, fpr: float) -> float:
    """Return the largest share of true alarms against normal noise: Φ(Φ⁻¹(fpr) + μ).

    Parameters
    ----------
    mu : float in [0, inf)
        Sensitivity over the standard deviation of the noise; for several releases the root of the sum of squares.
    fpr : float in (0, 1)
        Share of false alarms.

    Returns
    -------
    float in [fpr, 1]

    Notes
    -----
    The trade-off of N(0, 1) and N(μ, 1) (Dong, Roth and Su 2022, eq. 6).

    Examples
    --------
    >>> round(gaussian_tpr(0.268, 0.01), 4), round(gaussian_tpr(0.268, 0.001), 5)
    (0.0198, 0.00238)
    """
    rate = as_share(fpr, name="fpr")
    return float(ndtr(ndtri(rate) + as_at_least_zero(mu, name="mu")))


def approximate_tpr(epsilon: float, delta: float, fpr: float, *, advantage: float = 1.0) -> float:
    """Return the largest share of true alarms against a release that is (ε, δ)-differentially private.

    Parameters
    ----------
    epsilon : float in (0, inf]
    delta : float in [0, 1]
    fpr : float in (0, 1)
        Share of false alarms.
    advantage : float in [0, 1]
        A proven advantage, where one is known: true alarms exceed false ones by no more than this.

    Returns
    -------
    float in [fpr, 1]

    Notes
    -----
    For the alarm, tpr ≤ e^ε·fpr + δ; for no alarm, 1 − fpr ≤ e^ε·(1 − tpr) + δ (Kairouz, Oh and Viswanath 2015).

    Examples
    --------
    >>> round(approximate_tpr(1.0, 0.0, 0.01), 4), round(approximate_tpr(1.0, 0.001, 0.01), 4)
    (0.0272, 0.0282)
    """
    budget, share = as_epsilon(epsilon), as_unit(delta, name="delta")
    rate, most = as_share(fpr, name="fpr"), as_unit(advantage, name="advantage")
    # Beyond 700 e^ε is no number, and the bound is 1 anyway.
    by_alarm = math.exp(min(budget, 700.0)) * rate + share
    by_silence = 1.0 - math.exp(-budget) * max(0.0, 1.0 - rate - share)
    return max(rate, min(1.0, by_alarm, by_silence, rate + most))


def randomised_response_tpr(columns: Sequence[tuple[int, float]], fpr: float) -> float:
    """Return the largest share of true alarms about the answers of one person, from their randomised answers.

    The attacker holds the randomised answers of a person and tells two sets of true answers apart. Nobody who sees less,
    such as a reader of a model of the randomised table, does better. Nothing is said about membership, which randomised
    response does not hide.

    Parameters
    ----------
    columns : sequence of (int ≥ 2, float in (0, inf])
        Number of possible answers and ε of each protected column.
    fpr : float in (0, 1)
        Share of false alarms.

    Returns
    -------
    float in [fpr, 1]

    Notes
    -----
    The ratio of the probabilities of a report under two answers is e^ε, 1 or e^−ε: the exact trade-off of one column is
    the smallest of e^ε·fpr, fpr + (e^ε − 1)/(e^ε + k − 1) and 1 − e^−ε·(1 − fpr). Two sets of answers that differ in every
    column are the easiest to tell apart; their reports are products, and the likeliest ratios raise the alarm first. For
    very many columns `approximate_tpr` at the sum of the ε is taken, which is never smaller.

    Examples
    --------
    >>> round(randomised_response_tpr([(2, 1.0)], 0.01), 4)
    0.0272
    >>> round(randomised_response_tpr([(2, 1.0), (5, 0.5)], 0.2), 4)
    0.6174
    """
    rate = as_share(fpr, name="fpr")
    if not columns:
        raise InputError(argument="columns", expected="at least one column", got="none")
    budgets = [as_epsilon(epsilon) for _, epsilon in columns]
    sizes = [as_count(k, name="columns", least=2) for k, _ in columns]
    first, second = np.ones(1), np.ones(1)
    for k, epsilon in zip(sizes, budgets, strict=True):
        keep = 1.0 / (1.0 + (k - 1) * math.exp(-epsilon))
        lie = math.exp(-epsilon) * keep
        same = (k - 2) * lie
        first, second = _merged(
            np.outer(first, [keep, same, lie]).ravel(), np.outer(second, [lie, same, keep]).ravel()
        )
        if len(first) > _MOST_ATOMS:
            return approximate_tpr(math.fsum(budgets), 0.0, rate)
    return max(rate, _neyman_pearson(first, second, rate))


def pld_tpr(distribution: PrivacyLossDistribution, fpr: float) -> float:
    """Return the largest share of true alarms against a privacy loss distribution of dp-accounting.

    Parameters
    ----------
    distribution : PrivacyLossDistribution
        Of two neighbouring tables.
    fpr : float in (0, 1)
        Share of false alarms.

    Returns
    -------
    float in [fpr, 1]
        Rounded up, as the δ of the distribution are.

    Examples
    --------
    >>> from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
    >>> round(pld_tpr(from_gaussian_mechanism(3.73), 0.01), 4)
    0.0198
    """
    return tpr_of_deltas(distribution.get_delta_for_epsilon, fpr)


def tpr_of_deltas(delta_at: Callable[[FloatArray], object], fpr: float) -> float:
    """Return the largest share of true alarms against a release that is (ε, δ(ε))-private at every ε.

    Parameters
    ----------
    delta_at : callable
        Returns upper bounds of δ at several ε ≥ 0, ascending.
    fpr : float in (0, 1)
        Share of false alarms.

    Returns
    -------
    float in [fpr, 1]

    Notes
    -----
    The smallest of `approximate_tpr` over ε: every ε gives a valid ceiling, so a grid of ε does too. It is refined once,
    around the best ε.

    Examples
    --------
    >>> round(tpr_of_deltas(lambda epsilon: np.where(epsilon < 1.0, 1.0, 0.0), 0.01), 3)
    0.027
    """
    rate = as_share(fpr, name="fpr")

    def ceilings(epsilons: FloatArray) -> FloatArray:
        deltas = np.clip(np.asarray(delta_at(epsilons), dtype=np.float64), 0.0, 1.0)
        by_alarm = np.exp(epsilons) * rate + deltas
        by_silence = 1.0 - np.exp(-epsilons) * np.maximum(0.0, 1.0 - rate - deltas)
        return np.asarray(np.minimum(by_alarm, by_silence))

    coarse = np.linspace(0.0, _LARGEST_LOSS, _GRID)
    found = ceilings(coarse)
    best = int(found.argmin())
    fine = np.linspace(coarse[max(best - 1, 0)], coarse[min(best + 1, _GRID - 1)], _GRID)
    return max(rate, min(1.0, float(found.min()), float(ceilings(fine).min())))


@lru_cache(maxsize=512)
def sampled_tpr(calibration: NoiseCalibration, fpr: float, *, is_replaced: bool) -> float:
    """Return the largest share of true alarms of any attack on a run of DP-SGD.

    Parameters
    ----------
    calibration : NoiseCalibration
    fpr : float in (0, 1)
        Share of false alarms.
    is_replaced : bool
        Whether the attack tells two records of a person apart; otherwise whether the record was there.

    Returns
    -------
    float in [fpr, 1]

    Notes
    -----
    By the composed privacy loss distribution (`tpr_of_deltas`), whose δ the accountant rounds up.

    Examples
    --------
    >>> from epsilens.models.privacy_accounting import calibrate_noise
    >>> plan = calibrate_noise(1.0, delta=1e-5, sampling_probability=0.05, n_steps=100)
    >>> [round(sampled_tpr(plan, 0.01, is_replaced=whom), 3) for whom in (False, True)]
    [0.019, 0.031]
    """
    if calibration.noise_multiplier == 0.0:
        return 1.0
    found = tpr_of_deltas(sampled_deltas(calibration, is_replaced=is_replaced), fpr)
    if is_replaced:
        return found
    return min(found, approximate_tpr(calibration.epsilon_pld, calibration.delta, fpr))


def zcdp_tpr(rho: float, fpr: float) -> float:
    """Return the largest share of true alarms against a release of which only ρ-zCDP is known.

    Parameters
    ----------
    rho : float in (0, inf)
    fpr : float in (0, 1)
        Share of false alarms.

    Returns
    -------
    float in [fpr, 1]

    Notes
    -----
    An alarm is a function of the release, so the two coins (tpr and fpr) have Rényi divergences of at most ρ·a in both
    directions, for every order a > 1. The largest tpr that all orders of a grid allow is found by bisection.

    Examples
    --------
    >>> round(zcdp_tpr(0.02, 0.01), 4), round(gaussian_tpr(0.2, 0.01), 4)
    (0.018, 0.0167)
    """
    budget, rate = as_positive(rho, name="rho"), as_share(fpr, name="fpr")

    def divergence(p: float, q: float) -> FloatArray:
        yes = _ORDERS * math.log(p) + (1.0 - _ORDERS) * math.log(q)
        no = _ORDERS * math.log1p(-p) + (1.0 - _ORDERS) * math.log1p(-q)
        return np.logaddexp(yes, no) / (_ORDERS - 1.0)

    low, high = rate, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        largest = max(
            float((divergence(middle, rate) / _ORDERS).max()),
            float((divergence(rate, middle) / _ORDERS).max()),
        )
        low, high = (middle, high) if largest <= budget else (low, middle)
    return high


def _merged(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Join reports of the same ratio, which an attacker need not tell apart."""
    possible = (first > 0.0) | (second > 0.0)
    first, second = first[possible], second[possible]
    with np.errstate(divide="ignore"):
        loss = np.round(np.log(first) - np.log(second), 9)
    _, place = np.unique(loss, return_inverse=True)
    joined = (np.bincount(place, weights) for weights in (first, second))
    one, other = (sums.astype(np.float64) for sums in joined)
    return one, other


def _neyman_pearson(first: FloatArray, second: FloatArray, fpr: float) -> float:
    """Return the power of the most powerful test of two discrete distributions, at a level.

    Examples
    --------
    >>> _neyman_pearson(np.array([0.7, 0.3]), np.array([0.3, 0.7]), 0.3)
    0.7
    """
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(second) - np.log(first), kind="stable")
    tpr = np.concatenate([[0.0], np.cumsum(first[order])])
    alarms = np.concatenate([[0.0], np.cumsum(second[order])])
    place = int(np.searchsorted(alarms, fpr, side="right"))
    if place == len(alarms):
        return 1.0
    # On the line between two thresholds the alarm is raised by a coin.
    share = (fpr - alarms[place - 1]) / (alarms[place] - alarms[place - 1])
    return min(1.0, float(tpr[place - 1] + share * (tpr[place] - tpr[place - 1])))

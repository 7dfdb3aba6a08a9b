# SPDX-License-Identifier: Apache-2.0
"""How much noise DP-SGD needs for a given ε, and which ε a given noise keeps.

Every step looks at a random part of the records and adds normal noise. What all steps together give
away is reckoned by `dp_accounting`: by privacy loss distributions (PLD), which are tight and are what is
reported, and by Rényi differential privacy (RDP), which is older and a little larger, beside it. Both
are upper bounds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import INFINITY, as_count, as_epsilon, as_share
from epsilens.errors import InputError
from epsilens.models.gaussian_release import rho_of_epsilon

LARGEST_EPSILON = 1000.0
"""Beyond, the accountants take minutes and nothing is protected: ask for `math.inf`."""

BIN_SHARE = 0.1
"""Share of ε that finds the bins of an additive model; the rest is for its trees, each with half of δ."""
SELECTION_SHARE = 0.1
"""Share of ρ for choosing what a synthetic table counts next."""
AIM_REPLACED = (1.0 - SELECTION_SHARE) * 2.0 + SELECTION_SHARE * 4.0
"""ρ of a synthetic table for a replaced record, over that for an added one."""

# Relative to the ε asked for: how far below it the accounted ε may lie.
_CLOSE_ENOUGH = 1e-3
_MOST_TRIALS = 40
_LOSS_GRID = 1e-4
_LARGEST_NOISE = 1e6


@dataclass(frozen=True)
class NoiseCalibration:
    """The noise of a run of DP-SGD and what it keeps.

    Attributes
    ----------
    noise_multiplier : float in [0, inf)
        Standard deviation of the noise on the sum of clipped gradients, in units of the clipping
        length. 0 means no noise and no privacy.
    epsilon : float in (0, inf]
        What was asked for.
    epsilon_pld : float in [0, inf]
        What is kept, by privacy loss distributions: the one that is reported. Never above `epsilon`.
    epsilon_rdp : float in [0, inf]
        The same by Rényi differential privacy. Both are upper bounds.
    delta : float in (0, 1)
    sampling_probability : float in (0, 1]
        With which each record is in a step's batch, independently of all others.
    n_steps : int
    """

    noise_multiplier: float
    epsilon: float
    epsilon_pld: float
    epsilon_rdp: float
    delta: float
    sampling_probability: float
    n_steps: int


def account(
    noise_multiplier: float, *, delta: float, sampling_probability: float, n_steps: int
) -> NoiseCalibration:
    """Say which ε a run of DP-SGD keeps.

    Parameters
    ----------
    noise_multiplier : float, at least 0
        Standard deviation of the noise over the clipping length; 0 gives ε = ∞.
    delta : float in (0, 1)
    sampling_probability : float in (0, 1]
        With which each record is in a step's batch.
    n_steps : int, at least 1

    Returns
    -------
    NoiseCalibration
        For adding or removing one record; `epsilon` is the one that is kept.

    Notes
    -----
    Assumes Poisson sampling: each record is in each batch by a coin of its own. Batches of a fixed
    size keep another ε.

    Examples
    --------
    >>> kept = account(4.0, delta=1e-5, sampling_probability=0.05, n_steps=100)
    >>> round(kept.epsilon_pld, 2), round(kept.epsilon_rdp, 2)
    (0.46, 0.51)
    """
    as_share(delta, name="delta")
    if not 0.0 < sampling_probability <= 1.0:
        raise InputError(
            argument="sampling_probability",
            expected="greater than 0 and at most 1",
            got=repr(sampling_probability),
        )
    as_count(n_steps, name="n_steps")
    if not (math.isfinite(noise_multiplier) and noise_multiplier >= 0.0):
        raise InputError(
            argument="noise_multiplier",
            expected="finite and at least 0",
            got=repr(noise_multiplier),
        )
    pld = rdp = math.inf
    if noise_multiplier > 0.0:
        rdp = _epsilon_rdp(noise_multiplier, delta, sampling_probability, n_steps)
        pld = _epsilon_pld(noise_multiplier, delta, sampling_probability, n_steps, rdp)
    return NoiseCalibration(noise_multiplier, pld, pld, rdp, delta, sampling_probability, n_steps)


@lru_cache(maxsize=256)
def attack_ceiling(calibration: NoiseCalibration) -> float:
    """Return how often the best possible attack can tell whether a record was there, at most.

    Given a record that is in the data or not with equal chance, no attack whatever on a model that
    was trained so is right more often.

    Parameters
    ----------
    calibration : NoiseCalibration

    Returns
    -------
    float in [½, 1]

    Notes
    -----
    The largest balanced accuracy between two distributions is (1 + V)/2 with their distance in
    variation V, which is δ at ε = 0; (ε, δ) alone gives (e^ε + δ)/(1 + e^ε), most often far more. The
    accountant rounds δ up, so this is a bound.

    Examples
    --------
    >>> plan = calibrate_noise(1.0, delta=1e-5, sampling_probability=0.05, n_steps=100)
    >>> round(attack_ceiling(plan), 2)
    0.55
    >>> plan = calibrate_noise(float("inf"), delta=1e-5, sampling_probability=0.05, n_steps=100)
    >>> attack_ceiling(plan)
    1.0
    """
    if calibration.noise_multiplier == 0.0:
        return 1.0
    accountant = _pld(
        calibration.noise_multiplier,
        calibration.sampling_probability,
        calibration.n_steps,
        calibration.epsilon_rdp,
    )
    with _without_talk():
        distance = float(accountant.get_delta(0.0))
    tail = math.exp(-calibration.epsilon_pld)
    by_level = (1.0 + calibration.delta * tail) / (1.0 + tail)
    return min((1.0 + min(distance, 1.0)) / 2.0, by_level, 1.0)


@lru_cache(maxsize=256)
def sampled_advantage(calibration: NoiseCalibration) -> float:
    """Return the advantage about a replaced record: the distance of what two records lead to.

    Parameters
    ----------
    calibration : NoiseCalibration

    Returns
    -------
    float in [0, 1]

    Notes
    -----
    In one step the sums with either record are (1 − q)·N(0, σ²) + q·N(u, σ²) and the same with v, of
    lengths at most 1. Opposite u and v of full length are the worst; the steps are composed by privacy
    loss distributions, whose δ at ε = 0 is the distance.

    Examples
    --------
    >>> plan = calibrate_noise(1.0, delta=1e-5, sampling_probability=0.05, n_steps=100)
    >>> round(sampled_advantage(plan), 2)
    0.18
    """
    from dp_accounting.privacy_accountant import NeighboringRelation

    if calibration.noise_multiplier == 0.0:
        return 1.0
    accountant = _pld(
        calibration.noise_multiplier,
        calibration.sampling_probability,
        calibration.n_steps,
        2.0 * calibration.epsilon_rdp,
        NeighboringRelation.REPLACE_ONE,
    )
    with _without_talk():
        return min(1.0, float(accountant.get_delta(0.0)))


def sampled_deltas(
    calibration: NoiseCalibration, *, is_replaced: bool
) -> Callable[[FloatArray], FloatArray]:
    """Return a function that gives an upper bound of the δ of a run at every ε.

    Parameters
    ----------
    calibration : NoiseCalibration
        With noise.
    is_replaced : bool
        Whether the neighbours differ by a replaced record; otherwise by an added or removed one.

    Examples
    --------
    >>> import numpy as np
    >>> plan = calibrate_noise(1.0, delta=1e-5, sampling_probability=0.05, n_steps=100)
    >>> deltas = sampled_deltas(plan, is_replaced=True)(np.array([0.0, 2.0]))
    >>> round(float(deltas[0]), 2) == round(sampled_advantage(plan), 2), bool(deltas[1] < 1e-4)
    (True, True)
    """
    from dp_accounting.privacy_accountant import NeighboringRelation

    plan = (calibration.noise_multiplier, calibration.sampling_probability, calibration.n_steps)
    accountant = (
        # The accountant doubles the sensitivity of a replaced record itself.
        _pld(*plan, 2.0 * calibration.epsilon_rdp, NeighboringRelation.REPLACE_ONE)
        if is_replaced
        else _pld(*plan, calibration.epsilon_rdp)
    )

    def deltas(epsilons: FloatArray) -> FloatArray:
        with _without_talk():
            return np.asarray(accountant.get_delta(epsilons), dtype=np.float64)

    return deltas


@lru_cache(maxsize=256)
def calibrate_noise(
    epsilon: float, *, delta: float, sampling_probability: float, n_steps: int
) -> NoiseCalibration:
    """Find the least noise with which DP-SGD keeps a given ε.

    Done once for any number of models that train alike; the answer is remembered.

    Parameters
    ----------
    epsilon : float in (0, inf]
        Infinity means no noise.
    delta : float in (0, 1)
    sampling_probability : float in (0, 1]
        With which each record is in a step's batch.
    n_steps : int, at least 1

    Returns
    -------
    NoiseCalibration
        The accounted ε lies within a thousandth below the one asked for, never above it.

    Notes
    -----
    RDP lies above PLD, so the noise that is enough by RDP starts the search from the safe side. The
    logarithm of ε is almost a straight line in the logarithm of the noise, so a few secants do.

    Examples
    --------
    >>> found = calibrate_noise(1.0, delta=1e-5, sampling_probability=0.05, n_steps=100)
    >>> found.epsilon_pld <= 1.0 < found.epsilon_rdp
    True
    >>> calibrate_noise(float("inf"), delta=1e-5, sampling_probability=0.05, n_steps=1).noise_multiplier
    0.0
    """
    kept = partial(account, delta=delta, sampling_probability=sampling_probability, n_steps=n_steps)
    without = kept(0.0)  # which checks the plan
    if math.isinf(as_epsilon(epsilon)):
        return without
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            argument="epsilon",
            expected=f"at most {LARGEST_EPSILON:g} or infinite",
            got=repr(epsilon),
            hint=f"Use {INFINITY} for no noise.",
        )
    enough = 1.0
    while _epsilon_rdp(enough, delta, sampling_probability, n_steps) > epsilon:
        enough *= 2.0
        if enough > _LARGEST_NOISE:
            raise InputError(
                argument="epsilon",
                expected="a level that noise can reach",
                got=(
                    f"{epsilon!r}, which needs more than {_LARGEST_NOISE:g} times the clipping "
                    "length"
                ),
                hint="Ask for a larger one.",
            )
    while _epsilon_rdp(enough / 1.4, delta, sampling_probability, n_steps) <= epsilon:
        enough /= 1.4
    best = kept(enough)
    while best.epsilon_pld > epsilon:  # rounding of losses, at a very small ε
        enough *= 1.1
        best = kept(enough)
    too_little, too_much_leak = 0.0, math.inf
    trial = enough / 1.3
    for _ in range(_MOST_TRIALS):
        if best.epsilon_pld >= epsilon * (1.0 - _CLOSE_ENOUGH):
            break
        result = kept(trial)
        if result.epsilon_pld <= epsilon:
            enough, best = trial, result
        else:
            too_little, too_much_leak = trial, result.epsilon_pld
        if too_little == 0.0:
            trial = enough / 1.3
            continue
        if enough - too_little < 1e-9 * enough:
            break
        trial = _between(too_little, too_much_leak, enough, best.epsilon_pld, epsilon)
    return replace(best, epsilon=epsilon)


def boosting_mus(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the μ of the counts and of the trees of a private additive model, for an added record."""
    shares = (BIN_SHARE, 1.0 - BIN_SHARE)
    rhos = (rho_of_epsilon(share * epsilon, delta / 2.0) for share in shares)
    first, second = (math.sqrt(2.0 * rho) for rho in rhos)
    return first, second


def boosting_mu(epsilon: float, delta: float, *, is_label_alone: bool) -> float:
    """Return the μ of a private additive model for a changed label, or for a replaced record.

    The proof is at `epsilens.mechanisms.dp_ebm.DPEBM`.
    """
    counts, trees = boosting_mus(epsilon, delta)
    return trees if is_label_alone else math.hypot(math.sqrt(2.0) * counts, 2.0 * trees)


@lru_cache(maxsize=64)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose zCDP gives (ε, δ), by dp-accounting.

    Examples
    --------
    >>> round(zcdp_rho(1.0, 1e-5), 4)
    0.0306
    """
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant
    from scipy.optimize import brentq

    def excess(log_rho: float) -> float:
        accountant = RdpAccountant().compose(ZCDpEvent(math.exp(log_rho)))
        return float(accountant.get_epsilon(delta)) - epsilon

    # ρ-zCDP gives less than ρ + 2√(ρ·log(1/δ)), and never less than about ρ.
    least = epsilon**2 / (4.0 * (epsilon - math.log(delta)) + 4.0 * epsilon)
    low, high = math.log(least) - 2.0, math.log(epsilon + 1.0) + 1.0
    if not excess(low) < 0.0 < excess(high):
        raise InputError(
            argument="epsilon",
            expected="a level that can be accounted for at this δ",
            got=repr(epsilon),
            hint="Use for instance 1.",
        )
    found = float(brentq(excess, low, high, xtol=1e-6))
    return math.exp(found - 2e-6)


def _between(low: float, leak_low: float, high: float, leak_high: float, epsilon: float) -> float:
    """Return the noise where the line through two points meets ε, a hair to the safe side."""
    aim = math.log(epsilon * (1.0 - 0.4 * _CLOSE_ENOUGH))
    if leak_high <= 0.0 or leak_high >= leak_low:
        return math.sqrt(low * high)
    share = (math.log(leak_low) - aim) / (math.log(leak_low) - math.log(leak_high))
    share = min(max(share, 0.02), 0.98)
    return math.exp((1.0 - share) * math.log(low) + share * math.log(high))


def _event(noise_multiplier: float, sampling_probability: float, n_steps: int) -> Any:
    import dp_accounting

    step = dp_accounting.GaussianDpEvent(noise_multiplier)
    if sampling_probability < 1.0:
        step = dp_accounting.PoissonSampledDpEvent(sampling_probability, step)
    return dp_accounting.SelfComposedDpEvent(step, n_steps)


@lru_cache(maxsize=1024)
def _epsilon_rdp(
    noise_multiplier: float, delta: float, sampling_probability: float, n_steps: int
) -> float:
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    with _without_talk():
        accountant.compose(_event(noise_multiplier, sampling_probability, n_steps))
        return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=1024)
def _epsilon_pld(
    noise_multiplier: float,
    delta: float,
    sampling_probability: float,
    n_steps: int,
    epsilon_rdp: float,
) -> float:
    accountant = _pld(noise_multiplier, sampling_probability, n_steps, epsilon_rdp)
    with _without_talk():
        return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=4)  # one takes some megabytes
def _pld(
    noise_multiplier: float,
    sampling_probability: float,
    n_steps: int,
    epsilon_rdp: float,
    neighbours: Any = None,
) -> Any:
    """Return an accountant that has seen the whole run; by default of an added or removed record."""
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.privacy_accountant import NeighboringRelation

    # Rounding is always upwards, so any grid is safe; one in proportion to the answer costs it a few
    # ten-thousandths.
    size = min(max(epsilon_rdp, 0.01), 10.0 * LARGEST_EPSILON)
    accountant = PLDAccountant(
        neighboring_relation=neighbours or NeighboringRelation.ADD_OR_REMOVE_ONE,
        value_discretization_interval=_LOSS_GRID * size,
    )
    with _without_talk():
        accountant.compose(_event(noise_multiplier, sampling_probability, n_steps))
    return accountant


@contextmanager
def _without_talk() -> Iterator[None]:
    """Keep the accountant's log quiet: orders that it cannot reckon with are left out, safely."""
    log = logging.getLogger("absl")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)

# SPDX-License-Identifier: Apache-2.0
"""Pure differential privacy: at level ε no guess is right more often than a biased coin.

Under ε-differential privacy, and with every canary put in or left out by a fair coin of its own,
the number of right guesses is at most that of a coin which shows heads with probability
e^ε/(1 + e^ε). Guesses that are better than the coin can explain refute ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, betaln, expit, gammaln, log_expit, logit, ndtr, ndtri

from epsilens._types import BoolArray, FloatArray


def pure_p_value(n_correct: ArrayLike, n_guesses: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Return how probable so many right guesses are at most, if the mechanism keeps ε.

    Parameters
    ----------
    n_correct, n_guesses : int or array of int
        Right guesses, and all guesses; abstentions do not count.
    epsilon : float or array, in [0, inf)
        The privacy level that is doubted.

    Returns
    -------
    array of float64
        Pr[Binomial(n_guesses, e^ε/(1 + e^ε)) ≥ n_correct].

    Notes
    -----
    [1]_, Theorem 5.2 with δ = 0; P3 Theorem 2.

    References
    ----------
    .. [1] Steinke, T., Nasr, M. and Jagielski, M. (2023). Privacy auditing with one (1) training
       run. NeurIPS 36. arXiv:2305.08846.

    Examples
    --------
    >>> float(pure_p_value(9, 10, 0.0).round(4))
    0.0107
    """
    right, guesses = np.asarray(n_correct), np.asarray(n_guesses)
    tail = betainc(np.maximum(right, 1), np.maximum(guesses - right + 1, 1), expit(epsilon))
    impossible = np.where(right > guesses, 0.0, tail)
    return np.asarray(np.where(right <= 0, 1.0, impossible), dtype=np.float64)


def pure_bounds(n_correct: ArrayLike, n_guesses: ArrayLike, *, level: ArrayLike) -> FloatArray:
    """Return the largest ε that so many right guesses refute (P3 Eq. 1).

    Parameters
    ----------
    n_correct, n_guesses : int or array of int
        Right guesses, and all guesses; abstentions do not count.
    level : float or array, in (0, 1)
        The accepted probability of a bound above the truth, for each pair by itself.

    Returns
    -------
    array of float64, in [0, inf)
        0 where not even ε = 0 is refuted.

    Examples
    --------
    >>> float(pure_bounds(95, 100, level=0.05).round(4))
    2.1724
    """
    right, guesses = np.asarray(n_correct), np.asarray(n_guesses)
    safe = np.maximum(right, 1)
    chance = betaincinv(safe, guesses - safe + 1, level)
    return np.asarray(np.where(right < 1, 0.0, np.maximum(logit(chance), 0.0)), dtype=np.float64)


# --- The privacy levels that are tried one after the other, from 0 upwards ---

_STEP, _RATIO, _LARGEST = 0.001, 1.0025, 30.0
_STRAIGHT = np.arange(0.0, _STEP / (_RATIO - 1.0) - _STEP / 2, _STEP)
_GROWING = np.arange(np.log(_STRAIGHT[-1] + _STEP), np.log(_LARGEST), np.log(_RATIO))

LEVELS: FloatArray = np.concatenate([_STRAIGHT, np.exp(_GROWING)])
"""Steps of 0.001 up to 0.4 and of a quarter per cent beyond."""
LEVELS.setflags(write=False)

_BATCH = 16


def last_refuted(
    p_values: Callable[[FloatArray], FloatArray],
    *,
    level: float,
    surely: BoolArray | None = None,
) -> float:
    """Return the last privacy level before the first one that is not refuted.

    Parameters
    ----------
    p_values : callable
        Given privacy levels, an upper bound for the probability of guesses this good under each.
    level : float in (0, 1)
        A privacy level is refuted when its p-value is at most this.
    surely : array of bool, one per entry of `LEVELS`, optional
        Where a cheaper and larger p-value already refutes; they are not computed again.

    Returns
    -------
    float in [0, inf)
        0 when not even perfect privacy is refuted.

    Examples
    --------
    >>> round(last_refuted(lambda epsilon: epsilon / 10, level=0.05), 2)
    0.5
    """
    start = 0 if surely is None else int(np.argmin(surely)) if not surely.all() else LEVELS.size
    for first in range(start, LEVELS.size, _BATCH):
        tried = LEVELS[first : first + _BATCH]
        kept = np.flatnonzero(p_values(tried) > level)
        if kept.size:
            return float(LEVELS[max(first + int(kept[0]) - 1, 0)])
    return float(LEVELS[-1])


# --- Approximate differential privacy: the biased coin, and a few canaries that δ may give away ---


def approximate_p_values(
    n_correct: int,
    n_guesses: int,
    epsilon: FloatArray,
    *,
    n_canaries: int,
    delta: float,
) -> FloatArray:
    """Return how probable so many right guesses are at most, if the mechanism keeps (ε, δ).

    Parameters
    ----------
    n_correct, n_guesses : int
        Right guesses, and all guesses; abstentions do not count.
    epsilon : array of float64, in [0, inf)
        The privacy levels that are doubted.
    n_canaries : int
        All canaries, those without a guess included: δ may give any of them away.
    delta : float in [0, 1)
        The δ of the claim.

    Returns
    -------
    array of float64, the shape of `epsilon`
        The p-value of each level.

    Notes
    -----
    β + 2mδ · max over 1 ≤ i ≤ W of (Pr[B ≥ W − i] − β)/i, with B ~ Binomial(r, e^ε/(1 + e^ε)) and
    β = Pr[B ≥ W] [1]_, Theorem 5.2.

    References
    ----------
    .. [1] Steinke, T., Nasr, M. and Jagielski, M. (2023). Privacy auditing with one (1) training
       run. NeurIPS 36. arXiv:2305.08846.

    Examples
    --------
    >>> approximate_p_values(95, 100, np.array([2.0]), n_canaries=1000, delta=1e-5).round(4)
    array([0.0178])
    """
    tail = pure_p_value(n_correct, n_guesses, epsilon)
    if delta == 0.0 or n_correct == 0:
        return tail
    # The largest mean of neighbouring probabilities below W lies within reach of the binomial's
    # bulk; all of it is summed, from W downwards.
    right = np.arange(n_correct - 1, -1, -1)
    log_ways = gammaln(n_guesses + 1) - gammaln(right + 1) - gammaln(n_guesses - right + 1)
    log_right, log_wrong = log_expit(epsilon)[:, None], log_expit(-epsilon)[:, None]
    mass = np.exp(log_ways + right * log_right + (n_guesses - right) * log_wrong)
    given_away = (np.cumsum(mass, axis=1) / np.arange(1, n_correct + 1)).max(axis=1)
    return np.asarray(np.minimum(tail + 2 * n_canaries * delta * given_away, 1.0))


def approximate_bound(
    n_correct: int, n_guesses: int, *, n_canaries: int, delta: float, level: float
) -> float:
    """Return the largest ε that so many right guesses refute at this δ.

    Parameters
    ----------
    n_correct, n_guesses : int
        Right guesses, and all guesses; abstentions do not count.
    n_canaries : int
        All canaries.
    delta : float in [0, 1)
        The δ of the claim.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, inf)
        The last privacy level before the first that is not refuted.

    Examples
    --------
    >>> round(approximate_bound(95, 100, n_canaries=1000, delta=1e-6, level=0.05), 3)
    2.169
    """
    if delta == 0.0:
        return float(pure_bounds(n_correct, n_guesses, level=level))
    if n_correct == 0:
        return 0.0
    # No mean of binomial probabilities exceeds the largest one, which is at most
    # 1/√(2e r q(1 − q)) and grows with ε: so this larger p-value grows too, and where it refutes
    # nothing needs to be summed.
    spread = n_guesses * expit(LEVELS) * expit(-LEVELS)
    peak = 1.0 / np.sqrt(2.0 * np.e * spread)
    larger = pure_p_value(n_correct, n_guesses, LEVELS) + 2 * n_canaries * delta * np.minimum(
        peak, 1.0
    )
    return last_refuted(
        lambda epsilon: approximate_p_values(
            n_correct, n_guesses, epsilon, n_canaries=n_canaries, delta=delta
        ),
        level=level,
        surely=larger <= level,
    )


# --- The Gaussian family: how many right guesses noise of a Gaussian shape can explain ---

_LARGEST_MU = 16.0
_POINTS = 33
_ROUNDS = 4


def f_dp_refutes(
    n_correct: int, n_guesses: int, mu: FloatArray, *, n_canaries: int, level: float
) -> BoolArray:
    """Say which Gaussian trade-offs cannot explain so many right guesses.

    Parameters
    ----------
    n_correct, n_guesses : int
        Right guesses, and all guesses, "in" and "out" together.
    mu : array of float64, in [0, inf)
        Shifts in units of the noise's standard deviation that are doubted.
    n_canaries : int
        All canaries.
    level : float in (0, 1)
        The accepted probability of a wrong refutation.

    Returns
    -------
    array of bool, the shape of `mu`
        True where μ-Gaussian differential privacy is refuted.

    Notes
    -----
    The recursion of [1]_, Algorithm 3, with f̄(x) = Φ(Φ⁻¹(x) − μ): a = αW/m, b = α(r − W)/m; for
    i = W − 1, …, 0: b' = max(b, f̄(a)), a ← min(1, a + (b' − b) i/(r − i)), b ← b'; refuted if
    a + b > r/m.

    References
    ----------
    .. [1] Mahloujifar, S., Melis, L. and Chaudhuri, K. (2024). Auditing f-differential privacy in
       one run. arXiv:2410.22235.

    Examples
    --------
    >>> f_dp_refutes(95, 100, np.array([0.5, 1.0]), n_canaries=1000, level=0.05)
    array([ True, False])
    """
    right = np.full(mu.shape, level * n_correct / n_canaries)
    wrong = np.full(mu.shape, level * (n_guesses - n_correct) / n_canaries)
    for i in range(n_correct - 1, -1, -1):
        grown = np.maximum(wrong, ndtr(ndtri(right) - mu))
        gain = grown - wrong
        if not gain.any():  # nothing can change any more
            break
        right = np.minimum(1.0, right + gain * (i / (n_guesses - i)))
        wrong = grown
    return np.asarray(right + wrong > n_guesses / n_canaries)


def f_dp_mu_bound(n_correct: int, n_guesses: int, *, n_canaries: int, level: float) -> float:
    """Return the largest shift μ of Gaussian noise that so many right guesses refute.

    Parameters
    ----------
    n_correct, n_guesses : int
        Right guesses, and all guesses, "in" and "out" together.
    n_canaries : int
        All canaries.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, 16]
        0 where not even μ = 0 is refuted. `gaussian_epsilon` turns it into ε at a δ.

    Notes
    -----
    The families are nested, so that what is refuted is an interval from 0; it is searched by
    ever finer grids, and its lower neighbour is reported.

    Examples
    --------
    >>> round(f_dp_mu_bound(95, 100, n_canaries=1000, level=0.05), 3)
    0.787
    """
    low, high = 0.0, _LARGEST_MU
    if (
        not n_correct
        or not f_dp_refutes(
            n_correct, n_guesses, np.zeros(1), n_canaries=n_canaries, level=level
        ).all()
    ):
        return 0.0
    for _ in range(_ROUNDS):
        tried = np.linspace(low, high, _POINTS)
        refuted = f_dp_refutes(n_correct, n_guesses, tried[1:], n_canaries=n_canaries, level=level)
        last = int(np.argmin(refuted)) if not refuted.all() else _POINTS - 1
        low, high = float(tried[last]), float(tried[min(last + 1, _POINTS - 1)])
    return low


# --- Independent Gaussian channels: every canary with a noise of its own, and nothing else ---

_NODES = 24
"""Places on each side of one half."""
_TAIL = 1e-13
_WIDTH = 1e-4


def independent_gdp_p_value(
    n_correct: int, n_each_side: int, mu: float, *, n_canaries: int
) -> float:
    """Return how probable so many right guesses are, if each canary has its own Gaussian noise.

    Parameters
    ----------
    n_correct : int
        Right guesses among the `n_each_side` highest scores (guessed in) and as many lowest
        (guessed out).
    n_each_side : int
        Guesses on each side.
    mu : float in [0, inf)
        How far a canary moves its score, in units of the noise's standard deviation.
    n_canaries : int
        All canaries, at least twice `n_each_side`.

    Returns
    -------
    float in [0, 1]
        The probability of as many right guesses or more; grows with μ.

    Notes
    -----
    The scores are a sample of ½N(0, 1) + ½N(μ, 1). Let u₁, u₂ be the shares of the distribution
    beyond the last guess on each side: u₁ ~ Beta(k, m − k + 1) and u₂/(1 − u₁) ~ Beta(k, m − 2k + 1).
    Given them the k − 1 guesses beyond are independent and right with probability c(u), the last
    one with c₀(u); the two sides are independent and alike by symmetry. At a large μ both fall
    steeply at u = ½, where guesses "in" meet the canaries that are out: integrated by Gauss and
    Legendre in the logits, below one half and above it. After [1]_, whose guesses are on one side.

    References
    ----------
    .. [1] Xiang, Z., Wang, T. and Wang, D. (2025). Privacy audit as bits transmission:
       (im)possibilities for audit by one run. USENIX Security.

    Examples
    --------
    >>> round(independent_gdp_p_value(170, 100, 1.0, n_canaries=1000), 4)
    0.8083
    """
    if n_correct <= 0:
        return 1.0
    k, m = n_each_side, n_canaries
    share, share_weight = _beta_nodes(k, m - k + 1, np.array([0.5]))
    share, share_weight = share[0], share_weight[0]
    rest, rest_weight = _beta_nodes(k, m - 2 * k + 1, 0.5 / (1.0 - share))
    one = _side_law(share, k, mu)
    other = _side_law(((1.0 - share)[:, None] * rest).ravel(), k, mu)
    # Pr[A + B ≥ W] = Σ_a Pr[A = a] Pr[B ≥ W − a].
    tails = np.zeros((other.shape[0], 2 * k + 2))
    tails[:, : k + 1] = np.cumsum(other[:, ::-1], axis=1)[:, ::-1]
    at_least = n_correct - np.arange(k + 1)
    needed = np.where(at_least[None, :] <= 0, 1.0, tails[:, np.clip(at_least, 0, 2 * k + 1)])
    given = np.einsum("ia,ija->ij", one, needed.reshape(*rest.shape, k + 1))
    return float(np.clip(share_weight @ (given * rest_weight).sum(axis=1), 0.0, 1.0))


def independent_gdp_mu_bound(
    n_correct: int, n_each_side: int, *, n_canaries: int, level: float
) -> float:
    """Return the largest shift μ that so many right guesses refute, for independent canaries.

    Parameters
    ----------
    n_correct : int
        Right guesses on both sides together.
    n_each_side : int
        Guesses on each side.
    n_canaries : int
        All canaries.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, 16]
        Accurate to 1e-4, rounded down; to 1e-3 where nearly all canaries are guessed and all guesses
        are right, because then the p-value hardly changes with μ any more.

    Examples
    --------
    >>> round(independent_gdp_mu_bound(170, 100, n_canaries=1000, level=0.05), 2)
    0.76
    """

    def excess(mu: float) -> float:
        found = independent_gdp_p_value(n_correct, n_each_side, mu, n_canaries=n_canaries)
        return math.log(max(found, 1e-300) / level)

    if excess(0.0) > 0.0:
        return 0.0
    high = 1.0
    while excess(high) <= 0.0:
        if high >= _LARGEST_MU:
            return _LARGEST_MU
        high *= 2.0
    # The p-value grows with μ: one root, from which the search's own error is taken off.
    return max(float(brentq(excess, 0.0, high, xtol=_WIDTH / 4)) - _WIDTH / 2, 0.0)


def _beta_nodes(a: int, b: int, steep: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return places and weights that integrate against a Beta(a, b), a row for each steep place."""
    low = float(logit(betaincinv(a, b, _TAIL)))
    high = -float(logit(betaincinv(b, a, _TAIL)))
    middle = logit(np.minimum(steep, 1.0 - 1e-9))
    middle = np.where((middle > low) & (middle < high), middle, (low + high) / 2.0)[:, None]
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    place = np.hstack(
        [low + (middle - low) * (node + 1) / 2, high - (high - middle) * (1 - node) / 2]
    )
    width = np.hstack([(middle - low) * weight, (high - middle) * weight])
    log_density = a * np.log(expit(place)) + b * np.log(expit(-place)) - betaln(a, b)
    mass = np.exp(log_density) * width
    return expit(place), mass / mass.sum(axis=1, keepdims=True)


def _side_law(share: FloatArray, k: int, mu: float) -> FloatArray:
    """Return the law of the number of right guesses on one side, a row for each share beyond."""
    threshold = _upper_quantile(share, mu)
    right = np.clip(0.5 * ndtr(mu - threshold) / share, 0.0, 1.0 - 1e-15)
    last = expit(mu * threshold - mu * mu / 2.0)
    heads = np.arange(k)
    log_ways = gammaln(k) - gammaln(heads + 1) - gammaln(k - heads)
    with np.errstate(divide="ignore"):
        log_right, log_wrong = np.log(right)[:, None], np.log1p(-right)[:, None]
    before = np.exp(log_ways + heads * log_right + (k - 1 - heads) * log_wrong)
    law = np.zeros((share.size, k + 1))
    law[:, :k] = before * (1.0 - last)[:, None]
    law[:, 1:] += before * last[:, None]
    return law


def _upper_quantile(share: FloatArray, mu: float) -> FloatArray:
    """Return the score above which this share of ½N(0, 1) + ½N(μ, 1) lies."""
    low = -ndtri(share)  # of the left component alone, which lies below the mixture's
    high = low + mu
    for _ in range(60):
        middle = (low + high) / 2.0
        above = 0.5 * (ndtr(-middle) + ndtr(mu - middle)) > share
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray((low + high) / 2.0)

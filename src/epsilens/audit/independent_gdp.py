# SPDX-License-Identifier: Apache-2.0
"""Independent Gaussian channels: every canary with a noise of its own, and nothing else.

If each canary is seen through its own Gaussian noise, independent of all others, the law of the
number of right guesses is known exactly and no allowance for worse mechanisms is made. That is the
tightest bound there is, and the easiest to misuse: a mechanism whose canaries share one leakage
level breaks it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, betaln, expit, gammaln, logit, ndtr, ndtri

from epsilens._types import FloatArray

_NODES = 24
"""Places on each side of one half."""
_TAIL = 1e-13
_LARGEST_MU = 16.0
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

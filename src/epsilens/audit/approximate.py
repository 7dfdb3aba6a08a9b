# SPDX-License-Identifier: Apache-2.0
"""Approximate differential privacy: the biased coin, and a few canaries that δ may give away."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln, log_expit

from epsilens._types import FloatArray
from epsilens.audit.lattice import LEVELS, last_refuted
from epsilens.audit.pure import pure_bounds, pure_p_value

__all__ = ["approximate_bound", "approximate_p_values"]


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

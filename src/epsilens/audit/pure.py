# SPDX-License-Identifier: Apache-2.0
"""Pure differential privacy: at level ε no guess is right more often than a biased coin.

Under ε-differential privacy, and with every canary put in or left out by a fair coin of its own,
the number of right guesses is at most that of a coin which shows heads with probability
e^ε/(1 + e^ε). Guesses that are better than the coin can explain refute ε.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, expit, logit

from epsilens._types import FloatArray

__all__ = ["pure_bounds", "pure_p_value"]


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


def pure_bounds(n_correct: ArrayLike, n_guesses: ArrayLike, *, level: float) -> FloatArray:
    """Return the largest ε that so many right guesses refute (P3 Eq. 1).

    Parameters
    ----------
    n_correct, n_guesses : int or array of int
        Right guesses, and all guesses; abstentions do not count.
    level : float in (0, 1)
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

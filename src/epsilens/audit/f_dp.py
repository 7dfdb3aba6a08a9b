# SPDX-License-Identifier: Apache-2.0
"""The Gaussian family: how many right guesses noise of a Gaussian shape can explain.

Pure and approximate bounds must allow for mechanisms that are worst for the auditor. Who knows
that a mechanism leaks as Gaussian noise does may use that, and gets a far tighter bound. It is a
statement about such mechanisms only: for randomised response it is simply false.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from epsilens._types import BoolArray, FloatArray

__all__ = ["f_dp_mu_bound", "f_dp_refutes"]

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

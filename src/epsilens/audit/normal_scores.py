# SPDX-License-Identifier: Apache-2.0
"""Scores that are normal: one run shows how far those of canaries that are in lie from the others.

A bound from right guesses knows nothing of the scores but their order. Where scores are normal, as those of
noisy sums in random directions are, the distance of the two normal laws says more.

Notes
-----
Let P and Q be the laws of a canary's score when it is in and when it is left out, all other coins being
random. If the mechanism is (ε, δ)-private for every choice of the other coins, then P(A) ≤ e^ε Q(A) + δ and
Q(A) ≤ e^ε P(A) + δ for every A: a score is made from the output, and the inequality is linear in the laws, so
that it survives mixing over the other coins and over the canaries. Hence δ is at least that of P against Q.
For P = N(a, s²) and Q = N(b, s²) this is `gaussian_delta((a − b)/s, ε)`. Nothing is assumed about the
mechanism itself. What is assumed: the scores are normal, far into the tails that δ is about; those of different
canaries are as good as independent; and the noise has one level, not one that is drawn anew for every run.
A test of skewness and kurtosis does not see such tails. Sums of several randomised answers or of several Laplace
reports look normal, keep a pure ε, and are then given a bound above it in most audits. So the number counts as
estimated, and is for mechanisms whose noise is known to be normal.

If the spreads are seen to differ (F test at 1 %), the larger is taken for both; else they are pooled. The larger
one gives a lower bound too: below the mean of P the law
with the larger spread has the larger tail, so that replacing the smaller spread moves every event
{score > t} or {score < t} towards indistinguishable in the direction that decides.

(mean in − mean out)/(s √(1/n₁ + 1/n₀)) follows the noncentral t distribution with m − 2 degrees of freedom and
noncentrality μ √(n₁n₀/m), which is inverted for a lower bound of μ.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import InputError

LEAST_CANARIES = 100
"""With fewer scores on a side nearly every shape looks normal."""
_REFUSED = 0.01
"""Level of the tests of normality and of equal spreads."""
_OTHERWISE = "Use method 'approximate'."


def normal_mu_bound(included: BoolArray, scores: FloatArray, *, level: float) -> float:
    """Return a lower bound of the distance of two normal laws, in their standard deviations.

    Parameters
    ----------
    included : array of bool, (m,)
        Which canaries were in.
    scores : array of float, (m,)
        High where the canary seems to be in.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, inf)

    Raises
    ------
    InputError
        If there are fewer than 100 scores on a side, or they are seen not to be normal.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(1000) < 0.5
    >>> round(normal_mu_bound(included, 2.0 * included + rng.normal(size=1000), level=0.05), 2)
    1.81
    """
    from scipy.stats import nct, t

    sides = scores[included], scores[~included]
    require_normal(*sides)
    n_in, n_out = (side.size for side in sides)
    spread = _spread(*sides)
    freedom, size = n_in + n_out - 2, math.sqrt(n_in * n_out / (n_in + n_out))
    found = float(sides[0].mean() - sides[1].mean()) / spread
    if t.sf(found * size, freedom) > level:
        return 0.0
    highest = found + 10.0 / size * (1.0 + found)  # beyond it as little is as good as impossible
    return float(
        brentq(lambda mu: nct.sf(found * size, freedom, mu * size) - level, 0.0, highest, xtol=1e-9)
    )


def require_normal(inside: FloatArray, outside: FloatArray) -> None:
    """Refuse scores that are seen not to be normal (D'Agostino and Pearson): up to 3 in 100 normal sets too."""
    fewest = min(inside.size, outside.size)
    if fewest < LEAST_CANARIES:
        raise InputError(
            argument="method",
            expected=f"another one than 'gaussian-scores' for fewer than {LEAST_CANARIES} canaries that are in, or "
            "that are not",
            got=f"{fewest} on one side",
            hint=f"Use more canaries. {_OTHERWISE}",
        )
    if not looks_normal(inside, outside):
        raise InputError(
            argument="method",
            expected="another one than 'gaussian-scores' for scores that are not normal",
            got="scores whose skewness, kurtosis or number of equal ones is not that of normal numbers",
            hint=_OTHERWISE,
        )


def looks_normal(*sides: FloatArray) -> bool:
    """Return whether skewness and kurtosis of all sides together may be those of normal numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> looks_normal(rng.normal(size=500)), looks_normal(rng.laplace(size=500))
    (True, False)
    """
    from scipy.stats import chi2, kurtosistest, skewtest

    total = 0.0
    for side in sides:
        # Answers and other counts are no normal numbers, however they are spread.
        if np.unique(side).size < 0.9 * side.size:
            return False
        total += float(skewtest(side).statistic) ** 2 + float(kurtosistest(side).statistic) ** 2
    return float(chi2.sf(total, 2 * len(sides))) > _REFUSED


def _spread(inside: FloatArray, outside: FloatArray) -> float:
    """Return the standard deviation of both sides; the larger one where they are seen to differ."""
    from scipy.stats import f

    one, other = float(inside.var(ddof=1)), float(outside.var(ddof=1))
    freedom = inside.size - 1, outside.size - 1
    below = float(f.cdf(one / other, *freedom))
    if 2.0 * min(below, 1.0 - below) <= _REFUSED:
        return math.sqrt(max(one, other))
    return math.sqrt((one * freedom[0] + other * freedom[1]) / sum(freedom))

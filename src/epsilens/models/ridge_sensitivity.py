# SPDX-License-Identifier: Apache-2.0
"""How far one record can move a ridge model whose coefficients lie in a ball.

The less one record can move the coefficients, the less noise hides it. The bound here holds for
every data set whose rows and targets keep to their bounds; it reads no data.
"""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

from epsilens._validate import as_between, as_choice, as_count

__all__ = [
    "ALPHA_RANGE",
    "BOUND_RANGE",
    "PENALTY_RANGE",
    "RHO_RANGE",
    "Adjacency",
    "SensitivityBound",
    "balanced_alpha",
    "ridge_sensitivity",
]

# Within these no product that is formed overflows, underflows or divides by 0.
BOUND_RANGE: Final = (1e-30, 1e30)
ALPHA_RANGE: Final = (1e-66, 1e80)
RHO_RANGE: Final = (1e-12, 1e16)
# α of a model, in squares of x_bound. From the least on, the solver keeps its allowance for a
# million records of 1,000 columns.
PENALTY_RANGE: Final = (1e-6, 1e20)

SensitivityBound: TypeAlias = Literal["tight", "paper"]
Adjacency: TypeAlias = Literal["add-remove", "replace-one"]


def ridge_sensitivity(
    *,
    x_bound: float,
    y_bound: float,
    coef_bound: float,
    alpha: float,
    bound: SensitivityBound = "tight",
    adjacency: Adjacency = "add-remove",
) -> float:
    """Bound how far adding or removing one record moves the coefficients of a ridge model.

    Parameters
    ----------
    x_bound : float in [1e-30, 1e30]
        R, the longest row.
    y_bound : float in [1e-30, 1e30]
        Y, the largest target in absolute value.
    coef_bound : float in [1e-30, 1e30]
        B, the radius of the ball that holds the coefficients.
    alpha : float in [1e-66, 1e80]
        λ, the weight of the penalty.
    bound : {"tight", "paper"}
        "tight" is attained for large α and for small α; "paper" is M R/λ of P3 Q 1.5.
    adjacency : {"add-remove", "replace-one"}
        What two neighbouring data sets are. Replacing is removing and adding.

    Returns
    -------
    float

    Notes
    -----
    No residual exceeds M = R B + Y. Then "tight" is min(Δ, 2B), or min(2Δ, 2B) for a replaced
    record, with Δ = M/(2√λ) if R² ≥ λ, and M R/(λ + R²) otherwise. Both minimisers lie in a ball of
    diameter 2B, so they are never further apart; the proof of Δ is in docs/private-ridge.md. P3's
    own bound does not know the ball: it assumes M. "paper" keeps it as printed.

    Assumptions
    -----------
    Rows and targets are clipped to their bounds and the minimum is over the ball.

    Examples
    --------
    >>> ridge_sensitivity(x_bound=1.0, y_bound=1.0, coef_bound=1.0, alpha=0.01)
    2.0
    >>> ridge_sensitivity(x_bound=1.0, y_bound=1.0, coef_bound=1.0, alpha=1.0)
    1.0
    >>> ridge_sensitivity(x_bound=1.0, y_bound=1.0, coef_bound=1.0, alpha=0.01, bound="paper")
    200.0
    """
    R = as_between(x_bound, *BOUND_RANGE, name="x_bound")
    Y = as_between(y_bound, *BOUND_RANGE, name="y_bound")
    B = as_between(coef_bound, *BOUND_RANGE, name="coef_bound")
    penalty = as_between(alpha, *ALPHA_RANGE, name="alpha")
    as_choice(bound, ("tight", "paper"), name="sensitivity")
    as_choice(adjacency, ("add-remove", "replace-one"), name="adjacency")
    M = R * B + Y
    n_changes = 2.0 if adjacency == "replace-one" else 1.0
    if bound == "paper":
        return n_changes * M * R / penalty
    return min(n_changes * _distance_without_ball(R, M, penalty), 2.0 * B)


def _distance_without_ball(R: float, M: float, penalty: float) -> float:
    """Return the Δ that the residual bound M allows, whatever the diameter of the ball is."""
    if math.sqrt(penalty) <= R:
        return M / (2.0 * math.sqrt(penalty))
    return M * R / (penalty + R * R)


def balanced_alpha(
    *, n_records: int, rho: float, x_bound: float, y_bound: float, coef_bound: float
) -> float:
    """Suggest a penalty that costs about as much as the noise it saves.

    A large penalty pulls the coefficients to 0, a small one needs more noise. This takes the
    penalty at which the sum of the two worst cases is least. It reads no data but their number.

    Parameters
    ----------
    n_records : int
        Take it as public.
    rho : float in [1e-12, 1e16]
        The budget that will be spent.
    x_bound, y_bound, coef_bound : float in [1e-30, 1e30]

    Returns
    -------
    float

    Notes
    -----
    Minimises Δ(λ)² R²/(2ρ) + λ B²/n: the first is at least what the noise adds to the mean squared
    error, the second at least what the penalty adds on the training records. Δ is taken without the
    ball's diameter 2B: where that is smaller the noise is as wide as the ball, whatever λ is.

    Examples
    --------
    >>> round(balanced_alpha(n_records=1000, rho=0.5, x_bound=1.0, y_bound=1.0, coef_bound=1.0), 2)
    19.0
    """
    n = as_count(n_records, name="n_records")
    budget = as_between(rho, *RHO_RANGE, name="rho")
    R = as_between(x_bound, *BOUND_RANGE, name="x_bound")
    Y = as_between(y_bound, *BOUND_RANGE, name="y_bound")
    B = as_between(coef_bound, *BOUND_RANGE, name="coef_bound")
    M = R * B + Y
    # One stationary point on either side of λ = R², each held to its side.
    below = min(M * R / B * math.sqrt(n / (8.0 * budget)), R * R)
    above = max(math.cbrt(M / B * R * R) ** 2 * math.cbrt(n / budget) - R * R, R * R)

    def worst(penalty: float) -> float:
        distance = _distance_without_ball(R, M, penalty)
        return distance**2 * R * R / (2.0 * budget) + penalty * B * B / n

    return min((below, above), key=worst)

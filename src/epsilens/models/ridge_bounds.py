# SPDX-License-Identifier: Apache-2.0
"""What records and coefficients of a private ridge model are held to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from epsilens._types import FloatArray
from epsilens._validate import as_between, as_choice, as_count
from epsilens.errors import InputError, setting

# --- How far one record can move a ridge model whose coefficients lie in a ball ---

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


# --- Rows and targets held within promised bounds, so that no record can do more than was promised ---


def row_norms(X: FloatArray) -> FloatArray:
    """Return the length of every row, also where its square would overflow.

    Examples
    --------
    >>> row_norms(np.array([[3e200, 4e200], [0.0, 0.0]]))
    array([5.e+200, 0.e+000])
    """
    largest = np.abs(X).max(axis=1)
    scale = np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore"):
        lengths: FloatArray = scale * np.linalg.norm(X / scale[:, None], axis=1)
    return lengths


def clip_rows(X: FloatArray, bound: float) -> FloatArray:
    """Shrink the rows that are longer than `bound` onto it; their direction stays.

    Examples
    --------
    >>> clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    # A row may be too long for its length to be a number: divide by its largest entry first.
    largest = np.abs(X).max(axis=1, keepdims=True)
    scaled = X / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    # Rounding must not leave a clipped row outside.
    inside = bound * (1.0 - (X.shape[1] + 8) * np.finfo(np.float64).eps)
    with np.errstate(over="ignore"):
        outside = lengths * largest > bound
    clipped: FloatArray = np.where(outside, scaled * (inside / np.maximum(lengths, 1.0)), X)
    return clipped


# --- What records and coefficients of a private ridge model are held to ---

# Rounding must not clip the longest row.
_ROOM = 1e-12


class _BoundedRows:
    """Rows of features, with the constant of the intercept beside them, within a length."""

    x_bound: float
    constant: float

    @property
    def feature_bound(self) -> float:
        """√(R² − c²): the longest row of features."""
        ratio = self.constant / self.x_bound
        return self.x_bound * math.sqrt((1.0 - ratio) * (1.0 + ratio))

    def rows(self, X: FloatArray) -> FloatArray:
        """Return clipped features, with the constant column if there is an intercept."""
        clipped = clip_rows(X, self.feature_bound)
        if not self.constant:
            return clipped
        return np.column_stack([clipped, np.full(len(X), self.constant)])


@dataclass(frozen=True)
class RowBounds(_BoundedRows):
    """What every row of a private classifier is held to.

    Attributes
    ----------
    x_bound : float
        C, the longest row, the constant of the intercept included.
    constant : float
        c, the value of the intercept's column; 0 without an intercept.

    Examples
    --------
    >>> RowBounds(x_bound=5.0, constant=3.0).feature_bound
    4.0
    """

    x_bound: float
    constant: float


@dataclass(frozen=True)
class RidgeBounds(_BoundedRows):
    """What every record, and the coefficients, are held to.

    Attributes
    ----------
    x_bound : float
        R, the longest row, the constant of the intercept included.
    y_bound : float
        Y, the largest target in absolute value.
    coef_bound : float
        B, the radius of the ball of coefficients.
    constant : float
        c, the value of the intercept's column; 0 without an intercept.

    Examples
    --------
    >>> bounds = RidgeBounds(x_bound=5.0, y_bound=1.0, coef_bound=1.0, constant=3.0)
    >>> bounds.feature_bound
    4.0
    >>> bounds.rows(np.array([[0.0, 2.0]])).tolist()
    [[0.0, 2.0, 3.0]]
    """

    x_bound: float
    y_bound: float
    coef_bound: float
    constant: float

    def targets(self, y: FloatArray) -> FloatArray:
        """Return clipped targets."""
        clipped: FloatArray = np.clip(y, -self.y_bound, self.y_bound)
        return clipped


@dataclass(frozen=True)
class ClippedShare:
    """How many records the bounds have changed. Not private.

    Attributes
    ----------
    rows : float in [0, 1]
        Share of the rows of features that were shrunk.
    targets : float in [0, 1]
        Share of the targets that were cut.

    Examples
    --------
    >>> ClippedShare(rows=0.01, targets=0.0).rows
    0.01
    """

    rows: float
    targets: float


def bounds_of(
    rows: FloatArray,
    targets: FloatArray,
    *,
    penalty: float,
    known: dict[str, float],
    constant: float | None,
) -> dict[str, float]:
    """Fill in the bounds that are not known with ones that nothing exceeds. This leaks.

    Parameters
    ----------
    rows : array of shape (n, p)
    targets : array of shape (n,)
    penalty : float
        Penalty of the ridge model whose coefficients are measured.
    known : mapping of name to float
        What the user gave.
    constant : float or None
        The value of the intercept's column; 0 without one, None for half of `x_bound`.

    Returns
    -------
    dict
        `x_bound`, `y_bound` and `coef_bound`; 1 where everything is 0.

    Raises
    ------
    InputError
        If they are too large or too small to compute with.

    Examples
    --------
    >>> bounds_of(np.array([[3.0, 4.0]]), np.array([-2.0]), penalty=1.0, known={"coef_bound": 1.0},
    ...           constant=0.0)
    {'x_bound': 5.0, 'y_bound': 2.0, 'coef_bound': 1.0}
    """
    longest = float(row_norms(rows).max()) or 1.0
    if constant is None:
        longest *= 2.0 / math.sqrt(3.0) * (1.0 + _ROOM)
    elif constant:
        longest = math.hypot(longest, constant) * (1.0 + _ROOM)
    found = {"x_bound": longest, "y_bound": float(np.abs(targets).max()) or 1.0} | known
    # The message names no number: it would be one of the data.
    refusal = InputError(
        f"bounds read off the data must lie between {BOUND_RANGE[0]:g} and {BOUND_RANGE[1]:g} and "
        f"suit {setting('alpha')}, got others. Measure in other units, or give the bounds."
    )
    least, most = BOUND_RANGE
    if not all(least <= value <= most for value in found.values()):
        raise refusal
    if not PENALTY_RANGE[0] <= penalty / found["x_bound"] ** 2 <= PENALTY_RANGE[1]:
        raise refusal
    if "coef_bound" not in found:
        column = found["x_bound"] / 2.0 if constant is None else constant
        bounds = RidgeBounds(**found, coef_bound=math.inf, constant=column)
        design = bounds.rows(rows)
        theta = np.linalg.solve(
            design.T @ design + penalty * np.eye(design.shape[1]),
            design.T @ bounds.targets(targets),
        )
        found["coef_bound"] = float(np.linalg.norm(theta)) or 1.0
        if not least <= found["coef_bound"] <= most:
            raise refusal
    return found

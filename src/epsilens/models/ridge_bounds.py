# SPDX-License-Identifier: Apache-2.0
"""What records and coefficients of a private ridge model are held to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from epsilens._types import FloatArray
from epsilens.errors import InputError
from epsilens.models.ridge_sensitivity import BOUND_RANGE, PENALTY_RANGE
from epsilens.models.row_clipping import clip_rows, row_norms

__all__ = ["ClippedShare", "RidgeBounds", "bounds_of"]


# Rounding must not clip the longest row.
_ROOM = 1e-12


@dataclass(frozen=True)
class RidgeBounds:
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
        Of the ridge model whose coefficients are measured.
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
        "suit `alpha`, got others. Measure in other units, or give the bounds."
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

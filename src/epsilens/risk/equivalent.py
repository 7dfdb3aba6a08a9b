# SPDX-License-Identifier: Apache-2.0
"""Equivalent ε: the budget at which another table exposes its most exposed record as much (P5 IV-B).

A table from which identifying features were removed may be trained at a larger ε and leak no more. The attack
says how much larger; its noise says how sure that is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilens.document import EquivalentEpsilon
from epsilens.errors import InputError
from epsilens.risk.result import RiskCurve

__all__ = ["equivalent_epsilon"]

FloatArray = NDArray[np.float64]


def equivalent_epsilon(curve: RiskCurve, other: RiskCurve) -> list[EquivalentEpsilon]:
    """Return, for every ε of one table, the ε of another with the same attack success.

    Success is ASR^M, on the most exposed record. The curve of the other table is made monotone, for more
    ε cannot protect more, and read backwards between its points. The interval holds every ε of
    the other grid at which the two maxima may be equal, as far as their bounds can tell.

    Parameters
    ----------
    curve, other : RiskCurve
        Of the two tables, attacked by as many models, on as many records: a maximum over more records
        is larger by chance.

    Returns
    -------
    list of EquivalentEpsilon
        One per ε of the first curve. `equivalent` is None outside the other grid; `low` and `high`
        are None where the bounds rule the whole grid out.

    Raises
    ------
    InputError
        If the mechanisms differ, whose ε are of different things, or an ε stands for several columns.

    Notes
    -----
    P5 calls ε on D and ε' on D' approximately equivalent if ASR^M agrees. Its printed curves have no error:
    at its operating point, 0.54, a useless attack lands as well.
    """
    mechanisms = {cell.mechanism for part in (curve, other) for cell in part.document.cells}
    if len(mechanisms) != 1:
        raise InputError(
            "the two curves must be of one mechanism: the ε of randomised response and that of "
            "DP-SGD are of different things. Compare like with like."
        )
    own, grid = _grid(curve), _grid(other)
    rates = np.array([attack.asr_max for attack in other.attacks])
    rising = _monotone(rates)
    result = []
    for epsilon, attack in zip(own, curve.attacks, strict=True):
        low, high = attack.asr_max_lower_bound, attack.asr_max_upper_bound
        possible = [
            at
            for at, there in zip(grid, other.attacks, strict=True)
            if there.asr_max_lower_bound <= high and there.asr_max_upper_bound >= low
        ]
        result.append(
            EquivalentEpsilon(
                epsilon=epsilon,
                equivalent=_read_backwards(grid, rising, attack.asr_max),
                low=min(possible, default=None),
                high=max(possible, default=None),
            )
        )
    return result


def _grid(curve: RiskCurve) -> list[float]:
    grid = [cell.epsilon for cell in curve.document.cells]
    if None in grid:
        raise InputError(
            "equivalent ε needs one ε for all protected columns, got one per column. Ask for a grid."
        )
    return [float(at) for at in grid if at is not None]


def _monotone(rates: FloatArray) -> FloatArray:
    """Return the nearest curve that does not fall."""
    from sklearn.isotonic import isotonic_regression

    return np.asarray(isotonic_regression(rates), dtype=np.float64)


def _read_backwards(grid: list[float], rising: FloatArray, rate: float) -> float | None:
    """Return where a rising curve reaches a rate, between points on a logarithmic axis."""
    if not rising[0] <= rate <= rising[-1]:
        return None
    after = int(np.searchsorted(rising, rate))
    if rising[after] == rate:
        # On a level stretch any ε will do: the largest is what the question is after.
        return grid[int(np.searchsorted(rising, rate, side="right")) - 1]
    before, at = grid[after - 1], grid[after]
    if np.isinf(at):
        return before
    share = (rate - rising[after - 1]) / (rising[after] - rising[after - 1])
    return float(before * (at / before) ** share)

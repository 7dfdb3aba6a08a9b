# SPDX-License-Identifier: Apache-2.0
"""Equivalent ε: the budget at which another table exposes its most exposed record as much (P5 IV-B).

A table from which identifying features were removed may be trained at a larger ε and leak no more. The attack
says how much larger; its noise says how sure that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import logit, ndtri

from epsilens._types import FloatArray
from epsilens.document import EquivalentEpsilon
from epsilens.errors import InputError
from epsilens.risk.membership_attack import OFFLINE_THRESHOLD, MembershipAttack, drawn_again
from epsilens.risk.result import RiskCurve

Measure: TypeAlias = Literal["asr_max", "balanced_accuracy"]
Gain: TypeAlias = Literal["larger", "smaller", "within the noise"]
_RESAMPLES = 400


def equivalent_epsilon(
    curve: RiskCurve, other: RiskCurve, *, measure: Measure = "asr_max"
) -> list[EquivalentEpsilon]:
    """Return, for every ε of one table, the ε of another with the same attack success.

    The curve of the other table is made monotone, for more ε cannot protect more, and read backwards between
    its points.

    Parameters
    ----------
    curve, other : RiskCurve
        Curves of the two tables, attacked by as many models, on as many records: a maximum over more records
        is larger by chance.
    measure : {"asr_max", "balanced_accuracy"}
        What success is: ASR^M, on the most exposed record, or balanced accuracy, on the mean record;
        see `equivalent_budgets`.

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

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from epsilens.risk import AttackStudy
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.normal(size=300), "gait": rng.normal(size=300)})
    >>> y = pd.Series(rng.random(300) < 0.5, name="smokes").astype("category")
    >>> def attacked(columns):
    ...     parts = X[columns][:200], y[:200], X[columns][200:], y[200:]
    ...     study = AttackStudy(LogisticRegression()).fit(*parts)
    ...     return study.estimate(epsilon=[0.5, 4.0], shadow_models=64, random_state=0)
    >>> found = equivalent_epsilon(attacked(["age", "gait"]), attacked(["age"]))
    >>> [cell.epsilon for cell in found]
    [0.5, 4.0]
    """
    mechanisms = {cell.mechanism for part in (curve, other) for cell in part.document.cells}
    if len(mechanisms) != 1:
        raise InputError(
            "the two curves must be of one mechanism: the ε of randomised response and that of "
            "DP-SGD are of different things. Compare like with like."
        )
    return equivalent_budgets(
        _grid(curve), curve.attacks, _grid(other), other.attacks, measure=measure
    )


def equivalent_budgets(
    own: Sequence[float],
    attacks: Sequence[MembershipAttack],
    grid: Sequence[float],
    others: Sequence[MembershipAttack],
    *,
    measure: Measure = "asr_max",
) -> list[EquivalentEpsilon]:
    """Return, for every ε of some attacks, the ε of others with the same success.

    Parameters
    ----------
    own, grid : sequence of float
        The ε of both, ascending.
    attacks, others : sequence of MembershipAttack
        One for each ε.
    measure : {"asr_max", "balanced_accuracy"}
        The first is success on the most exposed record; its interval holds every ε of the other
        grid at which the two maxima may be equal, as far as their bounds can tell. The second is the
        mean over the records of the balanced accuracy at a threshold fixed beforehand; its interval
        comes from drawing the models again, the same ones on both sides, and ends at the ends of the
        grid.

    Returns
    -------
    list of EquivalentEpsilon
    """
    if measure == "balanced_accuracy":
        return _by_balanced_accuracy(own, attacks, list(grid), others)
    rising = _monotone(np.array([attack.asr_max for attack in others]))
    result = []
    for epsilon, attack in zip(own, attacks, strict=True):
        low, high = attack.asr_max_lower_bound, attack.asr_max_upper_bound
        possible = [
            at
            for at, there in zip(grid, others, strict=True)
            if there.asr_max_lower_bound <= high and there.asr_max_upper_bound >= low
        ]
        result.append(
            EquivalentEpsilon(
                epsilon=epsilon,
                equivalent=_read_backwards(list(grid), rising, attack.asr_max),
                low=min(possible, default=None),
                high=max(possible, default=None),
            )
        )
    return result


def budget_gains(
    attacks: Sequence[MembershipAttack],
    others: Sequence[MembershipAttack],
    *,
    measure: Measure = "asr_max",
) -> list[Gain]:
    """Say, for every ε, whether another table is clearly less exposed at the same ε.

    Where it is, its ε may be larger; how much larger is for `equivalent_budgets` to say, as far as the
    grid goes. A single ε can be judged, and so can the ends of a grid.

    Parameters
    ----------
    attacks, others : sequence of MembershipAttack
        On both tables, one for each ε, of the same ε at the same place.
    measure : {"asr_max", "balanced_accuracy"}
        The first is judged by its bounds, which must be apart. The second by its difference, model
        by model, over the standard error of that; the same random halves on both sides.

    Returns
    -------
    list of {"larger", "smaller", "within the noise"}
        Comparison of the ε that the other table may have, for every ε.
    """
    if measure == "asr_max":
        return [
            _word(
                is_less=there.asr_max_upper_bound < here.asr_max_lower_bound,
                is_more=there.asr_max_lower_bound > here.asr_max_upper_bound,
            )
            for here, there in zip(attacks, others, strict=True)
        ]
    own, other = _like_models(attacks, others)
    difference = other - own
    mean = difference.mean(axis=1)
    error = difference.std(axis=1, ddof=1) / np.sqrt(difference.shape[1])
    reach = -ndtri((1.0 - attacks[0].confidence) / 2.0) * error
    return [
        _word(is_less=bool(a < -b), is_more=bool(a > b)) for a, b in zip(mean, reach, strict=True)
    ]


def _word(*, is_less: bool, is_more: bool) -> Gain:
    return "larger" if is_less else "smaller" if is_more else "within the noise"


def model_accuracies(attacks: Sequence[MembershipAttack]) -> FloatArray:
    """Return the balanced accuracy of the attack on every model, over its records: (attacks, models).

    Parameters
    ----------
    attacks : sequence of MembershipAttack
        Attacks on the same number of models each.
    """
    found = []
    for attack in attacks:
        held_out = attack.held_out
        cut = logit(0.5) if attack.online else ndtri(OFFLINE_THRESHOLD)
        said, members = held_out.statistic > cut, held_out.membership
        judged = np.empty(said.shape, dtype=bool)
        judged[0::2], judged[1::2] = held_out.judged
        rates = []
        for side in (members, ~members):
            pairs = side & judged
            right = (said == members) & pairs
            rates.append(right.sum(axis=1) / np.maximum(pairs.sum(axis=1), 1))
        found.append((rates[0] + rates[1]) / 2.0)
    return np.stack(found)


def _by_balanced_accuracy(
    own: Sequence[float],
    attacks: Sequence[MembershipAttack],
    grid: list[float],
    others: Sequence[MembershipAttack],
) -> list[EquivalentEpsilon]:
    here, there = _like_models(attacks, others)
    weights = drawn_again(here.shape[1], _RESAMPLES, seed=0) / here.shape[1]
    mine = here.mean(axis=1)
    rising = _monotone(there.mean(axis=1))
    mine_again = weights @ here.T
    rising_again = np.array([_monotone(rates) for rates in weights @ there.T])
    tail = (1.0 - attacks[0].confidence) / 2.0
    result = []
    for e, epsilon in enumerate(own):
        places = [
            _clipped(grid, rates, rate)
            for rates, rate in zip(rising_again, mine_again[:, e], strict=True)
        ]
        # Inverted: an end of the grid may be infinite, and no mean of two is wanted.
        low, high = np.quantile(places, [tail, 1.0 - tail], method="inverted_cdf")
        result.append(
            EquivalentEpsilon(
                epsilon=epsilon,
                equivalent=_read_backwards(grid, rising, float(mine[e])),
                low=float(low),
                high=float(high),
            )
        )
    return result


def _like_models(
    attacks: Sequence[MembershipAttack], others: Sequence[MembershipAttack]
) -> tuple[FloatArray, FloatArray]:
    """Return the accuracies on every model of both tables, which must be as many."""
    here, there = model_accuracies(attacks), model_accuracies(others)
    if here.shape[1] != there.shape[1]:
        raise InputError(
            f"the two tables must be attacked by as many models, got {here.shape[1]} and "
            f"{there.shape[1]}."
        )
    return here, there


def _clipped(grid: list[float], rising: FloatArray, rate: float) -> float:
    found = _read_backwards(grid, rising, rate)
    if found is not None:
        return found
    return grid[0] if rate < rising[0] else grid[-1]


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

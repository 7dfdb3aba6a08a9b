# SPDX-License-Identifier: Apache-2.0
"""The mask: as much of what serves the task as fits into what may still identify (P5 IV-C).

A knapsack, searched in whole numbers. Where that takes too long HiGHS solves it, to about a millionth, and
exact arithmetic checks its limit, for a solver in floating point may exceed that by its tolerance.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import lcm
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import as_positive, as_unit
from epsilens.errors import InputError, InputTypeError, setting

Solver = Literal["exact", "near-exact", "greedy"]

ALPHAS = tuple(k / 10 for k in range(11))
"""The levels of a curve unless others are asked for."""
SECONDS = 60.0
"""What HiGHS may take before the best mask found so far is used."""
ROUNDING = Fraction(1, 10**12)
"""Importances are rounded themselves: the limit may be passed by this share of their sum."""
# HiGHS stops at an absolute gap of 1e-6 and accepts rows that are off by as much. Sums of a million make
# that the twelfth digit.
_SUM = 1e6
_TRIES = 4
_NODES = 20_000
"""What the search in whole numbers may look at, before HiGHS and once more after it."""


@dataclass(frozen=True, eq=False)
class MaskChoice:
    """Which features are kept, and what is kept with them.

    Attributes
    ----------
    kept : array of bool, (n_features,)
        True where a feature is kept.
    alpha : float in [0, 1]
        The share of the identifying importance that had to go.
    utility_kept, privacy_kept : float in [0, 1]
        The share of the summed utility and identity importance that is kept; 1 and 0 where the sum
        is 0.
    utility_bound : float in [0, 1]
        What no mask within the limit can exceed, by the fractional knapsack.
    solver : {"exact", "near-exact", "greedy"}
        "exact" where a search in whole numbers proved that no mask keeps more; "near-exact" where
        that took too long and HiGHS found the optimum to its tolerance, one in a million of the summed
        utility; "greedy" where it ran out of time, and the better of its best mask and of the
        greedy one is used.

    Examples
    --------
    >>> solve_mask([3, 2, 0], [0, 1, 4], alpha=0.5)
    MaskChoice(2 of 3 features kept, utility 100.0 %, identity 20.0 %, exact)
    """

    kept: BoolArray
    alpha: float
    utility_kept: float
    privacy_kept: float
    utility_bound: float
    solver: Solver

    @property
    def n_masked(self) -> int:
        """How many features are masked."""
        return int((~self.kept).sum())

    def __repr__(self) -> str:
        return (
            f"MaskChoice({int(self.kept.sum())} of {self.kept.size} features kept, utility "
            f"{self.utility_kept:.1%}, identity {self.privacy_kept:.1%}, {self.solver})".replace(
                "%", " %"
            )
        )


def choose_mask(utility: ArrayLike, privacy: ArrayLike, *, alpha: float) -> BoolArray:
    """Choose the features to keep: as useful as can be, and at most 1 − α as identifying as all.

    Every feature has an importance for the task and one for recognising people. Of all ways to keep
    some features that leave at most the share 1 − α of the second sum, this is one that keeps most of
    the first; among very many features of nearly one price, to one in a million of it
    (`solve_mask` says which).

    Parameters
    ----------
    utility, privacy : array of float, (n_features,)
        Importance for the task and for the identity. Negative ones count as 0, as in P5.
    alpha : float in [0, 1]
        The share of the identifying importance that must go. At 1 only features that do not identify
        at all are kept.

    Returns
    -------
    array of bool, (n_features,)
        True = kept. Features that do not identify are always kept; those that identify and do not
        serve the task never are.

    Raises
    ------
    InputError
        If the importances are not finite or not of one length, or α is out of range.

    Notes
    -----
    maximise mᵀu subject to mᵀs ≤ (1 − α) Σ s_j (P5 IV-C, whose strict "<" has no answer at α = 1 or
    s = 0). α is read as the decimal that it prints as. The limit is checked in rational arithmetic,
    with 10⁻¹² of the sum allowed for the rounding of the importances.

    References
    ----------
    P5: Y. Gu, K. Chen, "Calibrating Practical Privacy Risks for Differentially Private Machine
    Learning".

    Examples
    --------
    >>> choose_mask([5, 4, 3, 0], [0, 4, 1, 5], alpha=0.5)
    array([ True,  True,  True, False])
    >>> choose_mask([5, 4, 3, 0], [0, 4, 1, 5], alpha=0.6)
    array([ True,  True, False, False])
    """
    return solve_mask(utility, privacy, alpha=alpha).kept


def solve_mask(
    utility: ArrayLike,
    privacy: ArrayLike,
    *,
    alpha: float,
    keep: ArrayLike | None = None,
    seconds: float = SECONDS,
) -> MaskChoice:
    """Choose the features to keep and say what is kept with them; see `choose_mask`.

    Parameters
    ----------
    utility, privacy : array of float, (n_features,)
    alpha : float in [0, 1]
    keep : array of bool, (n_features,), optional
        True for features that are never masked. They count: where they alone identify more than the
        limit, it cannot be met, and only what does not identify is kept with them.
    seconds : float
        What HiGHS may take; then the best mask found so far is used, and called "greedy".

    Returns
    -------
    MaskChoice

    Examples
    --------
    >>> choice = solve_mask([5, 4, 3, 0], [0, 4, 1, 5], alpha=0.6)
    >>> round(choice.utility_kept, 2), round(choice.utility_bound, 2), choice.solver
    (0.75, 0.92, 'exact')
    """
    u, s = importance_vector(utility, name="utility"), importance_vector(privacy, name="privacy")
    if len(u) != len(s):
        raise InputError(
            f"`utility` and {setting('privacy')} must have one number for every feature, got "
            f"{len(u)} and {len(s)}. Explain both tasks on the same features."
        )
    share = as_unit(alpha, name="alpha")
    held = np.zeros(len(s), dtype=bool) if keep is None else np.asarray(keep, dtype=bool)
    if held.shape != s.shape:
        raise InputError(
            argument="keep",
            expected=f"True or False for each of the {len(s)} features",
            got=f"an array of shape {held.shape}",
        )
    problem = _Problem(u, s, share, held)
    kept, solver = problem.solve(as_positive(seconds, name="seconds"))
    return MaskChoice(
        kept=kept,
        alpha=share,
        utility_kept=_share(u, kept, empty=1.0),
        privacy_kept=_share(s, kept, empty=0.0),
        utility_bound=problem.bound() / float(u.sum()) if u.any() else 1.0,
        solver=solver,
    )


def mask_curve(
    utility: ArrayLike,
    privacy: ArrayLike,
    *,
    alphas: Sequence[float] = ALPHAS,
) -> tuple[MaskChoice, ...]:
    """Choose a mask for every α: what is kept of the task as more of the identity goes.

    Parameters
    ----------
    utility, privacy : array of float, (n_features,)
    alphas : sequence of float in [0, 1]

    Returns
    -------
    tuple of MaskChoice
        One for each α, in their order.

    Examples
    --------
    >>> [choice.n_masked for choice in mask_curve([3, 2, 1], [1, 2, 3], alphas=[0.0, 0.5, 1.0])]
    [0, 1, 3]
    """
    return tuple(solve_mask(utility, privacy, alpha=alpha) for alpha in alphas)


def importance_vector(values: ArrayLike, *, name: str) -> FloatArray:
    """Return the positive parts of importances, one for each feature (P5 IV-C).

    Examples
    --------
    >>> importance_vector([0.5, -0.1], name="utility")
    array([0.5, 0. ])
    """
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            argument=name, expected="one number for every feature", got="values that are no numbers"
        ) from None
    if vector.ndim != 1 or vector.size == 0:
        raise InputError(
            argument=name,
            expected="one number for every feature",
            got=f"an array of shape {vector.shape}",
        )
    n_bad = int((~np.isfinite(vector)).sum())
    if n_bad:
        raise InputError(
            f"{setting(name)} must be finite, but {n_bad} of {vector.size} importances are not. "
            "Look for missing values in the data that were explained."
        )
    return np.maximum(vector, 0.0)


def _share(values: FloatArray, kept: BoolArray, *, empty: float) -> float:
    total = float(values.sum())
    return float(values[kept].sum()) / total if total > 0 else empty


class _Problem:
    """One knapsack: what is worth deciding about, in floats for HiGHS and as whole numbers to check."""

    def __init__(self, u: FloatArray, s: FloatArray, alpha: float, held: BoolArray) -> None:
        self.s = s
        self.always = (s == 0.0) | held
        self.open = np.flatnonzero((u > 0.0) & ~self.always)
        self.free = float(u[self.always].sum())
        self.u_open, self.s_open = u[self.open], s[self.open]
        # Exact: every float is a whole number over a power of two.
        self.weights = [Fraction(float(value)) for value in self.s_open]
        total = sum((Fraction(float(value)) for value in s), Fraction(0))
        used = sum((Fraction(float(value)) for value in s[self.always]), Fraction(0))
        self.capacity = (1 - Fraction(repr(alpha))) * total - used
        self.allowed = self.capacity + ROUNDING * total

    def fits(self, chosen: BoolArray) -> bool:
        """Say whether a choice of the open features keeps the limit, exactly."""
        weight = sum(
            (w for w, is_in in zip(self.weights, chosen, strict=True) if is_in), Fraction(0)
        )
        return weight <= self.allowed

    def bound(self) -> float:
        """Return the utility that no mask can exceed: the last feature may be kept in part."""
        order = self._by_worth()
        left, total = float(self.allowed), self.free
        for j in order:
            if self.s_open[j] >= left:
                return total + float(self.u_open[j]) * max(left, 0.0) / float(self.s_open[j])
            left -= float(self.s_open[j])
            total += float(self.u_open[j])
        return total

    def greedy(self, start: BoolArray | None = None) -> BoolArray:
        """Return a choice that takes what still fits, in order of utility for its price."""
        chosen = np.zeros(len(self.open), dtype=bool) if start is None else start.copy()
        left = self.allowed - sum(
            (w for w, is_in in zip(self.weights, chosen, strict=True) if is_in), Fraction(0)
        )
        for j in self._by_worth():
            if not chosen[j] and self.weights[j] <= left:
                chosen[j] = True
                left -= self.weights[j]
        return chosen

    def solve(self, seconds: float) -> tuple[BoolArray, Solver]:
        everything = np.ones(len(self.open), dtype=bool)
        if self.allowed < 0:
            return self._mask(~everything), "exact"
        if self.fits(everything):
            return self._mask(everything), "exact"
        best, proven = self._searched(self.greedy())
        if proven:
            return self._mask(best), "exact"
        found, status = self._highs(seconds)
        if found is not None:
            improved = self.greedy(found)
            if self.u_open[improved].sum() >= self.u_open[best].sum():
                best = improved
                best, proven = self._searched(best)
                return self._mask(best), "exact" if proven else "near-exact" if status else "greedy"
        return self._mask(best), "greedy"

    def _searched(self, start: BoolArray) -> tuple[BoolArray, bool]:
        """Return the best choice that a search finds, and whether it has looked at all of them.

        Depth first, in order of utility for its price, in whole numbers: a branch ends where even the
        fractional knapsack of what is left does not exceed the best so far.
        """
        values = _whole([Fraction(float(value)) for value in self.u_open])
        *weights, room = _whole([*self.weights, self.allowed])
        order = sorted(
            range(len(values)), key=lambda j: Fraction(values[j], weights[j]), reverse=True
        )
        values, weights = [values[j] for j in order], [weights[j] for j in order]
        gained, spent = [0, *accumulate(values)], [0, *accumulate(weights)]
        best = sum(value for value, j in zip(values, order, strict=True) if start[j])
        taken: list[int] | None = None
        # A branch: the next feature, what is gained, what is left, and which features were taken.
        branches: list[tuple[int, int, int, tuple[object, ...]]] = [(0, 0, room, ())]
        for _ in range(_NODES):
            if not branches:
                break
            at, value, left, path = branches.pop()
            stop = bisect_right(spent, spent[at] + left) - 1
            whole = value + gained[stop] - gained[at]
            if whole > best:
                best, taken = whole, [*_unrolled(path), *range(at, stop)]
            if stop == len(values):
                continue
            rest = left - (spent[stop] - spent[at])
            if whole + values[stop] * rest // weights[stop] <= best:
                continue
            branches.append((at + 1, value, left, path))
            if weights[at] <= left:
                branches.append((at + 1, value + values[at], left - weights[at], (at, path)))
        chosen = start.copy()
        if taken is not None:
            chosen[:] = False
            chosen[[order[j] for j in taken]] = True
        return chosen, not branches

    def _highs(self, seconds: float) -> tuple[BoolArray | None, bool]:
        """Return the best choice within the limit, and whether it is proven to be the best."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        value = self.u_open * (_SUM / self.u_open.sum())
        per_unit = _SUM / float(self.s.sum())
        limit = float(self.capacity) * per_unit
        for tightened in (0.0, *(10.0 ** (k - _TRIES) for k in range(_TRIES - 1))):
            with _silent_standard_output():
                answer = milp(
                    -value,
                    integrality=np.ones(len(value)),
                    bounds=Bounds(0, 1),
                    constraints=LinearConstraint(
                        (self.s_open * per_unit)[None, :], ub=limit - tightened
                    ),
                    options={"mip_rel_gap": 0.0, "time_limit": seconds},
                )
            if answer.x is None:
                return None, False
            chosen = np.asarray(answer.x) > 0.5
            if self.fits(chosen):
                return chosen, answer.status == 0 and tightened == 0.0
        return None, False

    def _by_worth(self) -> NDArray[np.intp]:
        return np.argsort(-self.u_open / self.s_open, kind="stable")

    def _mask(self, chosen: BoolArray) -> BoolArray:
        kept: BoolArray = self.always.copy()
        kept[self.open[chosen]] = True
        return kept


def _whole(numbers: Sequence[Fraction]) -> list[int]:
    """Return numbers times what makes all of them whole."""
    scale = lcm(*(number.denominator for number in numbers))
    return [number.numerator * (scale // number.denominator) for number in numbers]


def _unrolled(path: tuple[object, ...]) -> list[int]:
    found = []
    while path:
        found.append(path[0])
        path = path[1]  # type: ignore[assignment]
    return found  # type: ignore[return-value]


@contextmanager
def _silent_standard_output() -> Iterator[None]:
    """Keep what HiGHS prints by itself, past its own settings, out of a document on standard output."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # no standard output, nothing to keep clean
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(nowhere)
        os.close(kept)

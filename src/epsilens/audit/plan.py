# SPDX-License-Identifier: Apache-2.0
"""How many canaries and runs an audit needs, so that a mechanism without noise breaks its claim."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from epsilens._validate import as_count, as_positive
from epsilens.audit.bound import BoundTest, Method
from epsilens.audit.result import PURE_BOUND
from epsilens.document.wording import delta_text
from epsilens.errors import InputError

MARGIN = 0.1
"""A perfect attack must prove at least so much more than is claimed."""
_CANARIES = 1000
_MOST_RUNS = 100
_MOST_PARTS = 6
_MOST = 200_000
"""More canaries in all are not tried."""
_STEPS = tuple(sorted({round(1.2**power) for power in range(30)}))
_UNEVEN = 1e-5
"""Probability of fewer canaries that are in than are reckoned with."""
_SURE_METHODS = ("gaussian-scores", "residual")
"""Methods without a largest bound: the smaller the noise, the more they prove."""


@dataclass(frozen=True)
class Plan:
    """Numbers of canaries and runs, fixed before the audit.

    Attributes
    ----------
    n_each : int
        Canaries in each run.
    n_parts : int
        Bounds of which the smallest counts.
    runs_each : int
        Runs for each of them.
    """

    n_each: int
    n_parts: int
    runs_each: int

    @property
    def n_runs(self) -> int:
        """All runs."""
        return self.n_parts * self.runs_each


@lru_cache(maxsize=4096)
def bound_without_noise(n_canaries: int, *, delta: float, method: Method, level: float) -> float:
    """Return the bound of a perfect attack: all canaries that are in have higher scores than the others.

    Parameters
    ----------
    n_canaries : int
    delta : float in [0, 1)
    method : str
        As of `one_run_bound`.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.

    Returns
    -------
    float in [0, inf]
        What a mechanism without noise shows, with coins so uneven as in one audit of 50,000. Infinite for
        methods that make no guesses.

    Examples
    --------
    >>> round(bound_without_noise(1000, delta=1e-6, method="approximate", level=1e-4), 1)
    4.5
    >>> bound_without_noise(1000, delta=1e-5, method="approximate", level=1e-4)
    0.0
    """
    if method in _SURE_METHODS:
        return math.inf
    from scipy.stats import binom

    # As many guesses are made on either side as there are canaries: uneven coins make some of them wrong.
    included = np.arange(n_canaries) < binom.ppf(_UNEVEN, n_canaries, 0.5)
    test = BoundTest(delta, level, method)
    return test.bound(included, included.astype(np.float64)).epsilon_lower_bound


def plan_audit(
    epsilon: float,
    delta: float,
    *,
    method: Method,
    level: float,
    n_each: int | None = None,
    n_runs: int | None = None,
    most_each: int = _CANARIES,
) -> Plan:
    """Return numbers of canaries and runs with which a perfect attack breaks the claim.

    Parameters
    ----------
    epsilon : float, greater than 0
        The claim.
    delta : float in [0, 1)
        Its δ.
    method : str
        As of `one_run_bound`.
    level : float in (0, 1)
        The accepted probability of a bound above the truth.
    n_each : int, optional
        Canaries in each run; chosen if left out.
    n_runs : int, optional
        Runs; by default as few as are enough, at most 100.
    most_each : int
        The most canaries that are chosen for one run.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        If a perfect attack proves less than 0.1 above the claim, whatever is chosen.

    Notes
    -----
    All of M guesses are right with probability q^M at ε, and δ adds Mδ/(1 + e^ε). Both must stay below
    the error α of a part: M ≥ (1 + e^ε) ln(1/α) and M ≤ α(1 + e^ε)/δ, so that δ ln(1/α) < α is needed at every ε.
    Where that fails, several parts are taken, each with the error α^(1/parts). Where canaries are chosen, parts are
    added until δ leaves room for a thousand: with fewer, only mechanisms with next to no noise are found.

    Examples
    --------
    >>> plan_audit(1.0, 1e-6, method="approximate", level=1e-4)
    Plan(n_each=1000, n_parts=2, runs_each=1)
    >>> plan_audit(1.0, 1e-6, method="approximate", level=1e-4, n_runs=1).n_each
    186
    """
    as_positive(epsilon, name="epsilon")
    if n_runs is not None:
        as_count(n_runs, name="runs")
    if n_each is not None:
        as_count(n_each, name="canaries", least=2)
    if method == "pure" and delta > 0.0:
        raise InputError(PURE_BOUND.text)
    if method == "residual" and n_runs is not None and n_runs > _MOST_PARTS:
        raise InputError(
            argument="runs",
            expected=f"at most {_MOST_PARTS} for method 'residual'",
            got=str(n_runs),
            hint="One run is enough.",
        )
    found: list[Plan] = []
    best = 0.0
    for n_parts in range(1, _MOST_PARTS + 1):
        part_level = level ** (1.0 / n_parts)
        if n_parts > 1 and any(plan.n_runs <= n_parts for plan in found) and n_each is not None:
            break
        for runs_each, each in _choices(
            epsilon, delta, part_level, method, n_parts, n_each, n_runs, most_each
        ):
            reached = bound_without_noise(
                runs_each * each, delta=delta, method=method, level=part_level
            )
            best = max(best, reached)
            if reached >= epsilon + MARGIN:
                found.append(Plan(each, n_parts, runs_each))
                break
    if found and n_each is not None:
        return min(found, key=lambda plan: plan.n_runs)
    if found:
        # The first with canaries enough, or the one with the most.
        return max(found, key=lambda plan: min(plan.n_each * plan.runs_each, _CANARIES))
    raise _too_weak(epsilon, delta, level, best, n_each, n_runs)


def _choices(
    epsilon: float,
    delta: float,
    level: float,
    method: Method,
    n_parts: int,
    n_each: int | None,
    n_runs: int | None,
    most_each: int,
) -> list[tuple[int, int]]:
    """Return runs of a part, and canaries in each, in the order in which they are tried."""
    if n_runs is not None and n_runs % n_parts:
        return []
    runs = range(1, _MOST_RUNS // n_parts + 1) if n_runs is None else [n_runs // n_parts]
    if method == "residual":
        runs = [each for each in runs if each == 1]
    if not runs:
        return []
    if n_each is not None:
        # Steps of about a fifth; the first is tried whatever its size.
        steps = sorted({runs[-1], *(each for each in _STEPS if each <= runs[-1])} & set(runs))
        return [(each, n_each) for each in steps if each == runs[0] or each * n_each <= _MOST]
    odds = 1.0 + math.exp(min(epsilon, 30.0))
    enough = 1.2 * math.log(2.0 / level) * (1.0 + math.exp(min(epsilon + MARGIN, 30.0)))
    # Whoever asks for more runs has more canaries.
    usual = _CANARIES if n_runs is None else most_each * (n_runs // n_parts)
    wanted, most = max(float(usual), enough), math.inf
    if method not in ("pure", "approximate"):
        wanted = float(min(_CANARIES, most_each))
    elif delta > 0.0:
        # δ takes half of the error at most.
        most = level * odds / (2.0 * delta)
        wanted = min(wanted, most)
    tried: list[tuple[int, int]] = []
    while wanted <= most and len(tried) < 8:
        each = next((each for each in runs if wanted <= each * most_each), None)
        if each is None:
            break
        tried.append((each, max(math.ceil(wanted / each), 2)))
        wanted *= 1.2
    # Too few all the same: what they prove is stated.
    return tried or [(runs[-1], max(min(most_each, int(min(most, 1e9)) // runs[-1]), 2))]


def _too_weak(
    epsilon: float,
    delta: float,
    level: float,
    best: float,
    n_each: int | None,
    n_runs: int | None,
) -> InputError:
    at = f" at δ = {delta_text(delta)}" if delta > 0.0 else ""
    advice = []
    if n_each is not None:
        advice.append("leave out `canaries`")
    if n_runs is not None:
        advice.append("leave out `runs`")
    if n_runs is None and best > 0.0:
        advice.append(f"set `runs` above {_MOST_RUNS}")
    advice += (["use a smaller δ"] if delta > 0.0 else []) + ["use a lower confidence"]
    advice.append("use another method")
    return InputError(
        f"this audit cannot fail: with {100.0 * (1.0 - level):.10g} % confidence{at} even a mechanism without "
        f"noise proves at most ε = {best:.3g}, and a claim of {epsilon:.4g} needs {epsilon + MARGIN:.4g}. "
        f"To make an audit, {', '.join(advice[:-1])} or {advice[-1]}."
    )

# SPDX-License-Identifier: Apache-2.0
"""Many runs, one canary each: the older audit, for mechanisms that are cheap to run again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from epsilens._types import FloatArray
from epsilens._validate import as_count, as_delta
from epsilens.audit.bound import checked_level
from epsilens.audit.gaussian import gaussian_epsilon
from epsilens.errors import InputError


@dataclass(frozen=True)
class ManyRunsBound:
    """What many runs prove about a mechanism's ε.

    Attributes
    ----------
    epsilon_lower_bound : float in [0, inf)
        With the stated confidence the mechanism's ε is at least this.
    confidence : float in (0, 1)
        How often such a bound is right.
    true_positive_lower_bound, false_positive_upper_bound : float in [0, 1]
        Bounds on how often the attacker says "in" when the canary is in, and when it is not.
    assumptions : list of str
        What is taken for granted about the mechanism.
    """

    epsilon_lower_bound: float
    confidence: float
    true_positive_lower_bound: float
    false_positive_upper_bound: float
    assumptions: list[str]

    @property
    def advantage_lower_bound(self) -> float:
        """With the stated confidence the two outputs differ by at least this in total variation."""
        return max(0.0, self.true_positive_lower_bound - self.false_positive_upper_bound)


def told_apart(
    first: FloatArray, second: FloatArray, *, delta: float = 0.0, confidence: float = 0.95
) -> ManyRunsBound:
    """Prove from many runs on two tables how well what is released tells them apart.

    A straight line is laid between the outputs of the even runs, where it parts them best; the odd runs
    judge it. So the rule is fixed before the runs that count.

    Parameters
    ----------
    first, second : array of shape (n_runs, n_numbers)
        What was released in every run on either table.
    delta : float in [0, 1)
        The δ at which ε is meant.
    confidence : float in (0, 1)
        How often the bounds must be right.

    Returns
    -------
    ManyRunsBound

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(2, 8000, 1))
    >>> found = told_apart(noise[0], noise[1] + 1.0)
    >>> 0.34 < found.advantage_lower_bound < 0.383
    True
    """
    learnt = [outputs[::2] for outputs in (first, second)]
    judged = [outputs[1::2] for outputs in (first, second)]
    centred = np.concatenate([outputs - outputs.mean(axis=0) for outputs in learnt])
    spread = centred.T @ centred / len(centred)
    ridge = spread + 1e-9 * (np.trace(spread) or 1.0) * np.eye(len(spread))
    direction = np.linalg.solve(ridge, learnt[0].mean(axis=0) - learnt[1].mean(axis=0))
    inside, outside = (np.sort(outputs @ direction) for outputs in learnt)
    cuts = np.concatenate([inside, outside])
    hits = 1.0 - np.searchsorted(inside, cuts) / len(inside)
    alarms = 1.0 - np.searchsorted(outside, cuts) / len(outside)
    cut = cuts[np.argmax(hits - alarms)]
    said = [int((outputs @ direction >= cut).sum()) for outputs in judged]
    return many_runs_bound(
        said[0], len(judged[0]), said[1], len(judged[1]), delta=delta, confidence=confidence
    )


def many_runs_bound(
    n_said_in_when_in: int,
    n_runs_in: int,
    n_said_in_when_out: int,
    n_runs_out: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    gaussian: bool = False,
) -> ManyRunsBound:
    """Prove how much a mechanism leaks at least, from many runs with one canary in or out.

    An attacker whose rule was fixed before these runs says "in" or "out" after each. Under
    (ε, δ)-differential privacy nobody says "in" much more often when the canary is in.

    Parameters
    ----------
    n_said_in_when_in, n_runs_in : int
        How often the attacker said "in", of how many runs with the canary.
    n_said_in_when_out, n_runs_out : int
        The same for runs without it.
    delta : float in [0, 1)
        The δ at which ε is meant.
    confidence : float in (0, 1)
        How often the bound must be right; both rates together.
    gaussian : bool
        Whether the mechanism is known to leak as Gaussian noise does: then the two rates give μ,
        and μ gives ε at `delta`, which must be above 0.

    Returns
    -------
    ManyRunsBound
        The bound and the two rates it rests on.

    Raises
    ------
    InputError
        If more is said than there are runs, or `delta` does not fit.

    Notes
    -----
    Clopper–Pearson bounds for the two rates, each at half of the error; ε is the largest of
    ln((TPR − δ)/FPR) and ln((1 − FPR − δ)/(1 − TPR)) [1]_; Gaussian: μ = Φ⁻¹(TPR) − Φ⁻¹(FPR).

    References
    ----------
    .. [1] Kairouz, P., Oh, S. and Viswanath, P. (2015). The composition theorem for differential
       privacy. ICML.

    Examples
    --------
    >>> round(many_runs_bound(900, 1000, 100, 1000).epsilon_lower_bound, 3)
    1.99
    """
    level = checked_level(confidence) / 2.0
    for when, said, runs in (
        ("in", n_said_in_when_in, n_runs_in),
        ("out", n_said_in_when_out, n_runs_out),
    ):
        as_count(runs, name=f"n_runs_{when}")
        if as_count(said, name=f"n_said_in_when_{when}", least=0) > runs:
            raise InputError(
                f"`n_said_in_when_{when}` must be at most `n_runs_{when}`, got {said} of {runs}."
            )
    if as_delta(delta) == 0.0 and gaussian:
        raise InputError(
            argument="delta",
            expected="greater than 0 where `gaussian` is True",
            got="0: Gaussian noise keeps no finite epsilon at delta 0",
            hint="Use for instance 1e-6.",
        )
    hits = _lower(n_said_in_when_in, n_runs_in, level)
    alarms = 1.0 - _lower(n_runs_out - n_said_in_when_out, n_runs_out, level)
    if gaussian:
        mu = max(float(ndtri(hits) - ndtri(alarms)), 0.0) if hits > 0.0 and alarms < 1.0 else 0.0
        epsilon = gaussian_epsilon(mu, delta)
    else:
        epsilon = max(
            0.0, _log_ratio(hits - delta, alarms), _log_ratio(1 - alarms - delta, 1 - hits)
        )
    return ManyRunsBound(
        epsilon_lower_bound=epsilon,
        confidence=confidence,
        true_positive_lower_bound=hits,
        false_positive_upper_bound=alarms,
        assumptions=["gaussian trade-off"] if gaussian else [],
    )


def _lower(successes: int, trials: int, level: float) -> float:
    return 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, level))


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0.0 and below > 0.0 else 0.0

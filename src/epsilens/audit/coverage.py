# SPDX-License-Identifier: Apache-2.0
"""Audit of the auditor: how often a bound exceeds an ε that is known.

A 95 % bound may lie above the truth in 5 of 100 audits, no more. Here mechanisms with a known ε,
built so that nothing of it is wasted, are audited many times over and the excesses are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.special import expit

from epsilens._types import BoolArray, FloatArray, Progress
from epsilens._validate import as_choice, as_count, as_epsilon, as_generator
from epsilens.audit.bound import BoundTest, Method, Selection
from epsilens.audit.gaussian import gaussian_mu
from epsilens.audit.mechanisms import GaussianSum
from epsilens.errors import InputError

Channels: TypeAlias = Literal["randomised-response", "leaky-response", "gaussian", "gaussian-sum"]
"""Mechanisms that keep an ε with equality, one channel for each canary.

"randomised-response" reports each inclusion truly with probability e^ε/(1 + e^ε): ε, δ = 0.
"leaky-response" does the same, and with probability δ shows the truth and that it is: (ε, δ).
"gaussian" shows each inclusion through Gaussian noise of the exact μ: (ε, δ).
"gaussian-sum" shows all of them in one noisy sum, in random directions of four times as many dimensions.
"""


@dataclass(frozen=True)
class CoverageReport:
    """How often a bound exceeded the truth.

    Attributes
    ----------
    epsilon, delta : float
        What the simulated mechanism keeps, with equality.
    n_audits : int
        How many audits.
    n_above : int
        In how many the bound exceeded ε.
    allowed_rate : float
        One minus the confidence.
    mean_bound : float
        The mean of the bounds: how tight they are.
    n_refused : int
        In how many the method was refused. They have no bound, and are not among those of the rate.
    """

    epsilon: float
    delta: float
    n_audits: int
    n_above: int
    allowed_rate: float
    mean_bound: float
    n_refused: int = 0

    @property
    def n_bounds(self) -> int:
        """Number of audits that gave a bound."""
        return self.n_audits - self.n_refused

    @property
    def rate(self) -> float:
        """Share of bounds that exceeded ε."""
        return self.n_above / max(self.n_bounds, 1)

    @property
    def standard_error(self) -> float:
        """Standard error of the rate, if the true rate were the allowed one."""
        return math.sqrt(self.allowed_rate * (1.0 - self.allowed_rate) / max(self.n_bounds, 1))

    @property
    def holds(self) -> bool:
        """Whether the rate is within two standard errors of what is allowed."""
        return self.rate <= self.allowed_rate + 2.0 * self.standard_error


def simulated_scores(
    channels: Channels,
    included: BoolArray,
    *,
    epsilon: float,
    delta: float,
    generator: np.random.Generator,
) -> FloatArray:
    """Return what an attacker sees of each canary through a channel that keeps ε with equality.

    Parameters
    ----------
    channels : {"randomised-response", "leaky-response", "gaussian", "gaussian-sum"}
        The kind of mechanism.
    included : array of bool, (m,)
        Which canaries are in.
    epsilon : float in [0, inf)
        What each channel keeps.
    delta : float in [0, 1)
        The δ of it.
    generator : numpy.random.Generator
        Where the noise comes from.

    Returns
    -------
    array of float64, (m,)
        High where the canary seems to be in; equal where all that is known is equal.

    Examples
    --------
    >>> import numpy as np
    >>> simulated_scores("randomised-response", np.array([True, False]), epsilon=30.0, delta=0.0,
    ...                  generator=np.random.default_rng(0)).tolist()
    [1.0, -1.0]
    """
    sign = np.where(included, 1.0, -1.0)
    if channels == "gaussian-sum" and epsilon > 0.0:
        mechanism = GaussianSum(epsilon, delta, dimension=4 * included.size, generator=generator)
        canaries = mechanism.canaries(included.size, generator)
        return mechanism.score()(mechanism(canaries.dataset(included)), canaries)
    if channels in ("gaussian", "gaussian-sum"):
        mu = gaussian_mu(epsilon, delta) if epsilon > 0.0 else _mu_at_zero(delta)
        return np.asarray(generator.normal(size=included.size) + mu * sign / 2.0)
    truth = generator.random(included.size) < expit(epsilon)
    told = np.where(truth, sign, -sign)
    if channels == "leaky-response":
        shown = generator.random(included.size) < delta
        told = np.where(shown, 2.0 * sign, told)
    return np.asarray(told)


def measure_coverage(
    channels: Channels,
    *,
    epsilon: float,
    delta: float = 0.0,
    method: Method | None = None,
    selection: str | int | Selection | None = None,
    n_audits: int = 1000,
    n_canaries: int = 1000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator = 0,
    progress: Progress | None = None,
) -> CoverageReport:
    """Audit a mechanism with a known ε many times and count how often the bound exceeds it.

    Parameters
    ----------
    channels : {"randomised-response", "leaky-response", "gaussian", "gaussian-sum"}
        The mechanism. A bound must hold for those it claims to cover: `f-dp` and `independent-gdp`
        only for "gaussian", `gaussian-scores` for "gaussian-sum" too, `pure` only for "randomised-response".
    epsilon : float in [0, inf)
        What the mechanism keeps.
    delta : float in [0, 1)
        The δ of it; above 0 for all but "randomised-response".
    method, selection
        As in `one_run_bound`.
    n_audits : int, at least 1
        How many audits.
    n_canaries : int, at least 2
        In each.
    confidence : float in (0, 1)
        Confidence level of the bounds.
    random_state : int or numpy.random.Generator
        Source of randomness of the simulation.
    progress : callable, optional
        Called as `progress(done, total, what)`.

    Returns
    -------
    CoverageReport
        The rate and its standard error.

    Raises
    ------
    InputError
        If the channels need a δ above 0, or the method does not fit it.

    Examples
    --------
    >>> report = measure_coverage("randomised-response", epsilon=1.0, selection=50, n_audits=50,
    ...                           n_canaries=200)
    >>> report.holds
    True
    """
    as_choice(channels, get_args(Channels), name="channels")
    as_epsilon(epsilon, allow_zero=True)
    as_count(n_audits, name="n_audits")
    as_count(n_canaries, name="n_canaries", least=2)
    if channels != "randomised-response" and not delta > 0.0:
        raise InputError(
            argument="delta", expected=f"greater than 0 for {channels!r} channels", got=repr(delta)
        )
    test = BoundTest.checked(delta, confidence, method, selection)
    generator = as_generator(random_state)
    bounds = np.empty(n_audits)
    for done in range(n_audits):
        included = generator.integers(0, 2, size=n_canaries).astype(np.bool_)
        scores = simulated_scores(
            channels, included, epsilon=epsilon, delta=delta, generator=generator
        )
        # Equal scores are ordered by a fixed permutation in a bound: here by chance, so that two
        # audits have nothing in common.
        order = generator.permutation(n_canaries)
        try:
            bounds[done] = test.bound(included[order], scores[order]).epsilon_lower_bound
        except InputError:
            if test.method != "gaussian-scores":
                raise
            bounds[done] = math.nan  # the scores do not look normal
        if progress is not None:
            progress(done + 1, n_audits, f"audits at ε = {epsilon:g}")
    # Levels are tried on a grid that may contain ε itself, up to rounding.
    above = bounds > epsilon * (1.0 + 1e-9) + 1e-12
    is_refused = np.isnan(bounds)
    return CoverageReport(
        epsilon=epsilon,
        delta=delta,
        n_audits=n_audits,
        n_above=int(above.sum()),
        allowed_rate=test.level,
        mean_bound=0.0 if is_refused.all() else float(np.nanmean(bounds)),
        n_refused=int(is_refused.sum()),
    )


def _mu_at_zero(delta: float) -> float:
    """Return the shift whose δ at ε = 0 is the given one: δ = 2Φ(μ/2) − 1."""
    from scipy.special import ndtri

    return float(2.0 * ndtri((1.0 + delta) / 2.0))

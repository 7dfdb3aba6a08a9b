# SPDX-License-Identifier: Apache-2.0
"""What a release gives away of one answer: the advantage, and the ceiling that follows from it.

The ε of two mechanisms cannot be compared. What an attacker gains can: the advantage is the largest
total variation distance between what two answers of one person lead to, all else being equal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from epsilens._validate import as_at_least_zero, as_epsilon, as_positive, as_unit
from epsilens.errors import InputTypeError, setting

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_LARGE_RHO = 37.0


@runtime_checkable
class HasAdvantage(Protocol):
    """Anything that knows its advantage, as every channel of `epsilens.channels` does."""

    @property
    def advantage(self) -> float:
        """The largest total variation distance between what two answers lead to."""


def advantage(mechanism: HasAdvantage) -> float:
    """Return the largest total variation distance between what two answers of one person lead to.

    Parameters
    ----------
    mechanism : object with an `advantage`
        A channel of `epsilens.channels`, or a mechanism of `epsilens.mechanisms` at its budget.

    Returns
    -------
    float in [0, 1]
        0: the release says nothing about the answer. 1: some answers are told apart with certainty.

    Raises
    ------
    InputTypeError
        If the mechanism does not know its advantage.

    Examples
    --------
    >>> from epsilens.channels import RandomizedResponse, UnaryEncoding
    >>> round(advantage(RandomizedResponse(k=2, epsilon=1.0)), 3)
    0.462
    >>> round(advantage(UnaryEncoding(10, 1.0, kind="rappor")), 3)
    0.245
    """
    if not isinstance(mechanism, HasAdvantage):
        raise InputTypeError(
            f"{setting('mechanism')} must have an `advantage`, got {type(mechanism).__name__}. "
            "Give a channel of epsilens.channels or a mechanism of epsilens.mechanisms."
        )
    return float(mechanism.advantage)


# --- The advantage of what is known about a release ---


def gaussian_advantage(mu: float) -> float:
    """Return the advantage of normal noise: 2Φ(μ/2) − 1.

    Parameters
    ----------
    mu : float in [0, inf)
        Sensitivity over the standard deviation of the noise; for several releases the root of the sum of
        squares.

    Returns
    -------
    float in [0, 1]

    Notes
    -----
    N(0, 1) and N(μ, 1) differ in total variation by Φ(μ/2) − Φ(−μ/2) (Dong, Roth and Su 2022).

    Examples
    --------
    >>> round(gaussian_advantage(0.268), 3)
    0.107
    """
    return math.erf(as_at_least_zero(mu, name="mu") / math.sqrt(8.0))


def approximate_advantage(epsilon: float, delta: float) -> float:
    """Return the largest advantage of a release that is (ε, δ)-differentially private.

    Parameters
    ----------
    epsilon : float in (0, inf]
    delta : float in [0, 1]

    Returns
    -------
    float in [0, 1]

    Notes
    -----
    For the event with the largest difference, p ≤ e^ε q + δ and 1 − q ≤ e^ε (1 − p) + δ. Adding both,
    p − q ≤ (e^ε − 1 + 2δ)/(e^ε + 1) (Kairouz, Oh and Viswanath 2015).

    Examples
    --------
    >>> round(approximate_advantage(1.0, 0.0), 3), round(approximate_advantage(1.0, 0.01), 3)
    (0.462, 0.467)
    """
    budget, share = as_epsilon(epsilon), as_unit(delta, name="delta")
    odds = math.exp(-budget)
    return min(1.0, (1.0 - odds + 2.0 * share * odds) / (1.0 + odds))


def zcdp_advantage(rho: float) -> float:
    """Return the largest advantage of a release of which only ρ-zCDP is known.

    Normal noise of the same ρ has a smaller one: `gaussian_advantage` of √(2ρ).

    Parameters
    ----------
    rho : float in (0, inf)

    Returns
    -------
    float in [0, 1]

    Notes
    -----
    ρ-zCDP bounds the relative entropy by ρ in both directions. Exchange the two distributions of an event
    and its complement and take the mean: relative entropy is jointly convex, so some symmetric pair
    (½ + t/2, ½ − t/2) has the same distance t and satisfies the bound, t·log((1 + t)/(1 − t)) ≤ ρ.

    Examples
    --------
    >>> round(zcdp_advantage(0.02), 3), round(gaussian_advantage(0.2), 3)
    (0.1, 0.08)
    """
    from scipy.optimize import brentq

    budget = as_positive(rho, name="rho")
    if budget > _LARGE_RHO:  # t is 1 in double precision
        return 1.0
    return float(brentq(lambda t: 2.0 * t * math.atanh(t) - budget, 0.0, 1.0 - 2e-16, xtol=1e-15))


def pld_advantage(distribution: PrivacyLossDistribution) -> float:
    """Return the advantage of a privacy loss distribution of dp-accounting: its δ at ε = 0.

    Parameters
    ----------
    distribution : PrivacyLossDistribution
        Of two neighbouring tables; for an advantage about an answer, of a replaced answer or record.

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
    >>> round(pld_advantage(from_gaussian_mechanism(3.73)), 3)
    0.107
    """
    return min(1.0, max(0.0, float(distribution.get_delta_for_epsilon(0.0))))


def replaced_advantage(advantage: float) -> float:
    """Return the advantage about a replaced record from that about an added or removed one.

    A replacement is a removal and an addition, and distances add up: min(1, 2·advantage).

    Parameters
    ----------
    advantage : float in [0, 1]

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> replaced_advantage(0.2), replaced_advantage(0.7)
    (0.4, 1.0)
    """
    return min(1.0, 2.0 * as_unit(advantage, name="advantage"))


def replacement_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the (ε, δ) about a replaced record from that about an added or removed one.

    A replacement is a removal and an addition: P(S) ≤ e^ε·Q(S) + δ ≤ e^ε·(e^ε·R(S) + δ) + δ, which is
    (2ε, (1 + e^ε)·δ).

    Parameters
    ----------
    epsilon : float in [0, inf]
    delta : float in [0, 1]

    Returns
    -------
    tuple of (float, float)

    Examples
    --------
    >>> replacement_budget(0.0, 1e-6)
    (0.0, 2e-06)
    """
    # Beyond 700 e^ε is no number, and δ is 1 anyway.
    return 2.0 * epsilon, min(1.0, (1.0 + math.exp(min(epsilon, 700.0))) * delta)


def joint_advantage(advantages: list[float]) -> float:
    """Return an upper bound of the advantage of several independent releases: 1 − Π(1 − advantage).

    Parameters
    ----------
    advantages : list of float in [0, 1]

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> joint_advantage([0.5, 0.5])
    0.75
    """
    return 1.0 - math.prod(1.0 - as_unit(one, name="advantages") for one in advantages)


# --- The ceilings ---


def guess_ceiling(baseline: float, advantage: float) -> float:
    """Return how often an answer can be guessed at most from a release with a given advantage.

    At most the share `advantage` of the answers that the rest of the data do not give away becomes
    guessable: b + (1 − b)·advantage.

    Parameters
    ----------
    baseline : float in [0, 1]
        How often the best guess is right with the same release made without the person's own answer.
    advantage : float in [0, 1]
        The largest total variation distance between what two answers lead to.

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    InputError
        If one of the two does not lie from 0 to 1.

    Notes
    -----
    One person, prior π, b = max π at y*, a guess G and P_y the distribution of the release under the
    answer y. For y ≠ y*, P_y(G = y) ≤ P_y*(G = y) + advantage. So G is right with at most
    Σ_y π_y P_y*(G = y) + (1 − b)·advantage ≤ b + (1 − b)·advantage. The bound is linear in b and holds
    for averages over people.

    Examples
    --------
    >>> from epsilens.channels import RandomizedResponse
    >>> round(guess_ceiling(0.5, RandomizedResponse(k=10, epsilon=1.0).advantage), 3)
    0.573
    """
    b, share = as_unit(baseline, name="baseline"), as_unit(advantage, name="advantage")
    return min(1.0, b + (1.0 - b) * share)


def inference_ceiling(baseline_rate: float, epsilon: float) -> float:
    """Return how often an answer can be guessed at most, once it is released at ε.

    Whoever guesses right with probability b from everything else guesses right with at most
    f(b) = e^ε b / (e^ε b + 1 − b) when the randomised answer is added, whatever they know and
    however they attack.

    Parameters
    ----------
    baseline_rate : float in [0, 1]
        How often the best guess is right with the same release made without the person's own answer.
    epsilon : float in (0, inf]
        The budget of the answer; of several answers together the sum.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the rate is none, or `epsilon` is not greater than 0.

    Notes
    -----
    For every report the posterior odds of any answer are at most e^ε times its prior odds. f is
    increasing and concave, so the bound holds for averages over people too.

    Examples
    --------
    >>> round(inference_ceiling(0.5, 1.0), 3)
    0.731
    >>> inference_ceiling(0.7, float("inf"))
    1.0
    """
    budget, b = as_epsilon(epsilon), as_unit(baseline_rate, name="baseline_rate")
    return 0.0 if b == 0.0 else b / (b + (1.0 - b) * math.exp(-budget))


def answer_ceiling(baseline_rate: float, *, epsilon: float, advantage: float) -> float:
    """Return the smaller of the two ceilings that ε and the advantage of a release prove.

    Parameters
    ----------
    baseline_rate : float in [0, 1]
        How often the best guess is right with the same release made without the person's own answer.
    epsilon : float in (0, inf]
        The budget of the answer; of several answers together the sum.
    advantage : float in [0, 1]
        The largest total variation distance between what two answers lead to.

    Returns
    -------
    float
        The smaller of b + (1 − b)·advantage and e^ε b / (e^ε b + 1 − b).

    Examples
    --------
    >>> from epsilens.channels import RandomizedResponse, UnaryEncoding
    >>> many = RandomizedResponse(k=10, epsilon=1.0)
    >>> round(answer_ceiling(0.5, epsilon=1.0, advantage=many.advantage), 3)
    0.573
    >>> bits = UnaryEncoding(10, 1.0, kind="rappor")
    >>> round(answer_ceiling(0.1, epsilon=1.0, advantage=bits.advantage), 3)
    0.232
    """
    return min(guess_ceiling(baseline_rate, advantage), inference_ceiling(baseline_rate, epsilon))

# SPDX-License-Identifier: Apache-2.0
"""What several releases of the same people's data give away together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from epsilens.document.training import EarlierRelease, PrivacyTotal
from epsilens.mechanisms._advantage import (
    approximate_advantage,
    gaussian_advantage,
    joint_advantage,
    replacement_budget,
)

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

# Beyond these the releases protect hardly anybody, and a privacy loss distribution needs much memory.
_LARGEST_EPSILON = 30.0
_LARGEST_MU = 5.0
_GRID = 1e-4


def compose(releases: Sequence[EarlierRelease], *, n_releases: int | None = None) -> PrivacyTotal:
    """Return what releases give away together, to whoever sees all of them.

    Gaussian releases are together one Gaussian release, μ² = Σ μᵢ², exactly. With others among them the
    privacy loss distributions are convolved by dp-accounting, rounded upwards. The sum of ε and
    1 − Π(1 − advantage) are upper bounds too; the smaller is taken. Every line is about a changed answer or
    a replaced record: `replaced_budget` makes it so.

    Parameters
    ----------
    releases : sequence of EarlierRelease
        At least one. All protect at least what is claimed of them together.
    n_releases : int, optional
        How many they are, where one stands in several lines.

    Returns
    -------
    PrivacyTotal
        At the sum of all δ.

    Assumptions
    -----------
    Each release draws its own noise. A later one may be chosen in view of an earlier one, but its budget
    is fixed beforehand.

    Examples
    --------
    >>> one = EarlierRelease(receipt="a", mechanism="noisy-descent", epsilon=1.0, delta=1e-6, mu=0.2367)
    >>> total = compose([one, one])
    >>> round(total.epsilon, 2), round(total.advantage, 3), total.n_releases
    (1.4, 0.133, 2)
    """
    from epsilens.models.gaussian_release import epsilon_of_rho

    delta = min(1.0, math.fsum(release.delta for release in releases))
    others = [release for release in releases if release.mu is None]
    mu = math.hypot(*(release.mu for release in releases if release.mu is not None))
    delta_gaussian = math.fsum(r.delta for r in releases if r.mu is not None)
    epsilon = math.fsum(release.epsilon for release in others)
    advantages = [_own_advantage(release) for release in others]
    if mu > 0.0:
        epsilon += epsilon_of_rho(mu * mu / 2.0, delta_gaussian) if delta_gaussian < 1.0 else 0.0
        advantages.append(gaussian_advantage(mu))
    advantage = joint_advantage(advantages)
    largest = max((release.epsilon for release in others), default=0.0)
    if others and len(releases) > 1 and largest <= _LARGEST_EPSILON and mu <= _LARGEST_MU:
        whole = _convolved(others, mu)
        epsilon = min(epsilon, float(whole.get_epsilon_for_delta(delta)))
        advantage = min(advantage, max(0.0, float(whole.get_delta_for_epsilon(0.0))))
    return PrivacyTotal(
        epsilon=epsilon,
        delta=delta,
        advantage=min(1.0, advantage),
        n_releases=len(releases) if n_releases is None else n_releases,
    )


def replaced_budget(mechanism: str, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the (ε, δ) about a replaced record of a mechanism at its own (ε, δ).

    Parameters
    ----------
    mechanism : str
    epsilon, delta : float

    Examples
    --------
    >>> replaced_budget("noisy-descent", 1.0, 1e-6)
    (1.0, 1e-06)
    >>> replaced_budget("dp-sgd", 0.0, 1e-6)
    (0.0, 2e-06)
    """
    from epsilens.mechanisms.protocol import MECHANISMS, mechanism_class

    if mechanism not in MECHANISMS or mechanism_class(mechanism).neighbours == "replaced":
        return epsilon, delta
    return replacement_budget(epsilon, delta)


def _own_advantage(release: EarlierRelease) -> float:
    """Return the advantage of a release that is not Gaussian."""
    if release.advantage is not None:
        return release.advantage
    if release.n_categories is None:
        return approximate_advantage(release.epsilon, release.delta) if release.epsilon else 0.0
    odds = math.exp(-release.epsilon)
    return (1.0 - odds) / (1.0 + (release.n_categories - 1) * odds)


def _convolved(others: Sequence[EarlierRelease], mu: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import common, privacy_loss_distribution

    parts = []
    for release in others:
        if release.n_categories is None:
            budget = common.DifferentialPrivacyParameters(release.epsilon, release.delta)
            parts.append(
                privacy_loss_distribution.from_privacy_parameters(
                    budget, value_discretization_interval=_GRID
                )
            )
        else:
            k = release.n_categories
            parts.append(
                privacy_loss_distribution.from_randomized_response(
                    k / (math.exp(release.epsilon) + k - 1.0),
                    k,
                    value_discretization_interval=_GRID,
                )
            )
    if mu > 0.0:
        # The sensitivity is that of a replaced answer or record already: it must not be doubled.
        parts.append(
            privacy_loss_distribution.from_gaussian_mechanism(
                1.0 / mu, value_discretization_interval=_GRID
            )
        )
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return whole

# SPDX-License-Identifier: Apache-2.0
"""What a release gives away of one answer: the advantage, and the ceiling that follows from it.

The ε of two mechanisms cannot be compared. What an attacker gains can: the advantage is the largest
total variation distance between what two answers of one person lead to, all else being equal.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from epsilens._validate import as_unit
from epsilens.errors import InputTypeError, setting

__all__ = ["HasAdvantage", "advantage", "guess_ceiling"]


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
        A channel of `epsilens.channels`, for instance.

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
            "Give a channel of epsilens.channels."
        )
    return float(mechanism.advantage)


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

# SPDX-License-Identifier: Apache-2.0
"""The attacker who holds the randomised answers, and what is known of people beside them.

The collector of randomised answers is one, and so is every reader of a randomised table. They see the
report of each person. Their best guess is the answer that is most probable given the report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.channels.channel import SymmetricChannel
from epsilens.risk.answer_inference import Beliefs

_CERTAIN = 1e4
"""Log of the ratio that stands for certainty. Log-probabilities are far smaller."""
_NUMBERS = 1 << 21
_MOST_NUMBERS = 20_000_000
_FEWEST_PEOPLE = 1_000
_Z = 1.6448536269514722
"""95 % quantile of the standard normal distribution."""


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Holder:
    """Guesses of the protected answers from their randomised reports.

    Attributes
    ----------
    people : array of int, shape (m,)
        Rows of the people that are attacked.
    truth : array of int, shape (m,)
        Their protected answers as one number.
    beliefs : Beliefs or None
        What everybody else's data say of the same people; None: only how common the answers are.
    log_shares : array of shape (C,)
        How common every joint answer is.
    n_people : int
        Number of people in the table.
    """

    people: NDArray[np.intp]
    truth: NDArray[np.intp]
    beliefs: Beliefs | None
    log_shares: FloatArray
    n_people: int

    @classmethod
    def of(cls, truth: NDArray[np.intp], log_shares: FloatArray, beliefs: Beliefs | None) -> Holder:
        """Return the attacker on the people of a table, or on a random sample if answers are many.

        Parameters
        ----------
        truth : array of int, shape (n,)
        log_shares : array of shape (C,)
        beliefs : Beliefs or None
        """
        n_people = len(truth)
        people = np.arange(n_people) if beliefs is None else beliefs.people
        most = max(_FEWEST_PEOPLE, _MOST_NUMBERS // len(log_shares))
        if len(people) > most:
            chosen = np.sort(np.random.default_rng(0).permutation(len(people))[:most])
            people = people[chosen]
            if beliefs is not None:
                beliefs = Beliefs(
                    people, beliefs.answers, beliefs.log_probabilities[chosen], beliefs.predictor
                )
        return cls(people, truth[people], beliefs, log_shares, n_people)

    def successes(self, channels: Sequence[SymmetricChannel]) -> FloatArray:
        """Return the probability that the guess of every person is right, (m,).

        Right means all protected answers at once. A tie between answers counts as a wrong guess.

        Parameters
        ----------
        channels : sequence of SymmetricChannel
            One for each protected column, in the order in which the joint answer is written.
        """
        step = max(1, _NUMBERS // len(self.log_shares))
        parts = [
            _chances(self._log_prior(slice(first, first + step)), truth, channels)
            for first in range(0, len(self.people), step)
            for truth in (self.truth[first : first + step],)
        ]
        # Sums of probabilities are rounded to a little more than 1.
        return np.clip(np.concatenate(parts), 0.0, 1.0)

    def _log_prior(self, rows: slice) -> FloatArray:
        """Return the log-probability of every joint answer of some people, without their reports."""
        prior = np.repeat(self.log_shares[None], len(self.people[rows]), axis=0)
        if self.beliefs is not None:
            answers = self.beliefs.answers
            told = np.log(np.exp(self.log_shares[answers]).sum())
            prior[:, answers] = told + self.beliefs.log_probabilities[rows]
        return prior

    def rate(self, successes: FloatArray, group: BoolArray | None = None) -> dict[str, Any]:
        """Return the mean over people, and the range of nine in ten releases, as a cell has them.

        Given the table, reports are independent. People who were not drawn add the error of a sample.

        Parameters
        ----------
        successes : array of shape (m,)
        group : array of bool, shape (n,), optional
            The people that are asked about.
        """
        n_people = self.n_people
        if group is not None:
            successes, n_people = successes[group[self.people]], int(group.sum())
        m = len(successes)
        if m == 0:
            return dict.fromkeys(("holder_rate", "holder_rate_low", "holder_rate_high"))
        mean = float(successes.mean())
        variance = float(np.mean(successes * (1.0 - successes))) / n_people
        if 1 < m < n_people:
            variance += float(successes.var(ddof=1)) / m * (1.0 - m / n_people)
        half = _Z * math.sqrt(variance)
        return {
            "holder_rate": mean,
            "holder_rate_low": max(mean - half, 0.0),
            "holder_rate_high": min(mean + half, 1.0),
        }


def _chances(
    log_prior: FloatArray, truth: NDArray[np.intp], channels: Sequence[SymmetricChannel]
) -> FloatArray:
    """Return the probability that the most probable answer given the report is the true one, (m,).

    Parameters
    ----------
    log_prior : array of shape (m, C)
        Log-probability of every joint answer.
    truth : array of int, shape (m,)
    channels : sequence of SymmetricChannel
        C is the product of their numbers of answers.

    Notes
    -----
    The chance is Σ_r P[y, r]·1{q(y)P[y, r] > max_{z ≠ y} q(z)P[z, r]} over all reports r. A column of
    randomised response has two probabilities, so log P[z, r] is a constant and a bonus for every column in
    which z and r agree. The maximum over z is therefore taken one column after the other: at the value r_j
    it is the larger of the value at r_j with the bonus, and of the largest value without. This takes
    C steps for each person and column, where the sum itself takes C².
    """
    sizes = tuple(channel.k for channel in channels)
    everybody = np.arange(len(truth))
    rivals = log_prior.copy()
    rivals[everybody, truth] = -np.inf
    rivals = rivals.reshape(-1, *sizes)
    own = log_prior[everybody, truth].reshape(-1, *(1 for _ in sizes))
    weights = np.ones_like(own)
    for axis, (channel, digits) in enumerate(
        zip(channels, np.unravel_index(truth, sizes), strict=True), start=1
    ):
        keep, flip = channel.keep_probability, channel.flip_probability
        bonus = min(math.log(keep / flip), _CERTAIN) if flip > 0.0 else _CERTAIN
        rivals = np.maximum(rivals + bonus, rivals.max(axis=axis, keepdims=True))
        agrees = digits[:, None] == np.arange(channel.k)
        agrees = agrees.reshape(-1, *(channel.k if at == axis else 1 for at in range(1, own.ndim)))
        own = own + np.where(agrees, bonus, 0.0)
        weights = weights * np.where(agrees, keep, flip)
    right = np.where(own > rivals, weights, 0.0)
    chances: FloatArray = right.reshape(len(truth), -1).sum(axis=1)
    return chances

# SPDX-License-Identifier: Apache-2.0
"""k-ary randomised response: the truth with some probability, otherwise any other answer."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._validate import as_codes, as_count, as_epsilon
from epsilens.channels.channel import Channel
from epsilens.channels.draw import Words, draw_response, released_words, response_threshold
from epsilens.channels.relaxation import draw_relaxation, relaxation
from epsilens.channels.symmetric import SymmetricChannel
from epsilens.errors import InputError

__all__ = ["RandomizedResponse"]


class RandomizedResponse(SymmetricChannel):
    """Each person tells the truth with some probability, and otherwise any other answer at random.

    The smaller ε, the more often they lie, and the less can be learnt about any one of them. At
    ε = 0 the report is pure noise; at ε = ∞ it is the truth. Whatever else an observer knows, a
    report changes the odds between two possible truths by at most the factor e^ε.

    Parameters
    ----------
    k : int, at least 2
        Number of possible answers.
    epsilon : float in [0, inf]
        The privacy budget per answer. Infinity means no privacy.

    Attributes
    ----------
    keep_probability : float
        Probability that the truth is reported, e^ε/(e^ε + k − 1).
    lie_probability : float
        Probability of each one of the other answers, b = 1/(e^ε + k − 1).
    a : float in [0, 1]
        How much of the truth comes through, (e^ε − 1)/(e^ε + k − 1).
    advantage : float in [0, 1]
        The same number, as what an attacker gains: the total variation distance between the reports
        of two answers.

    Notes
    -----
    The matrix is P = a I + b 11ᵀ (P1 Eq. 12, whose diagonal numerator is printed ε and means e^ε).
    ε-local differential privacy holds with equality. A draw with operating-system randomness keeps
    ε exactly: its lie probability is rounded up to a multiple of 2⁻⁶⁴ in exact arithmetic.

    Assumptions: the list of possible answers is public, and each answer is randomised once. Asking
    again spends again.

    References
    ----------
    .. [1] Warner, S. L. (1965). Randomized response: a survey technique for eliminating evasive
       answer bias. JASA 60(309), 63-69.
    .. [2] Kairouz, P., Oh, S. and Viswanath, P. (2014). Extremal mechanisms for local differential
       privacy. NeurIPS 27.

    Examples
    --------
    >>> from epsilens.channels import RandomizedResponse
    >>> channel = RandomizedResponse(k=2, epsilon=1.0)
    >>> channel.matrix.round(4).tolist()
    [[0.7311, 0.2689], [0.2689, 0.7311]]
    >>> channel.perturb([0, 1, 1, 0]).shape
    (4,)
    >>> pi, covariance = channel.estimate_frequencies([550, 450])
    >>> pi.round(3).tolist()
    [0.608, 0.392]
    """

    __slots__ = ()

    def __init__(self, k: int, epsilon: float) -> None:
        self._k = as_count(k, name="k", least=2)
        self._epsilon = as_epsilon(epsilon, allow_zero=True)

    @property
    def keep_probability(self) -> float:
        """Probability that the truth is reported."""
        return 1.0 / self._scale

    @property
    def lie_probability(self) -> float:
        """Probability of each one of the other answers."""
        return math.exp(-self._epsilon) / self._scale

    @property
    def a(self) -> float:
        """How much of the truth comes through: 0 is pure noise, 1 the truth."""
        return -math.expm1(-self._epsilon) / self._scale

    @property
    def advantage(self) -> float:
        """Total variation distance between the reports of two answers, (e^ε − 1)/(e^ε + k − 1)."""
        return self.a

    @property
    def _scale(self) -> float:
        # Everything is divided by e^epsilon, so that no epsilon is too large.
        return 1.0 + (self._k - 1) * math.exp(-self._epsilon)

    def compose(self, other: Channel) -> Channel:
        """Return the channel that passes an answer through this one and then through `other`.

        Two randomised responses in a row are one randomised response, with a_ε a_τ for its a.

        Parameters
        ----------
        other : Channel
            Applied to the reports of this channel; must have the same number of categories.

        Returns
        -------
        Channel
            A `RandomizedResponse` if `other` is one.

        Examples
        --------
        >>> from epsilens.channels import RandomizedResponse
        >>> RandomizedResponse(2, 1.0).compose(RandomizedResponse(2, 1.0))
        RandomizedResponse(k=2, epsilon=0.433781)
        """
        self._require_same_size(other)
        if not isinstance(other, RandomizedResponse):
            return super().compose(other)
        noise = self._k * (self.lie_probability + self.a * other.lie_probability)  # 1 - a·a
        if noise == 0.0:
            return RandomizedResponse(self._k, min(self._epsilon, other.epsilon))
        return RandomizedResponse(self._k, math.log1p(self._k * self.a * other.a / noise))

    def draw(self, codes: NDArray[np.int64], words: Words) -> NDArray[np.int64]:
        """Draw reports with the given source of 64-bit words (for `perturb` and `simulate`).

        Parameters
        ----------
        codes : array of int64, any shape
            Checked codes.
        words : callable
            Given n, returns n independent uniform 64-bit words.

        Returns
        -------
        array of int64, the shape of `codes`
            The reports.

        Examples
        --------
        >>> import math
        >>> import numpy as np
        >>> from epsilens.channels import RandomizedResponse
        >>> from epsilens.channels.draw import operating_system_words
        >>> RandomizedResponse(2, math.inf).draw(np.array([0, 1]), operating_system_words).tolist()
        [0, 1]
        """
        if self._epsilon == math.inf:
            return codes.copy()
        threshold = response_threshold(self._k, self._epsilon)
        return draw_response(codes, k=self._k, threshold=threshold, words=words)

    def degrade_to(self, epsilon: float) -> RandomizedResponse:
        """Return the noise that brings reports already released down to a stricter ε.

        It is applied to the *reports*, not to the truth, so nothing more of anybody's budget is
        spent, and nobody needs the true answers again.

        Parameters
        ----------
        epsilon : float in [0, self.epsilon]
            The stricter level wanted.

        Returns
        -------
        RandomizedResponse
            The channel P_τ with P_ε P_τ = P_ε'.

        Raises
        ------
        InputError
            If `epsilon` is above the present level: noise cannot be taken away. See `relax_to`.

        Notes
        -----
        a_τ = a_ε'/a_ε and e^τ = (1 + (k − 1)a_τ)/(1 − a_τ), written here without cancellation as
        τ = log(1 + (e^ε' − 1)(1 + (k − 1)e^−ε)/(1 − e^(ε' − ε))). τ is a floating-point number, so
        the stricter level is reached to about 15 digits; the level already spent is exact. Who saw
        the earlier reports still knows what they say.

        Examples
        --------
        >>> from epsilens.channels import RandomizedResponse
        >>> [round(RandomizedResponse(k, 3.0).degrade_to(1.0).epsilon, 4) for k in (2, 5, 16)]
        [1.1269, 1.2188, 1.4977]
        """
        wanted = as_epsilon(epsilon, allow_zero=True)
        if wanted > self._epsilon:
            raise InputError(
                f"`epsilon` must be at most the present {self._epsilon:g} to degrade, got "
                f"{wanted:g}. Use `relax_to` with the true codes to publish more accurate reports."
            )
        if wanted == self._epsilon:
            return RandomizedResponse(self._k, math.inf)
        if wanted == 0.0:
            return RandomizedResponse(self._k, 0.0)
        log_odds = (
            wanted
            + math.log(-math.expm1(-wanted))
            + math.log1p((self._k - 1) * math.exp(-self._epsilon))
            - math.log(-math.expm1(wanted - self._epsilon))
        )
        return RandomizedResponse(self._k, float(np.logaddexp(0.0, log_odds)))

    def relax_to(
        self,
        codes: ArrayLike,
        reports: ArrayLike,
        epsilon: float,
        random_state: int | np.random.Generator | None = None,
    ) -> NDArray[np.int64]:
        """Draw more accurate reports that, together with the old ones, cost only `epsilon`.

        A fresh draw would let those who hold both files learn the sum of the two budgets. This
        draw looks at the truth and at the old report, and whoever sees both reports learns no more
        than `epsilon` allows.

        Parameters
        ----------
        codes : array of int
            True categories 0..k-1.
        reports : array of int, the shape of `codes`
            What this channel reported for them, entry by entry.
        epsilon : float in [self.epsilon, inf]
            The laxer level.
        random_state : None, int or numpy.random.Generator
            None: operating-system randomness. Anything else simulates, with a warning.

        Returns
        -------
        array of int64, the shape of `codes`
            New reports at `epsilon`.

        Raises
        ------
        InputError
            If `epsilon` is below the present level (see `degrade_to`), if it is finite but above
            40, or if codes and reports do not fit each other.

        Warns
        -----
        PrivacyLeakWarning
            If a `random_state` is given.

        Notes
        -----
        Given truth u and old report w, the new report is v with probability
        P_ε'[u,v] P_τ[v,w]/P_ε[u,w], where a_τ = a_ε/a_ε'. Assumption: `reports` were drawn from
        `codes` by this channel, once. The masses are whole multiples of 2⁻⁶⁴, rounded so that the
        joint level is kept exactly.

        Examples
        --------
        >>> import math
        >>> from epsilens.channels import RandomizedResponse
        >>> RandomizedResponse(2, 1.0).relax_to([0, 1, 1], [0, 0, 1], epsilon=math.inf).tolist()
        [0, 1, 1]
        """
        wanted = as_epsilon(epsilon, allow_zero=True)
        if wanted < self._epsilon:
            raise InputError(
                f"`epsilon` must be at least the present {self._epsilon:g} to relax, got "
                f"{wanted:g}. Use `degrade_to` to make the reports stricter."
            )
        truth = as_codes(codes, n_categories=self._k)
        old = as_codes(reports, n_categories=self._k, name="reports")
        if truth.shape != old.shape:
            raise InputError(
                f"`reports` must have the shape of `codes` {truth.shape}, got {old.shape}. "
                "Give each person's true code and old report in the same order."
            )
        words = released_words(wanted, random_state)
        if wanted == self._epsilon:
            return old
        if wanted == math.inf:
            return truth
        draw = relaxation(self._k, self._epsilon, wanted)
        return draw_relaxation(truth, old, draw=draw, words=words)

    def __repr__(self) -> str:
        return f"RandomizedResponse(k={self._k}, epsilon={self._epsilon:g})"

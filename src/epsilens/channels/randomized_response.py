# SPDX-License-Identifier: Apache-2.0
"""k-ary randomised response: the truth with some probability, otherwise any other answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._validate import as_codes, as_count, as_epsilon
from epsilens.channels.channel import Channel, SymmetricChannel
from epsilens.channels.draw import (
    WORD_RANGE,
    WORDS_AT_ONCE,
    Words,
    draw_response,
    exponential_below,
    is_uniform,
    released_words,
    response_threshold,
    uniform_below,
)
from epsilens.errors import InputError, setting

# --- Relaxing a release: a second, more accurate report that costs only the difference ---


@dataclass(frozen=True)
class Relaxation:
    """The coupled draw in whole numbers of 2⁻⁶⁴ths.

    Parameters
    ----------
    k : int
        Number of categories.
    leave_truth : int
        Mass on moving away, when the old report was the truth.
    reach_truth : int
        Mass on reporting the truth, when the old report was another value.
    stay : int
        Mass on repeating the old report, when it was not the truth. What is left falls evenly on
        the k − 2 values that are neither.
    """

    k: int
    leave_truth: int
    reach_truth: int
    stay: int


def relaxation(k: int, epsilon: float, new_epsilon: float) -> Relaxation:
    """Return the coupled draw from reports at `epsilon` to reports at `new_epsilon`, exactly.

    Notes
    -----
    With P_ε' P_τ = P_ε, the new report is v with probability P_ε'[u,v] P_τ[v,w]/P_ε[u,w] given the
    truth u and the old report w. P_ε here is what `draw_response` really draws, in rational
    numbers, and e^ε' is taken from below; the masses are then rounded so that no joint ratio
    grows. Where ε' is so close to ε that 64 bits cannot tell them apart, the old report is
    repeated, which keeps ε.

    Examples
    --------
    >>> from epsilens.channels.randomized_response import relaxation
    >>> draw = relaxation(2, 1.0, 3.0)
    >>> round(draw.reach_truth / 2**64, 4), round(draw.leave_truth / 2**64, 4)
    (0.8668, 0.0159)
    """
    repeat = Relaxation(k, leave_truth=0, reach_truth=0, stay=WORD_RANGE)
    if is_uniform(k, response_threshold(k, new_epsilon)):
        return repeat
    limit = exponential_below(new_epsilon)
    keep_old, flip_old = realised_response(k, response_threshold(k, epsilon))
    flip_new = 1 / (limit + k - 1)
    keep_new = limit * flip_new
    a_tau = (keep_old - flip_old) / (keep_new - flip_new)
    flip_tau = (1 - a_tau) / k
    keep_tau = a_tau + flip_tau

    leave_truth = math.ceil(WORD_RANGE * (k - 1) * flip_new * flip_tau / keep_old)
    stay = math.ceil(WORD_RANGE * flip_new * keep_tau / flip_old)
    if k == 2:
        reach_truth = WORD_RANGE - stay
    else:
        # One less than the floor, so that what `stay` was rounded up by is not taken from the rest.
        reach_truth = max(math.floor(WORD_RANGE * keep_new * flip_tau / flip_old) - 1, 0)
    draw = Relaxation(k, leave_truth=leave_truth, reach_truth=reach_truth, stay=stay)
    for masses in joint_masses(draw, epsilon):
        if max(masses) > limit * min(masses):
            return repeat
    return draw


def realised_response(k: int, threshold: int) -> tuple[Fraction, Fraction]:
    """Return the probabilities, as drawn, of the truth and of each single lie."""
    if is_uniform(k, threshold):
        return Fraction(1, k), Fraction(1, k)
    return 1 - Fraction(threshold, WORD_RANGE), Fraction(threshold, WORD_RANGE * (k - 1))


def joint_masses(draw: Relaxation, epsilon: float) -> tuple[tuple[Fraction, ...], ...]:
    """Return the joint probability of a pair of reports under each kind of truth.

    By symmetry there are two kinds of pairs. The same value twice: it is the truth, or not.
    Two different values: the old one is the truth, the new one is, or (for k > 2) neither is.
    """
    k = draw.k
    keep, lie = realised_response(k, response_threshold(k, epsilon))
    leave = Fraction(draw.leave_truth, WORD_RANGE)
    same = (keep * (1 - leave), lie * Fraction(draw.stay, WORD_RANGE))
    different = [keep * leave / (k - 1), lie * Fraction(draw.reach_truth, WORD_RANGE)]
    if k > 2:
        rest = Fraction(WORD_RANGE - draw.stay - draw.reach_truth, WORD_RANGE)
        different.append(lie * rest / (k - 2))
    return same, tuple(different)


def draw_relaxation(
    codes: NDArray[np.int64], reports: NDArray[np.int64], *, draw: Relaxation, words: Words
) -> NDArray[np.int64]:
    """Draw the new reports, given the truth and the old reports."""
    truth, relaxed = codes.ravel(), reports.ravel().copy()
    for start in range(0, relaxed.size, WORDS_AT_ONCE):
        true = truth[start : start + WORDS_AT_ONCE]
        block = relaxed[start : start + WORDS_AT_ONCE]
        drawn = words(block.size)
        honest = block == true

        leaving = np.flatnonzero(honest & (drawn < np.uint64(draw.leave_truth)))
        reaching = np.flatnonzero(~honest & (drawn < np.uint64(draw.reach_truth)))
        last_stay = np.uint64(draw.reach_truth + draw.stay - 1)
        elsewhere = np.flatnonzero(~honest & (drawn > last_stay)) if draw.k > 2 else leaving[:0]

        low = np.minimum(true[elsewhere], block[elsewhere])
        high = np.maximum(true[elsewhere], block[elsewhere])
        block[reaching] = true[reaching]
        steps = uniform_below(draw.k - 1, leaving.size, words) + 1
        block[leaving] = (block[leaving] + steps) % draw.k
        if elsewhere.size:
            other = uniform_below(draw.k - 2, elsewhere.size, words)
            other += other >= low
            other += other >= high
            block[elsewhere] = other
    return relaxed.reshape(reports.shape)


# --- k-ary randomised response: the truth with some probability, otherwise any other answer ---


class RandomizedResponse(SymmetricChannel):
    """Each person tells the truth with some probability, and otherwise any other answer at random.

    The smaller ε, the more often answers are flipped, and the less can be learnt about one person. At
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
    flip_probability : float
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
    ε exactly: its flip probability is rounded up to a multiple of 2⁻⁶⁴ in exact arithmetic.

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

    __slots__ = ("_scale",)
    _scale: float

    def __init__(self, k: int, epsilon: float) -> None:
        self._k = as_count(k, name="k", least=2)
        self._epsilon = as_epsilon(epsilon, allow_zero=True)
        # Everything is divided by e^epsilon, so that no epsilon is too large.
        self._scale = 1.0 + (self._k - 1) * math.exp(-self._epsilon)

    @property
    def keep_probability(self) -> float:
        """Probability that the truth is reported."""
        return 1.0 / self._scale

    @property
    def flip_probability(self) -> float:
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
        noise = self._k * (self.flip_probability + self.a * other.flip_probability)  # 1 - a·a
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
                argument="epsilon",
                expected=f"at most the present {self._epsilon:g} to degrade",
                got=f"{wanted:g}",
                hint="Use `relax_to` with the true codes to publish more accurate reports.",
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
                argument="epsilon",
                expected=f"at least the present {self._epsilon:g} to relax",
                got=f"{wanted:g}",
                hint="Use `degrade_to` to make the reports stricter.",
            )
        truth = as_codes(codes, n_categories=self._k)
        old = as_codes(reports, n_categories=self._k, name="reports")
        if truth.shape != old.shape:
            raise InputError(
                f"{setting('reports')} must have the shape of {setting('codes')} {truth.shape}, "
                f"got {old.shape}. Give each person's true code and old report in the same order."
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

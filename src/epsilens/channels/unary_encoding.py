# SPDX-License-Identifier: Apache-2.0
"""Unary encodings: an answer as one bit per possible answer, each bit randomised by itself."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens._validate import (
    INFINITY,
    LARGEST_FINITE_EPSILON,
    as_choice,
    as_codes,
    as_count,
    as_counts,
    as_epsilon,
)
from epsilens.channels.draw import (
    WORD_RANGE,
    WORDS_AT_ONCE,
    Words,
    exponential_below,
    released_words,
    response_threshold,
)
from epsilens.errors import InputError, setting

UnaryKind = Literal["oue", "rappor", "the"]
HALF = WORD_RANGE // 2


@dataclass(frozen=True)
class UnaryEncoding:
    """Each person's answer becomes a row of yes/no bits, and every bit is randomised by itself.

    There is one bit per possible answer: yes at the true one, no at all others. Each bit is then
    reported as yes with probability `p` if it is yes and `q` if it is no, independently of the
    others, so a report may have several yes bits or none. A model that is linear in the one-hot
    columns can be fitted to such bits as they are.

    Parameters
    ----------
    k : int, at least 2
        Number of possible answers, hence of bits.
    epsilon : float in (0, 40] or inf
        The privacy budget per answer, of all its bits together. Infinity means no privacy.
    kind : {"oue", "rappor", "the"}
        Optimised unary encoding (false yes bits are made rare, half of the true ones are lost);
        RAPPOR's permanent response, once and without Bloom filter (yes and no bits are flipped
        alike); or thresholded histogram encoding (Laplace noise on each bit, yes above a threshold).

    Attributes
    ----------
    p, q : float
        Probability that a yes bit, and that a no bit, is reported as yes, as really drawn.
    threshold : float in (1/2, 1] or None
        THE's threshold θ; None for the others.
    effective_epsilon : float
        The exact level of the reported bits, ln(p(1 − q)/(q(1 − p))); never above `epsilon`. Less
        than it in THE, where the noisy numbers, before the threshold, are what costs ε.
    advantage : float in [0, 1]
        The total variation distance between the reported bits of two answers, p − q.

    Notes
    -----
    - `oue` [1]_: p = 1/2, q = 1/(e^ε + 1).
    - `rappor` [2]_: p = e^(ε/2)/(e^(ε/2) + 1), q = 1 − p.
    - `the` [1]_: Laplace(2/ε) noise, p = 1 − ½e^(ε(θ−1)/2), q = ½e^(−εθ/2); see
      `optimal_threshold` for θ.

    Two answers differ in two bits, so the largest ratio between the chances of a report is
    p(1 − q)/(q(1 − p)). The probabilities are whole multiples of 2⁻⁶⁴, p rounded down and q rounded
    up (see `bit_masses`), which keeps that ratio at or below e^ε exactly, not nearly.

    At ε = ∞, p and q are the limits: 1 and 0 for `rappor`, 1/2 and 0 for `oue`, 2/3 and 0 for `the`.

    Assumptions: the list of possible answers is public, and each answer is randomised once. Asking
    again spends again.

    References
    ----------
    .. [1] Wang, T., Blocki, J., Li, N. and Jha, S. (2017). Locally differentially private protocols
       for frequency estimation. USENIX Security, 729-745.
    .. [2] Erlingsson, Ú., Pihur, V. and Korolova, A. (2014). RAPPOR: randomized aggregatable
       privacy-preserving ordinal response. CCS, 1054-1067.

    Examples
    --------
    >>> from epsilens.channels import UnaryEncoding
    >>> encoding = UnaryEncoding(4, 1.0)
    >>> encoding.p, round(encoding.q, 4)
    (0.5, 0.2689)
    >>> bits = encoding.perturb([0, 3, 3])
    >>> bits.shape, str(bits.dtype)
    ((3, 4), 'bool')
    >>> the = UnaryEncoding(4, 2.0, kind="the")
    >>> round(the.threshold, 4), round(the.effective_epsilon, 4)
    (0.7096, 1.6357)
    """

    k: int
    epsilon: float
    _: KW_ONLY
    kind: UnaryKind = "oue"

    def __post_init__(self) -> None:
        as_choice(self.kind, get_args(UnaryKind), name="kind")
        object.__setattr__(self, "k", as_count(self.k, name="k", least=2))
        epsilon = as_epsilon(self.epsilon)
        if LARGEST_FINITE_EPSILON < epsilon < math.inf:
            raise InputError(
                argument="epsilon",
                expected=f"at most {LARGEST_FINITE_EPSILON:g} or infinite",
                got=f"{epsilon:g}",
                hint=f"Such a level protects nobody; use {INFINITY} and say so.",
            )
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def p(self) -> float:
        """Probability that a yes bit is reported as yes."""
        return self._masses[0] / WORD_RANGE

    @property
    def q(self) -> float:
        """Probability that a no bit is reported as yes."""
        return self._masses[1] / WORD_RANGE

    @property
    def threshold(self) -> float | None:
        """The threshold θ above which THE reports yes; None for the other kinds."""
        return optimal_threshold(self.epsilon) if self.kind == "the" else None

    @property
    def effective_epsilon(self) -> float:
        """The exact level of the reported bits."""
        yes, no = self._masses
        if no == 0:
            return math.inf
        excess = Fraction(yes * (WORD_RANGE - no), no * (WORD_RANGE - yes)) - 1
        # The ratio itself is at most e^epsilon; its logarithm may round to just above epsilon.
        return min(math.log1p(float(excess)), self.epsilon)

    @property
    def advantage(self) -> float:
        """Total variation distance between the bits that two answers lead to, p − q.

        Two answers differ in two bits. Both bits alike are equally likely under either answer, and the
        two other outcomes have the probabilities p(1 − q) and q(1 − p), which differ by p − q.
        """
        yes, no = self._masses
        return (yes - no) / WORD_RANGE

    @property
    def _masses(self) -> tuple[int, int]:
        return bit_masses(self.kind, self.epsilon)

    def expected(self) -> FloatArray:
        """Return the expected bits for each true answer.

        Returns
        -------
        array of shape (k, k)
            Row u: the probability that each bit is reported as yes when u is true.

        Examples
        --------
        >>> from epsilens.channels import UnaryEncoding
        >>> UnaryEncoding(2, 1.0, kind="oue").expected().round(4).tolist()
        [[0.5, 0.2689], [0.2689, 0.5]]
        """
        bits = np.full((self.k, self.k), self.q)
        np.fill_diagonal(bits, self.p)
        return bits

    def perturb(
        self, codes: ArrayLike, random_state: int | np.random.Generator | None = None
    ) -> BoolArray:
        """Randomise true categories into bits: the real release.

        Without a `random_state` the randomness is the operating system's and nobody can repeat it,
        which is what the privacy promise needs.

        Parameters
        ----------
        codes : array of int, any shape
            True categories 0..k-1.
        random_state : None, int or numpy.random.Generator
            None: operating-system randomness. Anything else simulates, with a warning.

        Returns
        -------
        array of bool, the shape of `codes` and then k
            The reported bits.

        Raises
        ------
        InputError
            If codes are not 0..k-1.

        Warns
        -----
        PrivacyLeakWarning
            If a `random_state` is given.

        Examples
        --------
        >>> import math
        >>> from epsilens.channels import UnaryEncoding
        >>> open_bits = UnaryEncoding(3, math.inf, kind="rappor").perturb([0, 2])
        >>> open_bits.astype(int).tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        checked = as_codes(codes, n_categories=self.k)
        return self.draw(checked, released_words(self.epsilon, random_state))

    def draw(self, codes: NDArray[np.int64], words: Words) -> BoolArray:
        """Draw bits with the given source of 64-bit words (for `perturb` and for studies).

        Parameters
        ----------
        codes : array of int64, any shape
            Checked codes.
        words : callable
            Given n, returns n independent uniform 64-bit words. One is used per bit.

        Returns
        -------
        array of bool, the shape of `codes` and then k
            The reported bits.

        Examples
        --------
        >>> import numpy as np
        >>> from epsilens.channels import UnaryEncoding
        >>> from epsilens.channels.draw import generator_words
        >>> words = generator_words(np.random.default_rng(0))
        >>> bits = UnaryEncoding(3, 1.0).draw(np.zeros(10_000, dtype=np.int64), words)
        >>> bits.mean(axis=0).round(1).tolist()
        [0.5, 0.3, 0.3]
        """
        yes, no = self._masses
        # At most 2^64 - 1, which fits a word, as 2^64 itself does not.
        last_yes, first_no = np.uint64(yes - 1), np.uint64(no)
        flat = codes.ravel()
        bits = np.empty((flat.size, self.k), dtype=np.bool_)
        n_rows = max(WORDS_AT_ONCE // self.k, 1)
        for start in range(0, flat.size, n_rows):
            block = flat[start : start + n_rows]
            drawn = words(block.size * self.k).reshape(block.size, self.k)
            rows = np.arange(block.size)
            bits[start : start + n_rows] = drawn < first_no
            bits[start + rows, block] = drawn[rows, block] <= last_yes
        return bits.reshape(*codes.shape, self.k)

    def estimate_frequencies(
        self, counts_of_ones: ArrayLike, n: int
    ) -> tuple[FloatArray, FloatArray]:
        """Estimate the true shares of the categories from how often each bit was reported as yes.

        Randomised bits pull all shares towards each other. This undoes the pull on average, and
        says how uncertain the result is because of the randomising.

        Parameters
        ----------
        counts_of_ones : array of shape (k,)
            For each bit, how many reports have it as yes.
        n : int, at least 1
            How many reports there are.

        Returns
        -------
        pi : array of shape (k,)
            Unbiased estimates of the true shares. They need not sum to 1, may be negative or
            exceed 1, and are not moved onto the simplex, since that would bias them.
        covariance : array of shape (k, k)
            Estimated covariance of `pi` over the randomising, for the given people; diagonal, as
            the bits are randomised independently. It does not contain the error of sampling the
            people from a population.

        Raises
        ------
        InputError
            If the counts are not k numbers from 0 to `n`, or ε is so small that p and q are equal.

        Notes
        -----
        With λ̂ the shares of yes bits, λ = q + (p − q)π, so π̂ = (λ̂ − q)/(p − q) [1]_ with
        variances (π p(1 − p) + (1 − π) q(1 − q))/(n(p − q)²). π̂ is put in for π, which keeps them
        unbiased, and they cannot become negative.

        References
        ----------
        .. [1] Wang, T., Blocki, J., Li, N. and Jha, S. (2017). Locally differentially private
           protocols for frequency estimation. USENIX Security, 729-745.

        Examples
        --------
        >>> from epsilens.channels import UnaryEncoding
        >>> encoding = UnaryEncoding(3, 2.0)
        >>> pi, covariance = encoding.estimate_frequencies([310, 230, 180], 1000)
        >>> pi.round(2).tolist(), round(float(covariance[0, 0]) ** 0.5, 3)
        ([0.5, 0.29, 0.16], 0.035)
        """
        n_reports = as_count(n, name="n")
        advice = "Use `bits.sum(axis=0)`."
        ones = as_counts(counts_of_ones, name="counts_of_ones", n=self.k, of="bit", advice=advice)
        if not np.isfinite(ones).all() or (ones < 0).any() or (ones > n_reports).any():
            raise InputError(
                f"{setting('counts_of_ones')} must lie between 0 and the number of reports `n` "
                f"({n_reports}), got entries that do not. Use `bits.sum(axis=0)` and `len(bits)`."
            )
        yes, no = self._masses
        contrast = (yes - no) / WORD_RANGE
        if contrast == 0.0:
            raise InputError(
                argument="epsilon",
                expected="large enough to estimate frequencies",
                got=(
                    f"{self.epsilon:g}: at this level the bits are pure noise and say nothing "
                    "about the truth"
                ),
            )
        pi = (ones / n_reports - self.q) / contrast
        # π p(1 − p) + (1 − π) q(1 − q), with p(1 − p) − q(1 − q) = (p − q)(1 − p − q).
        per_report = self.q * (1 - self.q) + pi * contrast * (1 - self.p - self.q)
        variance = np.maximum(per_report, 0.0) / (n_reports * contrast**2)
        return pi, np.diag(variance)


@lru_cache(maxsize=1024)
def bit_masses(kind: UnaryKind, epsilon: float) -> tuple[int, int]:
    """Return how many of the 2⁶⁴ words make a yes bit, and a no bit, be reported as yes.

    They are p and q in whole numbers of 2⁻⁶⁴ths, p rounded down and q rounded up, with exponentials
    taken from below. So the largest ratio p(1 − q)/(q(1 − p)) of what is drawn is at most e^ε,
    exactly.

    Parameters
    ----------
    kind : {"oue", "rappor", "the"}
        See `UnaryEncoding`.
    epsilon : float in (0, 40] or inf
        The privacy budget of all bits of an answer.

    Returns
    -------
    tuple of two int
        Those of a yes bit (at least 2⁶³) and those of a no bit (at most 2⁶³).

    Notes
    -----
    In THE, with x = ε(1 − θ)/2 and y = εθ/2, which sum to ε/2, the ratio is
    (2e^x − 1)(2e^y − 1) ≤ e^(2x)e^(2y) = e^ε, because e^(2x) − 2e^x + 1 = (e^x − 1)² ≥ 0. Here
    y is rounded to a float first and x = ε/2 − y is then exact.

    Examples
    --------
    >>> from epsilens.channels.unary_encoding import bit_masses
    >>> [round(mass / 2**64, 4) for mass in bit_masses("rappor", 2.0)]
    [0.7311, 0.2689]
    """
    if epsilon == math.inf:
        limits = {"oue": HALF, "rappor": WORD_RANGE, "the": WORD_RANGE * 2 // 3}
        return limits[kind], 0
    if kind == "oue":
        yes, no = HALF, response_threshold(2, epsilon)
    elif kind == "rappor":
        no = response_threshold(2, epsilon / 2)
        yes = WORD_RANGE - no
    else:
        y = _distance_of_no(epsilon)
        x = epsilon / 2 - y
        no = math.ceil(WORD_RANGE / (2 * exponential_below(y)))
        yes = WORD_RANGE - math.ceil(WORD_RANGE / (2 * exponential_below(x)))
    # Rounding may not make false yes bits likelier than true ones; exact noise keeps any epsilon.
    return max(yes, HALF), min(no, HALF)


def optimal_threshold(epsilon: float) -> float:
    """Return the threshold at which thresholded histogram encoding estimates shares best.

    A low threshold lets much noise through as false yes bits, a high one loses true ones. The best
    lies between 1/2, which it tends to as ε becomes small, and 1, as ε grows.

    Parameters
    ----------
    epsilon : float in (0, inf]
        The privacy budget per answer.

    Returns
    -------
    float in [1/2, 1]
        θ.

    Notes
    -----
    It minimises the variance of the estimated share of a rare answer, q(1 − q)/(n(p − q)²), as in
    [1]_, which does so numerically. With c = e^(−εθ/2) and d = e^(−ε/2) that is
    c³(2 − c)/(2c − d − c²)² up to a factor, and setting its derivative to 0 leaves
    c² − 2(1 + d)c + 3d = 0. So e^(εθ/2) = 1/c = (1 + d + √(1 − d + d²))/(3d).

    References
    ----------
    .. [1] Wang, T., Blocki, J., Li, N. and Jha, S. (2017). Locally differentially private protocols
       for frequency estimation. USENIX Security, 729-745.

    Examples
    --------
    >>> from epsilens.channels.unary_encoding import optimal_threshold
    >>> [round(optimal_threshold(epsilon), 3) for epsilon in (0.01, 1.0, 4.0)]
    [0.501, 0.619, 0.816]
    """
    checked = as_epsilon(epsilon)
    if checked == math.inf:
        return 1.0
    return 2.0 * _distance_of_no(checked) / checked


def _distance_of_no(epsilon: float) -> float:
    """Return y = εθ/2, the distance from 0 to the threshold in units of the noise's scale."""
    d = math.exp(-epsilon / 2)
    # 1/c − 1 without cancellation, since √(1 − d + d²) − d = (1 − d)/(√(1 − d + d²) + d).
    share = (1.0 + 1.0 / (math.sqrt(1.0 - d + d * d) + d)) / 3.0
    y = math.log1p(math.expm1(epsilon / 2) * share)
    # Within these bounds the subtraction ε/2 − y has no rounding error (Sterbenz).
    return min(max(y, epsilon / 4), epsilon / 2)

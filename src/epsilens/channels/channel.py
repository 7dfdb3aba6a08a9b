# SPDX-License-Identifier: Apache-2.0
"""A channel: how a true category becomes a reported one, and what that promises."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import FloatArray
from epsilens._validate import as_channel_matrix, as_codes, as_counts
from epsilens.channels.draw import (
    LARGEST_ROUNDING,
    Words,
    draw_rows,
    masses_epsilon,
    released_words,
    row_masses,
)
from epsilens.errors import InputError, InputTypeError, setting

LARGEST_CONDITION = 1e12


class Channel:
    """A table of chances: for each true category, how likely each category is to be reported.

    Each person's answer passes through the table once, independently of all others. The closer
    the rows are to each other, the less a report says about the truth: this is local differential
    privacy, and `epsilon` is its exact level.

    Parameters
    ----------
    matrix : array of shape (k, k)
        matrix[u, v] is the probability that v is reported when u is true. Rows sum to 1.

    Attributes
    ----------
    matrix : array of float64, shape (k, k)
        A read-only copy.
    k : int
        Number of categories.
    epsilon : float in [0, inf]
        The least ε for which matrix[u, v] ≤ e^ε · matrix[u', v] for all u, u', v. Infinity means
        that some report rules out some truth.
    advantage : float in [0, 1]
        The largest total variation distance between two rows. Whoever guesses an answer with
        probability b from everything else guesses it with at most b + (1 − b)·advantage from the
        report; see `epsilens.mechanisms.guess_ceiling`.

    Notes
    -----
    Assumptions: neighbouring data sets differ in one person's true category; the list of
    categories is public; nothing else about the person is protected.

    A real draw uses probabilities that are whole multiples of 2⁻⁶⁴. Each possible report except
    the likeliest of its row is rounded up, so the level of what is drawn can differ from
    `epsilon`, in either direction, by about 2⁻⁶⁴ divided by the smallest probability (and by the
    rounding error with which the rows sum to 1). It is computed exactly before the draw, which is
    refused if the difference is more than 1e-9. `RandomizedResponse` needs no such allowance.

    Examples
    --------
    >>> from epsilens.channels import Channel
    >>> channel = Channel([[0.75, 0.25], [0.25, 0.75]])
    >>> round(channel.epsilon, 4)
    1.0986
    >>> channel.perturb([0, 1, 1]).shape
    (3,)
    """

    __slots__ = ("_matrix",)
    _matrix: FloatArray

    def __init__(self, matrix: ArrayLike) -> None:
        self._matrix = as_channel_matrix(matrix)

    @property
    def matrix(self) -> FloatArray:
        """The probabilities, one row per true category."""
        return self._matrix

    @property
    def k(self) -> int:
        """Number of categories."""
        return int(self._matrix.shape[0])

    @property
    def epsilon(self) -> float:
        """The exact level of local differential privacy."""
        largest, smallest = self.matrix.max(axis=0), self.matrix.min(axis=0)
        possible = largest > 0
        if (smallest[possible] == 0).any():
            return math.inf
        return float((np.log(largest[possible]) - np.log(smallest[possible])).max())

    @property
    def advantage(self) -> float:
        """The largest total variation distance between what two answers lead to."""
        rows = self.matrix
        return max(float(np.abs(rows - row).sum(axis=1).max()) for row in rows) / 2.0

    def compose(self, other: Channel) -> Channel:
        """Return the channel that passes an answer through this one and then through `other`.

        Parameters
        ----------
        other : Channel
            Applied to the reports of this channel; must have the same number of categories.

        Returns
        -------
        Channel
            Its matrix is the product of the two. It is never less private than either.

        Examples
        --------
        >>> from epsilens.channels import Channel
        >>> twice = Channel([[0.9, 0.1], [0.1, 0.9]]).compose(Channel([[0.9, 0.1], [0.1, 0.9]]))
        >>> twice.matrix.round(2).tolist()
        [[0.82, 0.18], [0.18, 0.82]]
        """
        self._require_same_size(other)
        product = self.matrix @ other.matrix
        return Channel(product / product.sum(axis=1, keepdims=True))

    def perturb(
        self, codes: ArrayLike, random_state: int | np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Randomise true categories: the real release.

        Every answer is replaced by a report drawn from its row of the table. Without a
        `random_state` the randomness is the operating system's and nobody can repeat it, which
        is what the privacy promise needs.

        Parameters
        ----------
        codes : array of int, any shape
            True categories 0..k-1.
        random_state : None, int or numpy.random.Generator
            None: operating-system randomness. Anything else simulates, with a warning.

        Returns
        -------
        array of int64, the shape of `codes`
            The reports.

        Raises
        ------
        InputError
            If codes are not 0..k-1, if `epsilon` is finite but above 40, or if the probabilities
            are too small to be drawn faithfully with 64 bits.

        Warns
        -----
        PrivacyLeakWarning
            If a `random_state` is given.

        Examples
        --------
        >>> from epsilens.channels import Channel
        >>> Channel([[1.0, 0.0], [0.0, 1.0]]).perturb([0, 1, 1]).tolist()
        [0, 1, 1]
        """
        checked = as_codes(codes, n_categories=self.k)
        words = released_words(self.epsilon, random_state)
        self.require_faithful_draw()
        return self.draw(checked, words)

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
        >>> import numpy as np
        >>> from epsilens.channels import Channel
        >>> from epsilens.channels.draw import generator_words
        >>> Channel([[0.0, 1.0], [1.0, 0.0]]).draw(
        ...     np.array([0, 1]), generator_words(np.random.default_rng(0))
        ... ).tolist()
        [1, 0]
        """
        return draw_rows(codes, masses=row_masses(self.matrix), words=words)

    def require_faithful_draw(self) -> None:
        """Refuse probabilities that 64-bit numbers cannot draw."""
        epsilon = self.epsilon
        realised = masses_epsilon(row_masses(self.matrix))
        if epsilon < math.inf and realised > epsilon + LARGEST_ROUNDING:
            raise InputError(
                f"{setting('matrix')} must have probabilities that 64-bit numbers can draw, but "
                f"at its level of {epsilon:.6g} the draw would reach {realised:.6g}. Merge the "
                "rarest categories or make their probabilities larger."
            )

    def estimate_frequencies(self, counts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Estimate the true shares of the categories from how often each was reported.

        Randomised reports pull all shares towards each other. This undoes the pull on average,
        and says how uncertain the result is because of the randomising.

        Parameters
        ----------
        counts : array of shape (k,)
            How many reports name each category.

        Returns
        -------
        pi : array of shape (k,)
            Unbiased estimates of the true shares. They sum to 1 but may be negative or exceed 1:
            they are not moved onto the simplex, since that would bias them.
        covariance : array of shape (k, k)
            Estimated covariance of `pi` over the randomising, for the given people. It does not
            contain the error of sampling the people from a population.

        Raises
        ------
        InputError
            If the channel cannot be undone (its matrix is singular, as at ε = 0), or the counts
            are not k numbers that are at least 0 and not all 0.

        Notes
        -----
        With λ̂ the reported shares, λ = Pᵀπ, so π̂ = (Pᵀ)⁻¹λ̂ with covariance
        (Pᵀ)⁻¹ Σ_u π_u (diag P_u − P_uP_uᵀ) P⁻¹/n, P_u the u-th row as a column [1]_. π̂ is put in
        for π, which keeps the covariance unbiased.

        References
        ----------
        .. [1] Chaudhuri, A. and Mukerjee, R. (1988). Randomized Response: Theory and Techniques.

        Examples
        --------
        >>> from epsilens.channels import Channel
        >>> pi, covariance = Channel([[0.75, 0.25], [0.25, 0.75]]).estimate_frequencies([600, 400])
        >>> pi.round(3).tolist(), round(float(covariance[0, 0]) ** 0.5, 4)
        ([0.7, 0.3], 0.0274)
        """
        advice = f"Use `numpy.bincount(reports, minlength={self.k})`."
        reported = as_counts(counts, name="counts", n=self.k, of="category", advice=advice)
        if not np.isfinite(reported).all() or (reported < 0).any() or not (reported > 0).any():
            raise InputError(
                argument="counts",
                expected="at least 0 and not all 0",
                got="entries that are negative or not finite, or no report at all",
                hint="Give the number of reports of each category.",
            )
        n_reports = float(reported.sum())
        inverse = self._inverse()
        pi = inverse.T @ (reported / n_reports)
        spread = np.diag(self.matrix.T @ pi) - (self.matrix.T * pi) @ self.matrix
        covariance = inverse.T @ spread @ inverse / n_reports
        return pi, (covariance + covariance.T) / 2

    def _inverse(self) -> FloatArray:
        if np.linalg.cond(self.matrix) > LARGEST_CONDITION:
            raise InputError(
                f"{setting('matrix')} must be invertible to estimate frequencies, but its reports "
                "say nothing, or next to nothing, about some categories. Use a channel with a "
                "larger epsilon."
            )
        return np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)

    def _require_same_size(self, other: object) -> None:
        if not isinstance(other, Channel):
            raise InputTypeError(argument="other", expected="a Channel", got=type(other).__name__)
        if other.k != self.k:
            raise InputError(
                f"{setting('other')} must have as many categories as this channel ({self.k}), got "
                f"{other.k}."
            )

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.matrix.tobytes()))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.matrix,))

    def __repr__(self) -> str:
        return f"Channel(k={self.k}, epsilon={self.epsilon:.6g})"


# --- Channels that treat all answers alike: the truth with one probability, each lie with another ---


class SymmetricChannel(Channel):
    """A channel P = a I + b 11ᵀ with a + kb = 1, drawn in whole thresholds that keep ε exactly.

    Those who inherit set `_k` and `_epsilon` and say what `a` is.

    Attributes
    ----------
    keep_probability : float
        Probability that the truth is reported, a + b.
    flip_probability : float
        Probability of each one of the other answers, b.
    a : float in [0, 1]
        How much of the truth comes through.
    """

    __slots__ = ("_epsilon", "_k")
    _epsilon: float
    _k: int

    @property
    def k(self) -> int:
        """Number of possible answers."""
        return self._k

    @property
    def epsilon(self) -> float:
        """The privacy budget spent per answer."""
        return self._epsilon

    @property
    def a(self) -> float:
        """How much of the truth comes through: 0 is pure noise, 1 the truth."""
        raise NotImplementedError

    @property
    def flip_probability(self) -> float:
        """Probability of each one of the other answers."""
        return (1.0 - self.a) / self._k

    @property
    def lie_probability(self) -> float:
        """Earlier name of `flip_probability`."""
        return self.flip_probability

    @property
    def keep_probability(self) -> float:
        """Probability that the truth is reported."""
        return self.a + self.flip_probability

    @property
    def matrix(self) -> FloatArray:
        """The probabilities, one row per true answer (read-only)."""
        matrix = np.full((self._k, self._k), self.flip_probability)
        np.fill_diagonal(matrix, self.keep_probability)
        matrix.setflags(write=False)
        return matrix

    def require_faithful_draw(self) -> None:
        """Refuse nothing: thresholds are rounded so that epsilon is kept exactly."""

    def _inverse(self) -> FloatArray:
        if self.a == 0.0:
            raise InputError(
                argument="epsilon",
                expected="greater than 0 to estimate frequencies",
                got="0: pure noise says nothing about the truth",
            )
        # (a I + b 11ᵀ)⁻¹ = (I − b 11ᵀ)/a, since a + kb = 1.
        return (np.eye(self._k) - self.flip_probability) / self.a

    @property
    def _settings(self) -> tuple[object, ...]:
        """What tells two channels of one kind apart."""
        return (self._k, self._epsilon)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._settings == other._settings

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._settings))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), self._settings)

# SPDX-License-Identifier: Apache-2.0
"""Local hashing: each person's answer is hashed to a few cells and the cell is randomised."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from epsilens._types import BoolArray
from epsilens._validate import LARGEST_FINITE_EPSILON, as_choice, as_count, as_epsilon
from epsilens.channels.channel import SymmetricChannel
from epsilens.channels.draw import (
    WORDS_AT_ONCE,
    Words,
    draw_response,
    exponential_below,
    response_threshold,
    uniform_below,
)
from epsilens.channels.randomized_response import RandomizedResponse
from epsilens.errors import InputError

HashingKind = Literal["olh", "blh"]


class LocalHashing(SymmetricChannel):
    """Each person reports a randomised hash of the answer, and the collector guesses the answer.

    Every person draws a hash of their own, which throws the k possible answers into g cells, finds
    the cell of the true answer, and reports hash and cell, the cell by g-ary randomised response.
    The collector then picks one of the answers that fall into the reported cell, all alike, or any
    answer if none does. What comes out is an answer, so it can stand in a table.

    Used like this it is **never better than k-ary randomised response**: the guess costs accuracy
    and gives nothing back. Whoever collected hash and cell could learn as much as ε allows, so the
    **budget spent is still ε**, although the answers that come out show less (`effective_epsilon`).
    It is here to show what data that were collected in this way are worth.

    Parameters
    ----------
    k : int, at least 2
        Number of possible answers.
    epsilon : float in (0, 40]
        The privacy budget per answer, of hash and cell together.
    kind : {"olh", "blh"}
        Optimal local hashing, with g = e^ε + 1 cells rounded to a whole number, or binary local
        hashing with 2.

    Attributes
    ----------
    n_cells : int
        The number of cells, g.
    a : float in (0, 1)
        How much of the truth comes through.
    keep_probability, flip_probability : float
        Probability that the truth comes out, and that each one of the other answers does.
    effective_epsilon : float
        The ε at which k-ary randomised response has the same matrix; below `epsilon`.
    advantage : float in (0, 1)
        The total variation distance between what two answers lead to. What is reported is hash and
        cell, so it is larger than `a`, which is of the answers that come out.

    Notes
    -----
    With p = e^ε/(e^ε + g − 1), the truth comes out with probability (P1 IV-C.2)
    P[u,u] = p(g/k)(1 − (1 − 1/g)^k) + (1 − p)(1 − 1/g)^(k−1)/k, and each other answer with
    (1 − P[u,u])/(k − 1). So P = a I + b 11ᵀ as in randomised response, where
    a = (e^ε − 1)/(e^ε + g − 1) · (g − 1)(1 − (1 − 1/g)^(k−1))/(k − 1), the same without
    cancellation, and b = (1 − a)/k. As ε grows, OLH's a tends to 1/2, not to 1: half of the cells
    reported are noise however large ε is. Therefore an infinite ε is refused.

    `matrix`, `estimate_frequencies` and `compose` describe the answers that come out. Frequencies
    estimated from all answers in the reported cells, as OLH was made for, are more accurate than
    from the one that was picked; for such estimates without hashing see `UnaryEncoding`.

    A draw with operating-system randomness keeps ε exactly: the probability of reporting a false
    cell is rounded up to a multiple of 2⁻⁶⁴ in exact arithmetic. The hash is a table of k
    independent cells, each equally likely, drawn anew for each answer and forgotten.

    Assumptions: the list of possible answers is public, the hash does not depend on the truth, and
    each answer is randomised once.

    References
    ----------
    .. [1] Wang, T., Blocki, J., Li, N. and Jha, S. (2017). Locally differentially private protocols
       for frequency estimation. USENIX Security, 729-745.
    .. [2] Bassily, R. and Smith, A. (2015). Local, private, efficient protocols for succinct
       histograms. STOC, 127-135.

    Examples
    --------
    >>> from epsilens.channels import LocalHashing
    >>> channel = LocalHashing(16, 3.0)
    >>> channel.n_cells, channel.epsilon, round(channel.effective_epsilon, 2)
    (21, 3.0, 2.18)
    >>> round(LocalHashing(16, 3.0, kind="blh").effective_epsilon, 2)
    0.71
    >>> channel.perturb([0, 7, 15]).shape
    (3,)
    """

    __slots__ = ("_kind",)
    _kind: HashingKind

    def __init__(self, k: int, epsilon: float, *, kind: HashingKind = "olh") -> None:
        self._k = as_count(k, name="k", least=2)
        self._epsilon = as_epsilon(epsilon)
        if self._epsilon > LARGEST_FINITE_EPSILON:
            raise InputError(
                argument="epsilon",
                expected=f"at most {LARGEST_FINITE_EPSILON:g} for local hashing",
                got=f"{self._epsilon:g}",
                hint="Use `RandomizedResponse`, which reports the truth at infinity.",
            )
        as_choice(kind, get_args(HashingKind), name="kind")
        self._kind = kind

    @property
    def kind(self) -> HashingKind:
        """Which local hashing it is."""
        return self._kind

    @property
    def n_cells(self) -> int:
        """Number of cells g to which answers are hashed."""
        # In exact arithmetic, so that it is the same on every machine.
        return 2 if self._kind == "blh" else round(exponential_below(self._epsilon)) + 1

    @property
    def a(self) -> float:
        """How much of the truth comes through: 0 is pure noise, 1 the truth."""
        g, others = self.n_cells, self._k - 1
        # What is left when other answers share the cell: (g − 1)(1 − (1 − 1/g)^(k−1))/(k − 1).
        left = (g - 1) * -math.expm1(others * math.log1p(-1.0 / g)) / others
        return RandomizedResponse(g, self._epsilon).a * left

    @property
    def advantage(self) -> float:
        """Total variation distance between the hash and cell that two answers lead to.

        The hash does not depend on the answer. Given a hash, two answers in one cell lead to the same
        report, and two answers in different cells to reports at the distance of g-ary randomised
        response; the cells differ with probability 1 − 1/g.
        """
        g = self.n_cells
        return (1.0 - 1.0 / g) * RandomizedResponse(g, self._epsilon).a

    @property
    def effective_epsilon(self) -> float:
        """The ε at which k-ary randomised response has the same matrix."""
        return math.log1p(self._k * self.a / (1.0 - self.a))

    def draw(self, codes: NDArray[np.int64], words: Words) -> NDArray[np.int64]:
        """Run the protocol (hash, report, pick) with the given source of 64-bit words.

        Parameters
        ----------
        codes : array of int64, any shape
            Checked codes.
        words : callable
            Given n, returns n independent uniform 64-bit words. About k + 2 are used per code.

        Returns
        -------
        array of int64, the shape of `codes`
            The answers that the collector picks.

        Examples
        --------
        >>> import numpy as np
        >>> from epsilens.channels import LocalHashing
        >>> from epsilens.channels.draw import generator_words
        >>> words = generator_words(np.random.default_rng(0))
        >>> LocalHashing(3, 1.0).draw(np.array([[0, 1], [2, 2]]), words).shape
        (2, 2)
        """
        g = self.n_cells
        threshold = response_threshold(g, self._epsilon)
        picked = codes.ravel().copy()
        n_rows = max(WORDS_AT_ONCE // self._k, 1)
        for start in range(0, picked.size, n_rows):
            block = picked[start : start + n_rows]
            cells = uniform_below(g, block.size * self._k, words).reshape(block.size, self._k)
            true_cells = cells[np.arange(block.size), block]
            reported = draw_response(true_cells, k=g, threshold=threshold, words=words)
            block[:] = _pick(cells == reported[:, None], words)
        return picked.reshape(codes.shape)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, self._settings)

    def __repr__(self) -> str:
        return f"LocalHashing(k={self._k}, epsilon={self._epsilon:g}, kind={self._kind!r})"

    @property
    def _settings(self) -> tuple[int, float, HashingKind]:
        return (self._k, self._epsilon, self._kind)


def _rebuild(k: int, epsilon: float, kind: HashingKind) -> LocalHashing:
    return LocalHashing(k, epsilon, kind=kind)


def _pick(support: BoolArray, words: Words) -> NDArray[np.int64]:
    """Return, for each row, the position of one of its marks, or any position if it has none."""
    marked = support | ~support.any(axis=1, keepdims=True)
    n_marked = marked.sum(axis=1)
    rank = np.empty(n_marked.size, dtype=np.int64)
    for size in np.unique(n_marked).tolist():
        here = np.flatnonzero(n_marked == size)
        rank[here] = uniform_below(size, here.size, words)
    return np.asarray((marked.cumsum(axis=1) > rank[:, None]).argmax(axis=1), dtype=np.int64)

# SPDX-License-Identifier: Apache-2.0
"""Drawing reports: exact integer thresholds, words from the operating system or a seed.

A real release must keep its promise to the last bit. A flip probability that is rounded to the
nearest floating-point number can come out too small, and then the promise is broken, if only by a
hair. Here every probability is a whole number of 2⁻⁶⁴ths, found by exact arithmetic and rounded
in the direction of more privacy, and compared with 64 random bits from the operating system.

One algorithm serves both kinds of randomness; only the source of the 64-bit words differs. So what
the seeded tests see is what the release does.
"""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray, WordArray
from epsilens._validate import INFINITY, LARGEST_FINITE_EPSILON, as_codes, as_generator
from epsilens.errors import InputError, PrivacyLeakWarning
from epsilens.notes import Note

if TYPE_CHECKING:
    from epsilens.channels.channel import Channel


Words: TypeAlias = Callable[[int], WordArray]
"""A source of randomness: given n, n independent uniform 64-bit words."""

WORD_RANGE = 2**64
WORDS_AT_ONCE = 2**20
# Beyond this the lie threshold is 2^-64 whatever epsilon is; keeps the exact arithmetic small.
LARGEST_USEFUL_EPSILON = 100.0
# A general channel is drawn only if rounding moves its level by no more than this.
LARGEST_ROUNDING = 1e-9
DIGITS = 60


def operating_system_words(n: int) -> WordArray:
    """Return n 64-bit words from the operating system's cryptographic generator."""
    return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)


def generator_words(generator: np.random.Generator) -> Words:
    """Return a source of words that repeats itself with the generator's seed."""
    return lambda n: generator.integers(0, WORD_RANGE, size=n, dtype=np.uint64)


def released_words(epsilon: float, random_state: object, *, stacklevel: int = 3) -> Words:
    """Return the words for a release at `epsilon`, or for a simulation if a seed is given.

    Parameters
    ----------
    epsilon : float in [0, inf]
        The level that is promised. Finite levels above 40 cannot be kept with 64-bit thresholds.
    random_state : None, int or numpy.random.Generator
        None draws from the operating system; anything else simulates and warns.
    stacklevel : int
        How many callers up the warning points.

    Raises
    ------
    InputError
        If a finite epsilon is above 40.
    """
    if LARGEST_FINITE_EPSILON < epsilon < math.inf:
        raise InputError(
            argument="epsilon",
            expected=f"at most {LARGEST_FINITE_EPSILON:g} or infinite for a draw",
            got=f"{epsilon:g}",
            hint=f"Such a level protects nobody; use {INFINITY} and say so.",
        )
    if random_state is None:
        return operating_system_words
    generator = as_generator(random_state)
    Note(
        "simulated",
        "A seed was given: these reports are simulated and protect nobody, since whoever knows the "
        "seed can repeat the draw. Leave it out for a real release.",
    ).warn(PrivacyLeakWarning, stacklevel=stacklevel)
    return generator_words(generator)


def simulate(
    channel: Channel, codes: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw reports for a study, repeatably, without releasing anything.

    This answers "what might the randomised data look like?". The draw can be repeated by anyone
    who knows the seed, so its result must never be published as protected data. For a release use
    the channel's own `perturb`.

    Parameters
    ----------
    channel : Channel
        What is done to a category.
    codes : array of int, any shape
        True categories 0..k-1.
    generator : numpy.random.Generator
        Where the randomness comes from.

    Returns
    -------
    array of int64, the shape of `codes`
        The simulated reports.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.channels import RandomizedResponse, simulate
    >>> reports = simulate(RandomizedResponse(3, 1.0), np.zeros(1000, int), np.random.default_rng(0))
    >>> reports.shape, sorted(set(reports.tolist()))
    ((1000,), [0, 1, 2])
    """
    checked = as_codes(codes, n_categories=channel.k)
    return channel.draw(checked, generator_words(as_generator(generator, name="generator")))


@lru_cache(maxsize=1024)
def exponential_below(epsilon: float) -> Fraction:
    """Return a rational number just below (or at) e^epsilon, for the exact float `epsilon`.

    `decimal` rounds its exponential correctly, so the number below the rounded one is below e^ε.
    """
    context = decimal.Context(prec=DIGITS, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    return Fraction(context.next_minus(context.exp(decimal.Decimal(epsilon))))


@lru_cache(maxsize=1024)
def response_threshold(k: int, epsilon: float) -> int:
    """Return how many of the 2⁶⁴ words make k-ary randomised response lie.

    The least whole number L for which telling the truth, (2⁶⁴ − L)/2⁶⁴, is at most e^ε times as
    likely as each of the k − 1 lies, L/(2⁶⁴(k − 1)): L = ⌈2⁶⁴(k − 1)/(e^ε + k − 1)⌉, with e^ε
    taken from below. So the mechanism that is drawn keeps ε exactly, not nearly.

    Examples
    --------
    >>> from epsilens.channels.draw import response_threshold
    >>> response_threshold(2, 1.0) / 2**64
    0.2689414213699951
    """
    # Clipping makes the threshold larger, never smaller: the safe side.
    ratio = exponential_below(min(epsilon, LARGEST_USEFUL_EPSILON))
    return math.ceil(WORD_RANGE * (k - 1) / (ratio + k - 1))


def is_uniform(k: int, threshold: int) -> bool:
    """Whether the threshold asks for lies at least as likely as the truth: pure noise."""
    return threshold * k >= WORD_RANGE * (k - 1)


def uniform_below(bound: int, n: int, words: Words) -> NDArray[np.int64]:
    """Return n integers, each of 0..bound-1 equally likely (rejection, so no modulo bias)."""
    drawn = words(n)
    accepted = bound * (WORD_RANGE // bound)
    if accepted < WORD_RANGE:
        limit = np.uint64(accepted)
        again = np.flatnonzero(drawn >= limit)
        drawn = drawn.copy() if again.size else drawn
        while again.size:
            drawn[again] = words(again.size)
            again = again[drawn[again] >= limit]
    return (drawn % np.uint64(bound)).astype(np.int64)


def draw_response(
    codes: NDArray[np.int64], *, k: int, threshold: int, words: Words
) -> NDArray[np.int64]:
    """Draw k-ary randomised response: lie on a word below the threshold, any other value alike."""
    reports = codes.ravel().copy()
    for start in range(0, reports.size, WORDS_AT_ONCE):
        block = reports[start : start + WORDS_AT_ONCE]
        if is_uniform(k, threshold):
            # Rounding up may not make lies likelier than the truth; exact noise keeps any epsilon.
            block[:] = uniform_below(k, block.size, words)
            continue
        liars = np.flatnonzero(words(block.size) < np.uint64(threshold))
        steps = uniform_below(k - 1, liars.size, words) + 1
        block[liars] = (block[liars] + steps) % k
    return reports.reshape(codes.shape)


def row_masses(matrix: FloatArray) -> list[list[int]]:
    """Return each row as whole numbers of 2⁻⁶⁴ths that sum to 2⁶⁴.

    Every possible report but the row's likeliest is rounded up and the likeliest gives what is
    needed: mass moves towards unlikely reports, and an impossible report stays impossible. Rows
    are first divided by their exact sums.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.channels.draw import row_masses
    >>> [mass / 2**64 for mass in row_masses(np.array([[0.25, 0.75], [0.0, 1.0]]))[0]]
    [0.25, 0.75]
    """
    table = []
    for row in matrix:
        exact = [Fraction(float(entry)) for entry in row]
        total = sum(exact)
        masses = [math.ceil(WORD_RANGE * entry / total) for entry in exact]
        masses[int(np.argmax(row))] += WORD_RANGE - sum(masses)
        table.append(masses)
    return table


def masses_epsilon(masses: list[list[int]]) -> float:
    """Return the local privacy level of a table of whole masses: its largest log ratio."""
    largest = 0.0
    for column in zip(*masses, strict=True):
        if max(column) > 0:
            if min(column) <= 0:
                return math.inf
            largest = max(largest, math.log(max(column)) - math.log(min(column)))
    return largest


def draw_rows(
    codes: NDArray[np.int64], *, masses: list[list[int]], words: Words
) -> NDArray[np.int64]:
    """Draw a report for each code from its row of whole masses (see `row_masses`)."""
    flat = codes.ravel()
    reports = np.empty_like(flat)
    # With the likeliest report last, all thresholds before it are below 2^64 and fit a word.
    order = [sorted(range(len(row)), key=row.__getitem__) for row in masses]
    for start in range(0, flat.size, WORDS_AT_ONCE):
        block = flat[start : start + WORDS_AT_ONCE]
        drawn = words(block.size)
        for code in np.unique(block).tolist():
            ends, total = [], 0
            for report in order[code][:-1]:
                total += masses[code][report]
                ends.append(total)
            here = np.flatnonzero(block == code)
            position = np.searchsorted(np.array(ends, dtype=np.uint64), drawn[here], side="right")
            reports[start + here] = np.array(order[code], dtype=np.int64)[position]
    return reports.reshape(codes.shape)

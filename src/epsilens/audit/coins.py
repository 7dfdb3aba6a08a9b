# SPDX-License-Identifier: Apache-2.0
"""The auditor's own randomness: coins, canaries and simulated noise that share nothing.

Whoever runs an audit types a seed, and a mechanism may seed itself with the same number. If both
then drew from the same stream, its noise would repeat the coins and an honest mechanism would look
broken. So every purpose here has a stream of its own, which no bare seed gives.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
from scipy.stats import binomtest

from epsilens._types import BoolArray
from epsilens._validate import as_count, as_generator
from epsilens.errors import ApproximationWarning, InputError, setting
from epsilens.notes import Note

Purpose: TypeAlias = Literal["coins", "canaries", "noise", "parts"]
"""What the auditor needs random numbers for."""

_TAGS: dict[Purpose, int] = {
    "coins": 0x7C01_4501,
    "canaries": 0x7C01_4502,
    "noise": 0x7C01_4503,
    "parts": 0x7C01_4504,
}

HALF_BY_CHANCE = (
    "exactly half of the canaries were in by chance: a design that fixes their number breaks the "
    "theory"
)
"""What a bound takes for granted when half of the canaries were in."""

_UNFAIR = 1e-9
_LEAST_FOR_HALF = 20
"""From so many canaries on, fair coins put exactly half in less than once in five audits."""


def own_stream(
    random_state: int | np.random.Generator | None, *, purpose: Purpose
) -> np.random.Generator:
    """Return random numbers for one purpose of the auditor, which nobody else draws.

    Parameters
    ----------
    random_state : None, int or numpy.random.Generator
        None: the operating system's randomness. A generator is used as it is.
    purpose : {"coins", "canaries", "noise", "parts"}
        What for. The same seed gives unrelated numbers for each.

    Returns
    -------
    numpy.random.Generator
        Not `numpy.random.default_rng(seed)`, which a mechanism may use.

    Examples
    --------
    >>> import numpy as np
    >>> mine = own_stream(0, purpose="coins").integers(0, 2, 20)
    >>> bool((mine == np.random.default_rng(0).integers(0, 2, 20)).all())
    False
    """
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    as_generator(random_state)
    return np.random.default_rng(np.random.SeedSequence([int(random_state), _TAGS[purpose]]))


def draw_inclusion(
    n_canaries: int, random_state: int | np.random.Generator | None = None
) -> BoolArray:
    """Toss a fair coin for every canary.

    The coins are independent. A design that puts exactly half of the canaries in breaks the theory
    of every one-run bound, so there is none here.

    Parameters
    ----------
    n_canaries : int, at least 1
        How many coins.
    random_state : None, int or numpy.random.Generator
        None: the operating system's randomness. A mechanism that is seeded with the same number,
        or with a generator like this one, does not draw the same coins.

    Returns
    -------
    array of bool, (n_canaries,)
        True: the canary is in.

    Examples
    --------
    >>> draw_inclusion(3, random_state=0).shape
    (3,)
    """
    as_count(n_canaries, name="n_canaries")
    generator = own_stream(random_state, purpose="coins")
    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(0, 2**32, size=4).tolist()
        generator = np.random.default_rng(np.random.SeedSequence([*words, _TAGS["coins"]]))
    return np.asarray(generator.integers(0, 2, size=n_canaries).astype(np.bool_))


def is_exactly_half(included: BoolArray) -> bool:
    """Say whether as many canaries were in as out.

    Examples
    --------
    >>> import numpy as np
    >>> is_exactly_half(np.array([True, False])), is_exactly_half(np.array([True, False, True]))
    (True, False)
    """
    return 2 * int(included.sum()) == included.size


def require_fair_coins(included: BoolArray) -> None:
    """Refuse inclusion that fair coins cannot produce, and warn where they seldom do.

    Parameters
    ----------
    included : array of bool, (m,)
        Which canaries were in.

    Raises
    ------
    InputError
        If fair coins give so uneven a number less than once in a thousand million audits.

    Warns
    -----
    ApproximationWarning
        If exactly half were in, of so many that this is rare.

    Examples
    --------
    >>> import numpy as np
    >>> require_fair_coins(np.ones(100, dtype=bool))
    Traceback (most recent call last):
    ...
    epsilens.errors.InputError: `included` must come from fair coins, got 100 of 100 canaries in, ...
    """
    n_in, m = int(included.sum()), included.size
    if binomtest(n_in, m).pvalue < _UNFAIR:
        raise InputError(
            f"{setting('included')} must come from fair coins, got {n_in} of {m} canaries in, "
            "which fair coins do less than once in a thousand million audits. Draw each canary's "
            "inclusion with probability one half."
        )
    if is_exactly_half(included) and m >= _LEAST_FOR_HALF:
        often = math.exp(math.lgamma(m + 1) - 2 * math.lgamma(n_in + 1) - m * math.log(2))
        Note(
            "half-of-canaries",
            f"exactly half of the {m} canaries were in. Fair coins do that in {100 * often:.2g} % "
            "of audits; if the number was fixed, this is not a confidence bound. Draw each canary's "
            "inclusion by a coin of its own.",
        ).warn(ApproximationWarning, stacklevel=3)

# SPDX-License-Identifier: Apache-2.0
"""How many guesses to make: the choice that turns a bound into no bound when it is made freely.

Few guesses are surer, many weigh more. Whoever tries all numbers and keeps the best has made many
tests and must pay for them. Each class here is one honest way to choose, or, as `AsPrinted`, the
dishonest one for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epsilens._validate import as_choice, as_count, as_share
from epsilens.errors import InputError, InputTypeError


@dataclass(frozen=True)
class GeometricCounts:
    """Numbers of guesses that grow by a constant factor.

    Parameters
    ----------
    n_counts : int, at least 1
        How many numbers of guesses.
    smallest, largest : float in (0, 0.5]
        Fewest and most guesses on each side as a share of the canaries.
    """

    n_counts: int
    smallest: float = 0.01
    largest: float = 0.5

    def __post_init__(self) -> None:
        as_count(self.n_counts, name="n_counts")
        if not 0.0 < self.smallest <= self.largest <= 0.5:
            raise InputError(
                "`smallest` and `largest` must be shares of the canaries with 0 < smallest <= largest "
                f"<= 0.5, got {self.smallest!r} and {self.largest!r}."
            )

    def counts(self, n_canaries: int) -> NDArray[np.int64]:
        """Return the numbers of guesses on each side that are tried."""
        most = max(round(self.largest * n_canaries), 1)
        least = min(max(round(self.smallest * n_canaries), 1), most)
        grid = np.round(np.geomspace(least, most, self.n_counts)).astype(np.int64)
        return np.unique(np.minimum(grid, max(n_canaries // 2, 1)))


@dataclass(frozen=True)
class Fixed:
    """So many guesses on each side, chosen before the scores were seen.

    Parameters
    ----------
    n_each_side : int, at least 1
        Guesses "in" and as many "out"; all other canaries are left without a guess.

    Examples
    --------
    >>> Fixed(100).name
    '100'
    """

    n_each_side: int

    def __post_init__(self) -> None:
        as_count(self.n_each_side, name="n_each_side")

    @property
    def name(self) -> str:
        """The word for it on the command line and in a document."""
        return str(self.n_each_side)


@dataclass(frozen=True)
class Bonferroni(GeometricCounts):
    """Several numbers of guesses, each tested at its share of the error.

    Parameters
    ----------
    n_counts : int, at least 1
        How many numbers of guesses are tried.
    smallest, largest : float in (0, 0.5]
        Fewest and most guesses on each side as a share of the canaries; in between the numbers
        grow by a constant factor.

    Examples
    --------
    >>> Bonferroni(n_counts=4).counts(1000).tolist()
    [10, 37, 136, 500]
    """

    name: ClassVar[str] = "bonferroni"
    """The word for it on the command line and in a document."""

    n_counts: int = 12


@dataclass(frozen=True)
class Path(GeometricCounts):
    """Many numbers of guesses as points of one path, corrected together and exactly.

    Gives away much less than `Bonferroni`. For pure and approximate bounds;
    `docs/one-run-audit.md` has the proof.

    Parameters
    ----------
    n_counts : int, at least 1
        At how many numbers of guesses the path is looked at.
    smallest, largest : float in (0, 0.5]
        Fewest and most guesses on each side as a share of the canaries; in between the numbers
        grow by a constant factor.

    Examples
    --------
    >>> Path(n_counts=4).counts(100).tolist()
    [1, 4, 14, 50]
    """

    name: ClassVar[str] = "path"
    """The word for it on the command line and in a document."""

    n_counts: int = 25


@dataclass(frozen=True)
class Split:
    """The number of guesses is chosen on one part of the canaries and tested on the other.

    Parameters
    ----------
    fraction : float in (0, 1)
        Share of the canaries on which it is chosen.
    seed : int
        Which canaries those are: fixed beforehand.

    Examples
    --------
    >>> Split(fraction=0.3).name
    'split'
    """

    name: ClassVar[str] = "split"
    """The word for it on the command line and in a document."""

    fraction: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        as_share(self.fraction, name="fraction")
        as_count(self.seed, name="seed", least=0)


@dataclass(frozen=True)
class AsPrinted:
    """The best of all numbers of guesses, uncorrected, as P3 prints it: not a confidence bound.

    On mechanisms with a known ε it lies above it in about every third audit.

    Parameters
    ----------
    most : int, at least 1
        The largest number of guesses on each side that is tried; P3 has 500.

    Examples
    --------
    >>> AsPrinted().counts(64).size
    32
    """

    name: ClassVar[str] = "as_printed"
    """The word for it on the command line and in a document."""

    most: int = 500

    def __post_init__(self) -> None:
        as_count(self.most, name="most")

    def counts(self, n_canaries: int) -> NDArray[np.int64]:
        """Return the numbers of guesses on each side that are tried."""
        return np.arange(1, min(n_canaries // 2, self.most) + 1)


Selection: TypeAlias = Fixed | Bonferroni | Path | Split | AsPrinted

_BY_NAME: dict[str, Selection] = {
    "path": Path(),
    "bonferroni": Bonferroni(),
    "split": Split(),
    "as_printed": AsPrinted(),
}


def as_selection(value: object) -> Selection:
    """Return a strategy from its name, from a number of guesses on each side, or as it is.

    Parameters
    ----------
    value : {"path", "bonferroni", "split", "as_printed"}, int or strategy
        An int fixes the guesses on each side beforehand.

    Returns
    -------
    Selection
        A frozen strategy.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> as_selection(100)
    Fixed(n_each_side=100)
    >>> as_selection("split")
    Split(fraction=0.5, seed=0)
    """
    if isinstance(value, Fixed | Bonferroni | Path | Split | AsPrinted):
        return value
    if isinstance(value, str):
        return _BY_NAME[as_choice(value, tuple(_BY_NAME), name="selection")]
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Fixed(as_count(int(value), name="selection"))
    raise InputTypeError(
        argument="selection",
        expected="a name, a whole number of guesses on each side, or a strategy such as Bonferroni()",
        got=type(value).__name__,
    )

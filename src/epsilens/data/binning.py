# SPDX-License-Identifier: Apache-2.0
"""Put a number into one of a few equal-width bins, so that it can be randomised."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epsilens._types import FloatArray
from epsilens._validate import as_count
from epsilens.errors import InputError, setting

if TYPE_CHECKING:
    pass


LARGEST_BIN_COUNT = 1000
"""Finer bins would hide nothing, and randomised response among so many answers says nothing."""


@dataclass(frozen=True)
class Bins:
    """Equal-width bins between two bounds; a number becomes the middle of its bin.

    Parameters
    ----------
    n_bins : int, from 2 to 1000
        How many bins.
    low, high : float, optional
        The bounds; numbers beyond them count into the first or last bin. Without bounds the
        smallest and largest number of the data are taken, which tells something about two people.

    Examples
    --------
    >>> Bins(4, low=0.0, high=100.0).midpoints
    (12.5, 37.5, 62.5, 87.5)
    """

    n_bins: int
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        as_count(self.n_bins, name="bins", least=2)
        if self.n_bins > LARGEST_BIN_COUNT:
            raise InputError(
                argument="bins",
                expected=f"at most {LARGEST_BIN_COUNT}",
                got=str(self.n_bins),
                hint="Choose fewer and wider ones.",
            )
        if (self.low is None) != (self.high is None):
            raise InputError(
                f"{setting('bins')} must have both bounds or none. Write COL=LOW:HIGH:COUNT."
            )
        if (
            self.low is not None
            and self.high is not None
            and not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high)
        ):
            raise InputError(
                f"{setting('bins')} must have a finite lower bound below its upper bound, got "
                f"{self.low:g} and {self.high:g}."
            )
        if self.low is not None and not self._are_distinct():
            raise InputError(
                f"{setting('bins')} must have bounds that {self.n_bins} bins fit between, but "
                "those given are too far apart or too close together for 64-bit numbers. Choose "
                "others."
            )

    def _are_distinct(self) -> bool:
        """Say whether every bin has a finite middle of its own."""
        middles = self.midpoints
        return math.isfinite(middles[-1]) and all(
            left < right for left, right in itertools.pairwise(middles)
        )

    @property
    def midpoints(self) -> tuple[float, ...]:
        """The middle of each bin, lowest first; needs bounds."""
        if self.low is None or self.high is None:
            raise InputError(
                f"{setting('bins')} has no bounds yet. Call `bounded_by` with the data first."
            )
        width = (self.high - self.low) / self.n_bins
        return tuple(self.low + (index + 0.5) * width for index in range(self.n_bins))

    def bounded_by(self, values: FloatArray) -> Bins:
        """Take the bounds from the data if none were given.

        Parameters
        ----------
        values : array of float
            The column; missing values are ignored.

        Returns
        -------
        Bins
            The same number of bins, with bounds.

        Examples
        --------
        >>> import numpy as np
        >>> Bins(2).bounded_by(np.array([0.0, 10.0])).midpoints
        (2.5, 7.5)
        """
        import numpy as np

        if self.low is not None:
            return self
        finite = values[np.isfinite(values)]
        if finite.size == 0 or finite.min() == finite.max():
            raise InputError(
                f"{setting('bins')} without bounds needs a column with at least two different "
                "numbers. Give the bounds: COL=LOW:HIGH:COUNT."
            )
        return Bins(self.n_bins, float(finite.min()), float(finite.max()))

    def apply(self, values: FloatArray) -> FloatArray:
        """Replace each number by the middle of its bin.

        Parameters
        ----------
        values : array of float
            The column; a missing value stays missing.

        Returns
        -------
        array of float
            Midpoints.

        Examples
        --------
        >>> import numpy as np
        >>> Bins(2, low=0.0, high=10.0).apply(np.array([1.0, 5.0, 99.0])).tolist()
        [2.5, 7.5, 7.5]
        """
        import numpy as np

        middles = np.array(self.midpoints)
        low, high = float(self.low or 0.0), float(self.high or 0.0)
        inner_edges = low + (high - low) / self.n_bins * np.arange(1, self.n_bins)
        # Infinite numbers count into the end bins, as all numbers beyond the bounds do.
        result: FloatArray = middles[
            np.searchsorted(inner_edges, values, side="right").clip(max=len(middles) - 1)
        ]
        result[np.isnan(values)] = np.nan
        return result


def parse_bins(text: str) -> tuple[str, Bins]:
    """Read `COL=10` or, with bounds that are not taken from the data, `COL=LOW:HIGH:10`.

    Parameters
    ----------
    text : str
        A column and its bins.

    Returns
    -------
    tuple of str and Bins
        The column and its bins.

    Raises
    ------
    InputError
        If the text has another form.

    Examples
    --------
    >>> parse_bins("age=0:100:10")
    ('age', Bins(n_bins=10, low=0.0, high=100.0))
    """
    column, equals, rest = text.rpartition("=")
    parts = rest.split(":")
    try:
        if equals and column and len(parts) == 1:
            return column.strip(), Bins(int(parts[0]))
        if equals and column and len(parts) == 3:
            return column.strip(), Bins(int(parts[2]), float(parts[0]), float(parts[1]))
    except InputError:
        raise
    except ValueError:
        pass
    raise InputError(f"{setting('bins')} must look like COL=10 or COL=0:100:10, got {text!r}.")

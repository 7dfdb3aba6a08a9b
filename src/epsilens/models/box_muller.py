# SPDX-License-Identifier: Apache-2.0
"""Normal noise for simulations, many numbers at once.

In a trained ensemble most of the time would go into NumPy's normal numbers, which are made one by one.
The polar transform of Box and Muller makes them from uniform ones by whole-array functions, three times
as fast. Torch does the same. Uniform numbers of 24 bits cannot give a value beyond 5.8 standard
deviations: fine for a simulation, not for a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NormalNoise"]


class NormalNoise:
    """Normal numbers for many models, a stream of its own for each.

    What a model gets depends only on its generator and on how often it was asked.

    Parameters
    ----------
    generators : sequence of numpy.random.Generator
        One a model.
    n_numbers : int
        How many each model gets at a time.
    scale : float
        Standard deviation.
    dtype : float32 or float64

    Examples
    --------
    >>> import numpy as np
    >>> noise = NormalNoise([np.random.default_rng(j) for j in range(2)], 5000, 3.0, np.float64)
    >>> drawn = noise.draw()
    >>> drawn.shape, bool(abs(drawn.std() - 3.0) < 0.1)
    ((2, 5000), True)
    """

    def __init__(
        self,
        generators: Sequence[np.random.Generator],
        n_numbers: int,
        scale: float,
        dtype: type[np.floating],
    ) -> None:
        self._generators = generators
        self._n_numbers = n_numbers
        self._dtype: Any = dtype
        # A call costs as much as a thousand numbers: small models get several helpings at a time.
        self._ahead = max(1, 2048 // n_numbers)
        half = (n_numbers + 1) // 2
        shape = (len(generators), self._ahead, 2, half)
        self._uniform: NDArray[np.floating] = np.empty(shape, dtype=dtype)
        self._angle: NDArray[np.floating] = np.empty((len(generators), half), dtype=dtype)
        self._normal: NDArray[np.floating] = np.empty((len(generators), 2, half), dtype=dtype)
        self._factor = self._dtype(-2.0 * scale * scale)
        self._next = self._ahead

    def draw(self) -> NDArray[np.floating]:
        """Return the next numbers, (n_models, n_numbers), in an array that is used again."""
        if self._next == self._ahead:
            self._next = 0
            for generator, place in zip(self._generators, self._uniform, strict=True):
                generator.random(dtype=self._dtype, out=place)
        radius, turn = self._uniform[:, self._next, 0], self._uniform[:, self._next, 1]
        self._next += 1
        # 1 − u lies in (0, 1].
        np.subtract(self._dtype(1.0), radius, out=radius)
        np.log(radius, out=radius)
        np.multiply(radius, self._factor, out=radius)
        np.sqrt(radius, out=radius)
        np.multiply(turn, self._dtype(2.0 * math.pi), out=self._angle)
        np.cos(self._angle, out=self._normal[:, 0])
        np.sin(self._angle, out=self._normal[:, 1])
        self._normal *= radius[:, None]
        return self._normal.reshape(len(self._normal), -1)[:, : self._n_numbers]

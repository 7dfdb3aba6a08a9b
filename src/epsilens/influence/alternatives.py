# SPDX-License-Identifier: Apache-2.0
"""What a record could have been: its features with other values in the protected columns.

A protected column adds a known block to a record's features, one row of numbers per category. With the
block taken out, a record is a base, and every alternative is base + one row of a small table: its
linear predictor is a sum of two numbers, and no matrix of records × alternatives × features is formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens.models import Design

__all__ = ["Alternatives", "no_alternatives"]


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Alternatives:
    """Records without their protected columns, and what those columns can add.

    Attributes
    ----------
    base : Design
        Features with the protected blocks at zero.
    blocks : array of shape (V, p)
        What each joint value of the protected columns adds.
    codes : array of int, shape (n,)
        The true joint value of every record.
    sizes : tuple of int
        Categories of each protected column; their product is V.
    """

    base: Design
    blocks: FloatArray
    codes: NDArray[np.int64]
    sizes: tuple[int, ...]

    def changed(self) -> NDArray[np.int64]:
        """Return for every pair of joint values which columns differ, as bits, (V, V)."""
        digits = np.array(np.unravel_index(np.arange(len(self.blocks)), self.sizes or (1,)))
        differs = digits[:, :, None] != digits[:, None, :]
        bits = 2 ** np.arange(len(digits))
        result: NDArray[np.int64] = np.einsum("f,fuv->uv", bits, differs)
        return result if self.sizes else np.zeros((1, 1), dtype=np.int64)


def no_alternatives(design: Design) -> Alternatives:
    """Return the case in which no feature is protected."""
    return Alternatives(
        base=design,
        blocks=np.zeros((1, design.n_columns)),
        codes=np.zeros(design.n_rows, dtype=np.int64),
        sizes=(),
    )

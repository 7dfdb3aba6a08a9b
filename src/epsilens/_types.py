# SPDX-License-Identifier: Apache-2.0
"""Names of types that the whole package shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BoolArray", "FloatArray", "Progress", "SingleArray", "WordArray"]

BoolArray: TypeAlias = "NDArray[np.bool_]"
FloatArray: TypeAlias = "NDArray[np.float64]"
SingleArray: TypeAlias = "NDArray[np.float32]"
WordArray: TypeAlias = "NDArray[np.uint64]"
"""Whole numbers modulo 2^64."""
Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with (done, total, what)."""

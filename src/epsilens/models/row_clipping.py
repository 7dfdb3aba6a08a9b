# SPDX-License-Identifier: Apache-2.0
"""Rows and targets held within promised bounds, so that no record can do more than was promised."""

from __future__ import annotations

import numpy as np

from epsilens._types import FloatArray

__all__ = ["clip_rows", "row_norms"]


def row_norms(X: FloatArray) -> FloatArray:
    """Return the length of every row, also where its square would overflow.

    Examples
    --------
    >>> row_norms(np.array([[3e200, 4e200], [0.0, 0.0]]))
    array([5.e+200, 0.e+000])
    """
    largest = np.abs(X).max(axis=1)
    scale = np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore"):
        lengths: FloatArray = scale * np.linalg.norm(X / scale[:, None], axis=1)
    return lengths


def clip_rows(X: FloatArray, bound: float) -> FloatArray:
    """Shrink the rows that are longer than `bound` onto it; their direction stays.

    Examples
    --------
    >>> clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    # A row may be too long for its length to be a number: divide by its largest entry first.
    largest = np.abs(X).max(axis=1, keepdims=True)
    scaled = X / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    # Rounding must not leave a clipped row outside.
    inside = bound * (1.0 - (X.shape[1] + 8) * np.finfo(np.float64).eps)
    with np.errstate(over="ignore"):
        outside = lengths * largest > bound
    clipped: FloatArray = np.where(outside, scaled * (inside / np.maximum(lengths, 1.0)), X)
    return clipped

# SPDX-License-Identifier: Apache-2.0
"""How sure a model is of a record's own label, on a scale that neither rounds to one nor to zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import FloatArray
from epsilens.errors import InputError, InputTypeError

__all__ = ["scores_from_logits", "scores_from_margins"]


def scores_from_margins(margins: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Turn the margins of a two-class model into the scores that a membership attack reads.

    The score of a record is the logarithm of the odds that the model gives to the record's true
    label: high for records the model is sure of, as it is of those it has seen.

    Parameters
    ----------
    margins : array of float, (..., n_records)
        Log-odds of class 1, for instance one row per model (`decision_function`).
    labels : array of int or bool, (n_records,)
        The true class, 0 or 1.

    Returns
    -------
    array of float64, the shape of `margins`
        φ = log(p_y/(1 − p_y)).

    Raises
    ------
    InputError
        If shapes or labels do not fit, or a margin is not finite. A regression has no probability
        of its label and is refused.

    Notes
    -----
    φ of [1]_ and of P5, section III. From the margin it is the
    margin itself, with the sign of the label: no probability is formed, so none rounds to 1.

    References
    ----------
    .. [1] Carlini, N., Chien, S., Nasr, M., Song, S., Terzis, A. and Tramèr, F. (2022). Membership
       inference attacks from first principles. IEEE Symposium on Security and Privacy.
       arXiv:2112.03570.

    Examples
    --------
    >>> scores_from_margins([[2.0, -1000.0]], [1, 0])
    array([[   2., 1000.]])
    """
    values = _finite(margins, name="margins")
    codes = _class_codes(labels)
    if values.ndim < 1 or values.shape[-1:] != codes.shape:
        raise InputError(
            "`margins` must have one entry per record along its last axis, got shapes "
            f"{values.shape} and {codes.shape}. Give one row of margins per model."
        )
    _require_classes(codes, 2)
    return np.where(codes == 1, values, -values)


def scores_from_logits(logits: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Turn the logits of a model with several classes into the scores a membership attack reads.

    The score of a record is the logarithm of the odds that the model gives to the record's true
    label: high for records the model is sure of, as it is of those it has seen.

    Parameters
    ----------
    logits : array of float, (..., n_records, n_classes)
        Before the softmax, for instance (n_models, n_records, n_classes).
    labels : array of int, (n_records,)
        The true class, from 0.

    Returns
    -------
    array of float64, (..., n_records)
        φ = log(p_y/(1 − p_y)).

    Raises
    ------
    InputError
        If shapes or labels do not fit, or a logit is not finite. A regression has no probability
        of its label and is refused.

    Notes
    -----
    φ = z_y − log Σ_{k ≠ y} exp(z_k): the softmax's own sum cancels. The sum over the *other*
    classes is taken with its largest term outside, as in Carlini et al. (2022).

    Examples
    --------
    >>> scores_from_logits([[[0.0, 0.0, 0.0], [1000.0, 0.0, -1000.0]]], [0, 0]).round(4)
    array([[-6.931e-01,  1.000e+03]])
    """
    values = _finite(logits, name="logits")
    codes = _class_codes(labels)
    if values.ndim < 2 or values.shape[-2:-1] != codes.shape or values.shape[-1] < 2:
        raise InputError(
            "`logits` must have shape (..., n_records, n_classes) with at least 2 classes, got "
            f"shapes {values.shape} and {codes.shape}. Use `scores_from_margins` for one margin "
            "per record."
        )
    n_records, n_classes = values.shape[-2:]
    _require_classes(codes, n_classes)
    flat = values.reshape(-1, n_records, n_classes)
    found = np.empty(flat.shape[:2])
    records = np.arange(n_records)
    for model, row in enumerate(flat):  # one model at a time: no second table of all logits
        others = row.copy()
        others[records, codes] = -np.inf
        largest = others.max(axis=1)
        rest = np.log(np.exp(others - largest[:, None]).sum(axis=1))
        found[model] = row[records, codes] - largest - rest
    return found.reshape(values.shape[:-1])


def _finite(values: ArrayLike, *, name: str) -> FloatArray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"`{name}` must be an array of numbers, got {type(values).__name__}."
        ) from None
    n_bad = int(numbers.size - np.isfinite(numbers).sum())
    if n_bad:
        raise InputError(
            f"`{name}` must be finite, but {n_bad} of {numbers.size} are not. Give what the model "
            "computes before the softmax, not logarithms of probabilities."
        )
    return numbers


def _class_codes(labels: ArrayLike) -> NDArray[np.int64]:
    codes = np.asarray(labels)
    if codes.ndim != 1 or not (np.issubdtype(codes.dtype, np.integer) or codes.dtype == np.bool_):
        raise InputTypeError(
            f"`labels` must be a list of class numbers from 0, got values of type {codes.dtype} in "
            f"{codes.ndim} dimensions. A regression has no probability of its label: this attack "
            "does not apply to it."
        )
    return codes.astype(np.int64)


def _require_classes(codes: NDArray[np.int64], n_classes: int) -> None:
    n_outside = int(np.count_nonzero((codes < 0) | (codes >= n_classes)))
    if n_outside:
        raise InputError(
            f"`labels` must be class numbers from 0 to {n_classes - 1}, but {n_outside} of "
            f"{codes.size} lie outside. Number the classes in the order of the model's outputs."
        )

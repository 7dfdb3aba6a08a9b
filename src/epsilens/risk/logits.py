# SPDX-License-Identifier: Apache-2.0
"""How sure a model is of a record's own label, on a scale that neither rounds to one nor to zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilens._types import BoolArray, FloatArray
from epsilens.errors import InputError, InputTypeError, setting


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
        of its label: use `scores_from_residuals`.

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
            f"{setting('margins')} must have one entry per record along its last axis, got shapes "
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
        of its label: use `scores_from_residuals`.

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
            f"{setting('logits')} must have shape (..., n_records, n_classes) with at least 2 "
            f"classes, got shapes {values.shape} and {codes.shape}. Use `scores_from_margins` for "
            "one margin per record."
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


def scores_from_residuals(predictions: ArrayLike, targets: ArrayLike) -> FloatArray:
    """Turn the predictions of a regression into the scores that a membership attack reads.

    The score of a record is high where the prediction is close to the record's own value, as it is for records
    that the model has seen.

    Parameters
    ----------
    predictions : array of float, (..., n_records)
        What each model predicts, for instance one row per model.
    targets : array of float, (n_records,)
        The true values.

    Returns
    -------
    array of float64, the shape of `predictions`
        −|y − ŷ| in units of the median of all of them.

    Raises
    ------
    InputError
        If shapes do not fit, or a number is not finite.

    Notes
    -----
    A log-likelihood, −(y − ŷ)², and −log |y − ŷ| order the records of one model alike. Normal distributions describe
    them less well: the one is dominated by large residuals, the other by residuals near 0. All attacks but "combined"
    found fewer members by them on forests and boosted trees.

    Examples
    --------
    >>> scores_from_residuals([[1.0, 2.0, 7.0]], [1.0, 4.0, 3.0])
    array([[-0., -1., -2.]])
    """
    values, truth = _finite(predictions, name="predictions"), _finite(targets, name="targets")
    if truth.ndim != 1 or values.shape[-1:] != truth.shape:
        raise InputError(
            f"{setting('predictions')} must have one entry per record along its last axis, got shapes {values.shape} and "
            f"{truth.shape}. Give one row of predictions per model."
        )
    away = np.abs(truth - values)
    usual = float(np.median(away)) if away.size else 0.0
    return -away / (usual if usual > 0.0 else 1.0)


def _finite(values: ArrayLike, *, name: str) -> FloatArray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            argument=name, expected="an array of numbers", got=type(values).__name__
        ) from None
    n_bad = int(numbers.size - np.isfinite(numbers).sum())
    if n_bad:
        raise InputError(
            f"{setting(name)} must be finite, but {n_bad} of {numbers.size} are not. Give what "
            "the model computes, before any softmax, not logarithms of probabilities."
        )
    return numbers


def _class_codes(labels: ArrayLike) -> NDArray[np.int64]:
    codes = np.asarray(labels)
    if codes.ndim != 1 or not (np.issubdtype(codes.dtype, np.integer) or codes.dtype == np.bool_):
        raise InputTypeError(
            argument="labels",
            expected="a list of class numbers from 0",
            got=f"values of type {codes.dtype} in {codes.ndim} dimensions",
            hint="For a regression, use `scores_from_residuals`.",
        )
    return codes.astype(np.int64)


def _require_classes(codes: NDArray[np.int64], n_classes: int) -> None:
    n_outside = int(np.count_nonzero((codes < 0) | (codes >= n_classes)))
    if n_outside:
        raise InputError(
            f"{setting('labels')} must be class numbers from 0 to {n_classes - 1}, but "
            f"{n_outside} of {codes.size} lie outside. Number the classes in the order of the "
            "model's outputs."
        )


# --- Sums over groups of models, and the normal distributions that follow from them ---

_ENTRIES = 130_000
"""Scores that are worked on at a time: a megabyte in double precision, which caches hold."""
_LEAST_SPREAD = 1e-6
"""Smallest standard deviation of a sample, in units of the common one: scores that never move."""


Moments: TypeAlias = FloatArray
"""Number of models, sum and sum of squares of a sample's scores, in and out: (2, 3, n_samples).

Sums are over the scores less the sample's smallest one.
"""


def around_mean(side: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return number, sum and squared deviations from the mean of one side of some moments."""
    n, total, squares = side
    return n, total, np.maximum(squares - total * total / np.maximum(n, 1.0), 0.0)


@dataclass(frozen=True)
class NormalFit:
    """A normal distribution per sample, of scores less the sample's smallest one.

    Attributes
    ----------
    mean, spread : array of float64, (n_samples,)
        Mean and standard deviation.
    usable : array of bool, (n_samples,)
        Whether at least two models stand behind it.
    """

    mean: FloatArray
    spread: FloatArray
    usable: BoolArray


def column_blocks(n_models: int, n_samples: int) -> Iterator[slice]:
    """Yield runs of samples that are small enough to be worked on together.

    Examples
    --------
    >>> [block.stop for block in column_blocks(1000, 300)]
    [130, 260, 300]
    """
    width = max(_ENTRIES // n_models, 1)
    for start in range(0, n_samples, width):
        yield slice(start, min(start + width, n_samples))


def quarter_moments(
    scores: NDArray[np.floating], membership: BoolArray, lowest: FloatArray
) -> FloatArray:
    """Return the sums of four groups of models: every fourth, from the first, second, third, fourth.

    Parameters
    ----------
    scores : array of float, (n_models, n_samples)
        Scores of the attack.
    membership : array of bool, (n_models, n_samples)
        Which model saw which sample.
    lowest : array of float64, (n_samples,)
        Smallest score of each sample. Sums of what lies above it lose no digits, and a score
        that never moves has a spread of exactly 0.

    Returns
    -------
    four Moments in one array
        Groups 0 and 2 are the one half of the models, 1 and 3 the other.
    """
    return np.stack(
        [side_moments(scores[place::4], membership[place::4], lowest) for place in range(4)]
    )


def side_moments(
    scores: NDArray[np.floating], membership: BoolArray, lowest: FloatArray
) -> Moments:
    """Return the sums of some models, (2, 3, n_samples): in and out.

    Examples
    --------
    >>> import numpy as np
    >>> seen = np.array([[True], [False], [False]])
    >>> side_moments(np.array([[5.0], [2.0], [1.0]]), seen, np.array([1.0]))[..., 0]
    array([[ 1.,  4., 16.],
           [ 2.,  1.,  1.]])
    """
    n_models, n_samples = scores.shape
    found = np.empty((2, 3, n_samples))
    for block in column_blocks(max(n_models, 1), n_samples):
        above = scores[:, block] - lowest[block]
        inside = membership[:, block]
        for side, chosen in enumerate((inside, ~inside)):
            own = above * chosen
            squares = np.einsum("ij,ij->j", own, own)
            found[side][:, block] = chosen.sum(axis=0), own.sum(axis=0), squares
    return found


def fit_normal(side: FloatArray, *, per_sample: bool) -> NormalFit:
    """Return the normal distribution of one side of every sample.

    Parameters
    ----------
    side : array of float64, (3, n_samples)
        Moments, in or out, of the models that the fit may see.
    per_sample : bool
        Whether every sample has a spread of its own; otherwise one is pooled within samples.

    Returns
    -------
    NormalFit
        Usable where at least two models stand behind it.
    """
    n, total, deviations = around_mean(side)
    usable = n >= 2.0
    freedom = np.where(usable, n - 1.0, 0.0)
    all_freedom = freedom.sum()
    common = float(np.sqrt(deviations[usable].sum() / all_freedom)) if all_freedom > 0.0 else 0.0
    common = common if common > 0.0 else 1.0
    spread = np.full(n.shape, common)
    if per_sample:
        spread[usable] = np.sqrt(deviations[usable] / freedom[usable])
        spread = np.maximum(spread, _LEAST_SPREAD * common)
    return NormalFit(mean=total / np.maximum(n, 1.0), spread=spread, usable=usable)

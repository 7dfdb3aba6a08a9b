# SPDX-License-Identifier: Apache-2.0
"""Scores: what an attacker makes of the output. A better score is worth more than a better bound.

A score sees the output and the canaries, and everything the attacker may know about the mechanism.
It never sees which canaries were in: it is not given it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from epsilens._types import FloatArray
from epsilens._validate import as_choice, as_positive
from epsilens.audit.canaries import Canaries
from epsilens.audit.inputs import as_numbers
from epsilens.errors import InputError


class Score(Protocol):
    """Anything that gives every canary a number, high where it seems to be in."""

    def __call__(self, output: object, canaries: Canaries) -> FloatArray:
        """Return a score for each canary."""
        ...


@dataclass(frozen=True)
class InnerProduct:
    """The canary's direction in the output, ⟨x_i, out⟩ (P3): disturbed by all other canaries.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.audit.canaries import own_canaries
    >>> InnerProduct()(np.array([1.0, 0.0]), own_canaries(np.eye(2))).tolist()
    [1.0, 0.0]
    """

    def __call__(self, output: object, canaries: Canaries) -> FloatArray:
        """Return ⟨x_i, out⟩ for each canary."""
        values = _in_precision_of(canaries, _as_vector(output, canaries))
        return np.asarray(canaries.vectors @ values, dtype=np.float64)


@dataclass(frozen=True)
class Centred:
    """The same, after taking off what was to be expected: the other data and half the canaries.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.audit.canaries import own_canaries
    >>> Centred()(np.array([1.0, 0.0]), own_canaries(np.eye(2))).tolist()
    [0.5, -0.5]
    """

    def __call__(self, output: object, canaries: Canaries) -> FloatArray:
        """Return ⟨x_i, out − E[out]⟩ for each canary."""
        return np.asarray(canaries.vectors @ _surprise(output, canaries), dtype=np.float64)


@dataclass(frozen=True)
class LinearMMSE:
    """The best linear guess of each canary's presence, all canaries considered together.

    In `InnerProduct` every other canary disturbs. This score knows their directions and solves for
    all of them at once, as far as the noise allows.

    Parameters
    ----------
    noise_scale : float, greater than 0, optional
        Standard deviation of the mechanism's noise, as far as the attacker knows it; otherwise it
        is estimated from the output. A wrong value costs strength, never validity.

    Notes
    -----
    Solves (XXᵀ/4 + σ²I)s = X(out − ½Xᵀ1), or, where there are more canaries than dimensions, the
    same as s = X(XᵀX/4 + σ²I)⁻¹(out − ½Xᵀ1): one Cholesky factorisation of the smaller side.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.audit.canaries import own_canaries
    >>> LinearMMSE(1.0)(np.array([1.0, 0.0]), own_canaries(np.eye(2))).round(6).tolist()
    [0.4, -0.4]
    """

    noise_scale: float | None = None

    def __post_init__(self) -> None:
        if self.noise_scale is not None:
            as_positive(self.noise_scale, name="noise_scale")

    def __call__(self, output: object, canaries: Canaries) -> FloatArray:
        """Return the linear minimum-mean-square estimate of inclusion minus one half."""
        vectors, surprise = canaries.vectors, _surprise(output, canaries)
        is_wide = vectors.shape[0] <= vectors.shape[1]
        wanted = vectors @ surprise if is_wide else surprise
        noise = self._variance(vectors, surprise)
        try:
            solved = _solve(vectors, wanted, noise)
        except LinAlgError:
            # Canaries that repeat each other, and less noise than rounding: take as much as that.
            rounding = float(np.finfo(vectors.dtype).eps) * vectors.shape[0]
            least = rounding * float(np.einsum("ij,ij->", vectors, vectors))
            solved = _solve(vectors, wanted, noise + least)
        return np.asarray(solved if is_wide else vectors @ solved, dtype=np.float64)

    def _variance(self, vectors: FloatArray, surprise: FloatArray) -> float:
        """Return σ²: given, or what of the output's variance the coins do not explain."""
        if self.noise_scale is not None:
            return float(self.noise_scale**2)
        total = float(surprise @ surprise)
        coins = 0.25 * float(np.einsum("ij,ij->", vectors, vectors))
        least = 1e-4 * total / vectors.shape[1]
        return float(max((total - coins) / vectors.shape[1], least, 1e-30))


@dataclass(frozen=True)
class Loss:
    """How well a fitted model knows the canary: minus its loss there.

    The output must be a fitted scikit-learn estimator: classifiers by the logarithm of the
    probability they give the canary's label, regressors by the squared error.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from epsilens.audit.canaries import own_canaries
    >>> model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    >>> canaries = own_canaries((np.array([[1.0], [2.0]]), np.array([1.0, 5.0])))
    >>> Loss()(model, canaries).round(6).tolist()
    [-0.0, -9.0]
    """

    def __call__(self, output: object, canaries: Canaries) -> FloatArray:
        """Return minus the loss of each canary."""
        features, labels = _features_and_labels(canaries)
        if hasattr(output, "predict_proba"):
            chance = np.asarray(output.predict_proba(features), dtype=np.float64)
            classes = np.asarray(output.classes_)  # type: ignore[attr-defined]
            column = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
            # A label that the model has never met has no probability there.
            given = np.where(classes[column] == labels, chance[np.arange(len(labels)), column], 0.0)
            return np.asarray(np.log(np.maximum(given, np.finfo(np.float64).tiny)))
        if hasattr(output, "predict"):
            error = np.asarray(output.predict(features), dtype=np.float64)
            error -= labels.astype(np.float64)
            return np.asarray(-(error**2), dtype=np.float64)
        raise InputError(
            f"the score 'loss' needs a fitted estimator as output, got {type(output).__name__}. Let "
            "the mechanism return the estimator, or choose another score."
        )


@dataclass(frozen=True)
class Gradient:
    """Whether the parameters moved the way the canary pulls them.

    The output must be the coefficients of a linear model, or a fitted estimator with `coef_`.

    Parameters
    ----------
    loss : {"logistic", "squared"}
        The model's loss; logistic labels are 0 and 1.

    Notes
    -----
    ⟨−∇ℓ(z_i; 0), θ⟩, up to a factor: (y − ½)⟨x, θ⟩ for logistic and y⟨x, θ⟩ for squared loss.

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.audit.canaries import own_canaries
    >>> canaries = own_canaries((np.eye(2), np.array([1.0, 1.0])))
    >>> Gradient("squared")(np.array([1.0, 0.0]), canaries).tolist()
    [1.0, 0.0]
    """

    loss: Literal["logistic", "squared"] = "logistic"

    def __post_init__(self) -> None:
        as_choice(self.loss, ("logistic", "squared"), name="loss")

    def __call__(self, output: object, canaries: Canaries) -> FloatArray:
        """Return the alignment of each canary's pull with the parameters."""
        features, labels = _features_and_labels(canaries)
        theta = np.ravel(as_numbers(getattr(output, "coef_", output), what="the score 'gradient'"))
        if theta.shape != features.shape[1:]:
            raise InputError(
                f"the score 'gradient' needs one coefficient per feature ({features.shape[1]}), got "
                f"{theta.size}. Let the mechanism return them, or an estimator with `coef_`."
            )
        pull = labels.astype(np.float64) - (0.5 if self.loss == "logistic" else 0.0)
        return np.asarray(pull * (features @ theta), dtype=np.float64)


@dataclass(frozen=True)
class AnswerMatch:
    """Whether a randomised answer is the canary's one answer (1), its other (−1), or neither (0).

    Examples
    --------
    >>> import numpy as np
    >>> from epsilens.audit.canaries import own_canaries
    >>> canaries = own_canaries(np.array([0, 0, 0]), left_out=np.array([1, 1, 1]))
    >>> AnswerMatch()(np.array([0, 1, 2]), canaries).tolist()
    [1.0, -1.0, 0.0]
    """

    def __call__(self, output: object, canaries: Canaries) -> FloatArray:
        """Return 1, −1 or 0 for each canary."""
        reports = np.asarray(output)
        if canaries.records[0].dtype.kind in "biuf":
            reports = as_numbers(output, what="the score for answers")
        if canaries.left_out is None or reports.shape != canaries.records[0].shape:
            raise InputError(
                "the score for answers needs one report per canary and the canary's other answer. "
                "Make the canaries by `answer_pairs`."
            )
        is_one, is_other = reports == canaries.records[0], reports == canaries.left_out[0]
        return np.asarray(is_one.astype(np.float64) - is_other.astype(np.float64))


def _solve(vectors: FloatArray, wanted: FloatArray, noise: float) -> FloatArray:
    """Solve (XXᵀ/4 + σ²I)s = w, or with XᵀX where there are more canaries than dimensions."""
    is_wide = vectors.shape[0] <= vectors.shape[1]
    system = vectors @ vectors.T if is_wide else vectors.T @ vectors
    system *= 0.25
    np.einsum("ii->i", system)[:] += noise
    # Symmetric, so the transpose is the same matrix, laid out as LAPACK works on it in place.
    factor = cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, wanted, overwrite_b=False, check_finite=False))


def _as_vector(output: object, canaries: Canaries) -> FloatArray:
    """Return the output, if it has the canaries' dimensions."""
    vectors = canaries.vectors
    if vectors.ndim != 2:
        raise InputError(
            "this score needs canaries that are vectors, one row each, got canaries of another "
            "kind. Use the mechanism's own score."
        )
    values = as_numbers(output, what="this score")
    if values.shape != vectors.shape[1:]:
        raise InputError(
            f"this score needs an output with one number per dimension of the canaries "
            f"{vectors.shape[1:]}, got shape {values.shape}. Use a score made for the output."
        )
    return values


def _surprise(output: object, canaries: Canaries) -> FloatArray:
    """Return the output less what is expected before the coins are known."""
    values = _as_vector(output, canaries)
    half = 0.5 * canaries.vectors.sum(axis=0, dtype=np.float64)
    if canaries.base is not None:
        half += canaries.base[0].sum(axis=0, dtype=np.float64)
    return _in_precision_of(canaries, values - half)


def _in_precision_of(canaries: Canaries, values: FloatArray) -> FloatArray:
    """Return numbers in the precision of the canaries, so that no product copies those."""
    kind = canaries.vectors.dtype
    largest = float(np.finfo(kind).max) ** 0.4  # squares and their sums stay in range
    if values.size and float(np.abs(values).max()) > largest:
        raise InputError(
            f"this score needs an output of numbers up to {largest:.0e}, got larger ones. Let the "
            "mechanism return smaller numbers, or use a score of your own."
        )
    return values.astype(kind, copy=False)


def _features_and_labels(
    canaries: Canaries,
) -> tuple[FloatArray, NDArray[np.generic]]:
    if len(canaries.records) != 2:
        raise InputError(
            "this score needs canaries with features and labels. Make them by "
            "`mislabelled_records`, or by `own_canaries((features, labels))`."
        )
    return canaries.vectors, canaries.records[1]

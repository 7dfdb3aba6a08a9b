# SPDX-License-Identifier: Apache-2.0
"""What a scikit-learn estimator minimises, read from its public parameters.

Supported are LogisticRegression, SGDClassifier with log loss, Ridge, RidgeClassifier, LinearRegression and
the variants that choose their penalty by cross-validation. C and alpha are sum conventions, SGD's alpha is
a mean convention; the intercept is free except under liblinear.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from epsilens.errors import InputError, InputTypeError
from epsilens.models.losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = [
    "ClassWeight",
    "Specification",
    "final_step",
    "is_search",
    "read_specification",
    "refuse_class_or_search",
]

ClassWeight: TypeAlias = "str | Mapping[object, float] | None"

_SUPPORTED = (
    "LogisticRegression, SGDClassifier(loss='log_loss'), Ridge, RidgeClassifier, LinearRegression, one "
    "of their CV variants, or a Pipeline that ends in one of them"
)


@dataclass(frozen=True)
class Specification:
    """An estimator's objective: Σ w ℓ(xᵀθ, y) + ½·(ridge + n·ridge_per_row)·‖θ‖².

    Attributes
    ----------
    loss : Loss
        For two classes, or a regression.
    ridge : float
        The penalty in the sum convention: 1/C for logistic regression, 2·alpha for ridge.
    intercept : float or None
        The value of the intercept's column; None: no intercept.
    intercept_is_penalised : bool
        True for liblinear only.
    is_classifier : bool
    class_weight : None, "balanced" or mapping of class to weight
    ridge_per_row : float
        The penalty in the mean convention: SGD's alpha.
    class_values : pair of float, optional
        The numbers that stand for two classes, where they are not 0 and 1.
    counts_weights : bool
        Whether "balanced" counts records by their sample weight, as LogisticRegression does in newer
        versions of scikit-learn; RidgeClassifier and SGDClassifier count heads.
    several : str
        What the estimator does with more than two classes: "together", or the reason why not.
    """

    loss: Loss
    ridge: float
    intercept: float | None
    intercept_is_penalised: bool
    is_classifier: bool
    class_weight: ClassWeight = None
    ridge_per_row: float = 0.0
    class_values: tuple[float, float] | None = None
    counts_weights: bool = False
    several: str = "together"

    def loss_for(self, n_classes: int) -> Loss:
        """Return the loss for a number of classes (0: a regression).

        Raises
        ------
        InputError
            If more than two classes are not trained together.
        """
        if n_classes <= 2:
            return self.loss
        if self.several != "together":
            raise InputError(
                f"{self.several} fits {n_classes} classes one against the rest, which is not one "
                "objective. Use LogisticRegression with another solver, such as lbfgs."
            )
        return SoftmaxLoss(n_classes)


def final_step(estimator: BaseEstimator) -> BaseEstimator:
    """Return the estimator at the end of (nested) pipelines."""
    from sklearn.pipeline import Pipeline

    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def refuse_class_or_search(estimator: object) -> None:
    """Refuse a class in place of an instance, and a search over parameters in place of what it found.

    Raises
    ------
    InputTypeError
        One line that says what to give instead.
    """
    from sklearn.model_selection._search import BaseSearchCV

    if isinstance(estimator, type):
        name = estimator.__name__
        raise InputTypeError(
            f"`estimator` must be an instance, got the class {name}. Call it: `{name}()`."
        )
    if isinstance(estimator, BaseSearchCV):
        raise InputTypeError(
            f"`estimator` must be one model, got {type(estimator).__name__}, which tries many. Fit the search, "
            "and give its `best_estimator_`."
        )


def is_search(estimator: BaseEstimator) -> bool:
    """Return whether the estimator chooses its penalty by cross-validation."""
    from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV, RidgeCV

    return isinstance(final_step(estimator), LogisticRegressionCV | RidgeCV | RidgeClassifierCV)


def read_specification(estimator: BaseEstimator) -> Specification:
    """Return what the estimator minimises.

    A search over penalties must be fitted: the penalty it has chosen is kept.

    Raises
    ------
    InputError
        For an estimator whose optimum is not that of a smooth convex objective we know.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> read_specification(Ridge(alpha=3.0)).ridge
    6.0
    """
    from sklearn.linear_model import (
        LinearRegression,
        LogisticRegression,
        Ridge,
        RidgeClassifier,
        RidgeClassifierCV,
        RidgeCV,
        SGDClassifier,
    )

    model = final_step(estimator)
    refuse_class_or_search(model)
    if isinstance(model, LogisticRegression):
        return _read_logistic(model)
    if isinstance(model, SGDClassifier):
        return _read_sgd(model)
    if isinstance(model, RidgeClassifier | RidgeClassifierCV):
        return _read_squared(model, is_classifier=True)
    if isinstance(model, Ridge | RidgeCV | LinearRegression):
        return _read_squared(model, is_classifier=False)
    raise InputTypeError(
        f"`estimator` must be {_SUPPORTED}, got {type(model).__name__}: without a smooth convex "
        "objective there is no exact answer. Choose one of those."
    )


def _read_squared(model: BaseEstimator, *, is_classifier: bool) -> Specification:
    kind, parameters = type(model).__name__, model.get_params(deep=False)
    if parameters.get("positive"):
        raise InputError(
            f"{kind}(positive=True) is constrained and has no smooth optimum. Use positive=False."
        )
    alpha = parameters.get("alpha", 0.0)
    if "alphas" in parameters:
        alpha = model.alpha_
    if np.ndim(alpha) != 0:
        raise InputError(f"{kind} must have one number as alpha, got an array. Use one target.")
    alpha = float(alpha)
    if not alpha >= 0 or math.isinf(alpha):
        raise InputError(f"{kind} must have a finite alpha of at least 0, got {alpha!r}.")
    return Specification(
        loss=SquaredLoss(),
        ridge=2.0 * alpha,
        intercept=1.0 if parameters["fit_intercept"] else None,
        intercept_is_penalised=False,
        is_classifier=is_classifier,
        class_weight=parameters.get("class_weight"),
        class_values=(-1.0, 1.0) if is_classifier else None,
        several=kind,
    )


def _refuse_l1(kind: str, penalty: object, l1_ratio: object) -> None:
    ratio = np.max(np.ravel(np.asarray(0.0 if l1_ratio is None else l1_ratio, dtype=float)))
    mixed = penalty in {"elasticnet", "deprecated"} and ratio != 0
    if penalty == "l1" or mixed:
        raise InputError(
            f"{kind} must have an l2 penalty or none: with an l1 part the optimum is not smooth in "
            "the data. Use l1_ratio=0."
        )


def _read_sgd(model: BaseEstimator) -> Specification:
    parameters = model.get_params(deep=False)
    if parameters["loss"] != "log_loss":
        raise InputError(
            f"SGDClassifier must have loss='log_loss', got {parameters['loss']!r}: other losses have "
            "no probabilities or no curvature."
        )
    penalty = parameters["penalty"]
    if penalty != "l2" and penalty is not None:
        _refuse_l1("SGDClassifier", penalty, parameters["l1_ratio"])
    alpha = float(parameters["alpha"])
    return Specification(
        loss=LogisticLoss(),
        ridge=0.0,
        intercept=1.0 if parameters["fit_intercept"] else None,
        intercept_is_penalised=False,
        is_classifier=True,
        class_weight=parameters["class_weight"],
        ridge_per_row=0.0 if penalty is None else alpha,
        several="SGDClassifier",
    )


def _balanced_by_weight() -> bool:
    """Return whether the installed scikit-learn balances classes by weight; older ones count heads."""
    from sklearn.utils.class_weight import compute_class_weight

    return "sample_weight" in signature(compute_class_weight).parameters


def _read_logistic(model: BaseEstimator) -> Specification:
    kind, parameters = type(model).__name__, model.get_params(deep=False)
    penalty = parameters.get("penalty", "deprecated")
    searched = "Cs" in parameters
    if searched:
        ratio = getattr(model, "l1_ratio_", 0.0)
        known = [float(value) for value in np.ravel(np.asarray(ratio, dtype=float))]
        _refuse_l1(kind, penalty, [0.0 if math.isnan(value) else value for value in known])
        chosen = np.unique(np.ravel(model.C_))
        if len(chosen) > 1:
            raise InputError(
                f"{kind} has chosen another C for each class, which is not one objective. Use "
                "LogisticRegression with one C."
            )
        strength = float(chosen[0])
    else:
        _refuse_l1(kind, penalty, parameters.get("l1_ratio"))
        strength = float(parameters["C"])
    if not strength > 0:
        raise InputError(f"{kind} must have C greater than 0, got {strength!r}.")
    unpenalised = penalty in {None, "none"} or math.isinf(strength)
    by_liblinear = parameters["solver"] == "liblinear"
    together = parameters.get("multi_class", "auto") != "ovr" and not by_liblinear
    intercept = 1.0 if parameters["fit_intercept"] else None
    if by_liblinear and intercept is not None:
        intercept = float(parameters["intercept_scaling"])
    return Specification(
        loss=LogisticLoss(),
        ridge=0.0 if unpenalised else 1.0 / strength,
        intercept=intercept,
        intercept_is_penalised=by_liblinear,
        is_classifier=True,
        class_weight=parameters.get("class_weight"),
        counts_weights=_balanced_by_weight(),
        several="together" if together else "liblinear" if by_liblinear else kind,
    )

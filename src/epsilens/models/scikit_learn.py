# SPDX-License-Identifier: Apache-2.0
"""What a scikit-learn estimator minimises, read from its public parameters.

Supported: LogisticRegression, Ridge, LinearRegression, and pipelines that end in one of them. Their
objectives are translated exactly: C and alpha are sum conventions, the intercept is free except
under liblinear, transformers of a pipeline are fitted once and then frozen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from epsilens.errors import InputError, InputTypeError
from epsilens.models.losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.pipeline import Pipeline

__all__ = [
    "ClassWeight",
    "Specification",
    "fit_transformers",
    "is_fitted",
    "read_specification",
    "transform",
]

FloatArray = NDArray[np.float64]
ClassWeight: TypeAlias = "str | Mapping[object, float] | None"

_SUPPORTED = "LogisticRegression, Ridge or LinearRegression, or a Pipeline that ends in one of them"


@dataclass(frozen=True)
class Specification:
    """An estimator's objective: Σ w ℓ(xᵀθ, y) + ½·ridge·‖θ‖².

    Attributes
    ----------
    loss : Loss
    ridge : float
        The penalty in the sum convention: 1/C for logistic regression, 2·alpha for ridge.
    intercept : float or None
        The value of the intercept's column; None: no intercept.
    intercept_is_penalised : bool
        True for liblinear only.
    is_classifier : bool
    class_weight : None, "balanced" or mapping of class to weight
    """

    loss: Loss
    ridge: float
    intercept: float | None
    intercept_is_penalised: bool
    is_classifier: bool
    class_weight: ClassWeight = None

    def loss_for(self, n_classes: int) -> Loss:
        """Return the loss for a number of classes (0: a regression).

        Raises
        ------
        InputError
            If more than two classes are not trained together.
        """
        if n_classes <= 2:
            return self.loss
        if self.intercept_is_penalised:
            raise InputError(
                f"liblinear fits {n_classes} classes one against the rest, which is not one "
                "objective. Use another solver, such as lbfgs."
            )
        return SoftmaxLoss(n_classes)


def final_step(estimator: BaseEstimator) -> BaseEstimator:
    """Return the estimator at the end of (nested) pipelines."""
    from sklearn.pipeline import Pipeline

    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def read_specification(estimator: BaseEstimator) -> Specification:
    """Return what the estimator minimises.

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
        LogisticRegressionCV,
        Ridge,
    )

    model = final_step(estimator)
    kind = type(model).__name__
    if isinstance(model, LogisticRegression) and not isinstance(model, LogisticRegressionCV):
        return _read_logistic(model)
    if isinstance(model, Ridge | LinearRegression):
        if model.positive:
            raise InputError(
                f"{kind}(positive=True) is constrained and has no smooth optimum. Use positive=False."
            )
        alpha = 0.0
        if isinstance(model, Ridge):
            if np.ndim(model.alpha) != 0:
                raise InputError(
                    "Ridge must have one number as alpha, got an array. Use one target."
                )
            alpha = float(model.alpha)
        if not alpha >= 0 or math.isinf(alpha):
            raise InputError(f"Ridge must have a finite alpha of at least 0, got {alpha!r}.")
        return Specification(
            loss=SquaredLoss(),
            ridge=2.0 * alpha,
            intercept=1.0 if model.fit_intercept else None,
            intercept_is_penalised=False,
            is_classifier=False,
        )
    raise InputTypeError(
        f"`estimator` must be {_SUPPORTED}, got {kind}: without a smooth convex objective there is "
        "no exact answer. Choose one of those."
    )


def _read_logistic(model: BaseEstimator) -> Specification:
    parameters = model.get_params(deep=False)
    penalty = parameters.get("penalty", "deprecated")
    l1_ratio = parameters.get("l1_ratio") or 0.0
    uses_l1 = penalty in {"l1", "elasticnet"} and not (penalty == "elasticnet" and l1_ratio == 0)
    if uses_l1 or (penalty == "deprecated" and l1_ratio != 0):
        raise InputError(
            "LogisticRegression must have an l2 penalty or none: with an l1 part the optimum is not "
            "smooth in the data. Use l1_ratio=0."
        )
    strength = float(parameters["C"])
    if not strength > 0:
        raise InputError(f"LogisticRegression must have C greater than 0, got {strength!r}.")
    unpenalised = penalty in {None, "none"} or math.isinf(strength)
    by_liblinear = parameters["solver"] == "liblinear"
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
    )


def is_fitted(estimator: BaseEstimator) -> bool:
    """Return whether the estimator, and every step of a pipeline, has been fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    steps = (
        [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    )
    try:
        for step in steps:
            if hasattr(step, "fit"):
                check_is_fitted(step)
    except NotFittedError:
        return False
    return True


def _leaves(transformer: object) -> Iterator[object]:
    """Yield the single transformers inside pipelines, column transformers and unions."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline

    if isinstance(transformer, Pipeline):
        inner = [step for _, step in transformer.steps]
    elif isinstance(transformer, ColumnTransformer):
        inner = [step for _, step, _ in transformer.transformers]
    elif isinstance(transformer, FeatureUnion):
        inner = [step for _, step in transformer.transformer_list]
    else:
        yield transformer
        return
    for step in inner:
        yield from _leaves(step)


def _refuse_supervised(transformers: Pipeline) -> None:
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.utils import get_tags

    for leaf in _leaves(transformers):
        if isinstance(leaf, str) or leaf is None or not hasattr(leaf, "fit"):
            continue
        selects = hasattr(leaf, "get_support") and not isinstance(leaf, VarianceThreshold)
        if get_tags(leaf).target_tags.required or selects:
            raise InputError(
                f"the pipeline's {type(leaf).__name__} looks at the label, so randomised labels "
                "would change the features too. Fit it beforehand on public data and pass its "
                "output, or leave it out."
            )


def fit_transformers(estimator: BaseEstimator, X: object) -> Pipeline | None:
    """Return the frozen transformers of a pipeline, fitted if they were not; None if there are none.

    Raises
    ------
    InputError
        If a transformer looks at the label.
    """
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline):
        return None
    transformers = estimator[:-1]
    if isinstance(estimator.steps[-1][1], Pipeline):
        raise InputError(
            "`estimator` is a Pipeline that ends in another Pipeline. Put all steps into one."
        )
    if len(transformers) == 0:
        return None
    _refuse_supervised(transformers)
    if is_fitted(estimator):
        return transformers
    fresh = clone(transformers)
    with _without_values("fit the pipeline's transformers on the training data"):
        fresh.fit(X)
    return fresh


class _without_values:  # noqa: N801  (reads as a statement)
    """Re-raise errors of other libraries without their message: it may quote data."""

    def __init__(self, doing: str) -> None:
        self.doing = doing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None and issubclass(kind, ValueError | TypeError | KeyError | IndexError):
            if issubclass(kind, InputError):
                return
            raise InputError(
                f"could not {self.doing} ({kind.__name__}; its text is withheld because it may quote "
                "data). Expected the columns, types and categories the pipeline was made for, "
                "without missing values."
            ) from None


def transform(
    transformers: Pipeline | None, X: object, *, what: str
) -> FloatArray | scipy.sparse.csr_array:
    """Return the features that the final linear model sees, dense or CSR, all finite.

    Parameters
    ----------
    transformers : Pipeline or None
    X : frame or array
    what : str
        "training" or "test", for the message.
    """
    features: object = X
    if transformers is not None:
        with _without_values(f"transform the {what} data with the pipeline"):
            features = transformers.transform(X)
    if scipy.sparse.issparse(features):
        matrix = scipy.sparse.csr_array(features).astype(np.float64)
        finite = bool(np.isfinite(matrix.data).all())
    else:
        text = _text_columns(features)
        if text:
            raise InputError(
                f"the {what} features must be numbers, but column {text[0]!r} is not. Put a "
                "OneHotEncoder for it into a Pipeline in front of the model."
            )
        with _without_values(f"turn the {what} features into numbers"):
            matrix = np.asarray(features, dtype=np.float64)
        if matrix.ndim != 2:
            raise InputError(
                f"the {what} features must be a table (2 dimensions), got {matrix.ndim}."
            )
        finite = bool(np.isfinite(matrix).all())
    if not finite:
        raise InputError(
            f"the {what} features must be finite, but some are missing (NaN) or infinite. Impute or "
            "drop them first; nothing is filled in silently."
        )
    if matrix.shape[0] == 0:
        raise InputError(f"the {what} data must have at least one row, got 0.")
    return matrix


def _text_columns(features: object) -> list[str]:
    import narwhals.stable.v1 as nw

    frame = nw.from_native(features, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return []
    numeric_or_bool = {
        name
        for name, kind in frame.schema.items()
        if kind.is_numeric() or kind in {nw.Boolean, nw.Object}
    }
    return [name for name in frame.columns if name not in numeric_or_bool]

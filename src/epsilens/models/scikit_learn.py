# SPDX-License-Identifier: Apache-2.0
"""The transformers of a scikit-learn pipeline: fitted once, then frozen; and searches settled.

The final estimator is read by `specification`; here is what stands before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from inspect import ismethod, signature
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.sparse

from epsilens._types import FloatArray
from epsilens._validate import as_positive, require_extra
from epsilens.data import Prepared, Schema, build_encoder
from epsilens.data.encoding import MOST_DENSE_CATEGORIES
from epsilens.errors import InputError, InputTypeError, setting
from epsilens.models.problem import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from epsilens.models.solver import MOST_FACTORISED
from epsilens.models.tables import require_records

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.pipeline import Pipeline

# --- What a scikit-learn estimator minimises, read from its public parameters ---

ClassWeight: TypeAlias = "str | Mapping[object, float] | None"

_SUPPORTED = (
    "LogisticRegression, SGDClassifier(loss='log_loss'), Ridge, RidgeClassifier, LinearRegression, one "
    "of their CV variants, or a Pipeline that ends in one of them"
)


class NoExactAnswerError(InputTypeError):
    """The estimator has no smooth convex objective that is known here; it can only be trained again."""


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
            raise NoExactAnswerError(
                f"{self.several} fits {n_classes} classes one against the rest, which is not one "
                "objective. Use LogisticRegression with another solver, such as lbfgs."
            )
        return SoftmaxLoss(n_classes)


def fresh_copy(estimator: Any) -> BaseEstimator:
    """Return a copy of an estimator that has seen no data.

    CatBoost copies its lists, which scikit-learn's `clone` takes for a constructor that changes them. What is made
    of the parameters is as good if its own parameters read the same.

    Raises
    ------
    RuntimeError
        If the constructor changes a parameter.
    """
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    try:
        return clone(estimator)
    except RuntimeError:
        given = estimator.get_params(deep=False)
        fresh = {name: clone(one, safe=False) for name, one in given.items() if name != "steps"}
        if isinstance(estimator, Pipeline):
            fresh["steps"] = [
                (name, fresh_copy(step) if hasattr(step, "get_params") else step)
                for name, step in estimator.steps
            ]
            return type(estimator)(**fresh)
        copy = type(estimator)(**fresh)
        read = [
            {name: repr(value) for name, value in one.get_params(deep=False).items()}
            for one in (estimator, copy)
        ]
        if read[0] != read[1]:
            raise
        return copy


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
            argument="estimator",
            expected="an instance",
            got=f"the class {name}",
            hint=f"Call it: `{name}()`.",
        )
    if isinstance(estimator, BaseSearchCV):
        raise InputTypeError(
            argument="estimator",
            expected="one model",
            got=f"{type(estimator).__name__}, which tries many",
            hint="Fit the search, and give its `best_estimator_`.",
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
    raise NoExactAnswerError(
        argument="estimator",
        expected=str(_SUPPORTED),
        got=f"{type(model).__name__}: without a smooth convex objective there is no exact answer",
        hint="Choose one of those.",
    )


def _read_squared(model: BaseEstimator, *, is_classifier: bool) -> Specification:
    kind, parameters = type(model).__name__, model.get_params(deep=False)
    if parameters.get("positive"):
        raise NoExactAnswerError(
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
        raise NoExactAnswerError(
            f"{kind} must have an l2 penalty or none: with an l1 part the optimum is not smooth in "
            "the data. Use l1_ratio=0."
        )


def _read_sgd(model: BaseEstimator) -> Specification:
    parameters = model.get_params(deep=False)
    if parameters["loss"] != "log_loss":
        raise NoExactAnswerError(
            f"SGDClassifier must have loss='log_loss', got {parameters['loss']!r}: "
            "other losses have no probabilities or no curvature."
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


def _read_logistic(model: BaseEstimator) -> Specification:
    from sklearn.utils.class_weight import compute_class_weight

    kind, parameters = type(model).__name__, model.get_params(deep=False)
    penalty = parameters.get("penalty", "deprecated")
    searched = "Cs" in parameters
    if searched:
        ratio = getattr(model, "l1_ratio_", 0.0)
        known = [float(value) for value in np.ravel(np.asarray(ratio, dtype=float))]
        _refuse_l1(kind, penalty, [0.0 if math.isnan(value) else value for value in known])
        chosen = np.unique(np.ravel(model.C_))
        if len(chosen) > 1:
            raise NoExactAnswerError(
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
        # Older versions of scikit-learn count heads when they balance classes.
        counts_weights="sample_weight" in signature(compute_class_weight).parameters,
        several="together" if together else "liblinear" if by_liblinear else kind,
    )


# --- The transformers of a scikit-learn pipeline: fitted once, then frozen; and searches settled ---


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


def looks_at_label(step: Any) -> str | None:
    """Return the name of what learns from the label in a step, or inside it; None if nothing does.

    Examples
    --------
    >>> from sklearn.feature_selection import SelectKBest
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.preprocessing import StandardScaler
    >>> looks_at_label(FrozenEstimator(SelectKBest())), looks_at_label(FrozenEstimator(StandardScaler()))
    ('SelectKBest', None)
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils import get_tags

    if isinstance(step, partial):
        step = step.func
    if ismethod(step):
        step = step.__self__
    if isinstance(step, FrozenEstimator):
        return looks_at_label(step.estimator)
    for kind, inner in (
        (Pipeline, "steps"),
        (ColumnTransformer, "transformers"),
        (FeatureUnion, "transformer_list"),
    ):
        if isinstance(step, kind):
            parts = [looks_at_label(part) for _, part, *_ in getattr(step, inner)]
            return next((part for part in parts if part is not None), None)
    if isinstance(step, FunctionTransformer):
        return looks_at_label(step.func)
    if isinstance(step, str) or not hasattr(step, "fit"):
        return None
    selects = hasattr(step, "get_support") and not isinstance(step, VarianceThreshold)
    return type(step).__name__ if get_tags(step).target_tags.required or selects else None


def _refuse_supervised(transformer: object) -> None:
    """Refuse a transformer that looks at the label, inside pipelines, column transformers and unions."""
    name = looks_at_label(transformer)
    if name is not None:
        raise NoExactAnswerError(
            f"the pipeline's {name} looks at the label, so other labels or "
            "other records would change the features too. Fit it beforehand on public data and pass its "
            "output, or leave it out."
        )


def refuse_learnt(estimator: Any, copy: Any) -> None:
    """Refuse an estimator of which a part that has learnt from the label is not copied, but kept.

    A frozen classifier, or a function of a fitted one, knows the true answers whatever answers the rest is trained
    on.

    Parameters
    ----------
    estimator, copy : estimator
        The given one, and what `fresh_copy` made of it.

    Raises
    ------
    InputError
    """
    from sklearn.preprocessing import FunctionTransformer

    given, copied = estimator.get_params(deep=True), copy.get_params(deep=True)
    kept = [copy] if copy is estimator else []
    kept += [value for name, value in copied.items() if value is given.get(name)]
    kept += [value for value in copied.values() if isinstance(value, FunctionTransformer)]
    names = [
        name
        for value in kept
        if (hasattr(value, "get_params") or ismethod(value) or isinstance(value, partial))
        and (name := looks_at_label(value)) is not None
    ]
    if names:
        raise InputError(
            f"{names[0]} is kept as it is, and has learnt from the label: it knows the true answers, whatever answers "
            "the rest is trained on. Give it unfrozen, so that it is trained again, or pass its output on public data "
            "as a column."
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
        raise NoExactAnswerError(
            f"{setting('estimator')} is a Pipeline that ends in another Pipeline. Put all steps "
            "into one."
        )
    if len(transformers) == 0:
        return None
    _refuse_supervised(transformers)
    if is_fitted(estimator):
        return transformers
    require_records(X, what="training")
    fresh = clone(transformers)
    with _without_values("fit the pipeline's transformers on the training data"):
        fresh.fit(X)
    return fresh


def frozen_transformers(estimator: BaseEstimator) -> Pipeline | None:
    """Return the transformers of a pipeline that are fitted already; None if there are none.

    Raises
    ------
    InputError
        If they are not fitted, or one looks at the label.
    """
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline) or len(estimator) == 1:
        return None
    if not is_fitted(estimator[:-1]):
        raise InputError(
            f"the transformers of {setting('estimator')} must be fitted before a table is "
            "streamed, for they would need all of it at once. Fit them on a sample first: "
            "`estimator[:-1].fit(sample)`."
        )
    transformers = estimator[:-1]
    _refuse_supervised(transformers)
    return transformers


@contextmanager
def _without_values(doing: str) -> Iterator[None]:
    """Re-raise errors of other libraries without their message: it may quote data."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise InputError(
            f"could not {doing} ({type(error).__name__}; its text is withheld because it may quote "
            "data). Expected the columns, types and categories the pipeline was made for, "
            "without missing values."
        ) from None


def settle_search(
    estimator: BaseEstimator, features: FloatArray, y: object, sample_weight: object | None
) -> BaseEstimator:
    """Return the final estimator; if it is a search over penalties not run yet, run it.

    The penalty that the search chooses on the true labels is kept, in the estimate and in
    retraining.
    """
    from sklearn.base import clone

    model = final_step(estimator)
    if not is_search(model) or is_fitted(model):
        return model
    with _without_values("choose the penalty by cross-validation"):
        return clone(model).fit(features, y, sample_weight=sample_weight)


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
    import narwhals.stable.v1 as nw

    require_records(X, what=what)
    features: object = X
    if transformers is not None:
        with _without_values(f"transform the {what} data with the pipeline"):
            features = transformers.transform(X)
    # The imaginary part of complex numbers would be lost.
    if isinstance(features, list | tuple):
        values = (value for row in features for value in np.ravel(row).tolist())
        is_complex = any(isinstance(value, complex) for value in values)
    else:
        kinds = getattr(features, "dtypes", None)
        kinds = [getattr(features, "dtype", None)] if kinds is None else kinds
        is_complex = any(getattr(kind, "kind", None) == "c" for kind in kinds)
    if is_complex:
        raise InputError(
            f"the {what} features must be real numbers, got complex ones. Take their real parts, or "
            "real and imaginary parts as two columns."
        )
    if scipy.sparse.issparse(features):
        matrix = scipy.sparse.csr_array(features).astype(np.float64)
        finite = bool(np.isfinite(matrix.data).all())
    else:
        frame = nw.from_native(features, eager_only=True, pass_through=True)
        columns = frame.schema.items() if isinstance(frame, nw.DataFrame) else ()
        text = [
            name
            for name, kind in columns
            if not kind.is_numeric() and kind not in {nw.Boolean, nw.Object}
        ]
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
    return matrix


# --- The model that is trained when the user brings none ---

_MOST_NAMED = 3
_MOST_CELLS = 50_000_000
"""Numbers of a dense table of encoded records, 400 MB; several copies of it are made."""


ModelName: TypeAlias = Literal[
    "logistic",
    "ridge",
    "hist-gradient-boosting",
    "random-forest",
    "extra-trees",
    "mlp",
    "xgboost",
    "lightgbm",
]
LINEAR_MODELS = frozenset({"logistic", "ridge"})
_MOST_OF_TREES = 255
"""Categories of a column that boosted trees split as categories."""


def named_model(name: ModelName, *, is_classifier: bool, schema: Schema) -> BaseEstimator:
    """Return a model by its name, not fitted, with the defaults of its library.

    Parameters
    ----------
    name : str
        One of `ModelName` that is not linear.
    is_classifier : bool
    schema : Schema
        The columns: boosted trees know which are categories.

    Raises
    ------
    MissingExtraError
        If the library of the model is not installed.
    """
    from sklearn import ensemble, neural_network

    kind = "Classifier" if is_classifier else "Regressor"
    if name == "hist-gradient-boosting":
        sizes = [len(schema[column].categories or ()) for column in schema.encoded_as("one-hot")]
        numbers = [False] * len(schema.encoded_as("number"))
        codes = [size <= _MOST_OF_TREES for size in sizes]
        return getattr(ensemble, f"HistGradientBoosting{kind}")(
            categorical_features=np.array([*codes, *numbers], dtype=bool)
        )
    if name in {"random-forest", "extra-trees"}:
        family = "RandomForest" if name == "random-forest" else "ExtraTrees"
        return getattr(ensemble, f"{family}{kind}")()
    if name == "mlp":
        return getattr(neural_network, f"MLP{kind}")()
    require_extra("boosted", f"{setting('model', name)}", name)
    library = import_module(name)
    if name == "xgboost":
        return getattr(library, f"XGB{kind}")()
    return getattr(library, f"LGBM{kind}")(verbose=-1)


def default_estimator(
    schema: Schema,
    *,
    model: ModelName = "logistic",
    is_classifier: bool = True,
    regularisation: float | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    keep_all: Sequence[str] = (),
) -> Pipeline:
    """Build the default pipeline: one-hot categories, standardised numbers, a linear model or a network; or trees.

    Parameters
    ----------
    schema : Schema
        The columns to learn from.
    model : str
        Name of the model.
    is_classifier : bool
        Whether the label is an answer or a number. The linear models say that by their names.
    regularisation : float, optional
        C of LogisticRegression or alpha of Ridge; 1 unless given.
    categories : mapping of str to sequence of str, optional
        All possible answers of columns of categories: each gets a column, whether it occurs or not.
    keep_all : sequence of str
        Columns whose first category gets a column too, as reports of bits need it.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Not yet fitted.

    Examples
    --------
    >>> import pandas as pd
    >>> from epsilens.data import infer_schema
    >>> schema = infer_schema(pd.DataFrame({"age": [31.0, 42.5, 53.0]}))
    >>> default_estimator(schema, model="ridge").steps[-1][1]
    Ridge()
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import Pipeline

    strength = 1.0
    if regularisation is not None:
        strength = as_positive(regularisation, name="regularisation")
        if model not in LINEAR_MODELS:
            raise InputError(
                f"{setting('regularisation')} belongs to the models logistic and ridge, got "
                f"{setting('model', model)}. Leave it out."
            )
    declared = categories or {}
    columns = tuple(
        replace(column, categories=tuple(declared[column.name]))
        if column.encoding == "one-hot" and column.name in declared
        else column
        for column in schema.columns
    )
    schema = replace(schema, columns=columns)
    final: BaseEstimator = (
        LogisticRegression(C=strength) if model == "logistic" else Ridge(alpha=strength)
    )
    if model not in LINEAR_MODELS:
        final = named_model(model, is_classifier=is_classifier, schema=schema)
    encoder = build_encoder(
        schema, keep_all=keep_all, ordinal=model not in LINEAR_MODELS and model != "mlp"
    )
    return Pipeline([("encode", encoder), ("model", final)])


def require_factorisable(prepared: Prepared, *, what: str, is_dense: bool = False) -> None:
    """Refuse a default model whose matrices would not fit into memory, before any is formed.

    A Hessian of 5,000 parameters takes 200 MB, and training many models takes about ten of them.

    Parameters
    ----------
    prepared : Prepared
        The data.
    what : str
        What the model is needed for.
    is_dense : bool
        Whether every zero of the encoded categories is stored as well.

    Raises
    ------
    InputError
        Naming the columns with most categories.

    Examples
    --------
    >>> from epsilens.data import load_survey, prepare
    >>> require_factorisable(prepare(load_survey(), label="affair"), what="an attack")
    """
    schema = prepared.schema
    widths = {name: len(schema[name].categories or ()) - 1 for name in schema.encoded_as("one-hot")}
    n_columns = sum(widths.values()) + len(schema.encoded_as("number")) + 1
    n_classes = len(prepared.label_categories)
    n_parameters = n_columns * (n_classes if n_classes > 2 else 1)
    most = MOST_FACTORISED
    if is_dense:
        most = min(most, max(MOST_DENSE_CATEGORIES, _MOST_CELLS // max(1, len(prepared.rows))))
    if n_parameters <= most or not widths:
        return
    widest = sorted(widths, key=lambda name: -widths[name])[:_MOST_NAMED]
    listed = ", ".join(f"{name} ({widths[name] + 1:,} categories)" for name in widest)
    raise InputError(
        f"{what} takes a model of at most {most:,} parameters, to stay below 3 GB of memory, but "
        f"this one has {n_parameters:,}. Leave out the widest columns with {setting('drop')}, or "
        f"join their categories: {listed}."
    )

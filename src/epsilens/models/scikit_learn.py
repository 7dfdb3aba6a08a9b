# SPDX-License-Identifier: Apache-2.0
"""The transformers of a scikit-learn pipeline: fitted once, then frozen; and searches settled.

The final estimator is read by `specification`; here is what stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from epsilens._types import FloatArray
from epsilens.errors import InputError
from epsilens.models.specification import final_step, is_search
from epsilens.models.tables import require_records

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.pipeline import Pipeline

__all__ = ["fit_transformers", "frozen_transformers", "is_fitted", "settle_search", "transform"]


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
                f"the pipeline's {type(leaf).__name__} looks at the label, so other labels or "
                "other records would change the features too. Fit it beforehand on public data and pass its "
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
            "the transformers of `estimator` must be fitted before a table is streamed, for they would "
            "need all of it at once. Fit them on a sample first: `estimator[:-1].fit(sample)`."
        )
    transformers = estimator[:-1]
    _refuse_supervised(transformers)
    return transformers


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
    require_records(X, what=what)
    features: object = X
    if transformers is not None:
        with _without_values(f"transform the {what} data with the pipeline"):
            features = transformers.transform(X)
    if _is_complex(features):
        raise InputError(
            f"the {what} features must be real numbers, got complex ones. Take their real parts, or "
            "real and imaginary parts as two columns."
        )
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
    return matrix


def _is_complex(features: object) -> bool:
    """Return whether a column holds complex numbers, whose imaginary part would be lost."""
    if isinstance(features, list | tuple):
        return any(
            isinstance(value, complex) for row in features for value in np.ravel(row).tolist()
        )
    types = getattr(features, "dtypes", None)
    if types is None:
        types = [getattr(features, "dtype", None)]
    return any(getattr(kind, "kind", None) == "c" for kind in types)


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

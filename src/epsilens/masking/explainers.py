# SPDX-License-Identifier: Apache-2.0
"""How much each feature speaks for a record's own class: by SHAP and by LIME, the libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray
from epsilens._validate import require_extra

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["Explainer", "Step", "lime_attributions", "shap_attributions"]

Explainer: TypeAlias = Literal["shap", "lime"]
Step: TypeAlias = Callable[[int], bool]
"""Called with the number of records that are explained; says whether to go on."""

_BATCH = 256
_BACKGROUND = 50
"""Records that stand for a hidden feature where the model is no linear one."""
_FEWEST_SAMPLES = 1_000
_FEW_VALUES = 2


def shap_attributions(
    model: BaseEstimator,
    X: FloatArray,
    classes: NDArray[np.intp],
    *,
    background: FloatArray,
    order: NDArray[np.intp],
    random_state: int,
    step: Step,
) -> FloatArray:
    """Return what each feature adds to the score of a record's own class, by SHAP.

    Parameters
    ----------
    model : scikit-learn classifier
        Linear ones are explained exactly, on the scale of the logit; others on that of the
        probability, by sampling permutations of the features.
    X : array of shape (n, p)
        The records that are explained.
    classes : array of int, (n,)
        Which column of the model's output is the record's own.
    background : array of shape (m, p)
        What a hidden feature is replaced by.
    order : array of int, (n,)
        The order in which records are explained.
    random_state : int
    step : callable

    Returns
    -------
    array of shape (n, p)
        NaN for records that were not reached.
    """
    require_extra("explain", "explaining a model by SHAP", "shap")
    import shap

    if _is_linear(model, background):
        masker = shap.maskers.Independent(background, max_samples=len(background))
        explain = shap.LinearExplainer((np.array(model.coef_), np.array(model.intercept_)), masker)
        values_of = explain.shap_values
    else:
        masker = shap.maskers.Independent(background, max_samples=_BACKGROUND)
        sampled = shap.PermutationExplainer(model.predict_proba, masker, seed=random_state)

        def values_of(rows: FloatArray) -> FloatArray:
            found = sampled(rows, max_evals=2 * rows.shape[1] + 1, silent=True)
            return np.asarray(found.values, dtype=np.float64)

    result = np.full(X.shape, np.nan)
    for first in range(0, len(X), _BATCH):
        rows = order[first : first + _BATCH]
        result[rows] = _own_class(np.asarray(values_of(X[rows])), classes[rows])
        if not step(min(first + _BATCH, len(X))):
            break
    return result


def lime_attributions(
    model: BaseEstimator,
    X: FloatArray,
    classes: NDArray[np.intp],
    *,
    background: FloatArray,
    order: NDArray[np.intp],
    random_state: int,
    step: Step,
) -> FloatArray:
    """Return what each feature adds to the probability of a record's own class, by LIME.

    Around every record a linear model is fitted to what the classifier says of disturbed copies. A feature
    of many values is present in a copy if it stays within its quartile, one of two values if it is
    the same; its weight is what its presence adds. LIME is noisy: the same question asked again with
    another seed gives other numbers.

    Parameters
    ----------
    model, X, classes, background, order, random_state, step
        As in `shap_attributions`.

    Returns
    -------
    array of shape (n, p)
    """
    require_extra("explain", "explaining a model by LIME", "lime")
    from lime import lime_tabular

    two_valued = [j for j in range(X.shape[1]) if len(np.unique(background[:, j])) <= _FEW_VALUES]
    explain = lime_tabular.LimeTabularExplainer(
        background,
        mode="classification",
        categorical_features=two_valued,
        feature_selection="none",
        random_state=random_state,
    )
    n_samples = max(_FEWEST_SAMPLES, 2 * X.shape[1])
    result = np.full(X.shape, np.nan)
    for done, i in enumerate(order, start=1):
        own = int(classes[i])
        found = explain.explain_instance(
            X[i],
            model.predict_proba,
            labels=(own,),
            num_features=X.shape[1],
            num_samples=n_samples,
        )
        places, weights = zip(*found.local_exp[own], strict=True)
        result[i] = 0.0
        result[i, list(places)] = weights
        if not step(done):
            break
    return result


def _is_linear(model: BaseEstimator, rows: FloatArray) -> bool:
    """Say whether a model's scores are its coefficients times the features, a row for each class.

    Asked, not believed: a support vector machine has a row for each pair of classes, and of three classes
    there are as many pairs.
    """
    if not all(hasattr(model, name) for name in ("coef_", "intercept_", "decision_function")):
        return False
    weights, n_classes = np.asarray(model.coef_), len(model.classes_)
    if weights.ndim != 2 or len(weights) != (1 if n_classes == 2 else n_classes):
        return False
    asked = rows[:_BATCH]
    expected = asked @ weights.T + np.asarray(model.intercept_)
    scores = np.asarray(model.decision_function(asked)).reshape(len(asked), -1)
    return scores.shape == expected.shape and bool(np.allclose(scores, expected))


def _own_class(values: FloatArray, classes: NDArray[np.intp]) -> FloatArray:
    """Take each record's own class from (n, p, classes), or from (n, p) of the second of two."""
    if values.ndim == 2:
        return np.asarray(np.where(classes[:, None] == 1, values, -values))
    if values.shape[2] == 1:
        return _own_class(values[:, :, 0], classes)
    return np.asarray(np.take_along_axis(values, classes[:, None, None], axis=2)[:, :, 0])

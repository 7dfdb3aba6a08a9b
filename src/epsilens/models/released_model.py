# SPDX-License-Identifier: Apache-2.0
"""Classifiers that were released: they predict, and are not trained again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from epsilens._types import FloatArray
from epsilens.errors import InputError
from epsilens.models.ridge_bounds import RowBounds, clip_rows
from epsilens.models.tables import checked_input


class LogisticPredictions:
    """Predictions of a logistic or softmax model from its linear predictor.

    Attributes
    ----------
    coef_, intercept_, classes_ : array
    bounds_ : RowBounds or None
        None: rows are not clipped.
    """

    coef_: FloatArray
    intercept_: FloatArray
    classes_: NDArray[Any]
    bounds_: RowBounds | None

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the linear predictor of features that are clipped as in `fit`.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)

        Returns
        -------
        array of shape (n_records,) or (n_records, n_classes)
        """
        check_is_fitted(self)
        rows, _ = checked_input(self, X, None, reset=False)
        if self.bounds_ is not None:
            rows = clip_rows(rows, self.bounds_.feature_bound)
        found: FloatArray = rows @ self.coef_.T
        found += self.intercept_
        return found[:, 0] if found.shape[1] == 1 else found

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return the logarithm of the probability of every class.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)

        Returns
        -------
        array of shape (n_records, n_classes)
        """
        from scipy.special import log_expit, log_softmax

        found = self.decision_function(X)
        if found.ndim == 1:
            return np.column_stack([log_expit(-found), log_expit(found)])
        logarithms: FloatArray = log_softmax(found, axis=1)
        return logarithms

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probability of every class.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)

        Returns
        -------
        array of shape (n_records, n_classes)
        """
        chances: FloatArray = np.exp(self.predict_log_proba(X))
        return chances

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class.

        Parameters
        ----------
        X : array or frame of shape (n_records, n_features)

        Returns
        -------
        array of shape (n_records,)
        """
        found = self.decision_function(X)
        best = (found > 0).astype(np.intp) if found.ndim == 1 else found.argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[best]
        return predicted


class ReleasedLogistic(LogisticPredictions, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A logistic or softmax model that another library has trained.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    bounds_ : RowBounds or None
        Length that rows are shrunk to.
    """

    @classmethod
    def of(
        cls,
        coef: ArrayLike,
        intercept: ArrayLike,
        classes: Sequence[object] | NDArray[Any],
        bounds: RowBounds | None = None,
    ) -> Self:
        """Return the model of coefficients."""
        model = cls()
        model.coef_, model.intercept_ = np.array(coef), np.array(intercept)
        model.classes_, model.bounds_ = np.asarray(classes), bounds
        model.n_features_in_ = model.coef_.shape[1]
        return model

    def fit(self, X: object, y: object = None) -> Self:
        """Refuse: a release is not trained again."""
        raise InputError("a released model predicts only. Train another with `epsilens train`.")


class ReleasedAdditive(ReleasedLogistic):
    """A sum of one step function a column, for two classes.

    Attributes
    ----------
    cuts_ : list of array
        Where the steps of every column are, in increasing order.
    scores_ : list of array
        Heights of the steps, one more than cuts: a number that is a cut belongs to the step above it.
    intercept_ : array of shape (1,)
    classes_ : array of shape (2,)

    Examples
    --------
    >>> model = ReleasedAdditive.of_steps([[0.5]], [[-1.0, 1.0]], 0.0, ["no", "yes"])
    >>> model.predict(np.array([[0.2], [0.5]])).tolist()
    ['no', 'yes']
    """

    @classmethod
    def of_steps(
        cls,
        cuts: Sequence[ArrayLike],
        scores: Sequence[ArrayLike],
        intercept: float,
        classes: Sequence[object] | NDArray[Any],
    ) -> Self:
        """Return the model of steps."""
        model = cls()
        model.cuts_ = [np.array(one, dtype=np.float64) for one in cuts]
        model.scores_ = [np.array(one, dtype=np.float64) for one in scores]
        model.intercept_, model.classes_ = np.array([intercept]), np.asarray(classes)
        model.n_features_in_ = len(model.cuts_)
        return model

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the sum of the steps.

        Parameters
        ----------
        X : array of shape (n_records, n_columns)
            Places on the lines of the columns, as `PlaceEncoder` gives them.

        Returns
        -------
        array of shape (n_records,)
        """
        check_is_fitted(self)
        rows, _ = checked_input(self, X, None, reset=False)
        found = np.full(len(rows), self.intercept_[0])
        for places, cuts, scores in zip(rows.T, self.cuts_, self.scores_, strict=True):
            found += scores[np.searchsorted(cuts, places, side="right")]
        return found

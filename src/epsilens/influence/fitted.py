# SPDX-License-Identifier: Apache-2.0
"""What `WhatIf` and `AttackStudy` share: a model fitted to a table, and the reading of questions about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from sklearn.base import BaseEstimator

from epsilens.data.frames import series_name
from epsilens.influence.baseline import BaselineModel, fit_baseline
from epsilens.influence.question import Asked, Question, read_question
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.models.tables import (
    column_names,
    for_scikit_learn,
    in_order_of,
    schema_fingerprint,
)


class FittedModel(BaseEstimator):  # type: ignore[misc]
    """A model fitted to a table, which is asked what randomising some columns would do.

    Attributes
    ----------
    baseline_ : BaselineModel or StreamedBaseline
        The converged model with its outcomes on the test set.
    label_name_ : str or None
    """

    estimator: object

    def _fit_tables(
        self,
        X: object,
        y: object,
        X_test: object,
        y_test: object,
        *,
        sample_weight: object | None,
        sample_weight_test: object | None,
        estimator: object | None = None,
    ) -> None:
        """Train the model, or another estimator in its place, on tables in memory and evaluate it."""
        features = for_scikit_learn(X)
        baseline = fit_baseline(
            self.estimator if estimator is None else estimator,
            features,
            y,
            in_order_of(features, for_scikit_learn(X_test)),
            y_test,
            sample_weight=sample_weight,
            sample_weight_test=sample_weight_test,
        )
        self._keep(baseline, features, label_name=series_name(y), template=X)

    def _keep(
        self,
        baseline: BaselineModel | StreamedBaseline,
        table: object,
        *,
        label_name: str | None,
        template: object,
    ) -> None:
        """Take a fitted model for this study's."""
        self.baseline_: BaselineModel | StreamedBaseline = baseline
        self.label_name_ = label_name
        self._table = table
        self._template = template
        self._fingerprint = schema_fingerprint(
            table,
            label_name,
            n_train=baseline.problem.n_rows,
            n_test=baseline.evaluation.n_rows,
        )
        # The question that was read last, for several studies of one model.
        self._last_question: list[tuple[Question, Asked]] | None = None
        one = len(baseline.intercept) == 1
        self.coef_ = baseline.coefficients[0] if one else baseline.coefficients
        self.intercept_ = float(baseline.intercept[0]) if one else baseline.intercept

    def keep_question(self) -> Self:
        """Keep the question that is read last: asked again with the same objects, it is not read again."""
        self._last_question = []
        return self

    def share_fit(self, other: FittedModel) -> Self:
        """Take over the model that another study has fitted, and the question that it keeps."""
        shared = (
            "baseline_",
            "label_name_",
            "_table",
            "_template",
            "_fingerprint",
            "_last_question",
        )
        for name in shared:
            setattr(self, name, getattr(other, name))
        return self

    def _read_question(self, question: Question, *, columns: list[str] | None = None) -> Asked:
        """Check a question, if it is not the one that is kept."""
        kept = self._last_question
        if kept and kept[0][0].is_same(question):
            asked = kept[0][1]
        else:
            known = column_names(self._table) if columns is None else columns
            asked = read_question(self.baseline_, question, columns=known)
        if kept is not None:
            kept[:] = [(question, asked)]
        # Whoever answers adds notes of its own.
        return replace(asked, notes=list(asked.notes))

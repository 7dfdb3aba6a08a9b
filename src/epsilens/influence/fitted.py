# SPDX-License-Identifier: Apache-2.0
"""What `WhatIf` and `AttackStudy` share: a model fitted to a table, and the reading of questions about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from sklearn.base import BaseEstimator

from epsilens.data.frames import series_name
from epsilens.errors import InputError
from epsilens.influence.any_model import AnyModel, fit_any_model
from epsilens.influence.baseline import BaselineModel, fit_baseline
from epsilens.influence.question import Asked, Question, read_question
from epsilens.influence.streamed_baseline import StreamedBaseline
from epsilens.models.scikit_learn import NoExactAnswerError
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
    baseline_ : BaselineModel, StreamedBaseline or AnyModel
        The converged linear model, or a model that is trained again as a whole, with its outcomes on the
        test set.
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
        """Train the model, or another estimator in its place, on tables in memory and evaluate it.

        A linear model is trained to convergence, others as they are.
        """
        model = self.estimator if estimator is None else estimator
        features = for_scikit_learn(X)
        tested = in_order_of(features, for_scikit_learn(X_test))
        baseline: BaselineModel | AnyModel
        try:
            baseline = fit_baseline(
                model,
                features,
                y,
                tested,
                y_test,
                sample_weight=sample_weight,
                sample_weight_test=sample_weight_test,
            )
        except NoExactAnswerError as reason:
            try:
                baseline = fit_any_model(
                    model,
                    features,
                    y,
                    tested,
                    y_test,
                    sample_weight=sample_weight,
                    sample_weight_test=sample_weight_test,
                    reason=reason.text,
                )
            except InputError as refusal:
                if reason.argument == "estimator":  # a kind of model without an exact answer
                    raise refusal from None
                raise reason from None  # a linear model whose settings are in the way
        self._keep(baseline, features, label_name=series_name(y), template=X)

    def _keep(
        self,
        baseline: BaselineModel | StreamedBaseline | AnyModel,
        table: object,
        *,
        label_name: str | None,
        template: object,
    ) -> None:
        """Take a fitted model for this study's."""
        self.baseline_: BaselineModel | StreamedBaseline | AnyModel = baseline
        self.label_name_ = label_name
        self._table = table
        self._template = template
        self._fingerprint = schema_fingerprint(
            table,
            label_name,
            n_train=baseline.n_rows,
            n_test=baseline.n_test_rows,
        )
        self._whole: AnyModel | None = None
        # The question that was read last, for several studies of one model.
        self._last_question: list[tuple[Question, Asked]] | None = None
        if isinstance(baseline, AnyModel):
            return
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
            "_whole",
        )
        for name in shared:
            setattr(self, name, getattr(other, name))
        return self

    def _read_question(
        self,
        question: Question,
        model: BaselineModel | StreamedBaseline | AnyModel,
        *,
        columns: list[str] | None = None,
    ) -> Asked:
        """Check a question about the model, if it is not the one that is kept."""
        kept = self._last_question if model is self.baseline_ else None
        if kept and kept[0][0].is_same(question):
            asked = kept[0][1]
        else:
            known = column_names(self._table) if columns is None else columns
            asked = read_question(model, question, columns=known)
        if kept is not None:
            kept[:] = [(question, asked)]
        # Whoever answers adds notes of its own.
        return replace(asked, notes=list(asked.notes))

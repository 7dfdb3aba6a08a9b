# SPDX-License-Identifier: Apache-2.0
"""A trained model and its test set, ready to be asked what records are worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from epsilens._types import FloatArray, Progress
from epsilens._validate import as_choice
from epsilens.errors import ApproximationWarning, InputError, setting
from epsilens.influence.baseline import BaselineModel, as_weights, fit_baseline
from epsilens.models import Design
from epsilens.models.label import class_totals, class_weights, encode_test_label
from epsilens.models.scikit_learn import transform
from epsilens.models.tables import for_scikit_learn, in_order_of
from epsilens.notes import Note
from epsilens.valuation.exact_models import Accuracy, full_loss_changes
from epsilens.valuation.record_steps import (
    LossDerivatives,
    ValuedRecords,
    coefficients_of_step,
    first_order,
    quadratic_forms,
    refuse_alone,
)
from epsilens.valuation.shared_objective import (
    SharedObjective,
    given_objective,
    sampling_errors,
    shared_objectives,
    shortest_without,
)

Method = Literal["exact", "newton", "second-order", "first-order"]
TestLoss = Literal["full", "second-order"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Candidates:
    """Records on offer, in the coordinates of the model.

    Attributes
    ----------
    design : Design
    codes : array of int, or None
        Their classes; None for a regression.
    y : array of shape (B,)
        The labels as the loss sees them.
    weights : array of shape (B,)
        In the unit of the training records' weights, before any class weight.
    """

    design: Design
    codes: NDArray[np.intp] | None
    y: FloatArray
    weights: FloatArray


@dataclass(frozen=True, repr=False)  # a printed record would be a leak
class Appraisal:
    """A converged model, its records and the test set that judges them.

    Fit it once and ask several questions; `leave_one_out` and `add_one` are the short way.

    Attributes
    ----------
    baseline : BaselineModel
        The converged model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 9.0])
    >>> appraisal = Appraisal.of(Ridge(), X, y, X, np.arange(4.0))
    >>> appraisal.leave_one_out(method="exact").round(2)
    array([ 0.36,  0.65,  3.81, -4.31])
    """

    baseline: BaselineModel

    @classmethod
    def of(
        cls,
        estimator: object,
        X: object,
        y: object,
        X_test: object,
        y_test: object,
        *,
        sample_weight: object | None = None,
        sample_weight_test: object | None = None,
    ) -> Self:
        """Train to convergence; parameters as in `leave_one_out`."""
        features = for_scikit_learn(X)
        return cls(
            fit_baseline(
                estimator,
                features,
                y,
                in_order_of(features, for_scikit_learn(X_test)),
                y_test,
                sample_weight=sample_weight,
                sample_weight_test=sample_weight_test,
            )
        )

    def judged_by(self, rows: NDArray[np.intp]) -> Appraisal:
        """Return the same with only some of the test records."""
        whole = self.baseline.evaluation
        weights = whole.weights[rows]
        evaluation = replace(
            whole, design=whole.design.take(rows), y=whole.y[rows], weights=weights / weights.sum()
        )
        outcomes = evaluation.outcomes(self.baseline.theta)
        return Appraisal(replace(self.baseline, evaluation=evaluation, outcomes=outcomes))

    def training_losses(self) -> FloatArray:
        """Return the loss of the model at its own training records: the obvious other score."""
        problem = self.baseline.problem
        predictor = problem.design.predict(self.baseline.theta)
        return problem.loss.value(predictor, self.baseline.label.y)

    def sampling_errors(self, candidates: Candidates | None = None) -> FloatArray:
        """Return how far each score could be off because the test set is a sample.

        Standard errors of the training records' scores, or of the candidates'; class weights and
        penalties that change with the number of records are taken as they are.
        """
        baseline = self.baseline
        shared = given_objective(baseline)
        if candidates is None:
            records = ValuedRecords(
                baseline.problem.design, baseline.label.y, baseline.problem.weights, -1
            )
        else:
            weights = candidates.weights
            if candidates.codes is not None:
                totals = class_totals(
                    baseline.label.domain()[0], baseline.count_weights, baseline.label.n_classes
                )
                own = class_weights(baseline.class_weight, baseline.label, totals)
                weights = weights * own[candidates.codes]
            records = ValuedRecords(candidates.design, candidates.y, weights, 1)
        return sampling_errors(shared, baseline.evaluation, records)

    def leave_one_out(
        self,
        *,
        method: str = "exact",
        test_loss: str | None = None,
        progress: Progress | None = None,
    ) -> FloatArray:
        """Return what every training record is worth; see `epsilens.valuation.leave_one_out`."""
        choices = _choices(method, test_loss)
        self._refuse_the_last()
        return self._scores(None, *choices, progress)

    def add_one(
        self,
        X: object,
        y: object,
        *,
        sample_weight: object | None = None,
        method: str = "exact",
        test_loss: str | None = None,
        progress: Progress | None = None,
    ) -> FloatArray:
        """Return what every candidate would be worth; see `epsilens.valuation.add_one`."""
        choices = _choices(method, test_loss)
        return self._scores(self.read_candidates(X, y, sample_weight), *choices, progress)

    def _scores(
        self, offer: Candidates | None, method: str, test_loss: str, progress: Progress | None
    ) -> FloatArray:
        """Return the worth of every candidate, or of every training record."""
        baseline, label = self.baseline, self.baseline.label
        design, y = baseline.problem.design, label.y
        codes, change, places = label.codes, -1, np.arange(len(y))
        if offer is not None:
            design, codes, y, change = offer.design, offer.codes, offer.y, 1
        scores = np.empty(design.n_rows)
        for kind, class_weight, shared in shared_objectives(baseline, change=change):
            own = shared.problem.weights
            if offer is not None:
                own = offer.weights if codes is None else offer.weights * class_weight[codes]
            records = ValuedRecords(design, y, own, change, places if offer is None else None)
            rows: NDArray[np.intp] | slice = slice(None)
            if kind is not None and codes is not None:
                rows = np.flatnonzero(codes == kind)
                records = records.take(rows)
            if len(records):
                found = self._loss_changes(shared, records, method, test_loss, progress)
                scores[rows] = -change * (found + shared.loss_change)
        return scores

    def _loss_changes(
        self,
        shared: SharedObjective,
        records: ValuedRecords,
        method: str,
        test_loss: str,
        progress: Progress | None,
    ) -> FloatArray:
        """Return the change of the test loss from the shared model to that of each record."""
        evaluation = self.baseline.evaluation
        eta = evaluation.gradient(shared.theta)
        if method == "first-order":
            return first_order(shared, eta, records)
        test = LossDerivatives(eta, evaluation.hessian(shared.theta))
        is_square = shared.problem.is_quadratic
        by_step = method if method == "second-order" else "newton"
        keep = not is_square and (method == "exact" or test_loss == "full")
        n_outputs = shared.problem.loss.n_outputs
        change = np.empty(len(records))
        a = np.empty((len(records), n_outputs) if keep else (0, n_outputs))
        leverage = np.empty((len(a), n_outputs, n_outputs))
        for forms in quadratic_forms(shared, test, records):
            step = coefficients_of_step(forms, method=by_step, change=records.change)
            change[forms.rows] = forms.loss_change(step)
            if keep:
                a[forms.rows], leverage[forms.rows] = step, forms.leverage
        if is_square:
            self._settle_sole(shared, test, records, change)
            return change
        accuracy = None
        if method == "exact":
            accuracy = Accuracy.of(shared, test, np.nan_to_num(change))
        else:
            refuse_alone(change)
            if test_loss != "full":
                return change
        return full_loss_changes(
            shared, evaluation, records, a, leverage, accuracy=accuracy, progress=progress
        )

    def _settle_sole(
        self,
        shared: SharedObjective,
        test: LossDerivatives,
        records: ValuedRecords,
        change: FloatArray,
    ) -> None:
        """Fill in, in place, the records that decide a coefficient alone, and say so."""
        sole = np.flatnonzero(np.isnan(change))
        if len(sole) == 0 or records.places is None:
            return
        delta = shortest_without(self.baseline, shared, records.places[sole])
        bent = test.hessian @ delta
        change[sole] = test.gradient @ delta + 0.5 * np.einsum("pb,pb->b", delta, bent)
        Note(
            "sole-records",
            f"{len(sole)} training records decide a coefficient alone (leverage 1, no penalty): "
            "without them the shortest solution is taken, as fitting again does.",
        ).warn(ApproximationWarning, stacklevel=4)

    def _refuse_the_last(self) -> None:
        label = self.baseline.label
        present = self.baseline.problem.weights > 0
        if present.sum() < 2:
            raise InputError(
                "leaving one out needs at least two training records with a weight above 0, got "
                f"{int(present.sum())}: without it nothing is left to train on. Bring more."
            )
        if label.n_classes == 0:
            return
        codes, _ = label.domain()
        counts = np.bincount(codes[present], minlength=label.n_classes)
        if (counts == 1).any():
            raise InputError(
                f"every class must have at least two training records, but {int((counts == 1).sum())} "
                "have one: without it the model would not know the class. Merge or drop the class."
            )

    def read_candidates(
        self, X: object, y: object, sample_weight: object | None = None
    ) -> Candidates:
        """Check records on offer and return them as the model would see them."""
        baseline, label = self.baseline, self.baseline.label
        table = in_order_of(baseline.table, for_scikit_learn(X), what="candidates")
        features = transform(baseline.transformers, table, what="candidate")
        n_features = baseline.coefficients.shape[1]
        if features.shape[1] != n_features:
            raise InputError(
                f"the candidates must have the columns of the training data ({n_features}), got "
                f"{features.shape[1]}."
            )
        encoded = encode_test_label(
            y,
            label,
            is_classifier=baseline.is_classifier,
            n_rows=features.shape[0],
            what="candidate",
            argument="y_candidates",
        )
        codes = None
        if label.n_classes and label.values is not None:
            codes = encoded.astype(np.intp)
            encoded = label.values[codes]
        outside = np.abs(np.asarray(features @ baseline.empty) - baseline.empty_level)
        size = np.abs(baseline.empty_level).max(initial=0.0)
        n_outside = int((outside > 1e-9 * (1.0 + size)).any(axis=1).sum())
        if n_outside:
            raise InputError(
                f"{n_outside} candidates bring a category or direction that no training record has, "
                "and without a penalty the model cannot weigh it. Use a model with a penalty "
                "(Ridge, a finite C)."
            )
        weights = as_weights(
            sample_weight, name="sample_weight_candidates", n_rows=features.shape[0]
        )
        design, intercept = baseline.problem.design, None
        if design.kept[-1] >= n_features:
            intercept = float(design.block(slice(0, 1))[0, -1] * design.scale[-1])
        return Candidates(
            design=Design.from_features(features, intercept=intercept, like=design).refuse_far(
                what="candidate"
            ),
            codes=codes,
            y=encoded,
            weights=weights * baseline.weight_unit,
        )


def _choices(method: str, test_loss: str | None) -> tuple[str, str]:
    as_choice(method, METHODS, name="method")
    if test_loss is None:
        return method, "full" if method == "exact" else "second-order"
    as_choice(test_loss, get_args(TestLoss), name="test_loss")
    if method == "first-order":
        raise InputError(
            f"{setting('test_loss')} has no meaning for {setting('method', 'first-order')}, which "
            "is linear in the test loss too. Leave it out, or use "
            f"{setting('method', 'second-order')}."
        )
    if method == "exact" and test_loss == "second-order":
        raise InputError(
            f"{setting('method', 'exact')} evaluates the test loss in full. Leave out "
            f"{setting('test_loss')}, or use {setting('method', 'newton')}."
        )
    return method, test_loss


# --- What a record is worth: the test loss without it, less the test loss with it ---


def leave_one_out(
    estimator: object,
    X: object,
    y: object,
    X_test: object,
    y_test: object,
    *,
    method: str = "exact",
    test_loss: str | None = None,
    sample_weight: object | None = None,
    sample_weight_test: object | None = None,
    progress: Progress | None = None,
) -> FloatArray:
    """Return what each training record is worth to the model, without training again for each.

    The worth of a record is how much the mean test loss would rise if the model were trained again on
    all other records, with the same settings. Positive means that the record helps; negative that the
    model would be better without it, as with a wrong label.

    Parameters
    ----------
    estimator : scikit-learn estimator
        LogisticRegression, SGDClassifier(loss="log_loss"), Ridge, RidgeClassifier, LinearRegression,
        or a Pipeline that ends in one; fitted or not. It is never changed, and transformers are kept
        as they were fitted on all records.
    X, X_test : pandas, polars or arrow frame, array, or sparse matrix
        Training and test features, as the estimator takes them.
    y, y_test : column
        Labels.
    method : {"exact", "newton", "second-order", "first-order"}
        "exact" is what training again gives: in closed form for linear and ridge models, and by
        minimising every model, many side by side, for logistic and softmax ones. The others are
        closed forms for all models: "newton" one step on what is left, "second-order" P4 Eqs. 1–2,
        "first-order" Koh and Liang's, whose mean is zero whatever the records are worth.
    test_loss : {None, "full", "second-order"}
        Evaluate the test loss itself at each model, or expand it to second order (P4 Eq. 2). None:
        in full for "exact", expanded for the others.
    sample_weight, sample_weight_test : column, optional
        Weights ≥ 0 of the training and the test records.
    progress : callable, optional
        Called with (done, total, what).

    Returns
    -------
    array of shape (n,)
        In the order of the training records; nats for a classifier, squared error for a regression.

    Raises
    ------
    InputError
        For an estimator or data that cannot be used, in one line that says why.
    EstimateNotTrustworthyError
        If a model without one record has no finite optimum.

    Notes
    -----
    Training again keeps the estimator's own penalty: C and alpha, which is nλ, not λ. Scores are
    functions of the raw records and not private: publishing them leaks.
    A record that alone decides a coefficient of a model without penalty is warned of; the shortest
    solution without it is taken, as LinearRegression does. `class_weight="balanced"` is counted
    again without the record, as scikit-learn would.

    Cost: one pass of n·p² multiplications for the closed forms; "exact" for logistic models about
    n²·p, a minute or less for 35,000 records and 88 columns on two cores; slow above 100,000 records:
    take "newton" there.

    References
    ----------
    P4: A. Richardson, A. Filos-Ratsikas, L. Rokvic, B. Faltings, "Privately computing influence in
    regression models", AAAI 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 9.0])
    >>> leave_one_out(LinearRegression(), X, y, X, np.arange(4.0)).round(2)
    array([ 5.2 ,  0.31,  5.  , -6.3 ])
    """
    appraisal = Appraisal.of(
        estimator,
        X,
        y,
        X_test,
        y_test,
        sample_weight=sample_weight,
        sample_weight_test=sample_weight_test,
    )
    return appraisal.leave_one_out(method=method, test_loss=test_loss, progress=progress)


def add_one(
    estimator: object,
    X: object,
    y: object,
    X_candidates: object,
    y_candidates: object,
    X_test: object,
    y_test: object,
    *,
    method: str = "exact",
    test_loss: str | None = None,
    sample_weight: object | None = None,
    sample_weight_candidates: object | None = None,
    sample_weight_test: object | None = None,
    progress: Progress | None = None,
) -> FloatArray:
    """Return what each candidate, not yet in the model, would be worth to it.

    The worth of a candidate is how much the mean test loss would fall if the model were trained again
    with that one record added: what a provider's offer is worth, record by record. Positive means
    that the record would help. Records of one batch are partly redundant, so the sum overstates
    what the batch is worth; see `batch_correction`.

    Parameters
    ----------
    estimator, X, y, X_test, y_test
        As in `leave_one_out`.
    X_candidates, y_candidates : frame and column
        The records on offer, with the columns of `X` and labels among the classes of `y`.
    method, test_loss, sample_weight, sample_weight_test, progress
        As in `leave_one_out`.
    sample_weight_candidates : column, optional
        What each candidate would weigh; 1 without it.

    Returns
    -------
    array of shape (n_candidates,)
        In the order of the candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0])
    >>> add_one(Ridge(), X, y, [[4.0], [4.0]], [4.0, -4.0], X, y).round(2)
    array([ 0.06, -2.75])
    """
    appraisal = Appraisal.of(
        estimator,
        X,
        y,
        X_test,
        y_test,
        sample_weight=sample_weight,
        sample_weight_test=sample_weight_test,
    )
    return appraisal.add_one(
        X_candidates,
        y_candidates,
        sample_weight=sample_weight_candidates,
        method=method,
        test_loss=test_loss,
        progress=progress,
    )

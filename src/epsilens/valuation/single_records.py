# SPDX-License-Identifier: Apache-2.0
"""What a record is worth: the test loss without it, less the test loss with it."""

from __future__ import annotations

from epsilens._types import FloatArray, Progress
from epsilens.valuation.appraisal import Appraisal


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

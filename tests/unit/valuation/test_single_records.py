"""Scores against models that are really fitted again, one record at a time."""

from __future__ import annotations

import warnings
from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.class_weight import compute_class_weight

from epsilens.errors import ApproximationWarning, EstimateNotTrustworthyError, InputError
from epsilens.valuation import add_one, leave_one_out

N, M, B = 60, 40, 12
# Linear scores are exact up to rounding; logistic ones promise 1e-6 of the largest, and the refits'
# own gradients, stopped at 1e-12, leave less than 1e-8.
CLOSED, ITERATED = 1e-8, 1e-6


def sample(kind: str, *, seed: int = 0, n: int = N) -> tuple[np.ndarray, ...]:
    """Return training, test and candidate records."""
    rng = np.random.default_rng(seed)
    total = n + M + B
    X = rng.normal(size=(total, 4)) * [1, 5, 0.2, 1] + [0, 100, 0, 2]
    s = (X - X.mean(axis=0)) @ [1.0, 0.1, 2.0, -0.5]
    if kind == "numbers":
        y = s + rng.normal(size=total)
    elif kind == "words":
        y = np.where(rng.random(total) < 1 / (1 + np.exp(-s)), "yes", "no")
    else:
        odds = np.column_stack([s, -0.5 * s, 0.3 * X[:, 0]])
        y = np.argmax(odds + rng.gumbel(size=odds.shape), axis=1)
    parts = np.split(np.arange(total), [n, n + M])
    return tuple(value for rows in parts for value in (X[rows], y[rows]))


def converged(estimator):
    """Return a fresh estimator that minimises to the end."""
    model = clone(estimator)
    if isinstance(model, LogisticRegression):
        model.set_params(solver="newton-cholesky", tol=1e-12, max_iter=1000)
    return model


def mean_loss(model, X, y, weights=None) -> float:
    if not is_classifier(model):
        losses = (model.predict(X) - y) ** 2
    elif hasattr(model, "predict_proba"):
        logs = model.predict_log_proba(X)
        losses = -logs[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    else:
        losses = (model.decision_function(X) - np.where(y == model.classes_[1], 1, -1)) ** 2
    return float(np.average(losses, weights=weights))


def refitted(estimator, X, y, X_test, y_test, weights=None, test_weights=None) -> np.ndarray:
    """Return the scores by fitting again without each record."""

    def loss(rows):
        own = {} if weights is None else {"sample_weight": weights[rows]}
        model = converged(estimator).fit(X[rows], y[rows], **own)
        return mean_loss(model, X_test, y_test, test_weights)

    everyone = np.arange(len(y))
    whole = loss(everyone)
    return np.array([loss(np.delete(everyone, j)) - whole for j in everyone])


def refitted_with(estimator, X, y, X_more, y_more, X_test, y_test) -> np.ndarray:
    """Return the scores by fitting again with each candidate added."""
    whole = mean_loss(converged(estimator).fit(X, y), X_test, y_test)
    return np.array(
        [
            whole
            - mean_loss(
                converged(estimator).fit(np.vstack([X, row]), np.append(y, label)), X_test, y_test
            )
            for row, label in zip(X_more, y_more, strict=True)
        ]
    )


def relative(values, truth) -> float:
    return float(np.abs(values - truth).max() / np.abs(truth).max())


ESTIMATORS = [
    pytest.param(LinearRegression(), "numbers", CLOSED, id="linear"),
    pytest.param(LinearRegression(fit_intercept=False), "numbers", CLOSED, id="no-intercept"),
    pytest.param(Ridge(alpha=3.0), "numbers", CLOSED, id="ridge"),
    pytest.param(RidgeClassifier(alpha=2.0), "words", CLOSED, id="ridge-classifier"),
    pytest.param(
        RidgeClassifier(class_weight="balanced"), "words", CLOSED, id="ridge-classifier-balanced"
    ),
    pytest.param(LogisticRegression(C=0.7), "words", ITERATED, id="logistic"),
    pytest.param(
        LogisticRegression(class_weight="balanced"), "words", ITERATED, id="logistic-balanced"
    ),
    pytest.param(
        LogisticRegression(class_weight={"yes": 3.0}), "words", ITERATED, id="logistic-weighed"
    ),
    pytest.param(LogisticRegression(C=np.inf), "words", ITERATED, id="logistic-no-penalty"),
    pytest.param(LogisticRegression(C=2.0), "classes", ITERATED, id="softmax"),
    pytest.param(
        LogisticRegression(class_weight="balanced"), "classes", ITERATED, id="softmax-balanced"
    ),
]


@pytest.mark.parametrize(("estimator", "kind", "tolerance"), ESTIMATORS)
def test_exact_is_fitting_again_without_the_record(estimator, kind, tolerance):
    X, y, X_test, y_test, *_ = sample(kind)
    scores = leave_one_out(estimator, X, y, X_test, y_test)
    assert scores.shape == (N,)
    assert relative(scores, refitted(estimator, X, y, X_test, y_test)) <= tolerance


@pytest.mark.parametrize(("estimator", "kind", "tolerance"), ESTIMATORS)
def test_exact_is_fitting_again_with_the_candidate(estimator, kind, tolerance):
    X, y, X_test, y_test, X_more, y_more = sample(kind, seed=1)
    scores = add_one(estimator, X, y, X_more, y_more, X_test, y_test)
    truth = refitted_with(estimator, X, y, X_more, y_more, X_test, y_test)
    assert relative(scores, truth) <= tolerance


@pytest.mark.parametrize(
    ("estimator", "kind", "tolerance"),
    [
        (Ridge(alpha=3.0), "numbers", CLOSED),
        (LogisticRegression(), "words", ITERATED),
        (LogisticRegression(), "classes", ITERATED),
    ],
)
def test_weights_of_records_and_of_the_test_set(estimator, kind, tolerance):
    X, y, X_test, y_test, *_ = sample(kind, seed=2)
    rng = np.random.default_rng(0)
    weights, test_weights = rng.uniform(0, 3, N), rng.uniform(0, 3, M)
    weights[:3] = 0.0
    scores = leave_one_out(
        estimator, X, y, X_test, y_test, sample_weight=weights, sample_weight_test=test_weights
    )
    truth = refitted(estimator, X, y, X_test, y_test, weights, test_weights)
    assert relative(scores, truth) <= tolerance
    assert np.abs(scores[:3]).max() <= 1e-15  # who weighs nothing is worth nothing


def test_a_penalty_per_record_shrinks_with_the_records():
    X, y, X_test, y_test, X_more, y_more = sample("words", seed=3)
    X, X_test, X_more = (StandardScaler().fit(X).transform(part) for part in (X, X_test, X_more))
    alpha = 0.02
    model = SGDClassifier(loss="log_loss", alpha=alpha)

    def loss(X, y):
        equal = LogisticRegression(C=1 / (len(y) * alpha))
        return mean_loss(converged(equal).fit(X, y), X_test, y_test)

    whole = loss(X, y)
    truth = [loss(np.delete(X, j, axis=0), np.delete(y, j)) - whole for j in range(N)]
    scores = leave_one_out(model, X, y, X_test, y_test)
    assert relative(scores, np.array(truth)) <= ITERATED
    more = [
        whole - loss(np.vstack([X, row]), np.append(y, label))
        for row, label in zip(X_more, y_more, strict=True)
    ]
    scores = add_one(model, X, y, X_more, y_more, X_test, y_test)
    assert relative(scores, np.array(more)) <= ITERATED


def solve_in_long_double(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Gaussian elimination with pivots, in the precision of the arguments."""
    A, b = A.copy(), b.copy()
    for k in range(len(A)):
        pivot = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, pivot]], b[[k, pivot]] = A[[pivot, k]], b[[pivot, k]]
        factor = A[k + 1 :, k] / A[k, k]
        A[k + 1 :] -= factor[:, None] * A[k]
        b[k + 1 :] -= factor * b[k]
    for k in reversed(range(len(A))):
        b[k] = (b[k] - A[k, k + 1 :] @ b[k + 1 :]) / A[k, k]
    return b


@pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="no type longer than double on this machine"
)
@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_linear_scores_in_extended_precision(alpha):
    X, y, X_test, y_test, *_ = sample("numbers", seed=4)
    wide = np.column_stack([X, np.ones(N)]).astype(np.longdouble)
    wide_test = np.column_stack([X_test, np.ones(M)]).astype(np.longdouble)
    penalty = np.diag(np.array([alpha] * 4 + [0.0], dtype=np.longdouble))

    def loss(rows):
        A = wide[rows].T @ wide[rows] + penalty
        theta = solve_in_long_double(A, wide[rows].T @ y[rows].astype(np.longdouble))
        return np.mean((wide_test @ theta - y_test) ** 2)

    everyone = np.arange(N)
    truth = np.array([loss(np.delete(everyone, j)) - loss(everyone) for j in everyone])
    model = Ridge(alpha=alpha) if alpha else LinearRegression()
    scores = leave_one_out(model, X, y, X_test, y_test)
    # The normal equations in long double have 64 bits; 1e-12 leaves ten for their condition.
    assert relative(scores, truth.astype(float)) <= 1e-12


@pytest.mark.parametrize("kind", ["words", "classes"])
def test_the_closed_forms_are_the_printed_ones(kind):
    """P4 Eqs. 1 and 2, written out record by record with dense matrices."""
    X, y, X_test, y_test, *_ = sample(kind, seed=5)
    model = LogisticRegression(C=0.5, solver="lbfgs")
    fitted = converged(model).fit(X, y)
    theta = np.column_stack([fitted.coef_, fitted.intercept_])
    n_classes = len(fitted.classes_)
    if kind == "words":
        theta = np.vstack([np.zeros(5), theta])  # two classes as a softmax with one class fixed
    free = slice(5, None) if kind == "words" else slice(None)
    wide, wide_test = (np.column_stack([part, np.ones(len(part))]) for part in (X, X_test))

    def parts(x, label):
        odds = np.exp(theta @ x - (theta @ x).max())
        h = odds / odds.sum()
        gradient = np.kron(h - (fitted.classes_ == label), x)
        hessian = np.kron(np.diag(h) - np.outer(h, h), np.outer(x, x))
        return gradient[free], hessian[free, free]

    gradients, hessians = zip(
        *(parts(x, label) for x, label in zip(wide, y, strict=True)), strict=True
    )
    test_gradients, test_hessians = zip(
        *(parts(x, label) for x, label in zip(wide_test, y_test, strict=True)), strict=True
    )
    eta, H_test = np.mean(test_gradients, axis=0), np.mean(test_hessians, axis=0)
    outputs = 1 if kind == "words" else n_classes
    A = sum(hessians) + np.kron(np.eye(outputs), np.diag([2.0] * 4 + [0.0]))
    inverse = np.linalg.pinv(A)  # the softmax is flat in one direction
    first, second, newton = [], [], []
    for gradient, hessian in zip(gradients, hessians, strict=True):
        one = inverse @ gradient
        first.append(eta @ one)
        for step, scores in (
            (one + inverse @ hessian @ one, second),
            (np.linalg.pinv(A - hessian) @ gradient, newton),
        ):
            scores.append(eta @ step + 0.5 * step @ H_test @ step)
    for method, truth in (("first-order", first), ("second-order", second), ("newton", newton)):
        scores = leave_one_out(model, X, y, X_test, y_test, method=method)
        # The pseudo-inverse of unscaled features loses some digits.
        assert relative(scores, np.array(truth)) <= 1e-7, method


def test_better_methods_are_nearer():
    X, y, X_test, y_test, *_ = sample("words", n=200)
    truth = refitted(LogisticRegression(), X, y, X_test, y_test)
    error = {
        method: relative(
            leave_one_out(LogisticRegression(), X, y, X_test, y_test, method=method), truth
        )
        for method in ("first-order", "second-order", "newton", "exact")
    }
    assert error["exact"] < 1e-3 * error["newton"]
    assert error["second-order"] < 0.5 * error["first-order"]


def test_the_test_loss_in_full_and_expanded():
    X, y, X_test, y_test, *_ = sample("words", n=200)
    data = (LogisticRegression(), X, y, X_test, y_test)
    expanded = leave_one_out(*data, method="newton")
    full = leave_one_out(*data, method="newton", test_loss="full")
    difference = np.abs(full - expanded).max() / np.abs(full).max()
    assert 0 < difference < 0.01  # of third order


def test_expanding_the_test_loss_errs_at_the_third_power():
    """The step is O(1/n), so the second-order expansion is off by O(1/n³)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=3000) > 0).astype(int)
    sizes, errors = [250, 500, 1000, 2000], []
    for n in sizes:
        data = (LogisticRegression(C=np.inf), X[:n], y[:n], X[2000:], y[2000:])
        full = leave_one_out(*data, method="newton", test_loss="full")
        errors.append(np.abs(full - leave_one_out(*data, method="newton")).mean())
    power = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert power == pytest.approx(-3, abs=0.4)  # a line through four random samples


def test_for_linear_models_newton_is_exact():
    X, y, X_test, y_test, *_ = sample("numbers")
    data = (Ridge(), X, y, X_test, y_test)
    exact = leave_one_out(*data)
    assert np.array_equal(leave_one_out(*data, method="newton", test_loss="full"), exact)


def test_hard_records_are_minimised_alone(monkeypatch):
    from epsilens.valuation import exact_models

    X, y, X_test, y_test, *_ = sample("words", n=40, seed=6)
    X = X.copy()
    X[0] += [40, -200, 8, 40]  # one record far away, that the model follows
    y = y.copy()
    y[0] = "yes"
    called = []
    alone = exact_models._by_itself
    monkeypatch.setattr(exact_models, "_by_itself", lambda *rest: called.append(1) or alone(*rest))
    model = LogisticRegression(C=100.0)
    scores = leave_one_out(model, X, y, X_test, y_test)
    assert relative(scores, refitted(model, X, y, X_test, y_test)) <= ITERATED
    assert called


def test_several_blocks_give_what_one_gives(monkeypatch):
    from epsilens.valuation import exact_models

    X, y, X_test, y_test, *_ = sample("words", n=150)
    data = (LogisticRegression(), X, y, X_test, y_test)
    whole = leave_one_out(*data)
    monkeypatch.setattr(exact_models, "_BLOCK_BYTES", 0)  # sixteen records a block
    seen = []
    parts = leave_one_out(*data, progress=lambda *told: seen.append(told))
    assert relative(parts, whole) <= 1e-12
    assert seen[-1] == (150, 150, "records")
    assert len(seen) == 10


def test_a_record_that_decides_a_coefficient_alone():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=N), np.eye(1, N, 7)[0], rng.normal(size=N)])
    y = X @ [1.0, 4.0, -1.0] + rng.normal(size=N)
    X_test = np.column_stack([rng.normal(size=M), np.arange(M) % 3 == 0, rng.normal(size=M)])
    y_test = X_test @ [1.0, 4.0, -1.0]
    with pytest.warns(ApproximationWarning, match="1 training records decide a coefficient alone"):
        scores = leave_one_out(LinearRegression(), X, y, X_test, y_test)
    truth = refitted(LinearRegression(), X, y, X_test, y_test)
    assert truth[7] == pytest.approx(np.abs(truth).max())
    assert relative(scores, truth) <= CLOSED
    assert relative(np.delete(scores, 7), np.delete(truth, 7)) <= CLOSED


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(alpha=1.0)])
def test_full_dummies_and_a_repeated_column(model):
    rng = np.random.default_rng(1)
    region = rng.integers(0, 3, N + M)
    age = rng.normal(size=N + M)
    X = np.column_stack([np.eye(3)[region], age, 2 * age + 1])
    y = age + region + rng.normal(size=N + M)
    data = (X[:N], y[:N], X[N:], y[N:])
    scores = leave_one_out(model, *data)
    assert relative(scores, refitted(model, *data)) <= CLOSED


@pytest.mark.parametrize("kind", ["numbers", "words", "classes"])
def test_sparse_features_give_what_dense_ones_give(kind):
    X, y, X_test, y_test, X_more, y_more = sample(kind, seed=7)
    X, X_test, X_more = ((part > part.mean(axis=0)) * 1.0 for part in (X, X_test, X_more))
    model = Ridge() if kind == "numbers" else LogisticRegression()
    sparse = [scipy.sparse.csr_array(part) for part in (X, X_test, X_more)]
    tolerance = CLOSED if kind == "numbers" else 1e-6
    dense_scores = leave_one_out(model, X, y, X_test, y_test)
    assert relative(leave_one_out(model, sparse[0], y, sparse[1], y_test), dense_scores) < tolerance
    dense_scores = add_one(model, X, y, X_more, y_more, X_test, y_test)
    scores = add_one(model, sparse[0], y, sparse[2], y_more, sparse[1], y_test)
    assert relative(scores, dense_scores) < tolerance


def test_a_pipeline_of_frames_keeps_its_transformers(survey, pipeline):
    X, y = survey.X[:80], survey.y[:80]
    model = pipeline()
    frozen = model[:-1].fit(X)
    truth = refitted(
        LogisticRegression(),
        np.asarray(frozen.transform(X)),
        np.asarray(y),
        np.asarray(frozen.transform(survey.X_test)),
        np.asarray(survey.y_test),
    )
    scores = leave_one_out(model, X, y, survey.X_test, survey.y_test)
    assert relative(scores, truth) <= ITERATED
    by_polars = leave_one_out(
        model,
        pl.from_pandas(X),
        pl.Series(np.asarray(y)),
        pl.from_pandas(survey.X_test[X.columns[::-1]]),
        pl.Series(np.asarray(survey.y_test)),
    )
    assert relative(by_polars, scores) <= 1e-12
    shuffled = survey.X_test[X.columns[::-1]]
    offered = add_one(model, X, y, shuffled, survey.y_test, survey.X_test, survey.y_test)
    assert offered.shape == (len(shuffled),)


def test_a_fitted_estimator_is_not_changed():
    X, y, X_test, y_test, *_ = sample("words")
    model = LogisticRegression().fit(X, y)
    before = model.coef_.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # it was not converged
        leave_one_out(model, X, y, X_test, y_test, method="newton")
    assert np.array_equal(model.coef_, before)


def test_a_wrong_label_is_harmful():
    X, y, X_test, y_test, *_ = sample("words", n=300)
    wrong = y.copy()
    clear = int(np.argmax(converged(LogisticRegression()).fit(X, y).decision_function(X)))
    wrong[clear] = "no"
    scores = leave_one_out(LogisticRegression(), X, wrong, X_test, y_test)
    assert scores[clear] == scores.min() < 0


def test_the_last_record_of_a_class_is_refused():
    X, y, X_test, y_test, *_ = sample("classes")
    y = np.where(np.arange(N) == 0, 2, np.minimum(y, 1))
    with pytest.raises(InputError, match="at least two training records, but 1 have one"):
        leave_one_out(LogisticRegression(), X, y, X_test, np.minimum(y_test, 1))


@pytest.mark.skipif(
    "sample_weight" not in signature(compute_class_weight).parameters,
    reason="this scikit-learn balances classes by counting heads, which leaves the weights alone",
)
def test_balanced_classes_beside_weights_are_refused_with_the_reason():
    X, y, X_test, y_test, *_ = sample("words")
    with pytest.raises(InputError, match="would change the weights of all others"):
        leave_one_out(
            LogisticRegression(class_weight="balanced"),
            *(X, y, X_test, y_test),
            sample_weight=np.arange(N) + 1.0,
        )


def test_separable_without_one_record_is_not_answered():
    X = np.arange(20.0)[:, None]
    y = np.arange(20) >= 10
    y[3] = True  # without this one a threshold separates the classes
    X_test, y_test = X + 0.5, np.arange(20) >= 10
    with pytest.raises(EstimateNotTrustworthyError, match="1 of the 20 models have no finite"):
        leave_one_out(LogisticRegression(C=np.inf), X, y, X_test, y_test)


@pytest.mark.parametrize("model", [Ridge(), LinearRegression()])
@pytest.mark.parametrize("weights", [[1.0], [0.0, 2.0]])
def test_the_only_record_cannot_be_left_out(model, weights):
    X = np.arange(float(len(weights)))[:, None]
    with pytest.raises(
        InputError, match="at least two training records with a weight above 0, got 1"
    ):
        leave_one_out(model, X, X[:, 0], X, X[:, 0], sample_weight=weights)


@pytest.mark.parametrize(
    "wrap", [np.asarray, np.ndarray.tolist, pd.DataFrame, scipy.sparse.csr_array]
)
def test_complex_features_are_refused(wrap):
    X, y, X_test, y_test, *_ = sample("numbers")
    with pytest.raises(InputError, match="training features must be real numbers, got complex"):
        leave_one_out(Ridge(), wrap(X + 1j), y, wrap(X_test), y_test)


def rare_category(n_classes: int = 2) -> tuple[int, tuple[np.ndarray, ...]]:
    """Return data with a category in which one record alone answers otherwise, and that record."""
    rng = np.random.default_rng(0)
    n = 90
    x = rng.standard_normal(n)
    y = (x + rng.logistic(size=n) > 0).astype(int)
    if n_classes == 3:
        y[rng.random(n) < 0.3] = 2
    rare = np.zeros(n)
    rare[np.flatnonzero(y == 1)[:4]] = 1
    sole = int(np.flatnonzero(y == 0)[0])
    rare[sole] = 1
    if n_classes == 3:
        rare[np.flatnonzero(y == 2)[:2]] = 1
    X_test = np.c_[rng.standard_normal(40), np.arange(40) % 4 == 0]
    y_test = (X_test[:, 0] + rng.logistic(size=40) > 0).astype(int)
    return sole, (np.c_[x, rare], y, X_test, y_test)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_a_category_whose_only_contrary_record_goes_is_not_answered(n_classes, wrap):
    """Coefficients without a finite optimum: any number would be where the solver stopped."""
    sole, (X, y, X_test, y_test) = rare_category(n_classes)
    data = (wrap(X), y, wrap(X_test), y_test)
    with pytest.raises(EstimateNotTrustworthyError, match="1 of the 90 models have no finite"):
        leave_one_out(LogisticRegression(C=np.inf), *data)
    assert np.isfinite(leave_one_out(LogisticRegression(C=10.0), *data)[sole])


def test_a_model_far_out_that_has_an_optimum_is_answered():
    """A predictor of hundreds is no proof: a record with huge values has one in any model."""
    X, y, X_test, y_test, *_ = sample("words")
    X[0] = X.mean(axis=0) + 300.0 * (X[0] - X.mean(axis=0))
    model = LogisticRegression(C=np.inf)
    assert np.isfinite(leave_one_out(model, X, y, X_test, y_test)).all()


@pytest.mark.parametrize(("seed", "factor", "C"), [(22, 1.0, 100.0), (13, 200.0, 1.0)])
def test_with_a_penalty_there_is_always_an_optimum(seed, factor, C):
    """Almost separable, or one record with huge values: both were called separable once."""
    rng = np.random.default_rng(seed)
    X = 3 * rng.standard_normal((30, 2))
    X[0] *= factor
    y = (X[:, 0] + rng.logistic(size=30) > 0).astype(int)
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=10_000)

    def loss(rows):
        s = clone(model).fit(X[rows], y[rows]).decision_function(X)
        return np.logaddexp(0.0, np.where(y == 1, -s, s)).mean()

    everybody = np.arange(30)
    truth = np.array([loss(everybody != j) for j in everybody]) - loss(everybody)
    scores = leave_one_out(model, X, y, X, y)
    np.testing.assert_allclose(scores, truth, atol=ITERATED * np.abs(truth).max())


def test_a_transformer_that_looks_at_the_label_is_refused():
    X, y, X_test, y_test, *_ = sample("words")
    model = make_pipeline(SelectKBest(k=2), LogisticRegression())
    with pytest.raises(InputError, match="looks at the label"):
        leave_one_out(model, X, y, X_test, y_test)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"method": "third"}, "`method` must be one of 'exact'"),
        ({"method": "newton", "test_loss": "half"}, "`test_loss` must be one of 'full'"),
        ({"method": "first-order", "test_loss": "full"}, "no meaning for `method='first-order'`"),
        ({"test_loss": "second-order"}, "evaluates the test loss in full"),
    ],
)
def test_choices_are_checked(choice, words):
    X, y, X_test, y_test, *_ = sample("words")
    with pytest.raises(InputError, match=words):
        leave_one_out(LogisticRegression(), X, y, X_test, y_test, **choice)


def test_candidates_are_checked():
    X, y, X_test, y_test, X_more, y_more = sample("words")
    model = LogisticRegression()
    with pytest.raises(InputError, match="columns of the training data, but 1 are missing"):
        add_one(model, X, y, X_more[:, :3], y_more, X_test, y_test)
    with pytest.raises(InputError, match=r"`y_candidates` must have one label per candidate row"):
        add_one(model, X, y, X_more, y_more[1:], X_test, y_test)
    with pytest.raises(InputError, match="candidate labels must be among the 2 classes") as error:
        add_one(model, X, y, X_more, np.array(["perhaps"] * B), X_test, y_test)
    assert "perhaps" not in str(error.value)
    named = pd.DataFrame(X, columns=list("abcd"))
    test = pd.DataFrame(X_test, columns=list("abcd"))
    with pytest.raises(InputError, match="the candidates must have the columns"):
        add_one(model, named, y, test[["a"]], y_test, test, y_test)


def test_a_candidate_with_a_new_category_needs_a_penalty():
    region = np.array(["north", "south"] * 20)
    X = pd.DataFrame({"region": region, "age": np.arange(40.0)})
    y = np.arange(40.0) + np.tile([0.0, 1.0, 3.0, 2.0], 10)
    new = pd.DataFrame({"region": ["east"], "age": [3.0]})

    def model(final):
        encode = make_column_transformer(
            (OneHotEncoder(categories=[["east", "north", "south"]]), ["region"]),
            remainder="passthrough",
        )
        return make_pipeline(encode, final)

    with pytest.raises(InputError, match="1 candidates bring a category or direction"):
        add_one(model(LinearRegression()), X, y, new, [4.0], X, y)
    ridge = add_one(model(Ridge()), X, y, new, [4.0], X, y)
    features = model(Ridge())[:-1].fit(X)
    truth = refitted_with(
        Ridge(), features.transform(X), y, features.transform(new), [4.0], features.transform(X), y
    )
    assert relative(ridge, truth) <= CLOSED

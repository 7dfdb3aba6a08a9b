from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier

from epsilens.errors import InputError
from epsilens.valuation import Appraisal, addition_curve, removal_curve

N, M = 120, 80


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + M, 3))
    y = (X[:, 0] + rng.logistic(size=N + M) > 0).astype(int)
    y[:10] = X[:10, 0] < 0  # wrong labels
    return X[:N], y[:N], X[N:], y[N:]


def fitted(X, y, C=1.0):
    return LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12).fit(X, y)


def losses(model, X, y):
    return -model.predict_log_proba(X)[np.arange(len(y)), y]


def value(points, order, share):
    return next(p for p in points if p.order == order and p.share == share)


def test_dropping_by_training_loss_is_fitting_again(data):
    X, y, X_test, y_test = data
    points = removal_curve(Appraisal.of(LogisticRegression(), *data), shares=[0.1, 0.25])
    whole = fitted(X, y)
    order = np.argsort(-losses(whole, X, y))
    for share in (0.1, 0.25):
        keep = order[round(share * N) :]
        after = losses(fitted(X[keep], y[keep]), X_test, y_test)
        changes = after - losses(whole, X_test, y_test)
        change = changes.mean()
        point = value(points, "training loss", share)
        assert point.n_records == round(share * N)
        assert point.loss_change == pytest.approx(change, abs=1e-7)  # solver tolerance
        # The error is taken within the halves, which differ a little in their means.
        assert point.standard_error == pytest.approx(changes.std(ddof=1) / np.sqrt(M), rel=0.05)


@pytest.mark.parametrize("weigh", [False, True])
def test_all_candidates_are_the_true_change_whatever_the_halves(data, weigh):
    """An odd number of test records, or weighted ones: the halves are not of one size."""
    X, y, X_test, y_test = data[0], data[1], data[2][:7], data[3][:7]
    weights = np.array([1.0, 9.0, 2.0, 0.5, 4.0, 0.0, 3.0]) if weigh else np.ones(7)
    appraisal = Appraisal.of(
        LogisticRegression(), X[:80], y[:80], X_test, y_test, sample_weight_test=weights
    )
    change = losses(fitted(X, y), X_test, y_test) - losses(fitted(X[:80], y[:80]), X_test, y_test)
    for seed in range(3):
        points = addition_curve(appraisal, X[80:], y[80:], shares=[1.0], random_state=seed)
        for point in points:
            assert point.loss_change == pytest.approx(np.average(change, weights=weights), abs=1e-7)


def test_a_single_judge_has_no_error(data):
    X, y, X_test, y_test = data
    points = removal_curve(
        Appraisal.of(LogisticRegression(), X, y, X_test[:3], y_test[:3]), shares=[0.1]
    )
    assert value(points, "score", 0.1).loss_change is not None
    assert value(points, "score", 0.1).standard_error is None


def test_a_category_that_becomes_of_one_answer_has_no_point():
    """Without a penalty its coefficient has no finite optimum, and any change would do."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=100)
    y = (x + rng.logistic(size=100) > 0).astype(int)
    rare = np.zeros(100)
    rare[np.flatnonzero(y == 1)[:20]] = 1
    sole = np.flatnonzero((y == 0) & (x > 0))[0]
    rare[sole] = 1
    X = np.c_[x, rare]
    appraisal = Appraisal.of(LogisticRegression(C=np.inf), X, y, X, y)
    assert appraisal.training_losses().argmax() == sole
    points = removal_curve(appraisal, shares=[0.01])
    assert value(points, "training loss", 0.01).loss_change is None


def test_scores_are_judged_by_records_that_did_not_score(data):
    X, y, X_test, y_test = data
    model = LogisticRegression()
    points = removal_curve(Appraisal.of(model, *data), shares=[0.1], random_state=3)
    order = np.random.default_rng(3).permutation(M)
    halves = np.sort(order[: M // 2]), np.sort(order[M // 2 :])
    changes = []
    for scores_by, judged_by in (halves, halves[::-1]):
        half = Appraisal.of(model, X, y, X_test[scores_by], y_test[scores_by])
        keep = np.argsort(half.leave_one_out(method="newton"))[12:]
        after = losses(fitted(X[keep], y[keep]), X_test[judged_by], y_test[judged_by]).mean()
        changes.append(after - losses(fitted(X, y), X_test[judged_by], y_test[judged_by]).mean())
    assert value(points, "score", 0.1).loss_change == pytest.approx(np.mean(changes), abs=1e-7)


def test_random_orders_carry_their_error(data):
    points = removal_curve(Appraisal.of(LogisticRegression(), *data), shares=[0.3], repeats=4)
    assert value(points, "random", 0.3).standard_error > 0
    single = removal_curve(Appraisal.of(LogisticRegression(), *data), shares=[0.3], repeats=1)
    assert value(single, "random", 0.3).standard_error is None


def test_wrong_labels_go_first_if_enough_test_records_judge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3300, 3))
    y = (2 * X[:, 0] + rng.logistic(size=3300) > 0).astype(int)
    y[:30] = X[:30, 0] < 0  # wrong labels
    appraisal = Appraisal.of(LogisticRegression(), X[:300], y[:300], X[300:], y[300:])
    points = removal_curve(appraisal, shares=[0.1])
    better = value(points, "score", 0.1).loss_change
    assert better < 0
    assert better < value(points, "random", 0.1).loss_change


@pytest.mark.parametrize("alpha", [0.02])
def test_a_penalty_per_record_goes_with_the_records(data, alpha):
    X, y, X_test, y_test = data
    model = SGDClassifier(loss="log_loss", alpha=alpha)
    points = removal_curve(Appraisal.of(model, *data), shares=[0.25])
    whole = fitted(X, y, C=1 / (alpha * N))
    keep = np.argsort(-losses(whole, X, y))[30:]
    change = losses(fitted(X[keep], y[keep], C=1 / (alpha * 90)), X_test, y_test).mean()
    change -= losses(whole, X_test, y_test).mean()
    assert value(points, "training loss", 0.25).loss_change == pytest.approx(change, abs=1e-7)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_adding_everything_is_fitting_on_everything(data, class_weight):
    X, y, X_test, y_test = data
    model = LogisticRegression(class_weight=class_weight)
    appraisal = Appraisal.of(model, X[:50], y[:50], X_test, y_test)
    points = addition_curve(appraisal, X[50:], y[50:], shares=[0.5, 1.0])

    def loss(rows):
        converged = LogisticRegression(
            class_weight=class_weight, solver="newton-cholesky", tol=1e-12
        )
        return losses(converged.fit(X[rows], y[rows]), X_test, y_test).mean()

    change = loss(slice(None)) - loss(slice(0, 50))
    for order in ("score", "training loss", "random"):
        assert value(points, order, 1.0).loss_change == pytest.approx(change, abs=1e-7)
    assert value(points, "random", 0.5).n_records == 35


def test_a_regression_and_its_candidates():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200)
    appraisal = Appraisal.of(Ridge(), X[:30], y[:30], X[100:], y[100:])
    points = addition_curve(appraisal, X[30:100], y[30:100], shares=[1.0])
    whole = Ridge().fit(X[:100], y[:100])
    before = Ridge().fit(X[:30], y[:30])
    errors = [np.mean((model.predict(X[100:]) - y[100:]) ** 2) for model in (before, whole)]
    assert value(points, "score", 1.0).loss_change == pytest.approx(errors[1] - errors[0], abs=1e-9)


def test_a_class_that_is_gone_has_no_answer():
    X = np.arange(40.0)[:, None]
    y = np.r_[np.zeros(37), np.ones(3)]
    points = removal_curve(
        Appraisal.of(LogisticRegression(), X, y, X + 0.5, y), shares=[0.3], repeats=2
    )
    assert value(points, "training loss", 0.3).loss_change is None


def test_shares_and_test_records_are_checked(data):
    appraisal = Appraisal.of(LogisticRegression(), *data)
    with pytest.raises(InputError, match="`shares` must lie between 0 and 1"):
        removal_curve(appraisal, shares=[1.0])
    alone = Appraisal.of(LogisticRegression(), data[0], data[1], data[2][:1], data[3][:1])
    with pytest.raises(InputError, match="at least 2 test records"):
        removal_curve(alone)


def test_the_sampling_error_is_that_of_a_mean_over_test_records(data):
    X, y, X_test, y_test = data
    weights = np.random.default_rng(0).uniform(0.5, 2, M)
    appraisal = Appraisal.of(LogisticRegression(), X, y, X_test, y_test, sample_weight_test=weights)
    model = fitted(X, y)
    wide, wide_test = np.c_[X, np.ones(N)], np.c_[X_test, np.ones(M)]
    p, p_test = model.predict_proba(X)[:, 1], model.predict_proba(X_test)[:, 1]
    A = (wide * (p * (1 - p))[:, None]).T @ wide + np.diag([1.0, 1, 1, 0])
    steps = np.linalg.solve(A, (wide * (p - y)[:, None]).T)
    changes = (wide_test * (p_test - y_test)[:, None]) @ steps  # test × training, small here
    share = weights / weights.sum()
    centred = changes - share @ changes
    error = np.sqrt(np.sum(share[:, None] ** 2 * centred**2, axis=0))
    assert appraisal.sampling_errors() == pytest.approx(error, rel=1e-6)
    offer = appraisal.read_candidates(X, y)
    assert appraisal.sampling_errors(offer) == pytest.approx(error, rel=1e-6)

"""Each rung against a slow, obvious twin on data whose rows are really duplicated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from epsilens.channels import RandomizedResponse
from epsilens.influence import (
    Evaluation,
    label_point_table,
    newton_steps,
    noise_terms_at,
    summarise_group,
    undetermined_loss,
    walk,
)
from epsilens.models import Design, LogisticLoss, Problem, factorise, minimise

EPSILONS = (0.001, 0.3, 1.0, 3.0)


class Case:
    def __init__(self) -> None:
        rng = np.random.default_rng(11)
        n, m, p = 300, 120, 4
        self.X = np.column_stack([rng.normal(size=(n, p)), np.ones(n)])
        theta = rng.normal(size=p + 1)
        self.y = (rng.random(n) < 1 / (1 + np.exp(-self.X @ theta))).astype(float)
        self.w = rng.uniform(0.5, 1.5, n)
        self.mask = rng.random(n) < 0.5
        self.X_test = np.column_stack([rng.normal(size=(m, p)), np.ones(m)])
        self.y_test = (rng.random(m) < 1 / (1 + np.exp(-self.X_test @ theta))).astype(float)
        self.ridge = np.array([0.02] * p + [0.0])
        self.problem = Problem(Design.plain(self.X), self.w, LogisticLoss(), self.ridge)
        self.evaluation = Evaluation(
            Design.plain(self.X_test), self.y_test, np.full(m, 1 / m), LogisticLoss(), True
        )
        self.linear = self.problem.linear_term(self.y[:, None])
        start = np.zeros((p + 1, 1))
        self.theta = minimise(self.problem, self.linear[:, None], start, tolerance=1e-12).theta[
            :, 0
        ]
        self.curvature = factorise(self.problem.hessian(self.theta))
        self.codes = self.y.astype(np.int64)
        self.noise = summarise_group(self.problem, self.codes, np.array([[0.0], [1.0]]), self.mask)

    def duplicated(self, epsilon):
        """Every record of the group twice, as it is and flipped, weighted by the channel."""
        q = 1 / (1 + np.exp(epsilon))
        X = np.vstack([self.X, self.X[self.mask]])
        y = np.r_[self.y, 1 - self.y[self.mask]]
        w = np.r_[np.where(self.mask, (1 - q) * self.w, self.w), q * self.w[self.mask]]
        return X, y, w

    def gradient(self, theta, X, y, w):
        p = 1 / (1 + np.exp(-X @ theta))
        return X.T @ (w * (p - y)) / len(self.y) + self.ridge * theta

    def fit_duplicated(self, epsilon):
        """Plain Newton with step halving, from zero."""
        X, y, w = self.duplicated(epsilon)
        theta = np.zeros(X.shape[1])
        for _ in range(60):
            p = 1 / (1 + np.exp(-X @ theta))
            H = (X * (w * p * (1 - p))[:, None]).T @ X / len(self.y) + np.diag(self.ridge)
            step = np.linalg.solve(H, self.gradient(theta, X, y, w))
            theta = theta - step
        assert np.abs(self.gradient(theta, X, y, w)).max() < 1e-13
        return theta

    def objective(self, theta, epsilon):
        X, y, w = self.duplicated(epsilon)
        s = X @ theta
        loss = np.logaddexp(0, s) - y * s
        return w @ loss / len(self.y) + 0.5 * self.ridge @ theta**2


@pytest.fixture(scope="module")
def case():
    return Case()


def shifts(case, epsilons):
    columns = [case.noise.shift(RandomizedResponse(2, e).matrix) for e in epsilons]
    return np.array(columns)[:, :, None]


def test_exact_equals_brute_force_soft_label_fitting(case):
    found = {}
    for point in walk(
        case.problem, case.theta, case.curvature, case.linear, shifts(case, EPSILONS)
    ):
        assert point.converged.all()
        found[EPSILONS[point.index]] = point.theta[:, 0]
    for epsilon in EPSILONS:
        np.testing.assert_allclose(found[epsilon], case.fit_duplicated(epsilon), atol=1e-8)


def test_the_point_table_equals_the_formula_record_by_record(case):
    eta = case.evaluation.gradient(case.theta)
    s = case.X @ case.theta
    table = label_point_table(
        case.problem, case.curvature.solve(eta), case.codes, np.array([0.0, 1.0])
    )
    H = case.curvature.hessian
    n = len(case.y)
    for i in range(n):
        sigma = 1 / (1 + np.exp(-s[i]))
        kept = case.w[i] * (sigma - case.y[i]) * case.X[i]
        flipped = case.w[i] * (sigma - (1 - case.y[i])) * case.X[i]
        c = -(eta @ np.linalg.solve(H, flipped - kept)) / n
        assert table.contributions[i] == pytest.approx(c, abs=1e-13)


def test_first_order_is_the_derivative_of_the_exact_change(case):
    eta = case.evaluation.gradient(case.theta)
    table = label_point_table(
        case.problem,
        case.curvature.solve(eta),
        case.codes,
        np.array([0.0, 1.0]),
    )
    epsilon = 12.0  # q = 6e-6: the second order is q² and below 1e-10
    q = 1 / (1 + np.exp(epsilon))
    exact = case.evaluation.outcomes(case.fit_duplicated(epsilon)).loss
    change = exact - case.evaluation.outcomes(case.theta).loss
    assert table.change(case.mask, q) == pytest.approx(change, rel=1e-3)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_newton_takes_the_best_point_of_its_ray(case, epsilon):
    shift = case.noise.shift(RandomizedResponse(2, epsilon).matrix)
    theta = newton_steps(case.problem, case.theta, case.curvature, case.linear, shift[:, None])[
        :, 0
    ]
    X, y, w = case.duplicated(epsilon)
    direction = -np.linalg.solve(case.curvature.hessian, case.gradient(case.theta, X, y, w))
    best = minimize_scalar(
        lambda a: case.objective(case.theta + a * direction, epsilon),
        bounds=(0, 1.5),
        method="bounded",
        options={"xatol": 1e-9},
    )
    # A bounded search by values alone finds the place of a minimum to about 1e-6.
    np.testing.assert_allclose(theta, case.theta + best.x * direction, atol=1e-5)


def test_noise_terms_equal_their_formulas(case):
    epsilon = 0.5
    q = 1 / (1 + np.exp(epsilon))
    theta = case.fit_duplicated(epsilon)
    curvature = factorise(case.problem.hessian(theta))
    C = case.noise.covariance(RandomizedResponse(2, epsilon).matrix)
    (terms,) = noise_terms_at(case.problem, case.evaluation, theta[:, None], [curvature], [C])
    n = len(case.y)
    group = case.X[case.mask] * case.w[case.mask, None]
    Hinv = np.linalg.inv(curvature.hessian)
    Sigma = Hinv @ (q * (1 - q) * group.T @ group / n**2) @ Hinv
    p = 1 / (1 + np.exp(-case.X @ theta))
    third = p * (1 - p) * (1 - 2 * p) * case.w
    tensor = np.einsum("i,ij,jk,ik,il->l", third, case.X, Sigma, case.X, case.X) / n
    b = -0.5 * Hinv @ tensor
    p_test = 1 / (1 + np.exp(-case.X_test @ theta))
    m = len(case.y_test)
    H_test = (case.X_test * (p_test * (1 - p_test))[:, None]).T @ case.X_test / m
    eta = case.X_test.T @ (p_test - case.y_test) / m
    np.testing.assert_allclose(terms.bias, b, atol=1e-12)
    assert terms.mean_change == pytest.approx(0.5 * np.trace(H_test @ Sigma) + eta @ b, abs=1e-12)
    spread = np.einsum("ij,jk,ik->i", case.X_test, Sigma, case.X_test)
    assert terms.logit_noise == pytest.approx(np.sqrt(spread.mean()), abs=1e-12)
    assert terms.undetermined_loss == 0.0


def test_undetermined_loss_counts_what_undetermined_records_may_lose(case):
    m = len(case.y_test)
    s = np.zeros(m)
    s[:3] = [0.0, 20.0, -1.0]
    spread = np.full(m, 0.5)
    spread[:3] = [4.0, 4.0, 9.0]
    y = case.y_test.copy()
    y[:3] = [1.0, 1.0, 1.0]
    evaluation = Evaluation(case.evaluation.design, y, np.full(m, 1 / m), LogisticLoss(), True)
    expected = np.log1p(np.exp(2)) - np.log(2)  # the first may move from 0 to −2
    expected += np.log1p(np.exp(-18)) - np.log1p(np.exp(-20))  # the second is safe
    expected += np.log1p(np.exp(4)) - np.log1p(np.exp(1))  # the third may move from −1 to −4
    assert undetermined_loss(evaluation, s[:, None], spread[:, None, None]) == pytest.approx(
        expected / m
    )

"""The general objective against rows that are really duplicated, one for every alternative."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from epsilens.channels import ProductChannel, RandomizedResponse
from epsilens.influence.alternatives import Alternatives, no_alternatives
from epsilens.influence.evaluation import Evaluation
from epsilens.influence.general_noise import (
    draw_gradient_noise,
    general_noise_terms,
    gradient_covariance,
)
from epsilens.influence.perturbed import (
    OwnLabel,
    PerturbedObjective,
    RandomisedRecords,
    Reports,
)
from epsilens.models import (
    Design,
    LogisticLoss,
    Problem,
    SoftmaxLoss,
    SquaredLoss,
    factorise,
    minimise,
)

EPSILON = 0.8


class Case:
    """60 records with two protected columns (2 and 3 values), one more feature, an intercept."""

    def __init__(self, loss, *, features, labels, weighted, corrected):
        rng = np.random.default_rng(3)
        n = 60
        self.u, self.v = rng.integers(0, 2, n), rng.integers(0, 3, n)
        self.z = rng.normal(size=n)
        k = loss.n_outputs if loss.n_outputs > 1 else 2
        self.y = rng.integers(0, k, n)
        self.w = rng.uniform(0.5, 2.0, n)
        self.mask = rng.random(n) < 0.6
        self.loss = loss
        self.values = np.arange(float(k))
        self.omega = np.array([1.0, 2.5, 0.7])[:k] if weighted else np.ones(k)
        self.P = RandomizedResponse(k, EPSILON).matrix if labels else np.eye(k)
        self.correction = self.P if corrected else None
        X = np.array([self.encode(*row) for row in zip(self.u, self.v, self.z, strict=True)])
        p = X.shape[1]
        design = Design.plain(X)
        self.problem = Problem(design, self.w, loss, np.array([0.03] * (p - 1) + [0.0]))
        if features:
            base = X.copy()
            base[:, :3] = 0.0
            blocks = np.array(
                [self.encode(u, v, 0.0) for u, v in itertools.product(range(2), range(3))]
            )
            blocks[:, 3:] = 0.0
            self.alternatives = Alternatives(
                Design.plain(base), blocks, self.u * 3 + self.v, (2, 3)
            )
            self.joint = ProductChannel(
                [RandomizedResponse(2, EPSILON), RandomizedResponse(3, 2 * EPSILON)]
            ).matrix
        else:
            self.alternatives, self.joint = no_alternatives(design), np.ones((1, 1))
        own = not labels and not weighted
        self.objective = PerturbedObjective(
            self.problem,
            self.alternatives,
            self.values[self.y],
            np.zeros(n, dtype=int) if own else self.y,
            (
                RandomisedRecords(
                    self.mask,
                    self.joint,
                    np.ones((1, 1)) if own else self.P,
                    OwnLabel(loss)
                    if own
                    else Reports(loss, self.values, self.omega, self.correction),
                ),
            ),
            self.w,
            self.w * self.omega[self.y],
        )

    @staticmethod
    def encode(u, v, z):
        """One-hot with the first level dropped, a number, the intercept."""
        return np.array([u == 1, v == 1, v == 2, z, 1.0], dtype=float)

    def one_loss(self, s, c, *, corrected):
        """The loss of one report, written out."""
        s = np.atleast_1d(s)
        if self.loss.name == "squared":
            return self.omega[c] * (s[0] - self.values[c]) ** 2
        logits = np.array([0.0, s[0]]) if len(s) == 1 else s
        h = np.exp(logits - logits.max())
        h /= h.sum()
        q = self.P.T @ h if corrected else h
        return -self.omega[c] * np.log(q[c])

    def rows(self):
        """Every record with every alternative: probability, features, report, is a member."""
        for i in range(len(self.y)):
            if not self.mask[i]:
                yield i, 1.0, self.problem.design.matrix[i], self.y[i], False
                continue
            for a in range(len(self.joint)):
                x = self.alternatives.base.matrix[i] + self.alternatives.blocks[a]
                for c in range(len(self.P)):
                    chance = self.joint[self.alternatives.codes[i], a] * self.P[self.y[i], c]
                    if chance > 0:
                        yield i, chance, x, c, True

    def brute_value(self, theta):
        K = self.loss.n_outputs
        total = sum(
            self.w[i]
            * chance
            * self.one_loss(
                theta.reshape(K, -1) @ x, c, corrected=member and self.correction is not None
            )
            for i, chance, x, c, member in self.rows()
        )
        return total / len(self.y) + 0.5 * theta @ self.problem.penalise(theta)


CASES = {
    "features": (LogisticLoss(), {"features": True, "labels": False}),
    "both": (LogisticLoss(), {"features": True, "labels": True}),
    "labels weighted": (LogisticLoss(), {"features": False, "labels": True, "weighted": True}),
    "both weighted": (LogisticLoss(), {"features": True, "labels": True, "weighted": True}),
    "corrected": (LogisticLoss(), {"features": False, "labels": True, "corrected": True}),
    "corrected both": (LogisticLoss(), {"features": True, "labels": True, "corrected": True}),
    "softmax both": (SoftmaxLoss(3), {"features": True, "labels": True}),
    "softmax corrected": (SoftmaxLoss(3), {"features": False, "labels": True, "corrected": True}),
    "squared both": (SquaredLoss(), {"features": True, "labels": True}),
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request):
    loss, settings = CASES[request.param]
    return Case(loss, **{"weighted": False, "corrected": False, **settings})


@pytest.fixture(scope="module")
def theta(case):
    return np.random.default_rng(4).normal(scale=0.4, size=case.problem.n_parameters)


def test_value_equals_the_duplicated_rows(case, theta):
    assert case.objective.value(theta) == pytest.approx(case.brute_value(theta), abs=1e-12)


def test_gradient_and_hessian_agree_with_finite_differences(case, theta):
    h = 1e-5
    zero = np.zeros((len(theta), 1))

    def gradient(at):
        return case.objective.gradient(at[:, None], zero)[:, 0]

    steps = h * np.eye(len(theta))
    numeric = [(case.brute_value(theta + e) - case.brute_value(theta - e)) / (2 * h) for e in steps]
    np.testing.assert_allclose(gradient(theta), numeric, atol=1e-8)
    bent = np.array([gradient(theta + e) - gradient(theta - e) for e in steps]) / (2 * h)
    np.testing.assert_allclose(case.objective.hessian(theta), bent, atol=1e-7)


def record_gradients(case, theta):
    """Return for every member its chances and gradients, by finite differences of single losses."""
    K = case.loss.n_outputs
    h = 1e-6
    members = {}
    for i, chance, x, c, member in case.rows():
        if not member:
            continue
        s = theta.reshape(K, -1) @ x
        slope = [
            (
                case.one_loss(s + h * e, c, corrected=case.correction is not None)
                - case.one_loss(s - h * e, c, corrected=case.correction is not None)
            )
            / (2 * h)
            for e in np.eye(K)
        ]
        members.setdefault(i, []).append((chance, case.w[i] * np.kron(slope, x)))
    return members


def test_covariance_and_draws_equal_the_alternatives_own(case, theta):
    n = len(case.y)
    C = np.zeros((len(theta), len(theta)))
    for options in record_gradients(case, theta).values():
        chances = np.array([chance for chance, _ in options])
        gradients = np.array([gradient for _, gradient in options])
        centred = gradients - chances @ gradients
        C += (chances[:, None] * centred).T @ centred / n**2
    np.testing.assert_allclose(gradient_covariance(case.objective, theta), C, atol=1e-9)
    n_draws = 4000
    drawn = draw_gradient_noise(
        case.objective, theta, n_draws=n_draws, seed=np.random.SeedSequence(5)
    ).deviations.astype(float)
    sd = np.sqrt(np.diag(C))
    # Five standard errors of means and of covariances over 4,000 draws.
    assert (np.abs(drawn.mean(axis=1)) <= 5 * sd / np.sqrt(n_draws) + 1e-9).all()
    scale = np.outer(sd, sd) + 1e-15
    assert (np.abs(np.cov(drawn) - C) / scale).max() <= 6 * np.sqrt(2 / n_draws)
    v = np.random.default_rng(6).normal(size=len(theta))
    along = draw_gradient_noise(
        case.objective, theta, n_draws=n_draws, seed=np.random.SeedSequence(5), direction=v
    )
    np.testing.assert_allclose(along.deviations[0], v @ drawn, atol=1e-6)


def test_the_bias_is_the_second_order_of_the_estimating_equation(case):
    """b from the exact expansion: perturb the gradient and the Hessian by each alternative."""
    zero = np.zeros((case.problem.n_parameters, 1))
    solution = minimise(case.objective, zero, zero)
    assert solution.converged.all()
    theta = solution.theta[:, 0]
    curvature = factorise(case.objective.hessian(theta))
    Hinv = np.linalg.inv(curvature.hessian)
    n, q, h = len(case.y), len(theta), 1e-4

    def per_record(at):
        return record_gradients(case, at)

    first = np.zeros(q)
    shaken = 0.0
    here = per_record(theta)
    shifted = [(per_record(theta + h * e), per_record(theta - h * e)) for e in np.eye(q)]
    for i, options in here.items():
        chances = np.array([chance for chance, _ in options])
        gradients = np.array([g for _, g in options])
        bends = np.array(
            [
                np.array([(up[i][a][1] - down[i][a][1]) / (2 * h) for up, down in shifted])
                for a in range(len(options))
            ]
        )
        mean_g, mean_b = chances @ gradients, np.tensordot(chances, bends, axes=1)
        each = np.einsum("a,aij,jk,ak->i", chances, bends, Hinv, gradients)
        first += (each - mean_b @ Hinv @ mean_g) / n**2
        off = Hinv @ (bends - mean_b)
        shaken += np.einsum("a,aij,aji->", chances, off, off) / n**2
    Sigma = Hinv @ gradient_covariance(case.objective, theta) @ Hinv
    third = np.array(
        [
            np.sum(
                (case.objective.hessian(theta + h * e) - case.objective.hessian(theta - h * e))
                / (2 * h)
                * Sigma
            )
            for e in np.eye(q)
        ]
    )
    expected = Hinv @ (first - 0.5 * third)
    evaluation = Evaluation(
        case.problem.design,
        case.values[case.y],
        np.full(n, 1 / n),
        case.loss,
        case.loss.name != "squared",
    )
    terms = general_noise_terms(case.objective, evaluation, theta, curvature)
    size = np.abs(expected).max()
    np.testing.assert_allclose(terms.bias, expected, atol=1e-4 * size + 1e-9)
    if case.loss.name == "squared":  # trust asks how much of the Hessian one run shakes
        assert terms.logit_noise == pytest.approx(np.sqrt(shaken), rel=1e-4, abs=1e-9)
        assert terms.undetermined_loss == 0.0
